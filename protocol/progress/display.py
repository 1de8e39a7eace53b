"""What is shown while work goes on: bars on a terminal, else lines of a log with the time of day; or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from consilium.protocol.labels.service import Progress

TICK_SECONDS = 0.5

Clock = Callable[[], float]
"""Seconds since 1970."""


class Display(Protocol):
    """Shows stages and lines. Times are seconds since 1970. Not from two threads at once: `showing` sees to that."""

    def begin(self, stage: str, total: int, at: float) -> None:
        """A stage begins, which is `total` long; 1 or less where nobody knows."""

    def update(self, stage: str, done: int, total: int, at: float) -> None:
        """A stage is so far."""

    def say(self, text: str, at: float, warning: bool = False) -> None:
        """One line."""

    def restart(self, at: float) -> None:
        """What comes is of another attempt."""

    def tick(self, now: float) -> None:
        """Time passes."""

    def rest(self, at: float) -> None:
        """Nothing goes on: stages that are open have ended."""

    def end(self, at: float, broken: bool = False) -> None:
        """Nothing comes any more; `broken`: since an error ended it all, which is told elsewhere."""


class Nothing(Display):
    """Shows nothing."""


class Shared:
    """A `Display` that several threads may use, and that goes with its terminal: nobody's work fails for it."""

    def __init__(self, inner: Display) -> None:
        self._inner: Display = inner
        self._lock = threading.Lock()

    def begin(self, stage: str, total: int, at: float) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.begin(stage, total, at))

    def update(self, stage: str, done: int, total: int, at: float) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.update(stage, done, total, at))

    def say(self, text: str, at: float, warning: bool = False) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.say(text, at, warning))

    def restart(self, at: float) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.restart(at))

    def tick(self, now: float) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.tick(now))

    def rest(self, at: float) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.rest(at))

    def end(self, at: float, broken: bool = False) -> None:
        """See `Display`."""
        self._show(lambda inner: inner.end(at, broken))

    def _show(self, how: Callable[[Display], None]) -> None:
        with self._lock:
            try:
                how(self._inner)
            except (OSError, ValueError):  # the terminal, or the stream, is gone
                self._inner = Nothing()


def progress_on(display: Display, clock: Clock = time.time) -> Progress:
    """A `Progress` that is shown on a display."""
    return lambda stage, done, total: display.update(stage, done, total, clock())


@contextmanager
def showing(quiet: bool = False, clock: Clock = time.time) -> Iterator[Display]:
    """A display on stderr, in which time passes by itself, while the context is open; `quiet`: one of nothing."""
    if quiet:
        yield Nothing()
        return
    shared = Shared(_on_stderr())
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(TICK_SECONDS):
            shared.tick(clock())

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    broken = True
    try:
        yield shared
        broken = False
    finally:
        stop.set()
        thread.join()
        shared.end(clock(), broken)


def _on_stderr() -> Display:
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        from consilium.protocol.progress.bars import Bars

        return Bars(console)
    from consilium.protocol.progress.log_lines import LogLines

    return LogLines(console.file)
