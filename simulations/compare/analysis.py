"""What only a simulation can know: truth, baselines and the quality of each party's teachers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from consilium.coordinator.collection.clear import PATTERN, kept_votes
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.privacy import epsilon_by_query, promised
from consilium.coordinator.ledger.store import Batch, Ledger
from consilium.models.evaluation import evaluate
from consilium.models.published.model import MODEL_FILE, Published, load_model
from consilium.node.progress import ACCOUNTING, BASELINES, CURVES, POOLED, stage
from consilium.party.home import SETTINGS, open_home
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, cast
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.rows.queries import canonical_queries, query_ids
from consilium.simulations.compare import figures
from consilium.simulations.compare.worth import worth
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.manual_labels import PublicTruth
from consilium.simulations.methods.noisy_average import judged_noisy_average, noisy_averages, why_none
from consilium.simulations.methods.pooled import pooled_probabilities
from consilium.simulations.metrics import (
    area_interval,
    auc_row_scores,
    leading_metric,
    mean_interval,
    metric_intervals,
    over_parties,
    row_scores,
)
from consilium.simulations.population import public
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.scenario import Scenario
from consilium.simulations.teach import ClippedSums, class_probabilities, linear_scores, vote_shares
from consilium.simulations.workspace import Workspace
from consilium.student.config import StudentSpec
from consilium.student.pool import load_pool


def vote_sums(space: Workspace, config: FederationConfig, weights: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Query id -> votes int64 (classes,) of all parties.

    From the recorded votes; secure and distributed ones nobody has, so all teachers are asked again. `weights`: how
    often the answers of each party count, by name; 1 where none is given.
    """
    if config.votes != "clear":
        return _asked_again(space, config, weights)
    sums: dict[str, np.ndarray] = {}
    for file in space.private.glob(PATTERN):
        with kept_votes(file) as kept:
            sums.update(zip(kept.query_ids, kept.total(), strict=True))
    return sums


def _asked_again(space: Workspace, config: FederationConfig, weights: Mapping[str, int]) -> dict[str, np.ndarray]:
    queries = load_pool(space.work / "pool.npz").queries
    inputs, ids, federation = config.rows.inputs(queries), query_ids(queries), config.digest()
    votes = np.zeros((len(queries), len(config.rows.classes)), dtype=np.int64)
    for home in sorted(path.parent for path in space.party_root.glob(f"*/{SETTINGS}")):
        name = open_home(home).name
        for state in (home / "state").glob("teachers-*"):
            own = cast(store.load(state, federation), inputs, Lot(name, federation, ids))
            votes += own * weights.get(name, 1)
    return dict(zip(ids, votes, strict=True))


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
    local_only: the same, with the 10th and 90th percentile. noisy_average: see `methods.noisy_average`, at the
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


@dataclass(frozen=True)
class Analysis:
    """Everything about a run beyond what the nodes wrote. Arrays and figures as in `ReportData`."""

    baselines: dict[str, dict[str, Any]]
    worth: dict[str, Any] | None
    released_label_accuracy: float | None
    quality: list[PartyQuality] = field(repr=False)
    consensus: np.ndarray = field(repr=False)
    answered: np.ndarray = field(repr=False)
    epsilon_spent: np.ndarray = field(repr=False)
    epsilon_data_dependent: np.ndarray = field(repr=False)
    open_figures: dict[str, Any] = field(repr=False)
    secret_figures: dict[str, Any] = field(repr=False)


def analyse(space: Workspace, case: Case, progress: Progress = no_progress) -> Analysis:
    """Read the finished run of a case and compare it with what the simulation knows."""
    config = case.config
    ledger = Ledger(space.run_dir / "ledger.db", config.digest(), "", read_only=True)
    try:
        batches = ledger.batches()
    finally:
        ledger.close()
    with stage(progress, ACCOUNTING):
        curves = epsilon_by_query(config, batches)
    answered = np.concatenate([batch.answered for batch in batches]) if batches else np.zeros(0, dtype=bool)
    weights = _weights(space)
    compared = baselines(space, case, promised(config).epsilon, weights, progress)
    sums = vote_sums(space, config, weights)
    votes = np.array([sums[query_id] for batch in batches for query_id in batch.query_ids])
    judged = _judge(space, case)
    open_figures: dict[str, Any] = {}
    secret_figures: dict[str, Any] = {}
    if judged is not None:
        open_figures, secret_figures = _figures(space, case, batches, judged, sums, progress)
        secret_figures["alone"] = _against_one_alone(judged, compared)
    return Analysis(
        baselines=compared.baselines,
        worth=_worth(space, case.scenario, answered, judged, progress),
        released_label_accuracy=_label_accuracy(space, case),
        quality=compared.quality,
        consensus=votes.max(axis=1) / votes.sum(axis=1) if len(votes) else np.zeros(0),
        answered=answered,
        epsilon_spent=curves["spent"],
        epsilon_data_dependent=curves["data_dependent"],
        open_figures=open_figures,
        secret_figures=secret_figures,
    )


@dataclass(frozen=True)
class _Student:
    """The published student, with the public truth that it is judged on; probabilities float64 (test, classes)."""

    model: Published
    spec: StudentSpec
    seed: int
    truth: PublicTruth = field(repr=False)
    probabilities: np.ndarray = field(repr=False)


def _judge(space: Workspace, case: Case) -> _Student | None:
    """None where there are no test rows."""
    pool, spec, seed = space.student()
    if pool.test_x is None or pool.test_y is None:
        return None
    queries = canonical_queries(pool.queries, len(pool.features))
    truth = PublicTruth(case.config.rows, queries, case.pool_y, pool.test_x, pool.test_y)
    model = load_model(space.run_dir / "student" / MODEL_FILE)
    return _Student(model, spec.last, seed, truth, model.predict_proba(pool.test_x))


def _worth(
    space: Workspace, scenario: Scenario, answered: np.ndarray, judged: _Student | None, progress: Progress
) -> dict[str, Any] | None:
    """What the published student is worth in labels by hand, see `compare.worth`, and what one such label takes;
    `answered` bool (asked,)."""
    if scenario.simulation.hand_labels == "none" or judged is None:
        return None
    asked = pl.read_parquet(space.run_dir / "labels.parquet")["row"].to_numpy()[: len(answered)]
    found = worth(
        judged.truth,
        judged.probabilities,
        judged.spec,
        int(answered.sum()),
        asked,
        judged.seed,
        scenario.simulation.hand_labels,
        progress,
    )
    return {**found, "label_cost": scenario.data.label_cost}


def _figures(
    space: Workspace,
    case: Case,
    batches: list[Batch],
    judged: _Student,
    sums: dict[str, np.ndarray],
    progress: Progress,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """See `compare.figures`; `sums`: query id -> votes, exact."""
    truth, config = judged.truth, case.config
    answered, queries = figures.answers(space, config, batches)
    votes = np.array([sums[query_id] for query_id in queries])
    with stage(progress, CURVES):
        by_labels, by_epsilon = figures.learning_curves(
            truth, judged.spec, judged.seed, case.scenario.simulation.hand_labels, config, answered, votes
        )
    shown = figures.open_figures(space, truth, judged.probabilities)
    secret = {
        "votes": figures.votes_by_class(votes, truth.labels[answered.rows]) if len(votes) else [],
        "at_home": figures.judged_at_home(space, case, judged.model, progress),
        "by_epsilon": by_epsilon,
    }
    return {**shown, "by_labels": by_labels}, secret


def _against_one_alone(judged: _Student, compared: Compared) -> dict[str, Any] | None:
    """By how much the student is better than one party by itself, in the mean over the parties, and its interval.

    Both are judged on the same test rows, so the interval is that of the difference row by row.
    """
    metric = leading_metric(judged.truth.test_y, len(judged.truth.schema.classes))
    if metric not in compared.alone:
        return None
    scores = row_scores(judged.probabilities, judged.truth.test_y, metric) - compared.alone[metric]
    return {"metric": metric, "difference": float(scores.mean()), "interval": mean_interval(scores)}


def _label_accuracy(space: Workspace, case: Case) -> float | None:
    labels = pl.read_parquet(space.run_dir / "labels.parquet").filter(pl.col("outcome") == "answered")
    if labels.is_empty():
        return None
    truth = case.pool_y[labels["row"].to_numpy()]
    given = np.array([case.dataset.classes.index(name) for name in labels["label"].to_list()])
    return float((truth == given).mean())


def _weights(space: Workspace) -> dict[str, int]:
    """How often the answers of each party count, by name; empty where every party counts once."""
    coordinator = json.loads((space.run_dir / "coordinator.json").read_text(encoding="utf-8"))
    return {party: own["weight"] for party, own in coordinator.get("by_party", {}).items()}
