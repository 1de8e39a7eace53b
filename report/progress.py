"""What one sees of work that takes minutes: its stages, as bars on a terminal and as lines of a log elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from consilium.protocol.label_source import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

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


LOAD = "load"
PREPARE, BASELINES, POOLED, RIVALS = "prepare", "baselines", "pooled", "rivals"
HAND_LABELS, CURVES, AT_HOME, REPORT = "hand labels", "curves", "own rows", "report"
GAME = "game"
TRAIN_TEACHERS = "train"
COMPARE, MEASURE = "compare", "measure"
MEMBERSHIP = "membership"
ASK, ROUND, TRAIN_STUDENT, TRAIN_AGAIN = "ask", "round", "train student", "train again"

WORDS = {
    LOAD: "libraries and data load",
    PREPARE: "parties get their rows",
    "enrol": "parties enrol",
    TRAIN_TEACHERS: "parties train",
    "vote": "parties vote",
    ASK: "queries are asked",
    ROUND: "rounds of the student",
    TRAIN_STUDENT: "student trains",
    TRAIN_AGAIN: "student trains again on halves",
    BASELINES: "teachers are judged",
    POOLED: "pooled model trains",
    RIVALS: "private rivals are computed",
    HAND_LABELS: "labels by hand are tried",
    CURVES: "learning curves are drawn",
    AT_HOME: "parties' own rows are held out",
    REPORT: "report is drawn",
    GAME: "the game is played",
    COMPARE: "cells are computed",
    MEASURE: "gains at home are measured",
    MEMBERSHIP: "members are looked for",
}
"""For people. A stage without an entry is called as it is named."""


def words_of(name: str) -> str:
    """What people call a stage."""
    return WORDS.get(name, name)


AROUND = frozenset({ASK, ROUND, TRAIN_STUDENT, COMPARE})
"""Stages that stay open while others happen in them."""


@contextmanager
def stage(progress: Progress, name: str) -> Iterator[None]:
    """Tell that a stage is open while the context is; of how far it is nothing is known."""
    progress(name, 0, 1)
    yield
    progress(name, 1, 1)


class Display:
    """Shows stages and lines; this one shows nothing."""

    def begin(self, stage: str, total: int) -> None:
        """A stage begins, which is `total` long; 1 or less where nobody knows."""

    def update(self, stage: str, done: int, total: int) -> None:
        """A stage is so far. One that was never begun, or that is less far than it was, begins."""

    def say(self, text: str, warning: bool = False) -> None:
        """One line."""

    def end(self) -> None:
        """Nothing comes any more: stages that are open have ended."""


def progress_on(display: Display) -> Progress:
    """A `Progress` that is shown on a display."""
    return display.update


@contextmanager
def showing(quiet: bool = False) -> Iterator[Display]:
    """A display on stderr while the context is open; `quiet`: one of nothing."""
    display = Display() if quiet else _on_stderr()
    try:
        yield display
    finally:
        display.end()


def _on_stderr() -> Display:
    from rich.console import Console

    console = Console(stderr=True)
    return Bars(console) if console.is_terminal and not console.is_dumb_terminal else LogLines(console.file)


class Stages(Display):
    """Which stages are open, the innermost last, and how far each is.

    It goes with its terminal: nobody's work fails for one that is not there any more.
    """

    def __init__(self) -> None:
        self._gone = False
        self._open: list[str] = []
        self._done: dict[str, int] = {}

    def begin(self, stage: str, total: int) -> None:
        """See `Display`. What is open ends, but for stages in which others happen (`AROUND`)."""
        inner = (place for place, name in enumerate(self._open) if name == stage or name not in AROUND)
        self._end_from(next(inner, len(self._open)))
        again, self._done[stage] = stage in self._done, 0
        self._open.append(stage)
        self._tell(self._began, stage, total, again)

    def update(self, stage: str, done: int, total: int) -> None:
        """See `Display`."""
        if stage not in self._open or done < self._done[stage]:
            if done and done == self._done.get(stage):
                return  # it has ended
            self.begin(stage, total)
        self._done[stage] = done
        self._tell(self._went_on, stage, done, total)
        if done >= total:
            self._end_from(self._open.index(stage))

    def end(self) -> None:
        """See `Display`."""
        self._end_from(0)

    def _end_from(self, place: int) -> None:
        ended, self._open = self._open[place:], self._open[:place]
        for stage in reversed(ended):
            self._tell(self._ended, stage)

    def _tell(self, show: Callable[..., object], *what: Any) -> None:
        if not self._gone:
            try:
                show(*what)
            except (OSError, ValueError):
                self._gone = True

    def _began(self, stage: str, total: int, again: bool) -> None: ...

    def _went_on(self, stage: str, done: int, total: int) -> None: ...

    def _ended(self, stage: str) -> None: ...


EVERY_SECONDS = 10.0
"""Between two lines about how far a stage is."""


class LogLines(Stages):
    """Lines of a log. Of a stage that comes again, as one batch of votes after the other, the first time alone."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file
        self._last = 0.0
        self._first: dict[str, tuple[float, str]] = {}
        """When each that is told of began, and how far it is."""

    def say(self, text: str, warning: bool = False) -> None:
        """See `Display`."""
        self._tell(self._write, f"{'warning: ' if warning else ''}{text}")

    def _began(self, stage: str, total: int, again: bool) -> None:
        if not again:
            self._first[stage] = time.monotonic(), ""
            self._write(f"{words_of(stage)} ({total})" if total > 1 else words_of(stage))

    def _went_on(self, stage: str, done: int, total: int) -> None:
        if stage in self._first:
            began, far = self._first[stage][0], f": {done} of {total}" if total > 1 else ""
            self._first[stage] = began, far
            if done < total and time.monotonic() >= self._last + EVERY_SECONDS:
                left = f", {about((time.monotonic() - began) * (total - done) / done)} left" if done else ""
                self._write(f"{words_of(stage)}{far}{left}")

    def _ended(self, stage: str) -> None:
        if stage in self._first:
            began, far = self._first.pop(stage)
            self._write(f"{words_of(stage)}{far}, ended after {spent(time.monotonic() - began)}")

    def _write(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}", file=self._file, flush=True)


class Bars(Stages):
    """As bars of rich's. A stage that comes again keeps its bar."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Table

        super().__init__()
        self._console = console
        self._rows: dict[str, TaskID] = {}
        columns = TextColumn("{task.description:>24}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn()
        self._table = Table(*columns, TimeRemainingColumn(), console=console, redirect_stdout=False)

    def say(self, text: str, warning: bool = False) -> None:
        """See `Display`."""
        self._tell(self._print, f"warning: {text}" if warning else text, "yellow" if warning else None)

    def _print(self, line: str, style: str | None) -> None:
        self._console.print(line, style=style, markup=False, highlight=False)

    def end(self) -> None:
        """See `Display`."""
        super().end()
        self._tell(self._table.stop)

    def _began(self, stage: str, total: int, again: bool) -> None:
        length = total if total > 1 else None
        self._table.start()  # with a thread, which nobody has before the first stage
        if again:
            self._table.reset(self._rows[stage], total=length)
        else:
            self._rows[stage] = self._table.add_task(words_of(stage), total=length)

    def _went_on(self, stage: str, done: int, total: int) -> None:
        self._table.update(self._rows[stage], completed=done, total=total if total > 1 or done else None)

    def _ended(self, stage: str) -> None:
        self._table.stop_task(self._rows[stage])
