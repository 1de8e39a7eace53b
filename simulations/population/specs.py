"""What only a simulation has to say: whose rows are where, and how the simulated parties behave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from consilium.models.keys import OwnTeacher
from consilium.protocol.images import Representation
from consilium.protocol.models import Frozen
from consilium.simulations.datasets.spec import PublicSpec, SourceSpec, keys_set

Division = Literal["owners", "iid", "groups", "dirichlet", "shuffled", "matched", "time", "flwr"]
HandLabelMode = Literal["full", "quick", "none"]

_KEYS_OF: dict[str, tuple[Division, ...]] = {
    "parties": ("iid", "groups", "dirichlet", "matched", "time"),
    "most_rows": ("iid", "groups", "dirichlet", "time"),
    "alpha": ("dirichlet",),
    "sizes": ("dirichlet",),
    "partitioner": ("flwr",),
}
"""Which divisions have a key that not all of them have."""
_NEEDED: dict[Division, str] = {"groups": "parties", "dirichlet": "alpha", "flwr": "partitioner"}


class _Share(Protocol):
    @property
    def share(self) -> float: ...


S = TypeVar("S", bound=_Share)


def check_shares(name: str, shares: Sequence[_Share]) -> None:
    """Raise ValueError if they are more than all parties."""
    total = sum(item.share for item in shares)
    if total > 1 + 1e-9:
        raise ValueError(f"the shares of {name} sum to {total:g}, more than 1")


def drawn_parties(shares: Sequence[S], parties: int, seed: int, purpose: int) -> dict[int, S]:
    """By index of a party, its share, by lot. The numbers of parties are the shares' multiples of `parties`, rounded so
    that the shares taken together are met."""
    order = np.random.default_rng([seed, purpose]).permutation(parties)
    ends = np.rint(np.cumsum([item.share for item in shares]) * parties).astype(int)
    by_party: dict[int, S] = {}
    start = 0
    for item, end in zip(shares, ends, strict=True):
        by_party.update({int(index): item for index in order[start:end]})
        start = end
    return by_party


class ShiftSpec(Frozen):
    """What is changed at parties after the division: the table `data.shift`."""

    noise: float = Field(
        default=0.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="the i-th of N parties, in an order by lot, gets Gaussian noise of standard deviation noise * i / N"
        " on its features, in standard deviations of the public rows",
    )
    swap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="at this share of the parties, by lot, classes are called by each other's names",
    )
    classes: tuple[str, ...] = Field(
        default=(), description="of `swap`: those that are exchanged, of more than two each for another; left out: all"
    )
    wrong: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="this share of all private rows, by lot, is labelled as another class, each as likely",
    )
    label: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="half of a party's rows are left out by lot; its classes have odds e^(label * z) of staying, z"
        " standard normal for each party and class",
    )
    covariate: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="likewise, with odds e^(covariate * z * v): z of each party, v how far a row lies along one"
        " direction of the features, by lot",
    )
    quantity: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="a party is left with the share e^(-quantity * w) of its rows, w exponential for each party",
    )

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Only what was said: it is of a kind of shift."""
        unsaid = set(type(self).model_fields) - {"noise", "swap", "classes"} - keys_set(self)
        return {key: value for key, value in write(self).items() if key not in unsaid}

    @model_validator(mode="after")
    def _several_classes(self) -> ShiftSpec:
        if self.classes and len(set(self.classes)) < max(2, len(self.classes)):
            raise ValueError("classes are two at least, each named once")
        return self


class DataSpec(SourceSpec):
    """Which data set, and how it is divided: the table `[data]` of a scenario."""

    partition: Division = Field(
        default="owners",
        description="`owners`: each hospital or writer is a party; `iid`: equal shards by lot; `groups`: the same with"
        " whole owners, where these are patients; `dirichlet`: parties differ in their classes, see `alpha`;"
        " `shuffled`, `matched`, `time`, `flwr`: see [partitions](#partitions)",
    )
    parties: int | None = Field(
        default=None,
        ge=2,
        le=100_000,
        description="how many, of `iid`, `groups`, `dirichlet`, `matched` and `time`; left out: as many as `owners`"
        " has, and with its rows. Required for `groups`",
    )
    most_rows: int | None = Field(
        default=None, ge=1, description="of one party, for `iid`, `groups`, `dirichlet` and `time`"
    )
    alpha: float | None = Field(
        default=None,
        ge=1e-3,
        le=1e6,
        description="of `dirichlet`: each class's rows are dealt in shares from Dirichlet(alpha); the smaller, the more"
        " parties differ",
    )
    sizes: float = Field(
        default=0.0,
        ge=0,
        le=5,
        description="of `dirichlet`: parties' shares are multiplied by lognormal weights with this deviation of the"
        " logarithm; 0: not at all",
    )
    partitioner: dict[str, Any] = Field(
        default={}, description="of `flwr`: `name` of a partitioner of flwr-datasets, and its options"
    )
    shift: ShiftSpec = Field(default=ShiftSpec(), description="noise on features, or swapped labels, at parties")
    unbalanced: float = Field(
        default=1.0,
        ge=1,
        le=1e6,
        allow_inf_nan=False,
        description="rows are left out by lot, private and public ones, so that of the classes, in an order by lot, the"
        " first keeps this many times the share of its rows that the last one keeps; 1: none are",
    )
    representation: Representation = Field(
        default="none",
        description="what models are given: `scattering` is a fixed wavelet transform of images of 28x28 or 32x32"
        " pixels, grey or in colour, that learns nothing; every node computes it for itself",
    )
    standardise: bool = Field(
        default=True,
        description="by the public rows' mean and deviation; false: features as they are, for networks that see"
        " images. A representation of images is never standardised",
    )
    public_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="share of the owners that are held out whole; half of their rows are asked, half are the test"
        " set; of a set without a test part of its own",
    )
    least_rows: int | None = Field(
        default=None,
        ge=1,
        description="rows that an owner, or a party of `dirichlet` or `flwr`, needs to take part, whatever its labels"
        " are; the other divisions are refused if a party has fewer. Left out: one for each teacher of a party, so that"
        " small ones count too; for parties of `dirichlet` and `flwr` 1",
    )

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As of a source: other divisions refuse the rest."""
        table = SourceSpec._without_what_is_not_said(self, write)
        unsaid = {"partitioner", "shift", "unbalanced"} - keys_set(self) | ({"least_rows"} - self.model_fields_set)
        return {key: value for key, value in table.items() if key not in unsaid}

    @model_validator(mode="after")
    def _keys_suit_the_partition(self) -> DataSpec:
        keys = keys_set(self)
        for key, divisions in _KEYS_OF.items():
            if key in keys and self.partition not in divisions:
                *others, last = (f'"{name}"' for name in divisions)
                raise ValueError(f"{key} belongs to partition {', '.join(others)}{' or ' if others else ''}{last}")
        if (needed := _NEEDED.get(self.partition)) and needed not in keys:
            raise ValueError(f'partition "{self.partition}" needs {needed}')
        return self

    @model_validator(mode="after")
    def _least_rows_within_most_rows(self) -> DataSpec:
        if self.most_rows is not None and self.most_rows < self.rows_needed:
            raise ValueError(f"most_rows {self.most_rows} is below least_rows {self.rows_needed}")
        return self

    @model_validator(mode="after")
    def _public_part_once(self) -> DataSpec:
        if self.public is not None and "public_share" in keys_set(self):
            raise ValueError("give either public or public_share")
        return self

    @property
    def public_rule(self) -> PublicSpec:
        """What `public` says, or `public_share`."""
        return self.public or PublicSpec(share=self.public_share)

    @property
    def deals_unevenly(self) -> bool:
        """Whether parties may be of any size, and those with fewer than `rows_needed` rows are left out."""
        return self.partition in ("dirichlet", "flwr")

    @property
    def rows_needed(self) -> int:
        """Least rows of a party: `least_rows`, or its default."""
        return self.least_rows or 1


class TeacherShare(Frozen):
    """A share of the parties, drawn by lot, that has a teacher of its own choice in its `party.toml`."""

    share: float = Field(gt=0, le=1, description="of the parties")
    teacher: OwnTeacher = Field(description="what they train instead of `federation.teacher`")


class SimulationSpec(Frozen):
    """The table `[simulation]` of a scenario: what no deployed federation has."""

    noise: Literal["seeded", "system"] = Field(
        default="seeded",
        description="`seeded` makes a run reproducible and protects nobody; `system` is the operating system's entropy",
    )
    most_queries: int = Field(default=10_000, ge=1, description="limit in each simulated party's own policy")
    hand_labels: HandLabelMode = Field(
        default="quick",
        description="how well the number of hand labels that the student is worth is found: `quick` takes seconds (a"
        " student of images: up to twice its own training), `full` draws labels more often, and searches with slow"
        " trainers too; `none` does not look for it, and draws no learning curves",
    )
    analysis_seconds: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="seconds, once the student is saved, after which learning curves, the gain on parties' own rows and"
        " labels by hand are given up, between two of their steps; what was left out is said. Left out:"
        " no limit, since what a clock decides is not the same twice",
    )
    own_teacher: OwnTeacher | None = Field(
        default=None,
        description="what all simulated parties write into their own `party.toml` as `[teacher]`, also an estimator of"
        " your own (models.md); left out: they train `federation.teacher`",
    )
    teachers: tuple[TeacherShare, ...] = Field(
        default=(), description="shares of the parties that train something else, see below"
    )

    @model_validator(mode="after")
    def _shares_are_of_one_whole(self) -> SimulationSpec:
        check_shares("teachers", self.teachers)
        return self
