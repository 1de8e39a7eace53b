"""The table of divisions: what `data.partition` says, and who does it; which rows are left out before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.simulations.datasets.base import Source
from consilium.simulations.population.flower import flower_partition
from consilium.simulations.population.matched import matched_partition
from consilium.simulations.population.partition import (
    Partition,
    PublicPart,
    dirichlet_partition,
    iid_partition,
    natural_partition,
    private_rows,
    public_part,
    shuffled_partition,
    timed_partition,
)
from consilium.simulations.population.specs import DataSpec, Division

_RARE = 0x72617265


def unbalanced(y: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Classes made rarer than they are: a data set that is balanced by design becomes one that is not.

    In the Glyph data of Papernot et al. 2018 (section 4.1) some classes are five times as frequent as others, at
    parties as among the public rows.

    Which rows are left, bool (rows,). y: int64 (rows,) of the whole data set.

    In an order of the classes by lot, the first keeps all of its rows and the last 1 / `ratio` of them, those between
    in geometric steps; which rows, is drawn by lot.
    """
    classes = np.unique(y)
    generator = np.random.default_rng([seed, _RARE])
    shares = ratio ** -np.linspace(0, 1, max(len(classes), 2))[: len(classes)]
    left = np.zeros(len(y), dtype=bool)
    for label, share in zip(generator.permutation(classes), shares, strict=True):
        mine = generator.permutation(np.flatnonzero(y == label))
        left[mine[: round(share * len(mine))]] = True
    return left


@dataclass(frozen=True)
class ToDivide:
    """A data set, what a scenario says of its division, and what follows from these."""

    source: Source = field(repr=False)
    data: DataSpec
    minimum_parties: int
    seed: int

    @cached_property
    def public(self) -> PublicPart:
        """The same for every division."""
        return public_part(self.source, self.data.public_rule, self.data.rows_needed, self.seed)

    @cached_property
    def private(self) -> np.ndarray:
        """Rows that parties may have, ascending."""
        rows = private_rows(self.source, self.public)
        return rows[self.left[rows]]

    @cached_property
    def left(self) -> np.ndarray:
        """Rows that the scenario leaves in the data set, bool (rows,)."""
        if self.data.unbalanced > 1:
            return unbalanced(self.source.y, self.data.unbalanced, self.seed)
        return np.ones(len(self.source.y), dtype=bool)

    @cached_property
    def natural(self) -> Partition:
        """By owner. Raises ConfigError where all rows have one."""
        if len(np.unique(self.source.owner)) == 1:
            raise ConfigError(
                f'data.partition is "{self.data.partition}", and all rows of {self.source.name} have one owner',
                'Name the column of hospitals or sites: data.owner; or divide by lot: partition = "iid" with parties',
            )
        return natural_partition(
            self.source, self.data.public_rule, self.data.rows_needed, self.minimum_parties, self.seed, self.private
        )

    @property
    def parties(self) -> int:
        """How many: what the scenario says, or as many as the natural division has."""
        return self.data.parties or len(self.natural.parties)

    @property
    def rows(self) -> np.ndarray:
        """Those that are dealt, ascending: all private ones; or where the number of parties is the natural division's,
        its rows, so that the two differ in who has which, and in nothing else."""
        if self.data.parties is not None:
            return self.private
        return np.sort(np.concatenate(list(self.natural.parties.values())))


def _iid(todo: ToDivide) -> Partition:
    whole = todo.data.partition == "groups"
    return iid_partition(todo.source, todo.public, todo.parties, todo.data.most_rows, todo.seed, whole, todo.rows)


def _dirichlet(todo: ToDivide) -> Partition:
    data = todo.data
    return dirichlet_partition(
        todo.source,
        todo.public,
        todo.parties,
        float(data.alpha or 0.0),
        data.sizes,
        data.most_rows,
        data.rows_needed,
        todo.seed,
        todo.rows,
    )


def _matched(todo: ToDivide) -> Partition:
    dealt = todo.natural
    if todo.data.parties is not None:
        dealt = iid_partition(todo.source, todo.public, todo.parties, None, todo.seed, rows=todo.private)
    return matched_partition(todo.source, todo.natural, dealt, todo.seed)


def _time(todo: ToDivide) -> Partition:
    return timed_partition(todo.source, todo.public, todo.parties, todo.data.most_rows, todo.rows, todo.seed)


DIVISIONS: dict[Division, Callable[[ToDivide], Partition]] = {
    "owners": lambda todo: todo.natural,
    "iid": _iid,
    "groups": _iid,
    "dirichlet": _dirichlet,
    "shuffled": lambda todo: shuffled_partition(todo.natural, todo.seed),
    "matched": _matched,
    "time": _time,
    "flwr": lambda todo: flower_partition(todo.source, todo.public, todo.data, todo.seed, todo.private),
}
"""By what `data.partition` says."""


def divided(source: Source, data: DataSpec, minimum_parties: int, seed: int) -> Partition:
    """Who is a party and has which rows, and what is public.

    Raises
    ------
    NotEnoughParties, DataError, ConfigError
    """
    todo = ToDivide(source, data, minimum_parties, seed)
    partition = DIVISIONS[data.partition](todo)
    if data.unbalanced > 1:
        queries, test = (rows[todo.left[rows]] for rows in (partition.queries, partition.test))
        if not len(queries) or not len(test):
            fault = f"{source.name}: data.unbalanced {data.unbalanced:g} leaves no public rows"
            raise DataError(fault, "Lower it, or make more rows public")
        partition = replace(partition, queries=queries, test=test)
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
