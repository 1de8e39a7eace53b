"""The event log of a run: one JSON object a line, flushed as it is written, so that anybody can follow it.

Events tell stages, names, counts of parties and seconds. They never carry votes or anything computed from single
votes. Each kind is a class here, with its words for people. Lines of other versions are read as far as they are known;
of what is not known, and of lines that a crash broke off, nothing is read.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import ValidationError

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
MENDED = "Once that is mended it goes on by itself: students ask again."
TOLD_TO_OPERATORS = {
    **dict.fromkeys(("AggregatorAway", "AggregatorRefuses", "AggregatorWentBack"), LOG_SAYS_MORE),
    **dict.fromkeys(("NotEnoughParties", "ThresholdNotMet"), AWAY_CURE),
    **dict.fromkeys(("LedgerError", "LedgerLocked", "StorageError"), MENDED),
}
"""Errors of questions whose texts tell of the second aggregator, of who is connected and refuses, or of this
coordinator's own files, and of no vote; each with what an operator does."""

KINDS: dict[str, type[Event]] = {}
"""By what a line calls them."""


class Event(Frozen, extra="ignore"):
    """One line of the log. kind: what it is called there. said: a format of its `words`. at: time of day, UTC.
    seconds: since the log was opened."""

    kind: ClassVar[str] = ""
    said: ClassVar[str] = ""
    at: str = ""
    seconds: float = 0.0

    def __init_subclass__(cls, kind: str = "", said: str = "", **config: Any) -> None:
        super().__init_subclass__(**config)
        cls.kind, cls.said = kind, said
        if kind:
            KINDS[kind] = cls

    @property
    def words(self) -> str:
        """For a person; nothing where it is not worth a line."""
        return self.said.format(self=self)

    @property
    def moment(self) -> float:
        """When it was written, in seconds since 1970. Raises ValueError where it does not say."""
        return datetime.fromisoformat(self.at).timestamp()


class OfParties(Event):
    """What happened to parties, by name."""

    parties: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        """For a person."""
        return ", ".join(self.parties)


class StageBegins(Event, kind="stage", said="stage {self.stage}: {self.total} parties"):
    """Nothing of it is done; `total` long, 1 or less where nobody knows."""

    stage: str
    total: int


class StageGoesOn(Event, kind="progress"):
    """How far it is."""

    stage: str
    done: int
    total: int


class WaitingForParties(Event, kind="waiting"):
    """For parties, who connect. at_most_seconds: that it still waits for those that are awaited."""

    connected: int
    required: int
    awaited: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    at_most_seconds: float | None = None

    @property
    def words(self) -> str:
        text = f"parties connected: {self.connected}, needed: {self.required}"
        text += f"; waiting for {', '.join(self.awaited)}" if self.awaited else ""
        text += f"; refused: {', '.join(self.refused)}" if self.refused else ""
        return text + ("" if self.at_most_seconds is None else f", at most {self.at_most_seconds:g} s more")


class Awaiting(OfParties, kind="awaiting"):
    """A coordinator was started, and awaits these."""


class Connected(OfParties, kind="connected", said="{self.names}: connected"):
    """Their nodes are connected."""


class Lost(OfParties, kind="lost", said="{self.names}: the connection is lost"):
    """Their nodes are connected no more."""


class Enrolled(OfParties, kind="enrolled", said="enrolled: {self.names}"):
    """They agreed to the terms."""


class Late(OfParties, kind="late", said="late, and in sums from the next questions on: {self.names}"):
    """They came after the others had trained."""


class TakesPart(OfParties, kind="takes-part", said="take part: {self.names}"):
    """They are asked for votes from now on."""


class Voted(OfParties, kind="voted"):
    """Their votes are in a sum. queries: that were not asked of them before in the same question."""

    queries: int


class OtherConsilium(
    Event, kind="version", said="{self.party} runs {self.theirs}, this coordinator {self.ours}: install one version"
):
    """A party runs another version."""

    party: str
    theirs: str
    ours: str


class SecondAggregatorAnswered(Event, kind="second-aggregator", said="aggregator {self.name}: it checks votes"):
    """The second aggregator of verified votes serves this federation."""

    name: str


class LeftOut(Event, kind="left-out"):
    """A party is left out of a stage. rule: by which it refused; None where it did not. silent: it said nothing."""

    stage: str
    party: str
    reason: str
    rule: Rule | None = None
    silent: bool = False

    @property
    def text(self) -> str:
        """Without what to do about it."""
        return f"{self.party} left out of stage {self.stage}: {self.reason}"

    @property
    def words(self) -> str:
        return f"{self.text}. {CURES[self.rule]}" if self.rule else self.text


class Excluded(
    Event, kind="excluded", said="{self.party} is in no further sum: its part in one was wrong ({self.reason})"
):
    """A party is in no further sum, for what it sent."""

    party: str
    reason: str


class FalseVotes(Event, kind="false-votes", said="warning: {self.what}. {self.action}"):
    """A sum cannot be one of votes."""

    what: str
    action: str


class ResumedSession(Event, kind="resumed-session", said="goes on with a secure sum, at {self.stage}"):
    """A secure sum goes on where a coordinator stopped."""

    stage: str


class SessionLost(Event, kind="session-lost", said="a secure sum is begun anew: {self.reason}"):
    """A secure sum cannot be brought to its end."""

    reason: str


def _epsilon(epsilon: float | None) -> str:
    return epsilon_text(float("inf") if epsilon is None else epsilon)


class Promised(Event, kind="promised"):
    """The guarantee, before anything is asked. epsilon: None where it is unbounded."""

    epsilon: float | None = None
    delta: float
    unit: str

    @property
    def words(self) -> str:
        return (
            f"promised before anything is asked: epsilon at most {_epsilon(self.epsilon)} at delta {self.delta:g}"
            f" towards whoever has the student, unit: a {self.unit}"
        )


class StudentSaved(Event, kind="student-saved"):
    """The student of a simulated run is in its folder: what follows compares it, and changes nothing of it.

    metric, value: on the public test rows; None where there are none. epsilon: of the promise, None where unbounded.
    """

    metric: Literal["AUC", "accuracy"] = "accuracy"
    value: float | None = None
    epsilon: float | None = None
    delta: float

    @property
    def words(self) -> str:
        judged = "" if self.value is None else f", {self.metric} {self.value:.3f} on the public test rows"
        return (
            f"the student is saved{judged}, epsilon at most {_epsilon(self.epsilon)} at delta {self.delta:g} towards"
            " whoever has it; what follows compares it"
        )


class Warned(Event, kind="warned", said="warning: {self.text} ({self.code})"):
    """What the run warns of."""

    code: str
    text: str


class Serving(Event, kind="serving", said="students may ask at {self.address}"):
    """Students may ask."""

    address: str


class Released(Event, kind="released", said="{self.asked} queries asked, {self.answered} answered"):
    """A batch of queries was charged and answered. release: what left."""

    asked: int
    answered: int
    parties: int
    release: str

    @property
    def noun(self) -> str:
        """What one answer is."""
        return {str(kind): kind.noun for kind in ReleaseKind}.get(self.release, "answer")


class NotAnswered(Event, kind="not-answered"):
    """Questions of a student were not answered; why may say something about votes."""

    error: str
    reason: str

    @property
    def cure(self) -> str:
        """What to do about it."""
        return TOLD_TO_OPERATORS.get(self.error, LOG_SAYS_MORE)

    @property
    def words(self) -> str:
        """With the reason, where it says nothing about votes."""
        return f"questions were not answered{f': {self.reason}' if self.error in TOLD_TO_OPERATORS else ''}"


class NotSanitised(Event, kind="not-sanitised"):
    """No data-dependent epsilon can be published."""

    reason: str


class Failed(Event, kind="failed"):
    """The run ended for an error."""

    what: str
    action: str

    @property
    def words(self) -> str:
        return f"failed: {self.what}{f'. {self.action}' if self.action else ''}"


class Closed(Event, kind="closed"):
    """The federation is closed."""

    asked: int
    answered: int

    @property
    def words(self) -> str:
        return f"closed after {many(self.asked, 'query')} and {many(self.answered, 'answer')}"


def event_of(record: object) -> Event | None:
    """What a line's JSON says; None for a kind that is not known, or that lacks what its kind says."""
    name = record.get("event") if isinstance(record, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    try:
        return None if kind is None else kind.model_validate(record)
    except ValidationError:
        return None


class EventWriter(Protocol):
    """An event log, or what keeps none."""

    def write(self, event: str, **fields: Any) -> None: ...


class NoLog:
    """Keeps no event: of a federation that is replayed, and that nobody watches."""

    def write(self, event: str, **fields: Any) -> None:
        """See `EventLog.write`."""


def is_step(done: int, total: int) -> bool:
    """Whether that so much is done has a line of its own: a hundred at most of one stage.

    >>> [done for done in range(1, 251) if is_step(done, 250)][:3], sum(is_step(done, 250) for done in range(1, 251))
    ([3, 5, 8], 100)
    """
    return done >= total or done * 100 // total > (done - 1) * 100 // total


class EventLog:
    """Appends events to a file."""

    def __init__(self, path: Path, listener: Callable[[dict[str, Any]], None] | None = None) -> None:
        """listener: is called with each line, as a table, after it was written."""
        _cut_torn_line(path)
        self._file = append_private(path)  # closed by close()
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._listener = listener

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the time of day and the seconds since the log was opened. Raises KeyError,
        ValidationError: there is no such kind, or it has other fields."""
        record = {
            "event": event,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": round(time.monotonic() - self._start, 3),
            **fields,
        }
        line = dumps(record)
        KINDS[event].model_validate_json(line)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()
        if self._listener is not None:
            self._listener(record)

    def close(self) -> None:
        """Close the file. What a full disk did not take is given up: whoever wrote it was told."""
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
            event = None
            with contextlib.suppress(ValueError, RecursionError):  # what a power cut left
                event = event_of(json.loads(line))
            if event is None:
                self.skipped += 1
            else:
                events.append(event)
        return events


def read_events(path: Path) -> list[Event]:
    """The events of a run so far; none where there is no log."""
    return EventTail(path).fresh()


def _cut_torn_line(path: Path) -> None:
    """Leave whole lines only: a full disk, or a power cut, may have ended the last one early."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
