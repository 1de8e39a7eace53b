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
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from pydantic import ValidationError

from consilium.protocol.files import append_private
from consilium.protocol.label_source import Unanswered
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import CURES, Rule
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import dumps
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

OF_THE_SECOND = ("AggregatorAway", "AggregatorRefuses", "AggregatorWentBack")
"""Errors whose texts tell of the second aggregator alone, and of no vote."""
OF_WHO_IS_THERE = ("NotEnoughParties", "ThresholdNotMet")
"""Why a question failed that hangs on who is connected and who refuses, not on votes: it is said to the operator."""
OF_FILES = ("LedgerError", "LedgerLocked", "StorageError")
"""Why one failed that hangs on this coordinator's own disk and files: their texts name these alone."""


class Event(Frozen, extra="ignore"):
    """One line of the log. at: time of day, UTC. seconds: since the log was opened."""

    kind: ClassVar[str]
    said: ClassVar[str] = ""
    """A format of its `words`."""
    at: str = ""
    seconds: float = 0.0

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


class StageBegins(Event):
    """Nothing of it is done; `total` long, 1 or less where nobody knows."""

    kind = "stage"
    said = "stage {self.stage}: {self.total} parties"
    stage: str
    total: int


class StageGoesOn(Event):
    """How far it is."""

    kind = "progress"
    stage: str
    done: int
    total: int


class WaitingForParties(Event):
    """For parties, who connect. at_most_seconds: that it still waits for those that are awaited."""

    kind = "waiting"
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


class Awaiting(OfParties):
    """A coordinator was started, and awaits these."""

    kind = "awaiting"


class Connected(OfParties):
    """Their nodes are connected."""

    kind = "connected"
    said = "{self.names}: connected"


class Lost(OfParties):
    """Their nodes are connected no more."""

    kind = "lost"
    said = "{self.names}: the connection is lost"


class Enrolled(OfParties):
    """They agreed to the terms."""

    kind = "enrolled"
    said = "enrolled: {self.names}"


class Late(OfParties):
    """They came after the others had trained."""

    kind = "late"
    said = "late, and in sums from the next questions on: {self.names}"


class TakesPart(OfParties):
    """They are asked for votes from now on."""

    kind = "takes-part"
    said = "take part: {self.names}"


class Voted(OfParties):
    """Their votes are in a sum. queries: that were not asked of them before in the same question."""

    kind = "voted"
    queries: int


class OtherConsilium(Event):
    """A party runs another version."""

    kind = "version"
    said = "{self.party} runs {self.theirs}, this coordinator {self.ours}: install one version"
    party: str
    theirs: str
    ours: str


class SecondAggregatorAnswered(Event):
    """The second aggregator of verified votes serves this federation."""

    kind = "second-aggregator"
    said = "aggregator {self.name}: it checks votes"
    name: str


class LeftOut(Event):
    """A party is left out of a stage. rule: by which it refused; None where it did not. silent: it said nothing."""

    kind = "left-out"
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


class Excluded(Event):
    """A party is in no further sum, for what it sent."""

    kind = "excluded"
    said = "{self.party} is in no further sum: its part in one was wrong ({self.reason})"
    party: str
    reason: str


class FalseVotes(Event):
    """A sum cannot be one of votes."""

    kind = "false-votes"
    said = "warning: {self.what}. {self.action}"
    what: str
    action: str


class ResumedSession(Event):
    """A secure sum goes on where a coordinator stopped."""

    kind = "resumed-session"
    said = "goes on with a secure sum, at {self.stage}"
    stage: str


class SessionLost(Event):
    """A secure sum cannot be brought to its end."""

    kind = "session-lost"
    said = "a secure sum is begun anew: {self.reason}"
    reason: str


class NotLooked(Event):
    """Nobody could look for parties that come late."""

    kind = "not-looked"
    reason: str


class Promised(Event):
    """The guarantee, before anything is asked. epsilon: None where it is unbounded."""

    kind = "promised"
    epsilon: float | None = None
    delta: float
    unit: str

    @property
    def words(self) -> str:
        epsilon = epsilon_text(float("inf") if self.epsilon is None else self.epsilon)
        return (
            f"promised before anything is asked: epsilon at most {epsilon} at delta {self.delta:g} towards whoever has"
            f" the student, unit: a {self.unit}"
        )


class StudentSaved(Event):
    """The student of a simulated run is in its folder: what follows compares it, and changes nothing of it.

    metric, value: on the public test rows; None where there are none. epsilon: of the promise, None where unbounded.
    """

    kind = "student-saved"
    metric: Literal["AUC", "accuracy"] = "accuracy"
    value: float | None = None
    epsilon: float | None = None
    delta: float

    @property
    def words(self) -> str:
        judged = "" if self.value is None else f", {self.metric} {self.value:.3f} on the public test rows"
        epsilon = epsilon_text(float("inf") if self.epsilon is None else self.epsilon)
        return (
            f"the student is saved{judged}, epsilon at most {epsilon} at delta {self.delta:g} towards whoever has it;"
            " what follows compares it"
        )


class Warned(Event):
    """What the run warns of."""

    kind = "warned"
    said = "warning: {self.text} ({self.code})"
    code: str
    text: str


class Serving(Event):
    """Students may ask."""

    kind = "serving"
    said = "students may ask at {self.address}"
    address: str


class Released(Event):
    """A batch of queries was charged and answered. release: what left."""

    kind = "released"
    said = "{self.asked} queries asked, {self.answered} answered"
    asked: int
    answered: int
    parties: int
    release: str

    @property
    def noun(self) -> str:
        """What one answer is."""
        return {str(kind): kind.noun for kind in ReleaseKind}.get(self.release, "answer")


class NotAnswered(Event):
    """Questions of a student were not answered; why may say something about votes. asked: how many; 0: it asked for the
    terms, or for what is recorded. unanswered, parties: see `Unanswered`; None while the ledger cannot be read."""

    kind = "not-answered"
    error: str
    reason: str
    asked: int
    unanswered: int | None = 0
    parties: tuple[str, ...] = ()

    @property
    def public(self) -> bool:
        """Whether the reason says nothing about votes."""
        return self.error in (*OF_THE_SECOND, *OF_WHO_IS_THERE, *OF_FILES)

    @property
    def words(self) -> str:
        what = ("a student was", "a question was")[self.asked] if self.asked < 2 else f"{self.asked} questions were"
        used = "what was charged is in the ledger"
        if self.unanswered is not None:
            used = Unanswered(self.unanswered, self.parties).words
        return f"{what} not answered{f': {self.reason}' if self.public else ''}; {used}"


class NotSanitised(Event):
    """No data-dependent epsilon can be published."""

    kind = "not-sanitised"
    reason: str


class Failed(Event):
    """The run ended for an error."""

    kind = "failed"
    what: str
    action: str

    @property
    def words(self) -> str:
        return f"failed: {self.what}{f'. {self.action}' if self.action else ''}"


class Closed(Event):
    """The federation is closed."""

    kind = "closed"
    asked: int
    answered: int

    @property
    def words(self) -> str:
        return f"closed after {many(self.asked, 'query')} and {many(self.answered, 'answer')}"


def _kinds(base: type[Event]) -> Iterable[type[Event]]:
    for inner in base.__subclasses__():
        if "kind" in vars(inner):
            yield inner
        yield from _kinds(inner)


KINDS: dict[str, type[Event]] = {event.kind: event for event in _kinds(Event)}
"""By what a line calls them."""


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


MOST_STEPS = 100
"""That the log has of one stage: of a thousand parties, a line for every tenth."""


def is_step(done: int, total: int) -> bool:
    """Whether that so much is done has a line of its own.

    >>> [done for done in range(1, 251) if is_step(done, 250)][:3], sum(is_step(done, 250) for done in range(1, 251))
    ([3, 5, 8], 100)
    """
    return done >= total or done * MOST_STEPS // total > (done - 1) * MOST_STEPS // total


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
        """Append one event with the time of day and the seconds since the log was opened.

        Raises
        ------
        KeyError, ValidationError : there is no such kind, or it has other fields.
        """
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
