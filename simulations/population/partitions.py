"""Who has which rows: the table of partitions, what each needs of `[data]`, and how each deals.

By owner: each with enough rows is a party. By lot: equal shards of the private rows ("iid"), as in the papers, or equal
numbers of owners ("groups"), where these are patients. By class ("dirichlet"): parties differ in their classes.
"shuffled" keeps the sizes of the natural partition. Nothing looks at a label but "dirichlet" and "matched".

A new partition is a function of `ToDivide` and a row of `PARTITIONS`; a key of its own is a field of `PartitionKeys`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.protocol.schema import Schema
from consilium.report.words import many
from consilium.simulations.datasets.base import Public, PublicSpec, Source, SourceSpec, keys_set
from consilium.simulations.population.flower import index_sets
from consilium.simulations.population.partition import (
    ANEW,
    OF_PUBLIC,
    Partition,
    deal_by_class,
    large_enough,
    matched_partition,
    named,
    of_public_patients,
    party_names,
    private_rows,
    public_part,
    shuffled_partition,
)


class PartitionKeys(SourceSpec):
    """Which data set, what of it is public, and who has which of the other rows."""

    partition: str = Field(
        default="owners", description="who has which rows: see [partitions](#partitions-natural-and-non-iid)"
    )
    parties: int | None = Field(
        default=None,
        ge=2,
        le=100_000,
        description="of `iid`, `groups` (required), `dirichlet`, `matched` and `time`; left out: as many as"
        " `owners` has, with its rows",
    )
    most_rows: int | None = Field(
        default=None, ge=1, description="of one party, for `iid`, `groups`, `dirichlet` and `time`"
    )
    alpha: float | None = Field(
        default=None,
        ge=1e-3,
        le=1e6,
        description="of `dirichlet`: each class is dealt in shares from Dirichlet(alpha); the smaller, the more"
        " parties differ",
    )
    sizes: float = Field(
        default=0.0,
        ge=0,
        le=5,
        description="of `dirichlet`: lognormal weights on parties' shares, with this deviation of the logarithm;"
        " 0: none",
    )
    partitioner: dict[str, Any] = Field(
        default={}, description="of `flwr`: `name` of a partitioner of flwr-datasets, and its options"
    )
    public_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="of the owners, held out whole: half of their rows are asked, half are the test set; of a set"
        " without a test part",
    )
    least_rows: int | None = Field(
        default=None,
        ge=1,
        description="that an owner, or a party of `dirichlet` or `flwr`, needs to take part, whatever its labels;"
        " other partitions with a smaller party are refused. Left out: one for each teacher, of"
        " `dirichlet` and `flwr` 1",
    )

    @model_validator(mode="after")
    def _keys_suit_the_partition(self) -> PartitionKeys:
        if (chosen := PARTITIONS.get(self.partition)) is None:
            raise ValueError(f"there is no partition {self.partition!r}: choose from {', '.join(PARTITIONS)}")
        keys = keys_set(self)
        of_some = {key for partition in PARTITIONS.values() for key in partition.keys}
        for key in sorted(keys & of_some - set(chosen.keys)):
            names = [f'"{name}"' for name, partition in PARTITIONS.items() if key in partition.keys]
            raise ValueError(
                f"{key} belongs to partition {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
            )
        if chosen.needs and chosen.needs not in keys:
            raise ValueError(f'partition "{self.partition}" needs {chosen.needs}')
        if self.most_rows is not None and self.most_rows < self.rows_needed:
            raise ValueError(f"most_rows {self.most_rows} is below least_rows {self.rows_needed}")
        if self.public is not None and "public_share" in keys:
            raise ValueError("give either public or public_share")
        return self

    @property
    def public_rule(self) -> PublicSpec:
        return self.public or PublicSpec(share=self.public_share)

    @property
    def keeps_all(self) -> bool:
        return self.unlabelled == "refuse" and self.duplicates == "keep"

    @property
    def leaves_out(self) -> bool:
        """Whether parties may be of any size, and those with fewer than `rows_needed` rows are left out."""
        return PARTITIONS[self.partition].leaves_out

    @property
    def rows_needed(self) -> int:
        """Least rows of a party: `least_rows`, or its default."""
        return self.least_rows or 1


@dataclass(frozen=True)
class ToDivide:
    """A data set, what a scenario says of its partition, and what follows from these."""

    source: Source = field(repr=False)
    data: PartitionKeys
    minimum_parties: int
    seed: int

    @cached_property
    def public(self) -> Public:
        return public_part(self.source, self.data.public_rule, self.data.rows_needed, self.seed)

    @cached_property
    def private(self) -> np.ndarray:
        return private_rows(self.source, self.public)

    @cached_property
    def natural(self) -> Partition:
        """By owner. Raises ConfigError where all rows have one."""
        if len(np.unique(self.source.owner)) == 1:
            raise ConfigError(
                f'data.partition is "{self.data.partition}", and all rows of {self.source.name} have one owner',
                'Name the column of hospitals or sites: data.owner; or split at random: partition = "iid" with parties',
            )
        return natural_partition(self)

    @property
    def parties(self) -> int:
        """How many: what the scenario says, or as many as the natural division has."""
        return self.data.parties or len(self.natural.parties)

    @property
    def rows(self) -> np.ndarray:
        """Those that are dealt, ascending: all private ones; or where the number of parties is the natural division's,
        its rows, so that the two differ in who has which alone."""
        if self.data.parties is not None:
            return self.private
        return np.sort(np.concatenate(list(self.natural.parties.values())))

    def check_enough(self, units: np.ndarray, unit: str = "rows") -> None:
        if len(units) < self.parties:
            fault = f"{self.source.name}: {len(units)} {unit} for {self.parties} parties"
            raise NotEnoughParties(fault, "Lower data.parties")

    def named(self, shards: Sequence[np.ndarray]) -> Partition:
        """The shards (row indices), of which `data.most_rows` are kept, as parties."""
        kept = named([shard[: self.data.most_rows] for shard in shards])
        return Partition(kept, self.public.queries, self.public.test)


def natural_partition(todo: ToDivide) -> Partition:
    """One party for each owner with enough rows that is not held out, whatever its labels are. Rows of smaller owners
    are not used. Raises NotEnoughParties, DataError, ConfigError."""
    source, public, rows, least_rows = todo.source, todo.public, todo.private, todo.data.rows_needed
    owner = source.owner[rows]
    owners, sizes = np.unique(owner, return_counts=True)
    private = owners[sizes >= least_rows]
    if len(private) < todo.minimum_parties:
        lower = (
            "Lower federation.minimum_parties, data.public_share, or data.least_rows and federation.teachers_per_party"
        )
        count = of_public_patients(source, np.concatenate([public.queries, public.test]))
        why = f"; {count} rows {OF_PUBLIC.format(source.owner_label)} are left out" if count else ""
        raise NotEnoughParties(
            f"{source.name}: {many(len(private), source.owner_label)} {'is' if len(private) == 1 else 'are'} left as"
            f" parties with at least {many(least_rows, 'row')}, at least {todo.minimum_parties} are required{why}",
            f"{lower}. {ANEW.format(source.owner_label)}" if count else lower,
        )
    shards = dict(zip(owners.tolist(), _by_group(rows, owner), strict=True))
    parties = {name: shards[who] for who, name in party_names(source, private).items()}
    return Partition(parties, public.queries, public.test, left_out=len(owners) - len(private))


def _by_group(rows: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    """Rows of each group, of ascending groups; sorted once, as there may be a hundred thousand of them."""
    sizes = np.unique(groups, return_counts=True)[1]
    return np.split(rows[np.argsort(groups, kind="stable")], np.cumsum(sizes)[:-1])


def iid(todo: ToDivide) -> Partition:
    """So many parties with equal shards of the private rows, drawn by lot. Sizes differ by at most one;
    `data.most_rows` cuts each shard. "groups" draws patients instead of rows, or owners where the set names no
    patients. Raises NotEnoughParties: fewer rows or owners than parties."""
    source, rows, parties, whole_owners = todo.source, todo.rows, todo.parties, todo.data.partition == "groups"
    whose = source.owner if source.patient is None else source.patient
    units = np.unique(whose[rows]) if whole_owners else rows
    unit = "rows" if not whole_owners else f"{source.owner_label}s" if source.patient is None else "patients"
    todo.check_enough(units, unit)
    shards = np.array_split(np.random.default_rng([todo.seed, 0x696964]).permutation(units), parties)
    if whole_owners:
        party = np.empty(len(units), dtype=np.int64)
        for number, shard in enumerate(shards):
            party[np.searchsorted(units, shard)] = number
        shards = _by_group(rows, party[np.searchsorted(units, whose[rows])])
    return todo.named(shards)


def dirichlet(todo: ToDivide) -> Partition:
    """So many parties that differ in their classes, and with `data.sizes` > 0 more in their numbers of rows.
    `data.most_rows` cuts as in `iid`; a party that has fewer than enough then is left out. Raises NotEnoughParties:
    fewer rows than parties."""
    data, rows = todo.data, todo.rows
    todo.check_enough(rows)
    dealt = deal_by_class(todo.source.y[rows], todo.parties, float(data.alpha or 0.0), data.sizes, todo.seed)
    return large_enough([rows[shard][: data.most_rows] for shard in dealt], todo.public, data.rows_needed)


def in_time(todo: ToDivide) -> Partition:
    """So many contiguous pieces of time, the earliest first; sizes differ by at most one. Rows of the same moment are
    in an order by lot. Patients are not kept whole: one who comes back later is at two parties. Raises ConfigError:
    nobody says when the rows were. DataError: a row has no time. NotEnoughParties: fewer rows than parties."""
    source, rows, parties = todo.source, todo.rows, todo.parties
    if source.time is None:
        raise ConfigError(
            f'data.partition is "time", and nobody says when the rows of {source.name} were',
            "Name the column of dates or numbers with data.time, or choose another division",
        )
    if missing := np.count_nonzero(np.isnan(source.time[rows])):
        fault = f"{source.name}: {missing} of {len(rows)} private rows have no time"
        raise DataError(fault, 'Leave them out of the data, or choose another division than "time"')
    todo.check_enough(rows)
    lot = np.random.default_rng([todo.seed, 0x74696D65]).permutation(len(rows))
    return todo.named(np.array_split(rows[np.lexsort((lot, source.time[rows]))], parties))


def flwr(todo: ToDivide) -> Partition:
    """Private rows as `data.partitioner` divides them; parties with fewer than `data.rows_needed` are left out. Columns
    are "label" (classes, counted from 0), "owner", "patient" and "time" where there are such, and any feature by its
    name, as models get it: categories, and means for what is missing, are those of the public rows. Raises ConfigError:
    see `index_sets`; or no such column."""
    source, public, rows, wanted = todo.source, todo.public, todo.private, todo.data.partitioner.get("partition_by")
    roles = {"owner": source.owner, "patient": source.patient, "time": source.time}
    # some partitioners count classes from 0 without gaps, and private rows may lack one
    columns = {"label": np.unique(source.y[rows], return_inverse=True)[1]}
    columns |= {name: values[rows] for name, values in roles.items() if values is not None}
    if wanted is not None and wanted not in list(columns):  # a file may say anything, also a list
        dataset = source.dataset(public.queries)
        x = dataset.x
        if dataset.columns:
            x = Schema.of_table(dataset.columns, dataset.classes, x[public.queries]).filled(x)
        if wanted not in dataset.features:
            more = ", ".join(dataset.features[:10]) + (" ..." if len(dataset.features) > 10 else "")
            raise ConfigError(
                f"data.partitioner.partition_by {wanted!r} is no column of {source.name}",
                f"It has {', '.join(columns)}, and the features {more}",
            )
        columns[str(wanted)] = x[rows, dataset.features.index(str(wanted))]
    parts = index_sets(columns, todo.data.partitioner, todo.seed)
    return large_enough([rows[part] for part in parts], public, todo.data.rows_needed)


@dataclass(frozen=True)
class Dealing:
    """One partition. deal: raises NotEnoughParties, DataError or ConfigError. keys: those of `PartitionKeys` that not
    every partition has. needs: the one that has to be there. leaves_out: parties that are too small are left out."""

    deal: Callable[[ToDivide], Partition]
    keys: tuple[str, ...] = ()
    needs: str = ""
    leaves_out: bool = False


PARTITIONS: dict[str, Dealing] = {
    "owners": Dealing(lambda todo: todo.natural),
    "iid": Dealing(iid, ("parties", "most_rows")),
    "groups": Dealing(iid, ("parties", "most_rows"), needs="parties"),
    "dirichlet": Dealing(dirichlet, ("parties", "most_rows", "alpha", "sizes"), needs="alpha", leaves_out=True),
    "shuffled": Dealing(lambda todo: shuffled_partition(todo.natural, todo.seed)),
    "matched": Dealing(
        lambda todo: matched_partition(
            todo.source, todo.natural, todo.natural if todo.data.parties is None else iid(todo), todo.seed
        ),
        ("parties",),
    ),
    "time": Dealing(in_time, ("parties", "most_rows")),
    "flwr": Dealing(flwr, ("partitioner",), needs="partitioner", leaves_out=True),
}
"""By what `data.partition` says."""


def divided(source: Source, data: PartitionKeys, minimum_parties: int, seed: int) -> Partition:
    """Who is a party and has which rows, and what is public. Raises NotEnoughParties, DataError, ConfigError."""
    todo = ToDivide(source, data, minimum_parties, seed)
    partition = PARTITIONS[data.partition].deal(todo)
    smallest = min((len(rows) for rows in partition.parties.values()), default=0)
    if len(partition.parties) < minimum_parties or smallest < data.rows_needed:
        left = f", {partition.left_out} have fewer" if partition.left_out else ""
        number = "data.partitioner" if data.partitioner else "data.parties"
        raise NotEnoughParties(
            f"{source.name}: {len(partition.parties)} parties with {smallest} rows or more{left}, at least"
            f" {minimum_parties} with {data.rows_needed} are required",
            f"Change {number}, federation.minimum_parties or data.least_rows",
        )
    return partition
