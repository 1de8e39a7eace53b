"""What a finished run says of itself: its summary with seconds and warnings, metrics.parquet, the report's data."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import read_events
from consilium.coordinator.privacy import NODES, expected
from consilium.protocol.files import replace_private
from consilium.protocol.refusals import FOR_DATA
from consilium.protocol.strict_json import number, strict
from consilium.report.warnings import LabelFacts, RowFacts, StudentFacts, warnings_of
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case
from consilium.simulations.population.look import look
from consilium.simulations.population.partition import Partition
from consilium.simulations.report.data import LeftOutParty, ReportData
from consilium.simulations.report.guarantees import shown_guarantees
from consilium.student.card import CONSTANT

if TYPE_CHECKING:
    from consilium.simulations.analysis import Analysis


def stage_seconds(
    coordinator: Mapping[str, float], *, prepare: float, engine: float, analysis: float, report: float | None = None
) -> dict[str, float]:
    """Every stage once, in milliseconds' precision, and their sum as "total".

    Parameters
    ----------
    coordinator : the stages that the coordinator timed itself; they happen while the engine runs.
    engine : from the engine's start to its end; what no stage of the coordinator's counts stays under this name: nodes
        that start and end, and what the coordinator does between its stages.
    report : None while it is not drawn yet.

    >>> stage_seconds({"train": 2.0, "vote": 1.5}, prepare=1.0, engine=4.0, analysis=0.5)
    {'prepare': 1.0, 'train': 2.0, 'vote': 1.5, 'engine': 0.5, 'analysis': 0.5, 'total': 5.5}
    """
    stages = {"prepare": prepare, **coordinator, "engine": engine - sum(coordinator.values()), "analysis": analysis}
    if report is not None:
        stages["report"] = report
    rounded = {stage: round(seconds, 3) for stage, seconds in stages.items()}
    return {**rounded, "total": round(sum(rounded.values()), 3)}


def run_warnings(
    config: FederationConfig, summary: Mapping[str, Any], card: Mapping[str, Any], looked: RowFacts, cost: str
) -> list[dict[str, str]]:
    """Of a finished run, first what came out. summary: as far as it is written. card: the student's. cost: what a label
    takes."""
    tested = card["test"]
    reached = StudentFacts(
        constant=card["model"]["kind"] == CONSTANT,
        metrics=summary["student"] or {},
        rows={} if tested is None else tested["rows_per_class"],
        teachers=summary["teachers"],
        failures=summary.get("teachers_failed", {}),
        left_out=summary["parties_left_out_for_data"],
        absent=summary.get("parties_absent", {}),
    )
    labels = LabelFacts(summary["labels_alone"], "public_labels" in summary, cost)
    return warnings_of(reached, labels, looked, expected(config, summary["parties"]))


def data_fingerprint(dataset: Dataset) -> str:
    """SHA-256 (hex) of the rows, labels and owners, of their names and of patients, if there are any."""
    fingerprint = hashlib.sha256()
    for array in (dataset.x, dataset.y, dataset.owner):
        fingerprint.update(array.tobytes())
    if dataset.owner_names is not None:
        fingerprint.update(json.dumps(dataset.owner_names).encode())
    if dataset.patient is not None:
        fingerprint.update(dataset.patient.tobytes())
    return fingerprint.hexdigest()


def data_facts(dataset: Dataset, partition: Partition) -> dict[str, Any]:
    """What a manifest says of the rows and of who has how many of them."""
    return {
        "set": dataset.name,
        "sha256": data_fingerprint(dataset),
        "parties": len(partition.parties),
        "left_out": partition.left_out,
        **({"found": partition.measures} if partition.measures else {}),
        "queries": len(partition.queries),
        "test": len(partition.test),
    }


def student_facts(run_dir: Path) -> dict[str, Any]:
    """Of the student that is in the run's folder, the fields of `StudentSaved`."""
    guarantee = _coordinator(run_dir)["privacy"]["guarantee"]
    metrics, epsilon = _student(run_dir)["metrics"] or {}, number(guarantee, "epsilon")
    auc = metrics.get("auc")
    return {
        "metric": "accuracy" if auc is None else "AUC",
        "value": metrics.get("accuracy") if auc is None else auc,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": guarantee["delta"],
    }


def _coordinator(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "coordinator.json").read_text(encoding="utf-8"))


def _student(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "student" / "student.json").read_text(encoding="utf-8"))


def looked_at(case: Case) -> RowFacts:
    """What is doubtful about the rows of a case, see `look`."""
    return look(case.scenario.data, case.scenario.federation.query_budget.queries, case.dataset, case.partition)


def run_summary(manifest: Mapping[str, Any], run_dir: Path, case: Case, analysis: Analysis) -> dict[str, Any]:
    """What `consilium run` prints; all but the seconds, which are the coordinator's alone."""
    config, looked = case.config, looked_at(case)
    coordinator, student = _coordinator(run_dir), _student(run_dir)
    privacy = coordinator["privacy"]
    table = {
        "scenario": manifest["scenario"],
        "engine": manifest["engine"],
        "federation_digest": config.federation_digest(),
        "parties": len(coordinator["parties"]),
        "teachers": coordinator["teachers"],
        "release": config.disclosure.release,
        "parties_left_out_for_data": coordinator["parties_left_out_for_data"],
        **({"parties_absent": gone} if (gone := absent(run_dir)) else {}),
        "owners_left_out": case.partition.left_out,
        "parties_made": looked.parties,
        **({"public_owners": owners} if (owners := public_owners(case)) else {}),
        **({"holds_public_rows": True} if case.scenario.data.is_described and holds_rows(student) else {}),
        "queries": {key: coordinator[key] for key in ("asked", "answered", "reinforced")},
        "privacy": {
            "unit": config.privacy.unit.value,
            "relation": privacy["guarantee"]["relation"],
            "delta": config.privacy.delta,
            "collection": config.collection,
            "towards": privacy["guarantee"]["towards"],
            "epsilon_guaranteed": number(privacy["guarantee"], "epsilon"),
            "epsilon_student": number(privacy["student"], "epsilon"),
            **({"epsilon_nodes": number(privacy[NODES], "epsilon")} if NODES in privacy else {}),
            "epsilon_spent": number(privacy["spent"], "epsilon"),
            "epsilon_data_dependent": number(privacy["data_dependent"], "epsilon"),
            "epsilon_sanitised": number(privacy["sanitised"], "epsilon") if "sanitised" in privacy else None,
            "released_label_accuracy": analysis.released_label_accuracy,
            "noise": coordinator["noise"],
        },
        "student": student["metrics"],
        **({"public_labels": student["public_labels"]} if "public_labels" in student else {}),
        "baselines": analysis.baselines,
        "labels_alone": analysis.labels_alone,
        "worth": analysis.worth,
        **({"teachers_failed": analysis.failures} if analysis.failures else {}),
        "seconds": coordinator["seconds"],
        "out": str(run_dir),
    }
    table["warnings"] = run_warnings(config, table, student, looked, case.scenario.data.label_cost)
    return strict(table)


def report_data(
    manifest: Mapping[str, Any], run_dir: Path, case: Case, summary: dict[str, Any], analysis: Analysis
) -> ReportData:
    """All that the report shows."""
    scenario, dataset = case.scenario, case.dataset
    coordinator = _coordinator(run_dir)
    return ReportData(
        title=scenario.federation.name,
        description=scenario.description.strip(),
        attribution=dataset.attribution,
        scenario=manifest["scenario"],
        engine=manifest["engine"],
        seed=manifest["seed"],
        seeded_noise=coordinator["noise"] == "seeded",
        created=manifest["created"],
        versions=manifest["versions"],
        parties=summary["parties"],
        invited=manifest["data"]["parties"],
        teachers=summary["teachers"],
        party_label=dataset.owner_label if scenario.data.partition == "owners" else "party",
        left_out=left_out(run_dir),
        mechanism=scenario.federation.describe(),
        release=scenario.federation.disclosure.release,
        collection=scenario.federation.collection,
        most_queries=scenario.federation.query_budget.queries,
        most_answers=scenario.federation.query_budget.answers,
        guarantees=shown_guarantees(coordinator["privacy"], scenario.federation.collection),
        reinforced=summary["queries"]["reinforced"],
        student=summary["student"],
        public_labels=summary.get("public_labels", {}),
        baselines=analysis.baselines,
        worth=analysis.worth,
        labels_alone=analysis.labels_alone,
        classes=dataset.classes,
        consensus=analysis.consensus.tolist(),
        answered=analysis.answered.tolist(),
        quality=analysis.quality,
        warnings=summary["warnings"],
        open_figures=analysis.open_figures,
        secret_figures=analysis.secret_figures,
    )


def write_metrics(run_dir: Path, analysis: Analysis, summary: dict[str, Any]) -> None:
    """`metrics.parquet`: one row for each number, as scope ("run", "party", "query"), name, metric, value.

    Exact votes stay under `private/`; the rest is secret all the same, and so is the run folder.
    """
    import polars as pl

    rows: list[tuple[str, str, str, float]] = []

    def add(scope: str, name: str, metric: str, value: object) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            rows.append((scope, name, metric, float(value)))

    for group in ("queries", "privacy", "student", "seconds"):
        for metric, value in (summary[group] or {}).items():
            add("run", group, metric, value)
    manual = {f"manual_labels_{name}": (summary["worth"] or {}).get(name) or {} for name in ("released", "asked")}
    for name, metrics in {
        "worth": summary["worth"] or {},
        **manual,
        "labels_alone": summary["labels_alone"],
        **summary["baselines"],
    }.items():
        for metric, value in metrics.items():
            add("run", name, metric, value)
    for item in analysis.quality:
        for metric in ("rows", "accuracy", "auc"):
            add("party", item.party, metric, getattr(item, metric))
    for index, value in enumerate(analysis.answered):
        add("query", str(index), "answered", float(value))
    types = {**dict.fromkeys(("scope", "name", "metric"), pl.String), "value": pl.Float64}
    content = io.BytesIO()
    pl.DataFrame(rows, schema=types, orient="row").write_parquet(content)
    replace_private(run_dir / "metrics.parquet", content.getvalue())


def public_owners(case: Case) -> dict[str, Any]:
    """How many of the owners of somebody's own rows were made public, whole; nothing where none was."""
    data, partition = case.dataset, case.partition
    if not case.scenario.data.is_described or data.owner_names is None:
        return {}
    public = np.unique(data.owner[np.concatenate([partition.queries, partition.test])])
    private = np.unique(data.owner[np.concatenate(list(partition.parties.values()))])
    owners = len(np.unique(data.owner))
    whole = not len(np.intersect1d(public, private))
    return {"count": len(public), "of": owners, "word": data.owner_label} if whole else {}


def holds_rows(card: Mapping[str, Any]) -> bool:
    """Whether the student's file has public rows in it, as its card says."""
    return card["model"]["holds_public_rows"]


def left_out(run_dir: Path) -> list[LeftOutParty]:
    """Who was left out of which stage, from the event log."""
    events = read_events(run_dir / "events.jsonl")
    return [LeftOutParty(event.party, event.stage, event.reason) for event in events if event.kind == "left-out"]


def absent(run_dir: Path) -> dict[str, str]:
    """Parties that were left out of a stage, and not because of what their data hold, each with the first reason."""
    events = read_events(run_dir / "events.jsonl")
    reasons: dict[str, str] = {}
    for event in events:
        if event.kind == "left-out" and event.rule not in FOR_DATA:
            reasons.setdefault(event.party, event.reason)
    return dict(sorted(reasons.items()))
