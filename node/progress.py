"""What one sees of work that takes minutes: its stages with the time that is left, as bars or as lines of a log."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from consilium.protocol.label_source import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

LEAST_SECONDS = 2.0
"""Nothing is said before a stage has shown for so long how fast it is."""
MOST_POINTS = 256

_STEPS = ((20, 5), (60, 10), (600, 60), (3600, 300), (36_000, 600), (math.inf, 3600))
"""Below so many seconds, times are told in steps of so many."""


_LOADED = time.monotonic()
_START = 19
"""Of the fields behind a process's name in /proc/PID/stat: when it began, in ticks since the machine did."""


def seconds_since_start() -> float:
    """That this process has run for, its libraries' loading included; where the system does not say when it began,
    since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return time.monotonic() - _LOADED


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
            points = list(self._points)
            self._points = deque([*points[:-1:2], points[-1]])

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


LOAD = "load"
PREPARE, BASELINES, POOLED, RIVALS, ACCOUNTING = "prepare", "baselines", "pooled", "rivals", "accounting"
HAND_LABELS, CURVES, AT_HOME, REPORT = "hand labels", "curves", "own rows", "report"
GAME = "game"
TRAIN_TEACHERS = "train"
SETTLE, ENSEMBLES, COMPARE, MEASURE = "settle", "ensembles", "compare", "measure"
MEMBERSHIP = "membership"
ASK, ROUND, TRAIN_STUDENT, TRAIN_AGAIN = "ask", "round", "train student", "train again"

WORDS = {
    LOAD: "libraries and data load",
    PREPARE: "homes are laid out",
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
    ACCOUNTING: "charges are added up",
    HAND_LABELS: "labels by hand are tried",
    CURVES: "learning curves are drawn",
    AT_HOME: "parties' own rows are held out",
    REPORT: "report is drawn",
    GAME: "the game is played",
    SETTLE: "cells are settled",
    ENSEMBLES: "divisions' teachers train",
    COMPARE: "methods are compared",
    MEASURE: "gains at home are measured",
    MEMBERSHIP: "members are looked for",
}
"""For people. A stage without an entry is called as it is named."""

AROUND = frozenset({ASK, ROUND, TRAIN_STUDENT, ENSEMBLES, COMPARE})
"""Stages that stay open while others happen in them."""


@contextmanager
def stage(progress: Progress, name: str) -> Iterator[None]:
    """Tell that a stage is open while the context is; of how far it is nothing is known."""
    progress(name, 0, 1)
    yield
    progress(name, 1, 1)


@dataclass
class StageState:
    """One stage. `total` 1 or less: nobody knows how far it is until it is done. Times are those of a clock.

    times : how often it has begun. before: seconds that it took the times before. ended: None while it is open.
    """

    name: str
    total: int
    began: float
    done: int = 0
    times: int = 1
    before: float = 0.0
    ended: float | None = None
    left: TimeLeft = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.left = TimeLeft(self.began, self.done)

    @property
    def words(self) -> str:
        """What people call it."""
        return WORDS.get(self.name, self.name)

    @property
    def counted(self) -> bool:
        """Whether it is known how far it is."""
        return self.total > 1

    def seconds(self, now: float) -> float:
        """That it took, all times together."""
        return self.before + max(0.0, (now if self.ended is None else self.ended) - self.began)

    def count(self) -> str:
        """How far it is, or nothing."""
        return f"{self.done} of {self.total}" if self.counted else ""

    def time_left(self, now: float) -> str:
        """For people, or nothing where it has ended or cannot be known."""
        seconds = self.left.seconds(now, self.total) if self.counted and self.ended is None else None
        return f"{about(seconds)} left" if seconds else ""

    def __str__(self) -> str:
        return f"{self.words}: {self.count()}" if self.counted else self.words

    def told(self, now: float) -> str:
        """All of it in a line: `parties train: 120 of 371, 4.0 s so far, about 10 s left`."""
        parts = [str(self), f"{spent(self.seconds(now))} so far", self.time_left(now)]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class StageChange:
    """What became of a stage. begun: it begins with this. ended: those that end with it, itself perhaps among them."""

    stage: StageState
    begun: bool
    ended: list[StageState]


class Stages:
    """All stages by name, and those that are open, the innermost last."""

    def __init__(self) -> None:
        self.all: dict[str, StageState] = {}
        self.open: list[StageState] = []

    def begin(self, name: str, total: int, at: float) -> StageChange:
        """A stage begins, perhaps again. What is open ends, but for stages in which others happen (`AROUND`)."""
        known = self.all.get(name)
        inner = (place for place, stage in enumerate(self.open) if stage is known or stage.name not in AROUND)
        ended = self._end_from(next(inner, len(self.open)), at)
        stage = StageState(name, total, at)
        if known is not None:
            stage.times, stage.before = known.times + 1, known.seconds(at)
        self.all[name] = stage
        self.open.append(stage)
        return StageChange(stage, True, ended)

    def update(self, name: str, done: int, total: int, at: float) -> StageChange:
        """A stage is so far. One that was never begun, or that is less far than it was, begins."""
        known = self.all.get(name)
        if known is None or done < known.done or (known.ended is not None and known.done < known.total):
            change = self.begin(name, total, at)
        else:
            change = StageChange(known, False, [])
        stage = change.stage
        if stage.ended is None:
            stage.done, stage.total = done, total
            stage.left.update(at, done)
            if done >= total:
                change.ended.extend(self._end_from(self.open.index(stage), at))
        return change

    def end(self, at: float) -> list[StageState]:
        """Nothing goes on any more; what was open."""
        return self._end_from(0, at)

    def _end_from(self, place: int, at: float) -> list[StageState]:
        ended = self.open[place:]
        self.open = self.open[:place]
        for stage in ended:
            stage.ended = at
        return list(reversed(ended))


TICK_SECONDS = 0.5

Clock = Callable[[], float]
"""Seconds since 1970."""


class Display:
    """Shows stages and lines; this one remembers the stages, and shows nothing. Times are seconds since 1970. Not from
    two threads at once: `showing` sees to that."""

    def __init__(self) -> None:
        self.stages = Stages()

    def begin(self, stage: str, total: int, at: float) -> None:
        """A stage begins, which is `total` long; 1 or less where nobody knows."""
        self._show(self.stages.begin(stage, total, at), at)

    def update(self, stage: str, done: int, total: int, at: float) -> None:
        """A stage is so far."""
        self._show(self.stages.update(stage, done, total, at), at)

    def say(self, text: str, at: float, warning: bool = False) -> None:
        """One line."""

    def tick(self, now: float) -> None:
        """Time passes."""

    def end(self, at: float, broken: bool = False) -> None:
        """Nothing comes any more; `broken`: since an error ended it all, which is told elsewhere."""

    def _show(self, change: StageChange, at: float) -> None:
        """What became of a stage."""

    def _show_ended(self, stages: list[StageState], at: float) -> None:
        """These have ended since nothing goes on."""


def _passed_on(name: str) -> Callable[..., None]:
    def method(self: Shared, *arguments: Any, **named: Any) -> None:
        with self._lock:
            try:
                getattr(self._inner, name)(*arguments, **named)
            except (OSError, ValueError):  # the terminal, or the stream, is gone
                self._inner = Display()

    return method


class Shared(Display):
    """A `Display` that several threads may use, and that goes with its terminal: nobody's work fails for it."""

    def __init__(self, inner: Display) -> None:
        self._inner = inner
        self._lock = threading.Lock()

    begin, update, say = _passed_on("begin"), _passed_on("update"), _passed_on("say")
    tick, end = _passed_on("tick"), _passed_on("end")


def progress_on(display: Display, clock: Clock = time.time) -> Progress:
    """A `Progress` that is shown on a display."""
    return lambda stage, done, total: display.update(stage, done, total, clock())


@contextmanager
def showing(quiet: bool = False, clock: Clock = time.time) -> Iterator[Display]:
    """A display on stderr, in which time passes by itself, while the context is open; `quiet`: one of nothing."""
    if quiet:
        yield Display()
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
        return Bars(console)
    return LogLines(console.file)


EVERY_SECONDS = 10.0
LEAST_BETWEEN = 2.0
"""Seconds between two lines about how far a stage is, however fast it goes."""
PART = 0.1
"""Of a stage: so much more is worth a line."""


class LogLines(Display):
    """Lines of a log. A stage that comes again, as one batch of votes after the other, is told by the clock alone."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self._file = file
        self._last = 0.0
        self._shares: dict[str, float] = {}

    def say(self, text: str, at: float, warning: bool = False) -> None:
        self._write(f"{'warning: ' if warning else ''}{text}", at)

    def tick(self, now: float) -> None:
        if self.stages.open and now >= self._last + EVERY_SECONDS:
            self._tell(now)

    def end(self, at: float, broken: bool = False) -> None:
        if not broken:
            self._show_ended(self.stages.end(at), at)

    def _show(self, change: StageChange, at: float) -> None:
        stage = change.stage
        self._show_ended([ended for ended in change.ended if ended is not stage], at)
        if change.begun and stage.times == 1:
            self._write(f"{stage.words} ({stage.total})" if stage.counted else stage.words, at)
        self._show_ended([ended for ended in change.ended if ended is stage], at)
        if not change.begun and stage.ended is None and stage.counted and stage.times == 1:
            share = stage.done / stage.total
            if share >= self._shares.get(stage.name, 0.0) + PART and at >= self._last + LEAST_BETWEEN:
                self._tell(at)
                self._shares[stage.name] = share

    def _show_ended(self, stages: list[StageState], at: float) -> None:
        for stage in stages:
            if stage.times == 1:
                how = "done" if stage.done >= stage.total else "ended"
                self._write(f"{stage}, {how} in {spent(stage.seconds(at))}", at)

    def _tell(self, at: float) -> None:
        """All that is open, in one line."""
        self._write("; ".join(stage.told(at) for stage in self.stages.open), at)

    def _write(self, text: str, at: float) -> None:
        self._last = at
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}  {text}", file=self._file, flush=True)


class Bars(Display):
    """As bars. A stage that comes again keeps its bar; its time is that of all times together."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, TextColumn  # only where there is a terminal
        from rich.progress import Progress as Table

        super().__init__()
        self._console = console
        self._rows: dict[str, TaskID] = {}
        columns = (
            TextColumn("{task.description:>24}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]:>14}"),
            TextColumn("{task.fields[spent]:>10}"),
            TextColumn("{task.fields[left]}"),
        )
        self._progress = Table(*columns, console=console, refresh_per_second=4, redirect_stdout=False)
        self._progress.start()

    def say(self, text: str, at: float, warning: bool = False) -> None:
        line = f"warning: {text}" if warning else text
        self._console.print(line, style="yellow" if warning else None, markup=False, highlight=False)

    def tick(self, now: float) -> None:
        self._show_ended(self.stages.open, now)

    def end(self, at: float, broken: bool = False) -> None:
        self._show_ended(self.stages.end(at), at)
        self._progress.stop()

    def _show(self, change: StageChange, at: float) -> None:
        self._show_ended([*change.ended, change.stage], at)

    def _show_ended(self, stages: list[StageState], at: float) -> None:
        """These as they are now, whether they have ended or not."""
        for stage in stages:
            if stage.name not in self._rows:
                self._rows[stage.name] = self._progress.add_task(stage.words, total=None, count="", spent="", left="")
            done, total = stage.done, stage.total if stage.counted else None
            if stage.ended is not None and not stage.counted:
                done, total = 1, 1
            self._progress.update(
                self._rows[stage.name],
                completed=done,
                total=total,
                count=stage.count(),
                spent=spent(stage.seconds(at)),
                left=stage.time_left(at),
            )
