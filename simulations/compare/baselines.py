"""What a student is compared with that takes private rows, or the teachers of the parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, cast
from consilium.party.teachers.builders import Teacher
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.parties.teachers import TeacherKind
from consilium.protocol.progress.stages import BASELINES, POOLED, stage
from consilium.protocol.rows.queries import canonical_queries, query_ids
from consilium.simulations.compare.noisy_average import (
    Allowance,
    ClippedSums,
    linear_scores,
    noisy_average,
    why_none,
)
from consilium.simulations.compare.pooled import pooled_probabilities
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.workspace import Workspace
from consilium.student.evaluation import evaluate

LOW, HIGH = 10, 90
"""Percentiles of the parties that say what one of them has by itself."""


def baselines(
    space: Workspace,
    dataset: Dataset,
    partition: Partition,
    config: FederationConfig,
    teacher: TeacherKind,
    epsilon: float,
    mixed: bool,
    weights: Mapping[str, int],
    progress: Progress = no_progress,
) -> tuple[dict[str, dict[str, Any]], list[PartyQuality]]:
    """By name, and the quality of each party's teachers.

    majority: the most frequent private class. mean_teacher: the mean over the parties of what each has by itself.
    local_only: the same, with the `LOW`th and `HIGH`th percentile. noisy_average: see `compare.noisy_average`, at the
    `epsilon` that the run promised; {"absent": why} where there is none, as where the parties' kinds of teachers are
    `mixed`. plurality: all teachers vote, without noise, each counted by its party's weight (1 where none is given).
    pooled: one model on the rows of all. teacher: what all parties train, unless their kinds are mixed.
    """
    schema, names = config.rows, config.rows.classes
    test = canonical_queries(dataset.x[partition.test], len(schema.features))
    test_x, test_ids, federation = schema.inputs(test), query_ids(test), config.digest()
    test_y = dataset.y[partition.test]
    absent, given = why_none(teacher, epsilon, mixed), ClippedSums()
    total = np.zeros((len(test_y), len(names)))
    quality = []
    for index, (party, rows) in enumerate(partition.parties.items()):
        progress(BASELINES, index, len(partition.parties))
        states = list((space.home(index) / "state").glob("teachers-*"))
        if not states:
            continue
        trained = store.load(states[0], federation)
        teachers = trained.teachers
        quality.append(_quality(party, len(rows), teachers, test_x, test_y, names))
        total += cast(trained, test_x, Lot(party, federation, test_ids)) * weights.get(party, 1)
        if not absent:
            linear = [linear_scores(teacher, each, test_x.shape[1], len(names)) for each in teachers]
            given.add(np.stack([each for each in linear if each is not None]))
    private = np.concatenate(list(partition.parties.values()))
    shares = np.bincount(dataset.y[private], minlength=len(names)) / len(private)
    progress(BASELINES, len(partition.parties), len(partition.parties))
    with stage(progress, POOLED):
        pooled = pooled_probabilities(schema, teacher, dataset.x[private], dataset.y[private], test_x)
    if not absent and not quality:
        absent = "no party has a teacher"
    promise = Allowance(epsilon, config.privacy.delta, config.privacy.unit, config.privacy.neighbouring)
    return {
        "majority": evaluate(np.tile(shares, (len(test_y), 1)), test_y, names),
        "mean_teacher": {"accuracy": _mean(_accuracies(quality)), "auc": _mean(_aucs(quality))},
        "local_only": {**_spread("accuracy", _accuracies(quality)), **_spread("auc", _aucs(quality))},
        "noisy_average": {"absent": absent}
        if absent
        else noisy_average(given, promise, test_x, test_y, names, config.seed),
        "plurality": evaluate(total / np.maximum(total.sum(axis=1, keepdims=True), 1), test_y, names),
        "pooled": evaluate(pooled, test_y, names),
    }, quality


def _quality(
    party: str, rows: int, teachers: Sequence[Teacher], x: np.ndarray, y: np.ndarray, names: tuple[str, ...]
) -> PartyQuality:
    metrics = []
    for teacher in teachers:
        probabilities = np.zeros((len(y), len(names)))
        probabilities[:, teacher.classes_] = teacher.predict_proba(x)  # pyright: ignore
        metrics.append(evaluate(probabilities, y, names))
    aucs = [item["auc"] for item in metrics if item["auc"] is not None]
    return PartyQuality(party, rows, float(np.mean([item["accuracy"] for item in metrics])), _mean(aucs))


def _accuracies(quality: Sequence[PartyQuality]) -> list[float]:
    return [item.accuracy for item in quality]


def _aucs(quality: Sequence[PartyQuality]) -> list[float]:
    return [item.auc for item in quality if item.auc is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _spread(metric: str, values: Sequence[float]) -> dict[str, float | None]:
    """Mean and percentiles of a metric over the parties, under names of their own."""
    names = (metric, f"{metric}_p{LOW}", f"{metric}_p{HIGH}")
    if not values:
        return dict.fromkeys(names)
    low, high = np.percentile(values, (LOW, HIGH))
    return dict(zip(names, (float(np.mean(values)), float(low), float(high)), strict=True))
