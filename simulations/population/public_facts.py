"""What a plan may know of a simulated federation: how many parties there are, and the public rows."""

from __future__ import annotations

from consilium.coordinator.config import Federation
from consilium.coordinator.planning.facts import PublicFacts, ballot_of
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.public_rows import queries, schema
from consilium.simulations.population.specs import DataSpec


def public_facts(data: DataSpec, federation: Federation, dataset: Dataset, partition: Partition) -> PublicFacts:
    """The facts of a division. Of the parties their number is taken, and nothing else.

    Raises
    ------
    ConfigError : nothing can be planned from them.
    """
    return PublicFacts.of(
        len(partition.parties),
        federation.teachers_per_party,
        len(dataset.classes),
        ballot_of(federation),
        queries(dataset, partition),
        schema(data, dataset, partition).inputs,
        data.label_cost,
    )
