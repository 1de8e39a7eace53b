"""The folder of a run: its manifest, which says what was asked and how the run ended, its sums, its summary with
seconds and warnings, and the report's data. A run that is killed says "running" for ever, and has no sums."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import read_events
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.coordinator.privacy import NODES, expected
from consilium.coordinator.verify.ledger import Damaged, Unfinished
from consilium.protocol.errors import (
    ConfigError,
    ConsiliumError,
    DataError,
    FailedAfterRelease,
    LedgerError,
    OutputExists,
    PathError,
)
from consilium.protocol.files import replace_private
from consilium.protocol.refusals import FOR_DATA
from consilium.protocol.strict_json import number, strict
from consilium.report.warnings import LabelFacts, RowFacts, StudentFacts, warnings_of
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.divide import Case
from consilium.simulations.interruption import Interrupted
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.public import look
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.privacy import shown_guarantees
from consilium.student.card import CONSTANT

FORMAT = 2
MANIFEST, SUMMARY = "manifest.json", "summary.json"
PRIVATE = "private"  # what exists only because this is a simulation: exact votes, what a report may not show
WORK = "private/work"  # private rows and keys, while an engine needs them in files
LEDGER, LABELS = "ledger.db", "labels.parquet"


def make_run_dir(path: Path) -> Path:
    """Create the output folder. Raises OutputExists: it is there already. ConfigError: it cannot be made."""
    try:
        path.mkdir(parents=True, mode=0o700)  # summary and ledger hold functions of the votes
        (path / PRIVATE).mkdir(mode=0o700)
    except FileExistsError:
        raise OutputExists(f"output folder {path} exists already", "Choose another, or remove it") from None
    except OSError as error:
        raise ConfigError(f"cannot make output folder {path}: {error.strerror}", "Choose another") from None
    return path.resolve()


@contextmanager
def working_in(run_dir: Path, manifest: Mapping[str, Any]) -> Iterator[None]:
    """The run's status is "running" while the context is open, then "complete", "interrupted" or "failed" and why. What
    an engine put into `WORK` goes however it ends. The sums of the files are written last of all. Raises
    FailedAfterRelease: what was raised inside, where something had been charged by then."""

    def state(status: str) -> None:
        replace_private(run_dir / MANIFEST, json.dumps({**manifest, "status": status}, indent=2) + "\n")

    try:
        state("running")
    except OSError:
        shutil.rmtree(run_dir, ignore_errors=True)
        raise
    try:
        try:
            yield
        finally:
            shutil.rmtree(run_dir / WORK, ignore_errors=True)
    except (Interrupted, KeyboardInterrupt):
        state("interrupted")
        raise
    except Exception as error:
        state(f"failed: {error if isinstance(error, ConsiliumError) else type(error).__name__}")
        if not (queries := charged_queries(run_dir)):
            raise
        reason = str(error)
        if not isinstance(error, ConsiliumError):  # nobody foresaw it: its text may quote a row
            frames = traceback.extract_tb(error.__traceback__)
            where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            reason = f"{type(error).__name__}{where}"
        what = (
            f"{reason.rstrip('.')}. {queries} queries had been released and charged by then: the answers are in"
            f" {run_dir / LABELS}, the charge in {run_dir / LEDGER}"
        )
        raise FailedAfterRelease(what, "Another run releases anew, and its charge comes on top") from error
    state("complete")
    write_sums(run_dir)


def charged_queries(run_dir: Path) -> int:
    """How many queries the ledger of a run has charged; 0 where it has no ledger that can be read."""
    path = run_dir / LEDGER
    try:
        with closing(Ledger(path, stored_config(path)[0], "", read_only=True)) as ledger:
            return ledger.spent()[0]
    except LedgerError:
        return 0


SUMS = "SHA256SUMS"
"""The sums of a finished run's files, with which an audit finds what was damaged; `sha256sum -c` reads them too."""
NO_RESULT, PASSING = ("private/work/", "sessions/"), (SUMS, ".lock", ".part")
"""Begins and ends of the names of files that have no sum."""


def write_sums(run_dir: Path) -> None:
    """Write it, last of all."""
    names = (path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file())
    kept = [name for name in names if not name.startswith(NO_RESULT) and not name.endswith(PASSING)]
    _write(run_dir, {name: _sum(run_dir / name) for name in kept})


def renew_sum(run_dir: Path, name: str) -> None:
    """Write the sum of one file anew, of a report that was drawn again; nothing where the run has no such file."""
    if (run_dir / SUMS).exists():
        _write(run_dir, {**_read(run_dir), name: _sum(run_dir / name)})


def check_sums(run_dir: Path, complete: bool) -> str:
    """Compare every file with its sum. Raises Damaged: files are missing or changed, or the sums of a run that ended
    are. Unfinished: it has not ended."""
    if not (run_dir / SUMS).exists():
        raise Damaged(f"{SUMS} is missing") if complete else Unfinished(f"{SUMS} is written when the run ends")
    written = _read(run_dir)
    missing = sorted(name for name in written if not (run_dir / name).is_file())
    changed = sorted(name for name in written if name not in missing and _sum(run_dir / name) != written[name])
    faults = {"missing": missing, "changed": changed}
    if missing or changed:
        raise Damaged("; ".join(f"{kind}: {', '.join(names)}" for kind, names in faults.items() if names))
    return f"{len(written)} files as they were when the run ended"


def _read(run_dir: Path) -> dict[str, str]:
    try:
        pairs = [line.split("  ", 1) for line in (run_dir / SUMS).read_text(encoding="utf-8").splitlines()]
        sums = {name: value for value, name in pairs}
    except (OSError, ValueError):
        sums = {}
    if not sums:
        raise Damaged(f"{SUMS} is no list of sums")
    return sums


def _write(run_dir: Path, sums: dict[str, str]) -> None:
    replace_private(run_dir / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_finished(run: Path) -> None:
    """Raise PathError or DataError if no finished simulation lies there."""
    if not run.is_dir():
        raise PathError(f"{run} is no folder", "Give the folder of a run")
    if not (run / SUMMARY).is_file():
        raise DataError(f"{run} holds no finished run: {SUMMARY} is not there", "Give the folder of a finished run")


def read_summary(run: Path) -> dict[str, Any]:
    """What `consilium run --format json` printed; it holds the secret data-dependent epsilon. Raises PathError,
    DataError: no finished run lies there, or its summary is damaged."""
    check_finished(run)
    try:
        summary = json.loads((run / SUMMARY).read_text(encoding="utf-8"))
        if not {"privacy", "student", "baselines", "queries", "worth"} <= summary.keys():
            raise ValueError
    except OSError as error:
        raise PathError(f"cannot read {run / SUMMARY}: {error.strerror}", "Was the folder removed?") from None
    except (ValueError, AttributeError, RecursionError):
        raise DataError(f"{run / SUMMARY} is damaged", "Run: consilium audit") from None
    return summary


if TYPE_CHECKING:
    from consilium.simulations.analysis import Analysis


def run_warnings(
    config: FederationConfig, summary: Mapping[str, Any], card: Mapping[str, Any], looked: RowFacts, cost: str
) -> list[dict[str, str]]:
    """Of a finished run, first what came out. summary: as far as it is written. cost: what a label takes."""
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


COORDINATOR, CARD = "coordinator.json", "student/student.json"


def read_json(path: Path) -> dict[str, Any]:
    """Of a run folder."""
    return json.loads(path.read_text(encoding="utf-8"))


def student_facts(run_dir: Path) -> dict[str, Any]:
    """Of the student that is in the run's folder, the fields of the event "student-saved"."""
    guarantee = read_json(run_dir / COORDINATOR)["privacy"]["guarantee"]
    metrics, epsilon = read_json(run_dir / CARD)["metrics"] or {}, number(guarantee, "epsilon")
    auc = metrics.get("auc")
    return {
        "metric": "accuracy" if auc is None else "AUC",
        "value": metrics.get("accuracy") if auc is None else auc,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": guarantee["delta"],
    }


def run_summary(manifest: Mapping[str, Any], run_dir: Path, case: Case, analysis: Analysis) -> dict[str, Any]:
    """What `consilium run` prints; all but the seconds, which are the coordinator's alone."""
    config, data, figures = case.config, case.scenario.data, analysis.figures
    looked = look(data, case.scenario.federation.query_budget.queries, case.dataset, case.partition)
    coordinator, student = read_json(run_dir / COORDINATOR), read_json(run_dir / CARD)
    privacy = coordinator["privacy"]
    optional = {
        "parties_absent": absent(run_dir),
        "public_owners": public_owners(case),
        "holds_public_rows": data.is_described and student["model"]["holds_public_rows"],
        "public_labels": student.get("public_labels"),
        "teachers_failed": analysis.failures,
    }
    table = {
        "scenario": manifest["scenario"],
        "engine": manifest["engine"],
        "federation_digest": config.federation_digest(),
        "parties": len(coordinator["parties"]),
        "teachers": coordinator["teachers"],
        "release": config.disclosure.release,
        "parties_left_out_for_data": coordinator["parties_left_out_for_data"],
        "owners_left_out": case.partition.left_out,
        "parties_made": looked.parties,
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
            "released_label_accuracy": analysis.labels_right,
            "noise": coordinator["noise"],
        },
        "student": student["metrics"],
        "baselines": figures["baselines"],
        "labels_alone": figures.get("labels_alone", {}),
        "worth": figures.get("worth"),
        **{name: value for name, value in optional.items() if value},
        "seconds": coordinator["seconds"],
        "out": str(run_dir),
    }
    table["warnings"] = run_warnings(config, table, student, looked, data.label_cost)
    return strict(table)


def report_data(
    manifest: Mapping[str, Any], run_dir: Path, case: Case, summary: dict[str, Any], analysis: Analysis
) -> ReportData:
    """All that the report shows."""
    scenario, dataset, federation = case.scenario, case.dataset, case.scenario.federation
    coordinator, events = read_json(run_dir / COORDINATOR), read_events(run_dir / "events.jsonl")
    left_out = [(event.party, event.stage, event.reason) for event in events if event.kind == "left-out"]
    return ReportData(
        title=federation.name,
        description=scenario.description.strip(),
        attribution=dataset.attribution,
        seeded_noise=coordinator["noise"] == "seeded",
        **{name: manifest[name] for name in ("scenario", "engine", "seed", "created", "versions")},
        **{name: summary[name] for name in ("parties", "teachers", "student", "warnings")},
        invited=manifest["data"]["parties"],
        party_label=dataset.owner_label if scenario.data.partition == "owners" else "party",
        left_out=left_out,
        mechanism=federation.describe(),
        release=federation.disclosure.release,
        collection=federation.collection,
        most_queries=federation.query_budget.queries,
        most_answers=federation.query_budget.answers,
        guarantees=shown_guarantees(coordinator["privacy"], federation.collection),
        reinforced=summary["queries"]["reinforced"],
        public_labels=summary.get("public_labels", {}),
        classes=dataset.classes,
        **analysis.figures,
    )


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


def absent(run_dir: Path) -> dict[str, str]:
    """Parties that were left out of a stage, and not because of what their data hold, each with the first reason."""
    reasons: dict[str, str] = {}
    for event in read_events(run_dir / "events.jsonl"):
        if event.kind == "left-out" and event.rule not in FOR_DATA:
            reasons.setdefault(event.party, event.reason)
    return dict(sorted(reasons.items()))
