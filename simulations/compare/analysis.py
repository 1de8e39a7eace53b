"""What only a simulation can know: truth, baselines and the quality of each party's teachers."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.batch import Batch
from consilium.coordinator.ledger.privacy import epsilon_by_query, promised
from consilium.coordinator.ledger.store import Ledger
from consilium.party.home import open_home
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, cast
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.progress.stages import ACCOUNTING, stage
from consilium.protocol.rows.queries import canonical_queries, query_ids
from consilium.simulations.compare.baselines import baselines
from consilium.simulations.compare.hand_labels import PublicTruth
from consilium.simulations.compare.worth import worth
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.specs import SimulationSpec
from consilium.simulations.report.data import LeftOut, PartyQuality
from consilium.simulations.workspace import Workspace
from consilium.student.asking.pool import load_pool
from consilium.student.published.model import MODEL_FILE, load_model


@dataclass(frozen=True)
class Analysis:
    """Everything about a run beyond what the nodes wrote. Arrays as in `ReportData`."""

    baselines: dict[str, dict[str, Any]]
    worth: dict[str, Any] | None
    released_label_accuracy: float | None
    quality: list[PartyQuality] = field(repr=False)
    consensus: np.ndarray = field(repr=False)
    answered: np.ndarray = field(repr=False)
    epsilon_worst_case: np.ndarray = field(repr=False)
    epsilon_data_dependent: np.ndarray = field(repr=False)


def analyse(
    space: Workspace,
    dataset: Dataset,
    partition: Partition,
    config: FederationConfig,
    simulation: SimulationSpec,
    progress: Progress = no_progress,
) -> Analysis:
    """Read the finished run and compare it with what the simulation knows."""
    ledger = Ledger(space.run_dir / "ledger.db", config.digest(), "", read_only=True)
    try:
        batches = ledger.batches()
    finally:
        ledger.close()
    with stage(progress, ACCOUNTING):
        curves = epsilon_by_query(config, batches)
    answered = np.concatenate([batch.answered for batch in batches]) if batches else np.zeros(0, dtype=bool)
    epsilon, mixed = promised(config).epsilon, bool(simulation.teachers)
    weights = _weights(space)
    teacher = simulation.own_teacher or config.teacher
    found, quality = baselines(space, dataset, partition, config, teacher, epsilon, mixed, weights, progress)
    return Analysis(
        baselines=found,
        worth=_worth(space, dataset, partition, config, simulation, answered, progress),
        released_label_accuracy=_label_accuracy(space, dataset, partition),
        quality=quality,
        consensus=_consensus(space, config, batches, weights),
        answered=answered,
        epsilon_worst_case=curves["worst_case"],
        epsilon_data_dependent=curves["data_dependent"],
    )


def _worth(
    space: Workspace,
    dataset: Dataset,
    partition: Partition,
    config: FederationConfig,
    simulation: SimulationSpec,
    answered: np.ndarray,
    progress: Progress,
) -> dict[str, Any] | None:
    """What the published student is worth in labels by hand, see `compare.worth`; `answered` bool (asked,)."""
    pool, spec, seed = space.student()
    if simulation.hand_labels == "none" or pool.test_x is None or pool.test_y is None:
        return None
    queries = canonical_queries(pool.queries, len(pool.features))
    public = PublicTruth(config.rows, queries, dataset.y[partition.queries], pool.test_x, pool.test_y)
    student = load_model(space.run_dir / "student" / MODEL_FILE).predict_proba(pool.test_x)
    asked = pl.read_parquet(space.run_dir / "labels.parquet")["row"].to_numpy()[: len(answered)]
    return worth(public, student, spec, int(answered.sum()), asked, seed, simulation.hand_labels, progress)


def _label_accuracy(space: Workspace, dataset: Dataset, partition: Partition) -> float | None:
    labels = pl.read_parquet(space.run_dir / "labels.parquet").filter(pl.col("outcome") == "answered")
    if labels.is_empty():
        return None
    truth = dataset.y[partition.queries[labels["row"].to_numpy()]]
    given = np.array([dataset.classes.index(name) for name in labels["label"].to_list()])
    return float((truth == given).mean())


def _weights(space: Workspace) -> dict[str, int]:
    """How often the answers of each party count, by name; empty where every party counts once."""
    coordinator = json.loads((space.run_dir / "coordinator.json").read_text(encoding="utf-8"))
    return {party: own["weight"] for party, own in coordinator.get("by_party", {}).items()}


def _consensus(space: Workspace, config: FederationConfig, batches: list[Batch], weights: dict[str, int]) -> np.ndarray:
    """Share of all votes that the top class got, of each query in the ledger's order.

    From the recorded votes; secure and distributed ones nobody has, so all teachers are asked again.
    """
    if config.votes != "clear":
        queries = load_pool(space.work / "pool.npz").queries
        inputs, ids, federation = config.rows.inputs(queries), query_ids(queries), config.digest()
        votes = np.zeros((len(queries), len(config.rows.classes)))
        for home in sorted(space.party_root.iterdir()):
            name = open_home(home).name
            for state in (home / "state").glob("teachers-*"):
                own = cast(store.load(state, federation), inputs, Lot(name, federation, ids))
                votes += own * weights.get(name, 1)
        share = dict(zip(ids, votes.max(axis=1) / votes.sum(axis=1), strict=True))
        return np.array([share[query_id] for batch in batches for query_id in batch.query_ids])
    shares: dict[str, float] = {}
    for file in space.private.glob("votes-*.npz"):
        with np.load(file) as content:
            votes = content["votes"].astype(np.int64).sum(axis=0)
            shares.update(zip(content["query_ids"].tolist(), votes.max(axis=1) / votes.sum(axis=1), strict=True))
    return np.array([shares[query_id] for batch in batches for query_id in batch.query_ids])


def write_metrics(space: Workspace, analysis: Analysis, summary: dict[str, Any]) -> None:
    """`metrics.parquet`: one row for each number, as scope ("run", "party", "query"), name, metric, value.

    Exact votes stay under `private/`; the rest is secret all the same, and so is the run folder.
    """
    rows: list[tuple[str, str, str, float]] = []

    def add(scope: str, name: str, metric: str, value: object) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            rows.append((scope, name, metric, float(value)))

    for group in ("queries", "privacy", "student", "seconds"):
        for metric, value in (summary[group] or {}).items():
            add("run", group, metric, value)
    by_hand = {f"hand_labels_{name}": (summary["worth"] or {}).get(name) or {} for name in ("released", "asked")}
    for name, metrics in {"worth": summary["worth"] or {}, **by_hand, **summary["baselines"]}.items():
        for metric, value in metrics.items():
            add("run", name, metric, value)
    for item in analysis.quality:
        for metric in ("rows", "accuracy", "auc"):
            add("party", item.party, metric, getattr(item, metric))
    for metric in ("epsilon_worst_case", "epsilon_data_dependent", "answered"):
        for index, value in enumerate(getattr(analysis, metric)):
            add("query", str(index), metric, float(value))
    frame = pl.DataFrame(
        rows,
        schema={"scope": pl.String, "name": pl.String, "metric": pl.String, "value": pl.Float64},
        orient="row",
    )
    content = io.BytesIO()
    frame.write_parquet(content)  # to a full disk, polars itself would raise an error of its own
    (space.run_dir / "metrics.parquet").write_bytes(content.getvalue())


def left_out(space: Workspace) -> list[LeftOut]:
    """Who was left out of which stage, from the event log."""
    with open(space.run_dir / "events.jsonl", encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return [
        LeftOut(event["party"], event["stage"], event["reason"]) for event in events if event["event"] == "left-out"
    ]
