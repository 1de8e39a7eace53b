"""The table of divisions: what `data.partition` says, and who does it; which rows are left out before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from consilium.protocol.errors import DataError, NotEnoughParties
from consilium.simulations.datasets.base import Source
from consilium.simulations.population.flower import flower_partition
from consilium.simulations.population.matched import matched_partition
from consilium.simulations.population.partition import (
    Partition,
    ToDivide,
    dirichlet_partition,
    iid_partition,
    shuffled_partition,
    timed_partition,
)
from consilium.simulations.population.specs import DataSpec, Division


def _matched(todo: ToDivide) -> Partition:
    dealt = todo.natural if todo.data.parties is None else iid_partition(todo)
    return matched_partition(todo.source, todo.natural, dealt, todo.seed)


DIVISIONS: dict[Division, Callable[[ToDivide], Partition]] = {
    "owners": lambda todo: todo.natural,
    "iid": iid_partition,
    "groups": iid_partition,
    "dirichlet": dirichlet_partition,
    "shuffled": lambda todo: shuffled_partition(todo.natural, todo.seed),
    "matched": _matched,
    "time": timed_partition,
    "flwr": flower_partition,
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
