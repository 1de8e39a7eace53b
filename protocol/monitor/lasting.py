"""Values that are made anew when they are old, however often they are asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

FRESH_SECONDS = 2.0
"""So long a value is given again: who asks faster costs no work."""

Value = TypeVar("Value")


class Lasting(Generic[Value]):
    """Made by `make` at most every `FRESH_SECONDS`, and by one thread at a time."""

    def __init__(self, make: Callable[[], Value], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def __call__(self) -> Value:
        with self._lock:
            now = self._clock()
            if self._made is None or now - self._made[0] >= FRESH_SECONDS:
                self._made = (now, self._make())
            return self._made[1]
