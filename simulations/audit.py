"""`consilium audit PATH`: do the claims of a run hold? `ledger.verify`, and what only a simulation can tell.

It reads the folder and the package only, and changes nothing. A check that cannot be made counts as failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.mechanisms import event_from_json
from consilium.coordinator.collection.kept_votes import PATTERN, UNUSABLE, kept_votes
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.privacy import epsilon_by_query
from consilium.coordinator.verify import (
    Absent,
    Checks,
    Contradiction,
    Damaged,
    Finding,
    Recorded,
    RunPlace,
    Unchecked,
    Unfinished,
    Verdict,
    VerifiedRun,
    find_run,
    verify_run,
    verify_student,
)
from consilium.coordinator.verify.charges import check_claims, close_to, number, same
from consilium.coordinator.verify.files import Files, agree, entry
from consilium.coordinator.verify.student import LABELS, read_labels
from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError, DataError, PathError
from consilium.protocol.label_source import Outcome
from consilium.protocol.queries import query_ids
from consilium.report.warnings import listed
from consilium.simulations import checksums
from consilium.simulations.datasets.base import Source
from consilium.simulations.divide import Case, divide
from consilium.simulations.manifest import FORMAT, MANIFEST
from consilium.simulations.report.data import ReportData, load_report_data
from consilium.simulations.report.guarantees import shown_guarantees
from consilium.simulations.scenario import Scenario
from consilium.simulations.summary import data_facts, looked_at, run_warnings

SUMMARY, CARD, REPORT_DATA = "summary.json", "student/student.json", "private/report.json"
TRACES = (MANIFEST, f"{MANIFEST}.part", SUMMARY, checksums.FILE)
"""Files of which a simulation's folder has at least one."""
SECONDS = 1e-3
"""Seconds are rounded to this when a simulation sums them up."""


@dataclass(frozen=True)
class Audited:
    """Findings on a run. kind: "simulation" or "deployed". run: what was read for them. place: where it lies. Secret
    but for `kind`, `finished` and `findings`."""

    kind: str
    finished: bool
    findings: list[Finding]
    place: RunPlace = field(repr=False)
    run: VerifiedRun = field(repr=False)


def audit_path(path: Path, students: Sequence[Path] = (), source: Source | None = None) -> Audited:
    """All findings on the run of a path: a simulation's folder, a coordinator's kit, or the run folder of one.

    students: folders of students that asked this run's coordinator, to be checked against its ledger. source: the rows
    of a simulation whose rows were in memory; without them, what takes rows cannot be checked.

    Raises
    ------
    DataError : there is no run here, or nothing of a student. ConfigError : it is another node's kit.
    """
    for folder in students:
        if not folder.exists():
            raise PathError(f"{folder} is not there", "Give a student's own folder with --student")
        if not folder.is_dir():
            raise DataError(f"{folder} is no folder", "Give a student's own folder with --student")
    simulated = path.is_dir() and any((path / name).exists() for name in TRACES)
    place = RunPlace(path) if simulated else find_run(path)
    checks = _Simulation(path, source) if simulated else None
    run = verify_run(place, None if checks is None else checks.files.finished)
    findings = list(run.findings)
    if checks is not None:
        findings += checks.look(run)
    elif not students and run.recorded is not None:
        findings.append(Finding("student", Verdict.ABSENT, "give a student's folder with --student to check it too"))
    for folder in students:
        if run.recorded is None:
            findings.append(Finding(f"{folder}", Verdict.ABSENT, "there is no ledger to compare it with"))
            continue
        promised = run.guarantees.get("student")
        findings += verify_student(folder, run.recorded, promised, prefix=f"{folder}/").findings
    return Audited("deployed" if checks is None else "simulation", run.finished, findings, place, run)


class _Simulation:
    """Checks of a simulated run's own files. What one of them reads, later ones use."""

    def __init__(self, run_dir: Path, source: Source | None) -> None:
        self._dir = run_dir
        self._source = source
        self._manifest: dict[str, Any] = {}
        self._case: Case | None = None
        self._gone = False
        self._report: ReportData | None = None
        try:
            self._complete = Files(run_dir, finished=True).object(MANIFEST).get("status") == "complete"
        except Damaged:
            # the part is there while the first one is written
            self._complete = not (run_dir / f"{MANIFEST}.part").exists() or (run_dir / checksums.FILE).exists()
        self.files = Files(run_dir, self._complete)

    def look(self, run: VerifiedRun) -> list[Finding]:
        """All findings but those of `verify_run`."""
        checks, recorded = Checks(), run.recorded
        config = recorded.config if recorded is not None else None
        checks.check(f"{checksums.FILE}: every file", lambda: checksums.check_sums(self._dir, self._complete))
        checks.check(f"{MANIFEST}: status", self._status)
        checks.check(f"{MANIFEST}: scenario and data give this federation", lambda: self._origin(config))
        if recorded is None or config is None:
            return checks.findings
        if any((self._dir / name).exists() for name in (LABELS, CARD)) or self._complete:
            promised = run.guarantees.get("student")
            checks.findings += verify_student(self._dir, recorded, promised, self._complete).findings
            checks.check(f"{LABELS}: every public row that was asked", lambda: self._rows(recorded))
        checks.check(f"{SUMMARY}: epsilon", lambda: self._summary_epsilon(run))
        checks.check(f"{SUMMARY}: what the nodes wrote", lambda: self._summary(config))
        checks.check(f"{SUMMARY}: warnings", lambda: self._warnings(config, run))
        checks.check(f"{REPORT_DATA}: epsilon", lambda: self._report_epsilon(run))
        checks.check(f"{REPORT_DATA}: what the nodes wrote", lambda: self._report_data(recorded))
        if config.collection == "plaintext":
            checks.check("private/votes-*.npz: votes of the evidence", lambda: self._votes(recorded))
        return checks.findings

    def _status(self) -> str:
        self._manifest = self.files.object(MANIFEST)
        agree(f"{MANIFEST}: format", entry(self._manifest, MANIFEST, "format"), FORMAT)
        status = entry(self._manifest, MANIFEST, "status")
        if status == "complete":
            return "complete"
        if not isinstance(status, str):
            raise Damaged(f"{MANIFEST}: status is no text")
        raise Unfinished(f"the run is not complete, its status is: {status[:200]}")

    def _origin(self, config: FederationConfig | None) -> str:
        manifest = self._manifest or self.files.object(MANIFEST)
        seed = entry(manifest, MANIFEST, "seed")
        if type(seed) is not int or seed < 0:
            raise Damaged(f"{MANIFEST}: seed is no whole number")
        table = entry(manifest, MANIFEST, "config")
        try:
            scenario = validate(table, Scenario, MANIFEST)
        except ConfigError as error:
            raise Damaged(error.what) from None
        agree(f"{MANIFEST}: noise", entry(manifest, MANIFEST, "noise"), scenario.simulation.noise)
        try:
            self._case = case = divide(scenario, seed, self._source)
        except PathError as error:
            self._gone = True
            raise Unchecked(f"the run's data cannot be read: {error}") from None
        agree(f"{MANIFEST}: data", entry(manifest, MANIFEST, "data"), data_facts(case.dataset, case.partition))
        again = case.config.digest()
        if entry(manifest, MANIFEST, "federation") != again:
            raise Contradiction(f"{MANIFEST}: scenario, seed and data give another federation")
        if config is not None and config.digest() != again:
            raise Contradiction("the ledger is of another federation")
        return f"federation {again[:12]}, noise {scenario.simulation.noise}"

    def _divided(self) -> Case:
        """What the manifest gives. Raises Unchecked where its data are gone, Contradiction where it gives nothing."""
        if self._case is not None:
            return self._case
        if self._gone:
            raise Unchecked("the run's data, with which it is compared, are not there")
        raise Contradiction("the manifest gives nothing to compare with")

    def _rows(self, recorded: Recorded) -> str:
        """The one student of a simulation asked all that was charged, and each row is that of the pool."""
        columns = read_labels(self.files)
        pool = self._divided().pool_x
        rows = columns["row"]
        if not all(row is not None and 0 <= row < len(pool) for row in rows):
            raise Contradiction(f"{LABELS} has a row that is not public")
        if rows and query_ids(pool[rows]) != columns["query_id"]:
            raise Contradiction(f"{LABELS}: a row is not the one of its query id")
        missing = set(recorded.releases) - set(columns["query_id"])
        if missing and self._complete:
            raise Contradiction(f"{LABELS} lacks {len(missing)} queries of the ledger")
        return f"{len(rows)} rows"

    def _summary_epsilon(self, run: VerifiedRun) -> str:
        claims = entry(self.files.object(SUMMARY), SUMMARY, "privacy")
        names = ["guaranteed", "student", "spent", "data_dependent", "sanitised"]
        lines = []
        for name in names:
            truth = run.guarantees.get("guarantee" if name == "guaranteed" else name)
            if truth is None:
                agree(f"{SUMMARY}: epsilon_{name}", entry(claims, SUMMARY, f"epsilon_{name}"), None)
                continue
            secret = not truth.get("publishable", False)
            claim = number(claims, SUMMARY, f"epsilon_{name}")
            close_to(f"{SUMMARY}: epsilon_{name}", claim, number(truth, "the ledger", "epsilon"), secret=secret)
            lines.append(name)
        promised = run.guarantees.get("guarantee", {})
        for key in ("unit", "delta", "towards"):
            agree(f"{SUMMARY}: {key}", entry(claims, SUMMARY, key), promised.get(key))
        return ", ".join(lines)

    def _summary(self, config: FederationConfig) -> str:
        summary, coordinator = self.files.object(SUMMARY), self.files.object("coordinator.json")
        card, manifest = self.files.object(CARD), self.files.object(MANIFEST)
        written = {
            "scenario": manifest.get("scenario"),
            "engine": manifest.get("engine"),
            "parties": len(entry(coordinator, "coordinator.json", "parties")),
            "teachers": coordinator.get("teachers"),
            "parties_left_out_for_data": coordinator.get("parties_left_out_for_data"),
            "owners_left_out": entry(manifest, MANIFEST, "data", "left_out"),
            "queries": {key: coordinator.get(key) for key in ("asked", "answered", "reinforced")},
            "student": card.get("metrics"),
        }
        digest = config.federation_digest()
        agree(f"{MANIFEST}: federation_digest", manifest.get("federation_digest"), digest)
        agree(f"{SUMMARY}: federation_digest", summary.get("federation_digest"), digest)
        for key, value in written.items():
            agree(f"{SUMMARY}: {key}", entry(summary, SUMMARY, key), value)
        agree(f"{SUMMARY}: release", entry(summary, SUMMARY, "release"), config.disclosure.release)
        privacy = entry(summary, SUMMARY, "privacy")
        agree(f"{SUMMARY}: collection", entry(privacy, SUMMARY, "collection"), config.collection)
        agree(f"{SUMMARY}: noise", entry(summary, SUMMARY, "privacy", "noise"), coordinator.get("noise"))
        agree(f"{MANIFEST}: noise", manifest.get("noise"), coordinator.get("noise"))
        for stage in entry(coordinator, "coordinator.json", "seconds"):
            claimed = number(summary, SUMMARY, "seconds", stage)
            if abs(claimed - number(coordinator, "coordinator.json", "seconds", stage)) > SECONDS:
                raise Contradiction(f"{SUMMARY}: seconds of {stage} are not the coordinator's")
        right = entry(summary, SUMMARY, "privacy", "released_label_accuracy")
        agree(f"{SUMMARY}: released_label_accuracy", right, self._label_accuracy())
        return "manifest, coordinator, student"

    def _warnings(self, config: FederationConfig, run: VerifiedRun) -> str:
        """Those that the summary's own numbers give, all of them."""
        summary, card = self.files.object(SUMMARY), self.files.object(CARD)
        case = self._divided()
        scenario, looked = case.scenario, looked_at(case)
        refused = [event for event in run.events.named("left-out") if event.get("for_data") is True]
        parties = {str(event.get("party")) for event in refused if event.get("stage") == "train"}
        agree(f"{SUMMARY}: parties_left_out_for_data", summary.get("parties_left_out_for_data"), len(parties))
        try:
            again = listed(run_warnings(config, scenario.student, summary, card, looked))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"{SUMMARY} or {CARD}: warnings cannot be computed ({type(error).__name__})") from None
        if (worth := summary.get("worth")) is not None:
            agree(f"{SUMMARY}: label_cost", entry(worth, f"{SUMMARY}: worth", "label_cost"), scenario.data.label_cost)
        stored = entry(summary, SUMMARY, "warnings")
        agree(f"{SUMMARY}: parties_made", entry(summary, SUMMARY, "parties_made"), looked.parties)
        agree(f"{SUMMARY}: warnings", stored, again)
        return f"{len(again)}"

    def _label_accuracy(self) -> float | None:
        columns = read_labels(self.files)
        answered = [place for place, name in enumerate(columns["outcome"]) if name == Outcome.ANSWERED.name.lower()]
        if not answered:
            return None
        case = self._divided()
        truth = case.pool_y[[columns["row"][place] for place in answered]]
        labels = np.array([case.dataset.classes.index(columns["label"][place]) for place in answered])
        return float((truth == labels).mean())

    def _read_report(self) -> ReportData:
        if self._report is None:
            self.files.object(REPORT_DATA)
            try:
                self._report = load_report_data(self._dir / "private")
            except DataError as error:
                raise Damaged(error.what) from None
        return self._report

    def _report_epsilon(self, run: VerifiedRun) -> str:
        if run.recorded is None or not run.guarantees:
            raise Contradiction("the ledger gives no epsilon to compare with")
        truth = shown_guarantees(run.guarantees, run.recorded.config.collection)
        return check_claims(REPORT_DATA, self._read_report().guarantees, truth)

    def _report_data(self, recorded: Recorded) -> str:
        data, summary, manifest = self._read_report(), self.files.object(SUMMARY), self.files.object(MANIFEST)
        config, batches = recorded.config, recorded.batches
        case = self._divided()
        scenario, dataset = case.scenario, case.dataset
        written = {
            **{key: manifest.get(key) for key in ("scenario", "engine", "seed", "created", "versions")},
            **{key: summary.get(key) for key in ("parties", "teachers", "student", "baselines", "worth", "warnings")},
            "noise_spread": entry(summary, SUMMARY, "noise_spread"),
            "public_labels": summary.get("public_labels", {}),
            "invited": entry(manifest, MANIFEST, "data", "parties"),
            "title": scenario.federation.name,
            "description": scenario.description.strip(),
            "attribution": dataset.attribution,
            "classes": config.rows.classes,
            "mechanism": config.describe(),
            "release": config.disclosure.release,
            "collection": config.collection,
            "most_queries": config.query_budget.queries,
            "most_answers": config.query_budget.answers,
            "reinforced": recorded.reinforced,
            "seeded_noise": manifest.get("noise") == "seeded",
            "released_label_accuracy": entry(summary, SUMMARY, "privacy", "released_label_accuracy"),
        }
        for key, value in written.items():
            agree(f"{REPORT_DATA}: {key}", getattr(data, key), value)
        answered = np.concatenate([batch.answered for batch in batches]) if batches else np.zeros(0, dtype=bool)
        if not np.array_equal(data.answered, answered):
            raise Contradiction(f"{REPORT_DATA}: answered is not the ledger's")
        for name, curve in epsilon_by_query(config, batches).items():
            if not same(getattr(data, f"epsilon_{name}"), curve):
                raise Contradiction(f"{REPORT_DATA}: the curve epsilon_{name} is not the ledger's")
        return "manifest, summary, ledger"

    def _votes(self, recorded: Recorded) -> str:
        """Sums of the recorded votes give the ledger's evidence, and the report's consensus."""
        if not recorded.config.record_votes:
            raise Absent("not recorded")
        votes: dict[str, np.ndarray] = {}
        for file in sorted((self._dir / "private").glob(PATTERN)):
            votes |= _summed(self.files, f"private/{file.name}", len(recorded.config.rows.classes))
        shares = []
        for place, batch in enumerate(recorded.batches, 1):
            missing = [query_id for query_id in batch.query_ids if query_id not in votes]
            if missing:
                raise Damaged(f"private/votes-*.npz: the votes on {len(missing)} queries of batch {place} are missing")
            histogram = np.stack([votes[query_id] for query_id in batch.query_ids])
            shares.append(histogram.max(axis=1) / histogram.sum(axis=1))
            mechanism = recorded.config.mechanism
            if mechanism.needs_probabilities and batch.probabilities is None:
                continue  # what the student thought is kept by nobody
            evidence = event_from_json(batch.event).evidence(histogram, probabilities=batch.probabilities)
            if not same(evidence.log_q_check, batch.log_q_check) or not same(evidence.log_q_label, batch.log_q_label):
                raise Contradiction(f"private/votes-*.npz: the evidence of batch {place} is not that of its votes")
        if self._complete and not same(self._read_report().consensus, np.concatenate(shares or [np.zeros(0)])):
            raise Contradiction(f"{REPORT_DATA}: consensus is not that of the votes")
        return f"{len(votes)} queries"


def _summed(files: Files, name: str, classes: int) -> dict[str, np.ndarray]:
    """query id -> int64 (classes,), from one file of votes."""
    files.path(name)
    try:
        with kept_votes(files.folder / name) as votes:
            if votes.classes != classes:
                raise Damaged(f"{name} has votes for {votes.classes} classes")
            return dict(zip(votes.query_ids, votes.total(), strict=True))
    except UNUSABLE as error:
        raise files.broken(name, type(error).__name__) from None
    except DataError as error:
        raise Damaged(error.what) from None
