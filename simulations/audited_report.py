"""The report of a deployed or unfinished run: only what its ledger and its nodes' files say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from consilium.coordinator.events import Event
from consilium.coordinator.privacy import expected
from consilium.coordinator.verify import Recorded, VerifiedRun, holds
from consilium.coordinator.verify.findings import Files
from consilium.coordinator.verify.run import CARD, COORDINATOR, MANIFEST
from consilium.protocol.errors import ConfigError, DataError
from consilium.report.warnings import warnings_of, well_formed
from consilium.simulations.audit import REPORT_DATA, audit_path, is_simulated
from consilium.simulations.report.data import LeftOutParty, ReportData, load_report_data
from consilium.simulations.report.guarantees import shown_guarantees

NOBODY_KNOWS = [
    "How good each party's teachers are, and what one party alone, a plurality without noise or a pooled model would"
    " reach: that takes rows which never leave the parties.",
    "How far the parties agreed on each case: nobody keeps the votes.",
    "How many of the released labels are right, and how many manual labels the student is worth: nobody has the truth"
    " of the public cases.",
    "Which software each node ran.",
]
"""What exists in simulations only."""
NO_STUDENT = "What a student learnt from the labels: its results lie with it. Give its folder with --student."


def report_of(path: Path, student: Path | None = None) -> tuple[ReportData, Path]:
    """The data of a run's report, and the folder that the report goes to.

    student: folder of one that asked a deployed run's coordinator.

    Raises
    ------
    DataError : no run here, nothing was charged yet, or a claim of the run does not hold.
    ConfigError : a student was given for a simulation.
    """
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
    parties = len(coordinator["parties"]) if coordinator else _parties(run.events, recorded)
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
        left_out=[LeftOutParty(*one) for one in dict.fromkeys(left_out)],
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


def _parties(events: Sequence[Event], recorded: Recorded) -> int:
    """How many take part as far as is known before the end: those of the largest sum, else those that came."""
    came = [event.total for event in events if event.kind == "stage"]
    return max((batch.parties for batch in recorded.batches), default=came[-1] if came else 0)
