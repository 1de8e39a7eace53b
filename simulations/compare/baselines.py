"""What a student is compared with that takes private rows, or the teachers of the parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.models.evaluation import evaluate
from consilium.node.progress import BASELINES, POOLED, stage
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, cast
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.rows.queries import canonical_queries, query_ids
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import judged_noisy_average, noisy_averages, why_none
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.metrics import (
    area_interval,
    auc_row_scores,
    mean_interval,
    metric_intervals,
    over_parties,
)
from consilium.simulations.population import public
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.teach import ClippedSums, class_probabilities, linear_scores, vote_shares
from consilium.simulations.workspace import Workspace


@dataclass(frozen=True)
class Compared:
    """baselines: metrics by name, with "intervals" of each. quality: of each party's teachers. alone: row scores
    float64 (test,) of what one party has by itself, in the mean over the parties, by metric; those that there are."""

    baselines: dict[str, dict[str, Any]]
    quality: list[PartyQuality] = field(repr=False)
    alone: dict[str, np.ndarray] = field(repr=False)


def baselines(
    space: Workspace, case: Case, epsilon: float, weights: Mapping[str, int], progress: Progress = no_progress
) -> Compared:
    """All that a student is compared with.

    majority: the most frequent private class. mean_teacher: the mean over the parties of what each has by itself.
    local_only: the same, with the 10th and 90th percentile. noisy_average: see `compare.noisy_average`, at the
    `epsilon` that the run promised; {"absent": why} where there is none, as where the parties' kinds of teachers are
    mixed. plurality: all teachers vote, without noise, each counted by its party's weight (1 where none is given).
    pooled: one model on the rows of all.
    """
    dataset, partition, config = case.dataset, case.partition, case.config
    simulation = case.scenario.simulation
    teacher, mixed = simulation.own_teacher or config.teacher, bool(simulation.teachers)
    schema, names = config.rows, config.rows.classes
    test = canonical_queries(dataset.x[partition.test], len(schema.features))
    test_x, test_ids, federation = schema.inputs(test), query_ids(test), config.digest()
    test_y = dataset.y[partition.test]
    absent, given = why_none(teacher, epsilon, mixed), ClippedSums()
    total = np.zeros((len(test_y), len(names)))
    quality, alone = [], _Alone(test_y)
    for index, (party, rows) in enumerate(partition.parties.items()):
        progress(BASELINES, index, len(partition.parties))
        states = list((space.home(index) / "state").glob("teachers-*"))
        if not states:
            continue
        trained = store.load(states[0], federation)
        teachers = trained.teachers
        found = [class_probabilities(teacher, test_x, len(names)) for teacher in teachers]
        quality.append(_quality(party, len(rows), found, test_y, names))
        alone.add(found)
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
    promise = StatedGuarantee(epsilon, config.privacy.delta, config.privacy.unit, config.privacy.neighbouring)
    noisy: dict[str, Any] = {"absent": absent}
    if not absent:
        pool_x = schema.inputs(public.queries(dataset, partition))
        averages = noisy_averages(given, promise, pool_x, dataset.y[partition.queries], config.seed)
        noisy = judged_noisy_average(averages, test_x, test_y, names)
    found = {
        "majority": _judged(np.tile(shares, (len(test_y), 1)), test_y, names),
        "mean_teacher": {
            "accuracy": _mean(_accuracies(quality)),
            "auc": _mean(_aucs(quality)),
            "intervals": alone.intervals(),
        },
        "local_only": {
            **over_parties("accuracy", _accuracies(quality)),
            **over_parties("auc", _aucs(quality)),
        },
        "noisy_average": noisy,
        "plurality": _judged(vote_shares(total), test_y, names),
        "pooled": _judged(pooled, test_y, names),
    }
    return Compared(found, quality, alone.means())


class _Alone:
    """What one party has by itself on each test row, in the mean over the parties."""

    def __init__(self, y: np.ndarray) -> None:
        self._y = y
        self._sums: dict[str, np.ndarray] = {}
        self._parties: dict[str, int] = {}

    def add(self, found: Sequence[np.ndarray]) -> None:
        """One party's teachers: their probabilities (test, classes)."""
        right = np.mean([each.argmax(axis=1) == self._y for each in found], axis=0)
        areas = [each for each in (auc_row_scores(one, self._y) for one in found) if each is not None]
        for metric, scores in {"accuracy": right, "auc": np.mean(areas, axis=0) if areas else None}.items():
            if scores is not None:
                self._sums[metric] = self._sums.get(metric, 0.0) + scores
                self._parties[metric] = self._parties.get(metric, 0) + 1

    def means(self) -> dict[str, np.ndarray]:
        """float64 (test,) by metric."""
        return {metric: total / self._parties[metric] for metric, total in self._sums.items()}

    def intervals(self) -> dict[str, Any]:
        """Over test rows, of the mean over these very parties."""
        means, counts = self.means(), np.bincount(self._y)
        return {
            "accuracy": mean_interval(means["accuracy"]) if "accuracy" in means else None,
            "auc": area_interval(means["auc"], int(counts[counts > 0].min())) if "auc" in means else None,
        }


def _judged(probabilities: np.ndarray, y: np.ndarray, names: tuple[str, ...]) -> dict[str, Any]:
    return {**evaluate(probabilities, y, names), "intervals": metric_intervals(probabilities, y, names)}


def _quality(party: str, rows: int, found: Sequence[np.ndarray], y: np.ndarray, names: tuple[str, ...]) -> PartyQuality:
    metrics = [evaluate(probabilities, y, names) for probabilities in found]
    aucs = [item["auc"] for item in metrics if item["auc"] is not None]
    return PartyQuality(party, rows, float(np.mean([item["accuracy"] for item in metrics])), _mean(aucs))


def _accuracies(quality: Sequence[PartyQuality]) -> list[float]:
    return [item.accuracy for item in quality]


def _aucs(quality: Sequence[PartyQuality]) -> list[float]:
    return [item.auc for item in quality if item.auc is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
