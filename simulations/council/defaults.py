"""What a `Council` does not say: the number of teachers and of queries, and whether noise drowns it.

Only public rows are looked at, and how many owners take part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from consilium.accounting.drowned import signal, votes_of_units
from consilium.accounting.units import Unit
from consilium.coordinator.privacy import promised
from consilium.protocol.config_files import validate
from consilium.report.before_run import LEAST_SIGNAL
from consilium.report.disclosure import epsilon_text
from consilium.simulations.datasets.base import Source
from consilium.simulations.population.public import queries, schema
from consilium.simulations.scenario import Scenario, divided_data, divided_source, without_mechanism

MECHANISM = "gnmax"
"""Where none is given, with the noise that `epsilon` takes."""
MOST_QUERIES = 300
"""As many are asked as there are different public rows, up to this."""
ROWS_PER_TEACHER, MOST_TEACHERS = 10, 25
"""Of an owner's rows, for each of its teachers; and most teachers."""


def completed(table: dict[str, Any], seed: int, source: Source) -> tuple[dict[str, Any], str]:
    """The scenario's table with what it leaves out, and why nothing is to be expected of it, if so.

    Raises
    ------
    ConfigError, NotEnoughParties, DataError
    """
    federation = {**table["federation"]}
    table = {**table, "federation": federation}
    if "teachers_per_party" not in federation:
        federation["teachers_per_party"] = _teachers(without_mechanism(table, "Council"), seed, source)
    known = without_mechanism(table, "Council")
    dataset, partition = divided_data(known, seed, source)
    rows = queries(dataset, partition)
    if "query_budget" not in federation:
        count = min(len(np.unique(rows, axis=0)), MOST_QUERIES, known.simulation.most_queries)
        federation["query_budget"] = {"queries": count, "answers": count}
    inputs = schema(known.data, dataset, partition).inputs(rows)
    return table, _why_drowned(known, table, len(partition.parties), _directions(inputs))


def _teachers(scenario: Scenario, seed: int, source: Source) -> int:
    """Of each owner. A record or a patient moves the votes of two at most, so more of them drown the noise: as many as
    the rows of a public owner allow, in the median. A whole owner moves all of its votes: it has one."""
    if scenario.federation.privacy.unit is Unit.PARTY:
        return 1
    source, partition = divided_source(scenario, seed, source)
    public = source.owner[np.concatenate([partition.queries, partition.test])]
    sizes = np.unique(public, return_counts=True)[1]
    return int(np.clip(np.median(sizes) // ROWS_PER_TEACHER, 1, MOST_TEACHERS)) if len(sizes) > 1 else 1


def _directions(inputs: np.ndarray) -> float:
    """Independent directions of rows float (n, inputs), weighed by their size: (sum v)^2 / sum v^2, v the variances."""
    variances = np.linalg.svd(inputs - inputs.mean(axis=0), compute_uv=False) ** 2
    return float(variances.sum() ** 2 / max((variances**2).sum(), 1e-300))


def _why_drowned(known: Scenario, table: dict[str, Any], parties: int, directions: float) -> str:
    """known: the scenario but for its mechanism. Where there is an epsilon, the noise is not calibrated to ask."""
    federation, epsilon = known.federation, table["federation"]["privacy"].get("epsilon")
    if epsilon is None:
        epsilon = promised(validate(table, Scenario, "Council").federation).epsilon
    privacy, teachers = federation.privacy, federation.teachers_per_party
    units = votes_of_units(parties, teachers, privacy.unit, privacy.neighbouring)
    stands = signal(units, float(epsilon), privacy.delta, directions)
    if stands >= LEAST_SIGNAL:
        return ""
    return (
        f"{parties} parties cannot have a useful student at epsilon {epsilon_text(epsilon)} for a"
        f" {privacy.unit.value}: their votes stand {stands:.2g} standard deviations out of the noise, below"
        f" {LEAST_SIGNAL:g}"
    )
