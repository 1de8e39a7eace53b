"""A run's folder and students' labels against the run's own ledger.

The run of a path is a run folder, a coordinator's folder, or one of the runs in its state.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from consilium.coordinator.collection.kept_sums import SUMS
from consilium.coordinator.events import Event, EventTail
from consilium.coordinator.federation import EVENTS, LEDGER, run_of
from consilium.coordinator.federation import SUMMARY as COORDINATOR
from consilium.coordinator.privacy import NODES
from consilium.coordinator.verify import ledger as checks
from consilium.coordinator.verify.ledger import (
    Absent,
    Contradiction,
    Damaged,
    Files,
    Finding,
    Recorded,
    Unfinished,
    agree,
    entry,
    judged,
)
from consilium.node.folder import NODE_FILE, THE_COORDINATOR, open_folder
from consilium.protocol.errors import DataError, PathError
from consilium.protocol.files import is_held
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.strict_json import number
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many
from consilium.sums.modes import WITH_SECOND

MANIFEST = "manifest.json"
TRACES = (LEDGER, COORDINATOR, EVENTS, MANIFEST)
"""Files of which a run folder has at least one."""
LABELS, CARD = "labels.parquet", "student/student.json"
ADVICE, STUDENT = "Give the folder of a run, or a coordinator's", "Give a student's own folder with --student"


def find_run(path: Path) -> Path:
    """The run folder of a path. Raises PathError, DataError : there is no run here. ConfigError : the folder is another
    node's, or it joined no federation."""
    if not path.exists():
        raise PathError(f"{path} is not there, so there is no run here", ADVICE)
    if not path.is_dir():
        raise DataError(f"{path} is no folder, so there is no run here", ADVICE)
    if (path / NODE_FILE).exists():
        run = run_of(open_folder(path, THE_COORDINATOR)).path
        if not run.is_dir():
            others = ", ".join(sorted(other.name for other in (path / "state").glob("run-*"))) or "none at all"
            what = f"there is no run here of the federation of {path}; its state holds {others}"
            raise DataError(what, "Give a coordinator's folder that has served, or the folder of an earlier run")
        return run
    if not any((path / name).exists() for name in TRACES):
        raise DataError(f"{path} has none of {', '.join(TRACES)}: there is no run here", ADVICE)
    return path


def verify_run(path: Path | str, students: Sequence[Path | str] = (), finished: bool | None = None) -> VerifiedRun:
    """All that the run of a path says, against its ledger; it is read only, while its coordinator may serve. students:
    folders of students that asked it. finished: whether the run says that it is; None for a deployed one, which says so
    by coordinator.json. Raises PathError, DataError, ConfigError : no run or no student's folder is there."""
    for folder in (folders := [*map(Path, students)]):
        if not folder.is_dir():
            raise PathError(f"{folder} is no folder", STUDENT)
        if not (folder / LABELS).is_file() and not (folder / CARD).is_file():
            raise DataError(f"{folder} has neither {LABELS} nor {CARD}", STUDENT)
    run_dir = find_run(Path(path))
    run = VerifiedRun(run_dir, (run_dir / COORDINATOR).exists() if finished is None else finished)
    run.look()
    for folder in folders:
        run.look_at_student(Files(folder, (folder / CARD).exists()), f"{folder}/")
    return run


class VerifiedRun:
    """Findings on a run, and what was read for them. Secret but for `findings` and `finished`. recorded: None where the
    ledger cannot be trusted. guarantees: by name, as JSON."""

    def __init__(self, run_dir: Path, finished: bool) -> None:
        self.run_dir, self.finished = run_dir, finished
        self.files, self.findings = Files(run_dir, finished), list[Finding]()
        self.recorded: Recorded | None = None
        self.guarantees: dict[str, dict[str, Any]] = {}
        self.events: list[Event] = []

    def check(self, name: str, look: Callable[[], str]) -> None:
        self.findings.append(judged(name, look))

    def look(self) -> None:
        """All checks but those of a student."""
        check = self.check
        # the log before the ledger: a coordinator that serves writes them the other way round
        check(f"{EVENTS}: every line", self._lines)
        check(f"{LEDGER}: structure, hash chain and counts", self._ledger)
        if (recorded := self.recorded) is not None:
            check(f"{LEDGER}: query budget never passed", lambda: checks.check_query_budget(recorded))
            check(f"{LEDGER}: events of the configured mechanism", lambda: checks.check_charges(recorded))
            check(f"{LEDGER}: sanitised epsilon released once and as planned", lambda: checks.check_closing(recorded))
            check(f"{LEDGER}: epsilon", lambda: self._epsilon(recorded))
            check(f"{EVENTS}: what was released", lambda: self._released(recorded))
            check(f"{COORDINATOR}: counts and epsilon", lambda: self._summary(recorded))
            if recorded.config.collection in WITH_SECOND:
                check(f"{SUMS}: sums that were signed", lambda: checks.check_signed(self.files, recorded))
        if not self.finished:
            check("run: finished", self._why_not)

    def look_at_student(self, files: Files, prefix: str = "") -> None:
        """Labels and card of a student. prefix: tells folders apart."""
        self.check(f"{prefix}{LABELS}: those of the ledger", lambda: self._labels(files))
        self.check(f"{prefix}{CARD}: federation and epsilon", lambda: self._card(files))

    def _lines(self) -> str:
        if not (self.files.folder / EVENTS).is_file():
            raise self.files.broken(f"{EVENTS} is missing")
        tail = EventTail(self.files.folder / EVENTS)
        self.events = tail.fresh()
        if tail.skipped:
            raise Damaged(f"{EVENTS}: {many(tail.skipped, 'line')} of which no event can be read")
        return many(len(self.events), "event")

    def _ledger(self) -> str:
        released = any(event.kind == "released" for event in self.events)
        path = self.files.folder / LEDGER
        gone = not path.is_file() or not path.stat().st_size
        try:
            if gone:  # or empty, as a crash while it is made leaves it
                raise Unfinished(f"there is no {LEDGER}: nothing was charged")
            self.recorded = recorded = checks.read_ledger(path)
        except Unfinished as error:
            if self.finished or (gone and released):
                raise Damaged(f"{error.what}, though {'labels were given' if released else 'the run ended'}") from None
            raise
        counts = (len(recorded.batches), "batch"), (recorded.asked, "query"), (recorded.answered, "label")
        return ", ".join(many(count, word) for count, word in counts)

    def _epsilon(self, recorded: Recorded) -> str:
        self.guarantees = checks.guarantees_of(recorded)
        shown = {name: one for name, one in self.guarantees.items() if one.get("publishable")}
        return ", ".join(f"{name} {epsilon_text(number(one, 'epsilon'))}" for name, one in shown.items())

    def _released(self, recorded: Recorded) -> str:
        """Every release that the log tells of is in the ledger, in order; a crash may have lost some of the log."""
        batches = iter([(len(batch.query_ids), int(batch.answered.sum()), batch.parties) for batch in recorded.batches])
        logged = [event for event in self.events if event.kind == "released"]
        for place, event in enumerate(logged, 1):
            if (event.asked, event.answered, event.counted) not in batches:  # uses them up: the order counts
                raise Contradiction(f"{EVENTS}: its release {place} is not in the ledger")
        return f"{len(logged)} of {many(len(recorded.batches), 'batch')}"

    def _summary(self, recorded: Recorded) -> str:
        summary, config = self.files.object(COORDINATOR), recorded.config
        truth = {
            "federation": config.digest(),
            "collection": config.collection,
            "asked": recorded.asked,
            "answered": recorded.answered,
            "reinforced": recorded.reinforced,
            "sanitised": recorded.closing,
        }
        for key, value in truth.items():
            agree(f"{COORDINATOR}: {key}", entry(summary, COORDINATOR, key), value)
        return checks.check_claims(COORDINATOR, entry(summary, COORDINATOR, "privacy"), self._truth())

    def _truth(self) -> dict[str, dict[str, Any]]:
        if not self.guarantees:
            raise Contradiction("the ledger gives no epsilon to compare with")
        return self.guarantees

    def _labels(self, files: Files) -> str:
        import polars as pl

        recorded = self._trusted()
        content = files.content(LABELS)
        if {content[:4], content[-4:]} != {b"PAR1"}:  # before the parser, which prints more than one line of it
            raise files.broken(f"{LABELS} is no whole Parquet file")
        names, table = recorded.config.rows.classes, pl.read_parquet(io.BytesIO(content))
        for place, row in enumerate(table.select("query_id", "outcome", "label", "counts").iter_rows()):
            query_id, *got = row
            expected = [Outcome.NOT_ASKED.name.lower(), None, None]
            if got[0] != expected[0]:
                release = recorded.releases.get(query_id)
                if release is None:
                    raise Contradiction(f"{LABELS}: line {place} is not in the ledger")
                label = None if release.label == NO_LABEL else names[release.label]
                expected = [release.outcome.name.lower(), label, None if release.counts is None else [*release.counts]]
            agree(f"{LABELS}: line {place}", got, expected)
        return f"{table.height} outcomes"

    def _card(self, files: Files) -> str:
        config, card = self._trusted().config, files.object(CARD)
        agree(f"{CARD}: federation", entry(card, CARD, "federation"), config.digest())
        stated = config.privacy.model_dump(mode="json", include={"unit", "neighbouring", "delta"})
        for key, value in (stated | {"simulation": config.simulation}).items():
            agree(f"{CARD}: {key}", entry(card, CARD, "privacy", key), value)
        checks.check_epsilon(CARD, card["privacy"], "epsilon", self._truth()["student"])
        nodes = self._truth().get(NODES, {"epsilon": 0.0})  # none is stated where there is none
        checks.check_epsilon(CARD, {"epsilon_nodes": 0.0, **card["privacy"]}, "epsilon_nodes", nodes)
        return f"epsilon {epsilon_text(number(card['privacy'], 'epsilon'))} at delta {config.privacy.delta:g}"

    def _trusted(self) -> Recorded:
        if self.recorded is None:
            raise Absent("there is no ledger to compare it with")
        return self.recorded

    def _why_not(self) -> str:
        if is_held(self.run_dir.resolve().parent / "lock"):
            raise Unfinished("its coordinator is serving")
        if self.events and (last := self.events[-1]).kind == "failed":
            raise Unfinished(f"it failed: {last.error[:60]}: {last.what[:200]}")
        raise Unfinished("no outcome was written: it was stopped, a process or the machine died")
