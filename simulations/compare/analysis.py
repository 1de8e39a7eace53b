"""What only a simulation can know: truth, baselines and the quality of each party's teachers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from consilium.coordinator.ledger.privacy import epsilon_by_query, promised
from consilium.coordinator.ledger.store import Batch, Ledger
from consilium.models.published.model import MODEL_FILE, Published, load_model
from consilium.node.progress import ACCOUNTING, CURVES, stage
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.rows.queries import canonical_queries
from consilium.simulations.compare import figures
from consilium.simulations.compare.baselines import Compared, baselines
from consilium.simulations.compare.vote_sums import vote_sums
from consilium.simulations.compare.worth import worth
from consilium.simulations.divide import Case
from consilium.simulations.methods.manual_labels import PublicTruth
from consilium.simulations.metrics import leading_metric, mean_interval, row_scores
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.scenario import Scenario
from consilium.simulations.workspace import Workspace
from consilium.student.config import StudentSpec


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
