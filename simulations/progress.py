"""What a run's event log says of its progress: written by the parts of a simulation, and shown. The log is the same for
every engine. It names stages and counts, never votes."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from consilium.coordinator import events as log
from consilium.report.progress import Display
from consilium.report.words import many

EVENTS = "events.jsonl"
POLL_SECONDS = 0.1
RELEASED_SECONDS = 10.0  # between two lines about what was released: batch upon batch may be in a second
SHOWN = (
    "left-out", "false-votes", "promised", "resumed-session", "session-lost", "student-saved", "failed",
    "closed",
)  # fmt: skip
"""Events that are a line each."""


class Recorder:
    """A `Progress` that appends to an event log: "stage" where a stage begins (nothing of it is done), else
    "progress"."""

    def __init__(self, opened: log.EventLog) -> None:
        self._log = opened

    def __call__(self, stage: str, done: int, total: int) -> None:
        if done == 0:
            self._log.write("stage", stage=stage, total=total)
        elif log.is_step(done, total):
            self._log.write("progress", stage=stage, done=done, total=total)

    def saved(self, facts: Mapping[str, Any]) -> None:
        self._log.write("student-saved", **facts)


class Showing:
    """Shows the events of one log on a display, one after the other."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._asked, self._answered, self._next = 0, 0, 0.0
        self._waited = ""

    def __call__(self, event: log.Event) -> None:
        """One event; of a kind that is not shown, nothing."""
        match event.kind:
            case "stage":
                self._display.update(event.stage, 0, event.total)
            case "progress":
                self._display.update(event.stage, event.done, event.total)
            case "warned":
                self._display.say(event.text, warning=True)
            case "waiting":
                if event.words != self._waited:  # it is written every second
                    self._display.say(event.words)
                self._waited = event.words
            case "released":
                self._asked += event.asked
                self._answered += event.answered
                if event.moment >= self._next:
                    self._next = event.moment + RELEASED_SECONDS
                    answers = many(self._answered, event.noun)
                    self._display.say(f"asked {self._asked}, released {answers}, counted {event.counted} parties")
            case kind if kind in SHOWN:
                self._display.say(event.words)


@contextlib.contextmanager
def following(events: Path, take: Callable[[log.Event], None]) -> Iterator[None]:
    """Hand what is written into a run's log while the context is open to `take`, in a thread of its own. If it raises,
    it is called no more, and a RuntimeWarning says why."""
    reader, stop = log.EventTail(events), threading.Event()

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
