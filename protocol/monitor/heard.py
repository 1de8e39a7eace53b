"""What a node's processes said: remembered while it is passed on, for the console and for metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from consilium.protocol.monitor.lines import Level, level_of, one_line
from consilium.protocol.node.supervisor import Tell

MOST_REMEMBERED = 20
ENDED = "ended ("
"""With this the supervisor's words begin when a process ended by itself."""


class LoggedLine(NamedTuple):
    """One line of a node's log. at: seconds since 1970."""

    at: float
    name: str
    what: str
    level: Level


class Heard:
    """Passes on what is told, and remembers the last warnings and errors and how often each process ended.

    began: when it was made, seconds since 1970.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.time) -> None:
        self._tell = tell
        self._clock = clock
        self.began = clock()
        self._lock = threading.Lock()
        self._said: deque[LoggedLine] = deque(maxlen=MOST_REMEMBERED)
        self._ended: Counter[str] = Counter()
        self._levels: Counter[Level] = Counter()

    def tell(self, name: str, what: str) -> None:
        """A `Tell`."""
        found = LoggedLine(self._clock(), name, one_line(what), level_of(what))
        with self._lock:
            self._levels[found.level] += 1
            if what.startswith(ENDED):
                self._ended[name] += 1
            if found.level != "info":
                self._said.append(found)
        self._tell(name, what)

    @property
    def troubles(self) -> list[LoggedLine]:
        """The last warnings and errors, oldest first."""
        with self._lock:
            return list(self._said)

    @property
    def ended(self) -> dict[str, int]:
        """How often each process ended by itself, of those that did."""
        with self._lock:
            return dict(self._ended)

    @property
    def lines(self) -> dict[Level, int]:
        """How many lines of each level were told."""
        with self._lock:
            return {"info": 0, "warning": 0, "error": 0, **self._levels}
