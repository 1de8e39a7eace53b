"""The event log of a run: one JSON object a line, flushed as it is written, so that anybody can follow it.

Events tell stages, names, counts of parties and seconds. They never carry votes or anything computed from single
votes. Lines of other versions are read as far as they are known; of what is not known, and of lines that a crash broke
off, nothing is read.

What has become of the run by them (`RunState`): its stage, what went wrong, where each party stands; for `status`,
summary and doctor. The log is the one record: what a killed coordinator knew is in it, and a new one goes on with it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from consilium.protocol.files import append_private
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import CURES, Rule
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import dumps
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

LOG_SAYS_MORE = "The event log of the run says more."
AWAY_CURE = (
    "The student can ask again once they are connected. Where one is gone for good: consilium provision revoke NAME, by"
    " the operator."
)
NO_ANSWER = "Its team looks whether the node runs, with `consilium doctor` and `consilium status`"
UNKNOWN = "Run `consilium doctor` at both ends; the run's events.jsonl has what the coordinator saw."
MENDED = "Once that is mended it goes on by itself: students ask again."
TOLD_TO_OPERATORS = {
    **dict.fromkeys(("AggregatorAway", "AggregatorRefuses"), LOG_SAYS_MORE),
    **dict.fromkeys(("NotEnoughParties", "ThresholdNotMet"), AWAY_CURE),
    **dict.fromkeys(("LedgerError", "LedgerLocked", "StorageError"), MENDED),
}
"""Errors of questions whose texts tell of the second aggregator, of who is connected and refuses, or of this
coordinator's own files, and of no vote; each with what an operator does."""

KINDS: dict[str, str] = {
    "stage": "stage {stage}: {total} parties",  # nothing of it is done; total: 1 or less where nobody knows
    "progress": "",
    "waiting": "parties connected: {connected}, needed: {required}",
    "awaiting": "",  # a coordinator was started, and awaits these parties
    "connected": "{names}: connected",
    "lost": "{names}: the connection is lost",
    "enrolled": "enrolled: {names}",
    "takes-part": "take part: {names}",  # they have trained, and are asked for votes from now on
    "voted": "",  # their votes are in a sum; queries: that were not asked of them before in the same question
    "version": "{party} runs {theirs}, this coordinator {ours}: install one version",
    "second-aggregator": "aggregator {name}: it checks votes",
    # rule: by which the party refused; silent: it said nothing
    "left-out": "{party} left out of stage {stage}: {reason}",
    "false-votes": "warning: {what}",  # a sum cannot be one of votes
    "resumed-session": "goes on with a secure sum, at {stage}",
    "session-lost": "a secure sum is begun anew: {reason}",
    # the guarantee, before anything is asked
    "promised": "promised before anything is asked: {bound} towards whoever has the student, unit: a {unit}",
    # of a simulated run, in its folder: what follows compares it; value: of the metric, on the public test rows
    "student-saved": "the student is saved{judged}, {bound} towards whoever has it; what follows compares it",
    "warned": "warning: {text} ({code})",
    "serving": "students may ask at {address}",
    # a batch was charged and answered, of so many parties; release: what left
    "released": "{asked} queries asked, {answered} answered",
    "not-answered": "questions were not answered{why}",  # why may say something about votes
    "not-sanitised": "",
    "failed": "failed: {what}",
    "closed": "closed after {questions} and {answers}",
}
"""Events, and their words for a person, none where one is not worth a line."""


class Event(Frozen, extra="ignore"):
    """One line of the log, of one of `KINDS`: fields of others are empty.

    at: time of day, UTC. epsilon: None where it is unbounded. at_most_seconds: that
    parties are still awaited.
    """

    kind: str = Field(alias="event")
    at: str = ""
    stage: str = ""
    done: int = 0
    total: int = 0
    connected: int = 0
    required: int = 0
    awaited: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    at_most_seconds: float | None = None
    parties: tuple[str, ...] = ()
    party: str = ""
    name: str = ""
    queries: int = 0
    theirs: str = ""
    ours: str = ""
    reason: str = ""
    rule: Rule | None = None
    silent: bool = False
    error: str = ""
    what: str = ""
    action: str = ""
    epsilon: float | None = None
    delta: float = 0.0
    unit: str = ""
    metric: Literal["AUC", "accuracy"] = "accuracy"
    value: float | None = None
    code: str = ""
    text: str = ""
    address: str = ""
    asked: int = 0
    answered: int = 0
    counted: int = 0
    release: str = ""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no event")
        return kind

    @property
    def moment(self) -> float:
        """When it was written, in seconds since 1970. Raises ValueError where it does not say."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def noun(self) -> str:
        """What one answer of a release is."""
        return {str(kind): kind.noun for kind in ReleaseKind}.get(self.release, "answer")

    @property
    def cure(self) -> str:
        """What to do about what went wrong."""
        match self.kind:
            case "left-out":
                return f"{CURES[self.rule]}." if self.rule else NO_ANSWER if self.silent else UNKNOWN
            case "not-answered":
                return TOLD_TO_OPERATORS.get(self.error, LOG_SAYS_MORE)
        return self.action

    @property
    def fact(self) -> str:
        """Its words, without what to do about it. Why questions were not answered is told where it says nothing about
        votes."""
        epsilon = epsilon_text(float("inf") if self.epsilon is None else self.epsilon)
        judged = "" if self.value is None else f", {self.metric} {self.value:.3f} on the public test rows"
        why = self.kind == "not-answered" and self.error in TOLD_TO_OPERATORS
        return KINDS[self.kind].format(
            **dict(self),
            names=", ".join(self.parties),
            bound=f"epsilon at most {epsilon} at delta {self.delta:g}",
            judged=judged,
            why=f": {self.reason}" if why else "",
            questions=many(self.asked, "query"),
            answers=many(self.answered, "answer"),
        )

    @property
    def words(self) -> str:
        """For a person; nothing where it is not worth a line."""
        more = ""
        match self.kind:
            case "waiting":
                more += f"; waiting for {', '.join(self.awaited)}" if self.awaited else ""
                more += f"; refused: {', '.join(self.refused)}" if self.refused else ""
                more += "" if self.at_most_seconds is None else f", at most {self.at_most_seconds:g} s more"
            case "left-out" if self.rule:
                more = f". {CURES[self.rule]}"
            case "failed" | "false-votes" if self.action:
                more = f". {self.action}"
        return self.fact + more


def is_step(done: int, total: int) -> bool:
    """Whether that so much is done has a line of its own: a hundred at most of one stage.

    >>> [done for done in range(1, 251) if is_step(done, 250)][:3], sum(is_step(done, 250) for done in range(1, 251))
    ([3, 5, 8], 100)
    """
    return done >= total or done * 100 // total > (done - 1) * 100 // total


class EventLog:
    """Appends events to a file. A last line that a full disk or a power cut ended early is cut off."""

    def __init__(self, path: Path | None, listener: Callable[[Event], None] | None = None) -> None:
        """path: None where nobody reads them: of a federation that is replayed. listener: is called with each event
        after it was written."""
        if path is not None and path.exists():
            with open(path, "r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        self._file = None if path is None else append_private(path)
        self._lock = threading.Lock()
        self._listener = listener

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the time of day. Raises ValidationError: there is no such kind."""
        if self._file is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = dumps({"event": event, "at": at, **fields})
        written = Event.model_validate_json(line)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()
        if self._listener is not None:
            self._listener(written)

    def close(self) -> None:
        """Close the file. What a full disk did not take is given up: whoever wrote it was told."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


class EventTail:
    """Reads an event log as it grows, each line once. A log that was begun anew is read from its beginning.

    skipped: lines that were no event of a known kind.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0
        self.skipped = 0

    def fresh(self) -> list[Event]:
        """Events of whole lines since the last call."""
        if not self._path.exists():
            return []
        with open(self._path, "rb") as file:
            if file.seek(0, 2) < self._position:
                self._position = 0
            file.seek(self._position)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._position += whole
        events = []
        for line in text[:whole].splitlines():
            try:
                events.append(Event.model_validate_json(line))
            except ValidationError:  # what a power cut left
                self.skipped += 1
        return events


def read_events(path: Path) -> list[Event]:
    """The events of a run so far; none where there is no log."""
    return EventTail(path).fresh()


MOST_TROUBLES = 5
TROUBLES = frozenset({"left-out", "not-answered", "failed", "false-votes"})
NOT_STARTED = "not started"
PASSING = frozenset({"enrol", "train"})
"""Stages that a party has to get through to take part; to miss another one costs it one sum."""
OF_PARTIES = frozenset({"awaiting", "connected", "lost", "enrolled", "takes-part", "voted"})


class PartyState(StrEnum):
    """How far a party has come since the coordinator was started last."""

    AWAITED = "awaited"
    ENROLLED = "enrolled"
    TAKES_PART = "takes part"
    CHECKS = "checks votes"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    REVOKED = "revoked"


@dataclass
class RollEntry:
    """One party, or the second aggregator. reason: why it is refused or was left out last. rule: of a refusal. queries:
    that it answered in sums of this federation; ever: it took part at some time. Both before a restart too."""

    state: PartyState = PartyState.AWAITED
    connected: bool = False
    reason: str = ""
    rule: Rule | None = None
    queries: int = 0
    ever: bool = False

    @property
    def words(self) -> str:
        """For a person: state, connection, and what to do about it.

        >>> RollEntry(PartyState.TAKES_PART, connected=True, queries=36).words
        'takes part, connected, answered 36 queries'
        """
        parts: list[str] = [self.state.value]
        match self.state:
            case PartyState.TAKES_PART:
                parts += ["connected" if self.connected else "not connected now"]
                parts += [] if self.queries else ["in no sum yet"]
                parts += [f"last left out: {self.reason}"] if self.reason else []
            case PartyState.REFUSED | PartyState.LEFT_OUT:
                parts = [f"{self.reason}. {CURES[self.rule]}" if self.rule else f"{self.state.value}: {self.reason}"]
            case PartyState.REVOKED:
                parts += ["the operator shut it out"]
            case _:
                parts += ["connected" if self.connected else "not connected"]
        if self.queries:
            parts += [f"answered {many(self.queries, 'query')}"]
        return ", ".join(parts)


class RunState:
    """After the events that it took. names: of the parties that may connect.

    since: when the stage began. last: time of the last event. started, starts: when a coordinator was started last, and
    how often one was. versions: by party, in words, where another runs. troubles: what went wrong last.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.roll = {name: RollEntry() for name in sorted(names)}
        self.stage = self.stage_words = NOT_STARTED
        self.since = self.last = self.started = ""
        self.starts = 0
        self.versions: dict[str, str] = {}
        self.troubles: deque[str] = deque(maxlen=MOST_TROUBLES)

    @classmethod
    def of(cls, events: Iterable[Event], names: Iterable[str] = ()) -> RunState:
        """After all these events."""
        state = cls(names)
        for event in events:
            state.take(event)
        return state

    @property
    def took_part(self) -> list[str]:
        """Everybody who ever did in this run, sorted."""
        return sorted(name for name, entry in self.roll.items() if entry.ever)

    def take(self, event: Event) -> None:
        """One event, in its turn. Of what is not known here nothing is kept."""
        self.last = event.at or self.last
        match event.kind:
            case "waiting" | "serving":
                self._begin(event.kind, event.fact)
            case "stage" | "progress":
                self._begin(event.stage)
            case "released" | "not-answered":
                self._begin("serving")
            case "failed" | "closed":
                self._begin(event.kind)
            case "left-out":
                self._left_out(event)
            case "awaiting":
                self._start(event)
            case "version":
                self.versions[event.party] = f"{event.party} runs {event.theirs}, this coordinator {event.ours}"
            case "second-aggregator":
                self.roll.setdefault(event.name, RollEntry()).state = PartyState.CHECKS
        if event.kind in TROUBLES:
            self.troubles.append(f"{self.last} {event.fact}{f'. {event.cure}' if event.cure else ''}")
        if event.kind in OF_PARTIES:
            for name in event.parties:
                self._of_party(event, self.roll.setdefault(name, RollEntry()))

    def _start(self, event: Event) -> None:
        self.versions.clear()
        self.started, self.starts = event.at, self.starts + 1
        for entry in self.roll.values():
            entry.state, entry.reason, entry.connected = PartyState.AWAITED, "", False

    def _left_out(self, event: Event) -> None:
        if event.party not in self.roll and event.party.startswith("node "):
            return  # a simulated one that never told its name
        entry = self.roll.setdefault(event.party, RollEntry())
        if event.stage in PASSING:
            entry.state = PartyState.REFUSED if event.rule else PartyState.LEFT_OUT
            entry.reason, entry.rule = event.reason, event.rule
        else:
            entry.reason, entry.rule = f"{event.stage}: {event.reason}", None

    def _of_party(self, event: Event, entry: RollEntry) -> None:
        match event.kind:
            case "connected" | "lost":
                entry.connected = event.kind == "connected"
            case "enrolled" if entry.state is not PartyState.TAKES_PART:  # one that comes back goes on with it
                entry.state, entry.reason = PartyState.ENROLLED, ""
            case "takes-part":
                entry.state, entry.reason, entry.ever = PartyState.TAKES_PART, "", True
            case "voted":
                entry.queries, entry.ever = entry.queries + event.queries, True
                if entry.state is PartyState.ENROLLED:  # it came back, and was asked at once
                    entry.state = PartyState.TAKES_PART

    def _begin(self, stage: str, words: str = "") -> None:
        words = words or stage
        if (stage, words) != (self.stage, self.stage_words):  # who is waited for is said every minute
            self.stage, self.stage_words, self.since = stage, words, self.last
