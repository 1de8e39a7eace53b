"""What only a simulation has to say: whose rows are where, what differs from party to party; and its parties' keys.

Of the table `data.shift` `label`, `covariate` and `quantity` leave some of a party's rows out, so that what a row says
of another is true still. `swap` and `wrong` change labels, and `noise` features. Nothing public depends on any of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from consilium.coordinator.collection.means import VoteKeys
from consilium.coordinator.config import Federation
from consilium.coordinator.served import WAYS
from consilium.models.keys import OwnTeacher
from consilium.models.table import check_teacher
from consilium.node.keys import IDENTITY, SEALING
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.images import Representation
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import Refused
from consilium.protocol.schema import Schema
from consilium.simulations.datasets.base import OF_IMAGES, Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.partitions import PartitionKeys
from consilium.sums.modes import MODES
from consilium.sums.roster import AggregatorEntry, SumRoster

ManualLabelMode = Literal["quick", "none"]


class ShiftSpec(Frozen):
    """What is changed at parties after the division: the table `data.shift`."""

    noise: float = Field(
        default=0.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="the i-th of N parties, in random order, gets Gaussian noise on its features, of noise * i /"
        " N public standard deviations",
    )
    swap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="at this share of the parties, at random, classes are called by each other's names",
    )
    wrong: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="this share of all private rows, at random, is labelled as another class, each as likely",
    )
    label: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="half of a party's rows are left out; its classes stay with odds e^(label * z), z standard"
        " normal for each party and class",
    )
    covariate: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="the same with odds e^(covariate * z * v): z of each party, v of a row along one random"
        " direction of the features",
    )
    quantity: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="a party keeps the share e^(-quantity * w) of its rows, w exponential for each party",
    )


class DataSpec(PartitionKeys):
    """The table `[data]` of a scenario: rows and their partition, what is changed at parties, what models are given."""

    shift: ShiftSpec = Field(
        default=ShiftSpec(), description="[planted differences](#planted-differences) between parties"
    )
    representation: Representation = Field(
        default="none",
        description="`scattering`: models get a fixed wavelet transform of images of 28x28 or 32x32 pixels, which"
        " learns nothing",
    )
    standardise: bool | None = Field(
        default=None,
        description="by the public rows' mean and deviation; left out: `false` of images, else `true`; never of a"
        " representation",
    )

    @property
    def as_they_are(self) -> bool:
        """Whether features are not standardised."""
        return self.set in OF_IMAGES if self.standardise is None else not self.standardise


class SimulationSpec(Frozen):
    """The table `[simulation]` of a scenario: what no deployed federation has."""

    noise: Literal["seeded", "system"] = Field(
        default="seeded",
        description="`seeded` can be repeated and protects nobody; `system` is the operating system's entropy",
    )
    most_queries: int = Field(default=10_000, ge=1, description="limit in each simulated party's own policy")
    manual_labels: ManualLabelMode = Field(
        default="quick", description="`quick` also finds, in seconds, how many manual labels the student is worth"
    )
    own_teacher: OwnTeacher | None = Field(
        default=None,
        description="`[teacher]` of all simulated parties, also [one of your own](models.md); left out:"
        " `federation.teacher`",
    )


_ORDER, _NOISE, _SWAP, _CLASSES = 0x6F72646572, 0x6E6F697365, 0x73776170, 0x636C617373
_WRONG, _TILT, _SIZES = 0x77726F6E67, 0x74696C74, 0x73697A6573


def shifted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Dataset:
    """The data set with the parties' rows as `data.shift` changes them. noise: Li et al. 2022 (Federated learning on
    non-IID data silos, "noise-based feature imbalance"). swap: concept shift. wrong: mistakes, as at least a tenth of
    the labels of the Glyph data of Papernot et al. 2018 are (section 4.1). Raises ConfigError: the share of parties is
    less than one party."""
    shift, names = data.shift, list(partition.parties)
    if not shift.noise and not shift.swap and not shift.wrong:
        return dataset
    x, y, classes = dataset.x.copy(), dataset.y.copy(), len(dataset.classes)
    if shift.noise:
        scale = _scale(data, dataset, dataset.x[partition.queries])
        (columns,) = np.nonzero(scale)
        order = np.random.default_rng([seed, _ORDER]).permutation(len(names)) + 1
        for index, name in enumerate(names):
            rows, level = partition.parties[name], shift.noise * order[index] / len(names)
            noise = np.random.default_rng([seed, _NOISE, index]).standard_normal((len(rows), len(columns)))
            x[np.ix_(rows, columns)] += (level * scale[columns] * noise).astype(np.float32)
    generator, other = np.random.default_rng([seed, _CLASSES]), np.arange(classes)
    while (other == np.arange(classes)).any():  # what each class is called at these parties, never what it is
        other = generator.permutation(classes)
    count = round(shift.swap * len(names))
    if shift.swap and not count:
        what = f"data.shift.swap {shift.swap:g} of {len(names)} parties is nobody"
        raise ConfigError(what, "Raise it, or leave it out")
    for index in np.random.default_rng([seed, _SWAP]).permutation(len(names))[:count]:
        rows = partition.parties[names[index]]
        y[rows] = other[y[rows]]
    if shift.wrong:
        generator, private = np.random.default_rng([seed, _WRONG]), np.concatenate(list(partition.parties.values()))
        rows = generator.permutation(private)[: round(shift.wrong * len(private))]
        y[rows] = (y[rows] + generator.integers(1, classes, len(rows))) % classes
    return replace(dataset, x=x, y=y)


def _scale(data: DataSpec, dataset: Dataset, public: np.ndarray) -> np.ndarray:
    """Standard deviation float64 (features,) of the public rows, which a level is a multiple of; 0 where there is no
    noise: of a table on what is no number, of arrays where there are two values. Of images every pixel gets noise of
    one size."""
    if dataset.columns:
        numbers = [dataset.places[column.column][0] for column in dataset.columns if column.kind == "number"]
        scale = np.zeros(len(dataset.features))
        scale[numbers] = np.nanstd(public[:, numbers], axis=0, dtype=np.float64)
        return scale
    if data.representation != "none" or data.as_they_are:
        return np.full(len(dataset.features), public.std(dtype=np.float64))
    low, high = public.min(axis=0), public.max(axis=0)
    numbers = ((public != low) & (public != high)).any(axis=0)
    return np.where(numbers, public.std(axis=0, dtype=np.float64), 0.0)


def tilted(data: DataSpec, dataset: Dataset, partition: Partition, seed: int) -> Partition:
    """The division without the rows that `data.shift` leaves out at parties, by lot. Half of a party's rows are left
    where `label` or `covariate` has odds for them, and of these by `quantity` the share e^(-quantity w), w exponential
    for each party; as many as a party must have, in any case (`data.least_rows`)."""
    shift, parties = data.shift, partition.parties
    tilts = shift.label or shift.covariate
    if not tilts and not shift.quantity:
        return partition
    rows = np.concatenate(list(parties.values()))
    party = np.repeat(np.arange(len(parties)), [len(part) for part in parties.values()])
    odds = np.zeros(len(rows))
    for key, tilt in (("label", _by_label), ("covariate", _by_features)):
        if strength := getattr(shift, key):
            odds += strength * tilt(dataset, partition, rows, party, np.random.default_rng([seed, _TILT, len(key)]))
    generator = np.random.default_rng([seed, _SIZES])
    sizes = (0.5 if tilts else 1.0) * np.exp(-shift.quantity * generator.exponential(size=len(parties)))
    odds += generator.gumbel(size=len(rows))  # the largest are a draw without replacement by these odds
    left = {}
    for index, (name, part) in enumerate(parties.items()):
        count = min(len(part), max(data.rows_needed, 1, round(sizes[index] * len(part))))
        left[name] = np.sort(part[np.argsort(-odds[party == index], kind="stable")[:count]])
    return replace(partition, parties=left)


def _by_label(
    dataset: Dataset, partition: Partition, rows: np.ndarray, party: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Logarithms of odds float64 (n,) of the parties' rows by index and their parties, int64 (n,): parties differ in
    their classes, and in nothing given the class."""
    return generator.standard_normal((len(partition.parties), len(dataset.classes)))[party, dataset.y[rows]]


def _by_features(
    dataset: Dataset, partition: Partition, rows: np.ndarray, party: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Likewise: parties differ along one direction of the features, by lot, not in labels given these."""
    public = dataset.x[partition.queries].astype(np.float64)
    spread = np.nanstd(public, axis=0)
    seen = (dataset.x[rows] - np.nanmean(public, axis=0)) / np.where(spread > 0, spread, np.inf)
    along = np.nan_to_num(seen) @ generator.standard_normal(seen.shape[1])
    along = np.clip((along - along.mean()) / (along.std() or 1.0), -3, 3)
    return generator.standard_normal(len(partition.parties))[party] * along


COORDINATOR, SECOND = "/coordinator", "/second-aggregator"  # no party can have these names


@dataclass(frozen=True)
class SimulatedKeys:
    """The roster of simulated nodes. keys: what the coordinator has of them."""

    roster: SumRoster
    keys: VoteKeys


def simulated_keys(federation: Federation, names: Sequence[str], seed: int) -> SimulatedKeys | None:
    """Keys of simulated nodes, derived from the run's seed: they protect nobody. None for plaintext votes. The roster's
    hash is part of the federation's, which an audit must find again. Raises ConfigError where no safe roster of so many
    parties exists."""
    if federation.collection not in MODES:
        return None
    coordinator, second = identity_of(COORDINATOR, seed), identity_of(SECOND, seed)
    sealing, second_sealing = sealing_of(COORDINATOR, seed), sealing_of(SECOND, seed)
    roster = MODES[federation.collection].roster.build(
        {name: identity_of(name, seed).public.hex() for name in names}, coordinator.public.hex(), federation.colluders,
        federation.least_survivors, sealing=sealing.public.hex(),
        second=AggregatorEntry(ed25519_pk=second.public.hex(), x25519_pk=second_sealing.public.hex()),
    )  # fmt: skip
    keys = WAYS[federation.collection].of(roster, {IDENTITY: coordinator, SEALING: sealing})
    return SimulatedKeys(roster, keys)


def sealing_of(name: str, seed: int) -> SealingKey:
    """Key of a simulated aggregator's link, derived likewise."""
    return SealingKey(hashlib.sha256(f"consilium simulation {seed} {name} sealing".encode()).digest())


def identity_of(name: str, seed: int) -> Identity:
    """Signing key of a simulated node, derived from the run's seed."""
    secret = hashlib.sha256(f"consilium simulation {seed} {name}".encode()).digest()
    return Identity(secret)


def check_own_teacher(simulation: SimulationSpec, schema: Schema) -> None:
    """Raise ConfigError unless it can be trained on made-up rows of this schema: once here, before all parties."""
    if simulation.own_teacher is not None:
        try:
            check_teacher(simulation.own_teacher, schema)
        except Refused as error:
            raise ConfigError(f"a simulated party's own teacher: {error.detail}") from None


def why_untrainable(simulation: SimulationSpec, schema: Schema, progress: Progress = no_progress) -> str:
    """What is wrong with it in this process, where parties are; empty where nothing is. progress: not told."""
    try:
        check_own_teacher(simulation, schema)
    except ConfigError as error:
        return str(error)
    return ""
