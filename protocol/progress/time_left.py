"""How long a stage will still take, from how fast it was of late, and never more exactly than that is known."""

from __future__ import annotations

import math
from collections import deque

LEAST_SECONDS = 2.0
"""Nothing is said before a stage has shown for so long how fast it is."""
MOST_POINTS = 256

_STEPS = ((20, 5), (60, 10), (600, 60), (3600, 300), (36_000, 600), (math.inf, 3600))
"""Below so many seconds, times are told in steps of so many."""


class TimeLeft:
    """Of one stage. Times are seconds of one clock, any clock.

    The speed is that of the later half of the stage so far, up to this moment: a first hurried or slow part is
    forgotten, one slow step changes little, and while nothing comes the time that is left grows.

    >>> left = TimeLeft(at=0.0, done=0)
    >>> for second in range(1, 11):
    ...     left.update(at=float(second), done=10 * second)
    >>> left.seconds(now=10.0, total=400)
    30.0
    """

    def __init__(self, at: float, done: int) -> None:
        self._points: deque[tuple[float, int]] = deque([(at, done)])
        self._began = at

    def update(self, at: float, done: int) -> None:
        """So much is done at this time; `at` and `done` never fall."""
        if done > self._points[-1][1]:
            self._points.append((at, done))
        half = self._began + (at - self._began) / 2
        while len(self._points) > 2 and self._points[1][0] <= half:
            self._points.popleft()
        if len(self._points) > MOST_POINTS:
            kept = list(self._points)
            self._points = deque([*kept[:-1:2], kept[-1]])

    def seconds(self, now: float, total: int) -> float | None:
        """Until `total` is done; None where nobody can know it yet."""
        (since, before), (_, done) = self._points[0], self._points[-1]
        passed = now - since
        if done >= total:
            return 0.0
        if done <= before or passed <= 0 or now - self._began < LEAST_SECONDS:
            return None
        return (total - done) * passed / (done - before)


def about(seconds: float) -> str:
    """A time that is left, no more exactly than anybody knows it.

    >>> [about(value) for value in (0.3, 8, 47, 95, 1500, 5000, 40_000)]
    ['a few seconds', 'about 10 s', 'about 50 s', 'about 2 min', 'about 25 min', 'about 1 h 20 min', 'about 11 h']
    """
    step = next(step for below, step in _STEPS if seconds < below)
    rounded = max(step, round(seconds / step) * step)
    return "a few seconds" if rounded <= 5 else f"about {spent(rounded)}"


def spent(seconds: float) -> str:
    """A time that has passed.

    >>> [spent(value) for value in (0.04, 9.96, 61, 3600, 5025)]
    ['0.0 s', '10 s', '1 min 1 s', '1 h', '1 h 23 min']
    """
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{value} {unit}" for value, unit in parts if value)
