"""`consilium audit PATH`: do the claims of a run hold? And the report of a run, also of a deployed one.

The run's files are only read. A check that breaks down counts as failed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.plaintext import PATTERN, kept_votes
from consilium.coordinator.privacy import expected
from consilium.coordinator.verify import Recorded, VerifiedRun, holds, verify_run
from consilium.coordinator.verify.ledger import (
    Absent,
    Contradiction,
    Damaged,
    Files,
    Unfinished,
    agree,
    check_claims,
    check_epsilon,
    entry,
)
from consilium.coordinator.verify.run import CARD, COORDINATOR
from consilium.protocol.choices import counted
from consilium.protocol.errors import ConfigError, DataError
from consilium.report.warnings import warnings_of, well_formed
from consilium.simulations.folder import MANIFEST, SUMMARY, SUMS, check_sums
from consilium.simulations.report.data import ReportData, load_report_data
from consilium.simulations.report.privacy import shown_guarantees

REPORT_DATA = "private/report.json"
EPSILONS = {
    "epsilon_guaranteed": "guarantee",
    "epsilon_student": "student",
    "epsilon_nodes": "nodes",
    "epsilon_spent": "spent",
    "epsilon_data_dependent": "data_dependent",
    "epsilon_sanitised": "sanitised",
}
"""Key of a summary's table `privacy` -> name of the guarantee."""


def audit_path(path: Path, students: Sequence[Path] = ()) -> VerifiedRun:
    """All findings on the run at a path: a simulation's folder, a coordinator's folder, or the run folder in one.
    students: folders of students that asked this run's coordinator. Raises PathError, DataError: there is no run here,
    or a student's folder holds none. ConfigError: it is another node's folder."""
    if not is_simulated(path):
        run = verify_run(path, students)
        if run.recorded is not None and not students:
            run.check("student", _no_student)
        return run
    run = verify_run(path, students, (path / SUMS).exists() or _complete(path))
    check, recorded = run.check, run.recorded
    check(f"{SUMS}: every file", lambda: check_sums(path, run.finished))
    check(f"{MANIFEST}: status", lambda: _status(run.files))
    run.look_at_student(run.files)
    if recorded is not None:
        check(f"{SUMMARY}: epsilon", lambda: _summary(run))
        check(f"{REPORT_DATA}: epsilon", lambda: _report(run, recorded))
        if recorded.config.record_votes:
            check("private/votes-*.npz: votes of the evidence", lambda: _votes(run.files, recorded))
    return run


def is_simulated(path: Path) -> bool:
    """Whether the folder is that of a simulation."""
    return any((path / name).exists() for name in (MANIFEST, f"{MANIFEST}.part", SUMS))


def _no_student() -> str:
    raise Absent("give a student's folder with --student to check it too")


def _complete(run_dir: Path) -> bool:
    with suppress(Damaged):
        return Files(run_dir, finished=True).object(MANIFEST).get("status") == "complete"
    return False


def _status(files: Files) -> str:
    status = entry(files.object(MANIFEST), MANIFEST, "status")
    if status != "complete":
        raise Unfinished(f"the run is not complete, its status is: {str(status)[:200]}")
    return "complete"


def _summary(run: VerifiedRun) -> str:
    claims = entry(run.files.object(SUMMARY), SUMMARY, "privacy")
    for key, name in EPSILONS.items():
        if name in run.guarantees:
            check_epsilon(SUMMARY, claims, key, run.guarantees[name])
        else:
            agree(f"{SUMMARY}: {key}", claims.get(key), None)
    for key in ("unit", "relation", "delta", "towards"):
        agree(f"{SUMMARY}: {key}", entry(claims, SUMMARY, key), run.guarantees["guarantee"][key])
    return ", ".join(name for name in EPSILONS.values() if name in run.guarantees)


def _report(run: VerifiedRun, recorded: Recorded) -> str:
    claims = entry(run.files.object(REPORT_DATA), REPORT_DATA, "guarantees")
    return check_claims(REPORT_DATA, claims, shown_guarantees(run.guarantees, recorded.config.collection))


def _votes(files: Files, recorded: Recorded) -> str:
    """Check that the recorded votes add up to the ledger's counts, where it has them."""
    votes, classes = dict[str, np.ndarray](), len(recorded.config.rows.classes)
    for path in sorted((files.folder / "private").glob(PATTERN)):
        try:
            ids, choices = kept_votes(path, classes)
        except DataError as error:
            raise files.broken(f"private/{error.what}") from None
        total = sum((counted(each, classes) for each in choices.values()), np.zeros((len(ids), classes), np.int64))
        votes |= dict(zip(ids, total, strict=True))
    for place, batch in enumerate(recorded.batches, 1):
        if missing := [query_id for query_id in batch.query_ids if query_id not in votes]:
            raise Damaged(f"private/votes-*.npz: the votes on {len(missing)} queries of batch {place} are missing")
        sums = [votes[query_id] for query_id in batch.query_ids]
        if batch.histogram is not None and not np.array_equal(batch.histogram, np.stack(sums)):
            raise Contradiction(f"batch {place}: the recorded votes are not those of the ledger")
    return f"{len(votes)} queries"


NOBODY_KNOWS = [
    "How good each party's teachers are, and what one party alone, a plurality without noise or a pooled model would"
    " reach: that takes rows which never leave the parties.",
    "How many of the released labels are right, and how many manual labels the student is worth: nobody has the truth"
    " of the public cases.",
    "Which software each node ran.",
]
"""What the report of a deployed run lacks: it is known in simulations only."""
NO_STUDENT = "What a student learnt from the labels: its results lie with it. Give its folder with --student."


def report_of(path: Path, student: Path | None = None) -> tuple[ReportData, Path]:
    """The data of a run's report, and the folder that the report goes to. Of a deployed or unfinished run they come
    from its ledger and its nodes' files. student: folder of a student that asked a deployed run's coordinator. Raises
    DataError: no run here, nothing charged yet, or a claim does not hold. ConfigError: a student was given for a
    simulation."""
    if (path / REPORT_DATA).exists():
        if student is not None:
            raise ConfigError("--student is for deployed runs", "A simulation has its student in its own folder")
        return load_report_data(path / "private"), path
    run = audit_path(path, [] if student is None else [student])
    if not holds(run.findings):
        wrong = next(finding for finding in run.findings if not finding.holds)
        raise DataError(f"a claim of {path} does not hold: {wrong.check}: {wrong.found}", "Run: consilium audit")
    if run.recorded is None:
        raise DataError(f"{path}: nothing was charged yet, so there is nothing to report", "Wait for the first labels")
    return _data(run, run.recorded, student), run.run_dir


def _data(run: VerifiedRun, recorded: Recorded, student: Path | None) -> ReportData:
    config, simulated = recorded.config, is_simulated(run.run_dir)
    coordinator = run.files.object(COORDINATOR) if (run.run_dir / COORDINATOR).exists() else {}
    card = {} if student is None else Files(student, finished=True).object(CARD)
    came = [event.total for event in run.events if event.kind == "stage"]
    parties = max((batch.parties for batch in recorded.batches), default=came[-1] if came else 0)
    parties = len(coordinator["parties"]) if coordinator else parties
    invited = {name for event in run.events if event.kind == "awaiting" for name in event.parties}
    if simulated:
        invited = range(run.files.object(MANIFEST).get("data", {}).get("parties", parties))
    answered = [batch.answered for batch in recorded.batches]
    left_out = [(event.party, event.stage, event.reason) for event in run.events if event.kind == "left-out"]
    warnings = warnings_of(expected(config, parties))
    codes = {warning["code"] for warning in warnings}
    warnings += [warning for warning in well_formed(card.get("warnings")) if warning["code"] not in codes]
    return ReportData(
        title=config.name,
        attribution="The parties' own rows, which they kept, and the public cases that the student put to them.",
        scenario=f"federation {config.digest()[:12]}",
        engine="simulation" if simulated else "deployed nodes",
        seed=config.seed if config.simulation else None,
        seeded_noise=config.simulation,
        created=run.events[0].at if run.events else "–",
        parties=parties,
        invited=max(len(invited), parties),
        teachers=parties * config.teachers_per_party,
        party_label="party",
        left_out=list(dict.fromkeys(left_out)),
        mechanism=config.describe(),
        release=config.disclosure.release,
        collection=config.collection,
        most_queries=config.query_budget.queries,
        most_answers=config.query_budget.answers,
        guarantees=shown_guarantees(run.guarantees, config.collection),
        reinforced=recorded.reinforced,
        student=card.get("metrics"),
        public_labels=card.get("public_labels", {}),
        classes=config.rows.classes,
        answered=np.concatenate(answered).tolist() if answered else [],
        missing=[*([NO_STUDENT] if student is None else []), *NOBODY_KNOWS],
        unfinished=next((f"{one.found.capitalize()}." for one in run.findings if one.check == "run: finished"), ""),
        warnings=warnings,
    )
