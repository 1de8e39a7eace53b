"""What a run's event log says of its progress: written by the parts of a simulation, shown, or told to a program.

The log is the same for every engine. It names stages and counts, never votes.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consilium.coordinator.events import (
    Closed,
    Event,
    EventLog,
    EventTail,
    Excluded,
    Failed,
    FalseVotes,
    LeftOut,
    Promised,
    Released,
    ResumedSession,
    SessionLost,
    StageBegins,
    StageGoesOn,
    StudentSaved,
    WaitingForParties,
    Warned,
    is_step,
)
from consilium.report.progress import Display
from consilium.report.words import many

EVENTS = "events.jsonl"
POLL_SECONDS = 0.1
RELEASED_SECONDS = 10.0
"""Between two lines about what was released."""

Tell = Callable[[str, int, int], None]
"""Called with stage, done and total."""


class Recorder:
    """A `Progress` that appends to an event log: "stage" where a stage begins (nothing of it is done), else
    "progress"."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __call__(self, stage: str, done: int, total: int) -> None:
        if done == 0:
            self._log.write("stage", stage=stage, total=total)
        elif is_step(done, total):
            self._log.write("progress", stage=stage, done=done, total=total)

    def saved(self, facts: Mapping[str, Any]) -> None:
        """The student is in its folder. facts: the fields of `StudentSaved`."""
        self._log.write(StudentSaved.kind, **facts)


@contextmanager
def recording(events: Path) -> Iterator[Recorder]:
    """Append to a run's event log while the context is open; whoever else writes there does it before or after."""
    log = EventLog(events)
    try:
        yield Recorder(log)
    finally:
        log.close()


SHOWN = (LeftOut, Excluded, Promised, ResumedSession, SessionLost, StudentSaved, Failed, Closed)
"""Events that are a line each."""


class Showing:
    """Shows the events of one log on a display, one after the other."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._asked, self._answered, self._released = 0, 0, -math.inf
        self._waited = ""

    def __call__(self, event: Event) -> None:
        """One event; of a kind that is not shown, nothing."""
        match event:
            case StageBegins():
                self._display.begin(event.stage, event.total)
            case StageGoesOn():
                self._display.update(event.stage, event.done, event.total)
            case Warned():
                self._display.say(event.text, warning=True)
            case FalseVotes():
                self._display.say(event.what)
            case WaitingForParties():  # it is written every second
                if event.words != self._waited:
                    self._waited = event.words
                    self._display.say(event.words)
            case Released():
                self._release(event)
            case _ if isinstance(event, SHOWN):
                self._display.say(event.words)

    def _release(self, event: Released) -> None:
        """Batch upon batch may be released in a second: all so far is told, and that seldom."""
        moment = event.moment
        self._asked += event.asked
        self._answered += event.answered
        if moment < self._released + RELEASED_SECONDS:
            return
        self._released = moment
        answers = many(self._answered, event.noun)
        self._display.say(f"asked {self._asked}, released {answers}, counted {event.parties} parties")


@contextmanager
def following(events: Path, display: Display) -> Iterator[None]:
    """Show on `display` what is written into a run's log while the context is open."""
    with _reading(events, Showing(display)):
        yield


@contextmanager
def following_with(events: Path, tell: Tell) -> Iterator[None]:
    """Call `tell` with stage, done and total of what is written into a run's log while the context is open.

    `tell` is called in a thread of its own, of a stage first with nothing done. If it raises, the run goes on: it is
    called no more, and a RuntimeWarning says why.
    """

    def hand_on(event: Event) -> None:
        if isinstance(event, StageBegins):
            tell(event.stage, 0, event.total)
        elif isinstance(event, StageGoesOn):
            tell(event.stage, event.done, event.total)

    with _reading(events, hand_on):
        yield


@contextmanager
def _reading(events: Path, take: Callable[[Event], None]) -> Iterator[None]:
    """Hand each new event to `take` in a thread, to the last one that was written before the context is left."""
    reader, stop = EventTail(events), threading.Event()

    def follow() -> None:
        while True:
            last = stop.is_set()  # read once more after the run has ended
            try:
                for event in reader.fresh():
                    take(event)
            except Exception as error:
                message = f"progress is told no more: {type(error).__name__}: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=1)
                return
            if last:
                return
            stop.wait(POLL_SECONDS)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
