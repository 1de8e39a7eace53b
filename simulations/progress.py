"""What a run's event log says of its progress: written by the parts of a simulation, shown, or told to a program.

The log is the same for every engine, and of a deployed coordinator. It names stages and counts, never votes.
"""

from __future__ import annotations

import json
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from consilium.coordinator.run_log import EventLog
from consilium.node.progress import Display
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import number
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

EVENTS = "events.jsonl"
BEGIN = "begin"
"""The event with which each attempt at a simulated run begins."""
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
        else:
            self._log.write("progress", stage=stage, done=done, total=total)

    def begin(self, resumed: bool) -> None:
        """An attempt at the run begins."""
        self._log.write(BEGIN, resumed=resumed)


@contextmanager
def recording(events: Path) -> Iterator[Recorder]:
    """Append to a run's event log while the context is open; whoever else writes there does it before or after."""
    log = EventLog(events)
    try:
        yield Recorder(log)
    finally:
        log.close()


@dataclass
class EventReader:
    """Reads a log while it is written: each whole line once. `position`: bytes that were read."""

    path: Path
    position: int = field(default=0)

    @classmethod
    def from_now(cls, path: Path) -> EventReader:
        """Only what comes from now on."""
        return cls(path, path.stat().st_size if path.exists() else 0)

    def read(self) -> list[dict[str, Any]]:
        """Events since the last time; a line that a crash has broken is none."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self.position)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self.position += whole
        events = []
        for line in text[:whole].splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and {"event", "at"} <= event.keys():
                events.append(event)
        return events


def moment(event: dict[str, Any]) -> float:
    """When an event was written, in seconds since 1970."""
    return datetime.fromisoformat(event["at"]).timestamp()


class Showing:
    """Shows the events of one log on a display, one after the other."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._asked, self._answered, self._released = 0, 0, -math.inf
        self._waited = ""

    def __call__(self, event: dict[str, Any]) -> None:
        """One event; of a kind that is not known, nothing."""
        at = moment(event)
        match event["event"]:
            case "begin":
                self._display.restart(at)
                if event["resumed"]:
                    self._display.say("the run goes on where it was", at)
            case "stage":
                self._display.begin(str(event["stage"]), event["total"], at)
            case "progress":
                self._display.update(str(event["stage"]), event["done"], event["total"], at)
            case "warned":
                self._display.say(str(event["text"]), at, warning=True)
            case "waiting":
                self._wait(event, at)
            case "released":
                self._release(event, at)
            case kind if kind in _LINES:
                self._display.say(_LINES[kind](event), at)

    def _wait(self, event: dict[str, Any], at: float) -> None:
        """A coordinator writes it every second."""
        told = f"{event['connected']} of {event['required']} parties are connected"
        if told != self._waited:
            self._waited = told
            self._display.say(told, at)

    def _release(self, event: dict[str, Any], at: float) -> None:
        """Batch upon batch may be released in a second: all so far is told, and that seldom."""
        self._asked += event["asked"]
        self._answered += event["answered"]
        if at < self._released + RELEASED_SECONDS:
            return
        self._released = at
        noun = _NOUNS.get(str(event.get("release")), "answer")  # versions up to 0.9.0 did not say what was released
        told = f"asked {self._asked}, released {many(self._answered, noun)}, counted {event['parties']} parties"
        self._display.say(told, at)


_NOUNS: dict[str, str] = {str(kind): kind.noun for kind in ReleaseKind}
_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "left-out": lambda event: f"left out of {event['stage']}: {event['party']} ({event['reason']})",
    "excluded": lambda event: f"not asked any more: {event['party']} ({event['reason']})",
    "promised": lambda event: (
        f"promised before anything is asked: epsilon at most {epsilon_text(number(event, 'epsilon'))}"
        f" at delta {event['delta']:g}, unit: a {event['unit']}"
    ),
    "serving": lambda event: f"students may ask at {event['address']}",
    "resumed-session": lambda event: f"goes on with a secure sum, at {event['stage']}",
    "session-lost": lambda event: f"a secure sum is begun anew: {event['reason']}",
    "false-votes": lambda event: str(event["what"]),
    "failed": lambda event: f"failed: {event['what']}",
    "closed": lambda event: f"closed after {event['asked']} queries and {event['answered']} answers",
}
"""Events that are a line each."""


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

    def hand_on(event: dict[str, Any]) -> None:
        if event["event"] in ("stage", "progress"):
            tell(str(event["stage"]), event.get("done", 0), event["total"])

    with _reading(events, hand_on):
        yield


@contextmanager
def _reading(events: Path, take: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Hand each new event to `take` in a thread, to the last one that was written before the context is left."""
    reader, stop = EventReader.from_now(events), threading.Event()

    def follow() -> None:
        while True:
            last = stop.is_set()  # read once more after the run has ended
            try:
                for event in reader.read():
                    take(event)
            except Exception as error:
                told = f"progress is told no more: {type(error).__name__}: {error}"
                warnings.warn(told, RuntimeWarning, stacklevel=1)
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
