"""What one sees of work that takes minutes: its stages, as bars on a terminal and as lines of a log elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from consilium.protocol.label_source import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

LOAD, PREPARE, TRAIN_TEACHERS = "libraries and data load", "parties get their rows", "train"
ASK, ROUND = "queries are asked", "rounds of the student"
TRAIN_STUDENT = "student trains"
BASELINES, POOLED, RIVALS = "teachers are judged", "pooled model trains", "private rivals are computed"
MANUAL_LABELS = "manual labels are tried"
AT_HOME, REPORT = "parties' own rows are held out", "report is drawn"
GAME, MEMBERSHIP = "the game is played", "members are looked for"
COMPARE = "cells are computed"
WORDS = {"enrol": "parties enrol", TRAIN_TEACHERS: "parties train", "vote": "parties vote"}
"""For people, of stages that a federation names. Others are called as they are named."""
AROUND = frozenset({ASK, ROUND, TRAIN_STUDENT, COMPARE})
"""Stages that go on while others happen in them."""
EVERY_SECONDS = 10.0
"""Between two lines about how far a stage is."""
CLOSED = (OSError, ValueError)
"""A terminal that is not there any more: nobody's work fails for it."""
_STEPS = ((20, 5), (60, 10), (600, 60), (3600, 300), (36_000, 600), (math.inf, 3600))
"""Below so many seconds, times are told in steps of so many."""


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


@contextmanager
def stage(progress: Progress, name: str) -> Iterator[None]:
    """Tell that a stage is open while the context is; of how far it is nothing is known."""
    progress(name, 0, 1)
    yield
    progress(name, 1, 1)


class Display:
    """Shows stages and lines; this one shows nothing."""

    def update(self, stage: str, done: int, total: int) -> None:
        """A stage is so far; at first, and where that is less than before, it begins. total: 1 or less: unknown."""

    def say(self, text: str, warning: bool = False) -> None: ...


@contextmanager
def showing(quiet: bool = False) -> Iterator[Display]:
    """A display on stderr while the context is open; `quiet`: one of nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet:
        yield Display()
    elif not console.is_terminal or console.is_dumb_terminal:
        yield LogLines(console.file)
    else:
        display = Bars(console)
        try:
            yield display
        finally:
            with contextlib.suppress(*CLOSED):
                display.table.stop()


class LogLines(Display):
    """Lines of a log. Of a stage that comes again, as one batch of votes after the other, the first time alone."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._last = file, 0.0
        self._began: dict[str, tuple[float, int]] = {}  # when, and how far it was then
        self._ended: set[str] = set()

    def update(self, stage: str, done: int, total: int) -> None:
        words, now = WORDS.get(stage, stage), time.monotonic()
        if stage not in self._began:
            self._began[stage] = now, done
            self.say(f"{words} ({total})" if total > 1 else words)
        if stage in self._ended:
            return
        began, first = self._began[stage]
        far = f"{words}: {done} of {total}" if total > 1 else words
        if done >= total:
            self._ended.add(stage)
            self.say(f"{far}, ended after {spent(now - began)}")
        elif now >= self._last + EVERY_SECONDS:
            # nothing is known of its pace before its first piece has ended
            left = f", {about((now - began) * (total - done) / (done - first))} left" if done > first else ""
            self.say(f"{far} after {spent(now - began)}{left}")

    def say(self, text: str, warning: bool = False) -> None:
        self._last = time.monotonic()
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {'warning: ' if warning else ''}{text}"
        with contextlib.suppress(*CLOSED):
            print(line, file=self._file, flush=True)


class Bars(Display):
    """As bars of rich's. A stage that comes again keeps its bar; what is not known to end is seen to move."""

    def __init__(self, console: Console) -> None:
        from rich import progress

        name, left = progress.TextColumn("{task.description:>30}"), progress.TimeRemainingColumn(compact=True)
        middle = progress.BarColumn(24), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
        self.table = progress.Progress(
            progress.SpinnerColumn(), name, *middle, left, console=console, redirect_stdout=False
        )
        self._rows: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}

    def update(self, stage: str, done: int, total: int) -> None:
        table, length = self.table, total if total > 1 or done else None
        with contextlib.suppress(*CLOSED):
            table.start()  # with a thread, which nobody has before the first stage
            if stage not in self._rows:
                self._rows[stage] = table.add_task(WORDS.get(stage, stage), total=length)
            if done < self._done.get(stage, done + 1):
                table.reset(self._rows[stage], total=length)
                for other in self._rows.keys() - AROUND - {stage}:
                    table.stop_task(self._rows[other])
            self._done[stage] = done
            table.update(self._rows[stage], completed=done, total=length)

    def say(self, text: str, warning: bool = False) -> None:
        with contextlib.suppress(*CLOSED):
            line, style = (f"warning: {text}", "yellow") if warning else (text, None)
            self.table.console.print(line, style=style, markup=False, highlight=False)
