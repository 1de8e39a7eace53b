"""`consilium audit PATH`: do the claims of a run hold? `coordinator.verify`, and what only a simulation has.

It reads the folder only, and changes nothing. A check that breaks down counts as failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.plaintext import PATTERN, UNUSABLE, kept_votes
from consilium.coordinator.verify import Recorded, VerifiedRun, verify_run
from consilium.coordinator.verify.charges import check_claims, check_epsilon
from consilium.coordinator.verify.findings import Absent, Contradiction, Damaged, Files, Unfinished, agree, entry
from consilium.simulations import checksums
from consilium.simulations.manifest import MANIFEST
from consilium.simulations.report.guarantees import shown_guarantees

SUMMARY, REPORT_DATA = "summary.json", "private/report.json"
EPSILONS = {
    "epsilon_guaranteed": "guarantee",
    "epsilon_student": "student",
    "epsilon_nodes": "nodes",
    "epsilon_spent": "spent",
    "epsilon_data_dependent": "data_dependent",
    "epsilon_sanitised": "sanitised",
}
"""Of a summary's table `privacy` -> name of the guarantee."""


def audit_path(path: Path, students: Sequence[Path] = ()) -> VerifiedRun:
    """All findings on the run of a path: a simulation's folder, a coordinator's folder, or the run folder of one.

    students: folders of students that asked this run's coordinator, to be checked against its ledger.

    Raises
    ------
    PathError, DataError : there is no run here, or nothing of a student. ConfigError : it is another node's folder.
    """
    if not is_simulated(path):
        run = verify_run(path, students)
        if run.recorded is not None and not students:
            run.check("student", _no_student)
        return run
    run = verify_run(path, students, (path / checksums.FILE).exists() or _complete(path))
    check, recorded = run.check, run.recorded
    check(f"{checksums.FILE}: every file", lambda: checksums.check_sums(path, run.finished))
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
    return any((path / name).exists() for name in (MANIFEST, f"{MANIFEST}.part", checksums.FILE))


def _no_student() -> str:
    raise Absent("give a student's folder with --student to check it too")


def _complete(run_dir: Path) -> bool:
    try:
        return Files(run_dir, finished=True).object(MANIFEST).get("status") == "complete"
    except Damaged:
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
    """Sums of the recorded votes are the ledger's, where it has them."""
    if not recorded.config.record_votes:
        raise Absent("not recorded")
    votes: dict[str, np.ndarray] = {}
    for path in sorted((files.folder / "private").glob(PATTERN)):
        try:
            with kept_votes(path) as kept:
                votes |= dict(zip(kept.query_ids, kept.total(), strict=True))
        except UNUSABLE as error:
            raise files.broken(f"private/{path.name} cannot be read: {type(error).__name__}") from None
    for place, batch in enumerate(recorded.batches, 1):
        if missing := [query_id for query_id in batch.query_ids if query_id not in votes]:
            raise Damaged(f"private/votes-*.npz: the votes on {len(missing)} queries of batch {place} are missing")
        sums = [votes[query_id] for query_id in batch.query_ids]
        if batch.histogram is not None and not np.array_equal(batch.histogram, np.stack(sums)):
            raise Contradiction(f"batch {place}: the recorded votes are not those of the ledger")
    return f"{len(votes)} queries"
