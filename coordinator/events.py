"""The event log of a run: one JSON object a line, flushed as it is written, so that anybody can follow it.

Events tell stages, names, counts of parties and seconds. They never carry votes or anything computed from single
votes. Lines of other versions are read as far as they are known; of what is not known, and of lines that a crash broke
off, nothing is read.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from pydantic import Field, ValidationError, model_validator

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

KINDS: dict[str, tuple[str, str]] = {
    # nothing of the stage is done; total: 1 or less where nobody knows
    "stage": ("stage total", "stage {stage}: {total} parties"),
    "progress": ("stage done total", ""),
    "waiting": ("connected required", "parties connected: {connected}, needed: {required}"),
    "awaiting": ("", ""),  # a coordinator was started, and awaits these parties
    "connected": ("", "{names}: connected"),
    "lost": ("", "{names}: the connection is lost"),
    "enrolled": ("", "enrolled: {names}"),
    # they came after the others had trained
    "late": ("", "late, and in sums from the next questions on: {names}"),
    "takes-part": ("", "take part: {names}"),  # they are asked for votes from now on
    # their votes are in a sum; queries: that were not asked of them before in the same question
    "voted": ("queries", ""),
    "version": ("party theirs ours", "{party} runs {theirs}, this coordinator {ours}: install one version"),
    "second-aggregator": ("name", "aggregator {name}: it checks votes"),
    # rule: by which the party refused; silent: it said nothing
    "left-out": ("stage party reason", "{party} left out of stage {stage}: {reason}"),
    "false-votes": ("what action", "warning: {what}. {action}"),  # a sum cannot be one of votes
    "resumed-session": ("stage", "goes on with a secure sum, at {stage}"),
    "session-lost": ("reason", "a secure sum is begun anew: {reason}"),
    # the guarantee, before anything is asked
    "promised": (
        "delta unit",
        "promised before anything is asked: {bound} towards whoever has the student, unit: a {unit}",
    ),
    # of a simulated run, in its folder: what follows compares it; value: of the metric, on the public test rows
    "student-saved": (
        "delta",
        "the student is saved{judged}, {bound} towards whoever has it; what follows compares it",
    ),
    "warned": ("code text", "warning: {text} ({code})"),
    "serving": ("address", "students may ask at {address}"),
    # a batch was charged and answered, of so many parties; release: what left
    "released": ("asked answered counted release", "{asked} queries asked, {answered} answered"),
    # why may say something about votes
    "not-answered": ("error reason", "questions were not answered"),
    "not-sanitised": ("reason", ""),
    "failed": ("what action", "failed: {what}"),
    "closed": ("asked answered", "closed after {questions} and {answers}"),
}
"""What an event is called in a line: the fields that it must have, and its words for a person, none where it is not
worth a line."""


class Event(Frozen, extra="ignore"):
    """One line of the log, of one of `KINDS`: fields of others are empty.

    at: time of day, UTC. seconds: since the log was opened. epsilon: None where it is unbounded. at_most_seconds: that
    parties are still awaited.
    """

    kind: str = Field(alias="event")
    at: str = ""
    seconds: float = 0.0
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

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kind not in KINDS or not {*KINDS[self.kind][0].split()} <= self.model_fields_set:
            raise ValueError(f"{self.kind!r} is no event, or lacks a field")
        return self

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
        """What to do about questions that were not answered."""
        return TOLD_TO_OPERATORS.get(self.error, LOG_SAYS_MORE)

    @property
    def fact(self) -> str:
        """Its words, without what to do about it."""
        epsilon = epsilon_text(float("inf") if self.epsilon is None else self.epsilon)
        judged = "" if self.value is None else f", {self.metric} {self.value:.3f} on the public test rows"
        return KINDS[self.kind][1].format(
            **dict(self),
            names=", ".join(self.parties),
            bound=f"epsilon at most {epsilon} at delta {self.delta:g}",
            judged=judged,
            questions=many(self.asked, "query"),
            answers=many(self.answered, "answer"),
        )

    @property
    def words(self) -> str:
        """For a person; nothing where it is not worth a line. Why questions were not answered is told where it says
        nothing about votes."""
        more = ""
        match self.kind:
            case "waiting":
                more += f"; waiting for {', '.join(self.awaited)}" if self.awaited else ""
                more += f"; refused: {', '.join(self.refused)}" if self.refused else ""
                more += "" if self.at_most_seconds is None else f", at most {self.at_most_seconds:g} s more"
            case "left-out" if self.rule:
                more = f". {CURES[self.rule]}"
            case "not-answered" if self.error in TOLD_TO_OPERATORS:
                more = f": {self.reason}"
            case "failed" if self.action:
                more = f". {self.action}"
        return self.fact + more


def event_of(record: object) -> Event | None:
    """What a line's JSON says; None for a kind that is not known, or that lacks what its kind says."""
    try:
        return Event.model_validate(record)
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
    """Appends events to a file. A last line that a full disk or a power cut ended early is cut off."""

    def __init__(self, path: Path, listener: Callable[[Event], None] | None = None) -> None:
        """listener: is called with each event after it was written."""
        if path.exists():
            with open(path, "r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        self._file = append_private(path)  # closed by close()
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._listener = listener

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the time of day and the seconds since the log was opened. Raises ValidationError: there
        is no such kind, or it has other fields."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = dumps({"event": event, "at": at, "seconds": round(time.monotonic() - self._start, 3), **fields})
        written = Event.model_validate_json(line)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()
        if self._listener is not None:
            self._listener(written)

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
