"""The stages of a piece of work: which are open, how far they are, and what they are called for people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from consilium.protocol.labels.service import Progress
from consilium.protocol.progress.time_left import TimeLeft, about, spent

LOAD = "load"
PREPARE, BASELINES, POOLED, ACCOUNTING = "prepare", "baselines", "pooled", "accounting"
HAND_LABELS, CURVES, AT_HOME, REPORT = "hand labels", "curves", "own rows", "report"
CANDIDATES, FORECAST, CHANGES, GAME = "candidates", "forecast", "changes", "game"
TRAIN_TEACHERS = "train"
SETTLE, ENSEMBLES, COMPARE, MEASURE = "settle", "ensembles", "compare", "measure"
ASK, ROUND, TRAIN_STUDENT = "ask", "round", "train student"

WORDS = {
    LOAD: "libraries and data load",
    PREPARE: "homes are laid out",
    "enrol": "parties enrol",
    TRAIN_TEACHERS: "parties train",
    "vote": "parties vote",
    ASK: "queries are asked",
    ROUND: "rounds of the student",
    TRAIN_STUDENT: "student trains",
    BASELINES: "teachers are judged",
    POOLED: "pooled model trains",
    ACCOUNTING: "charges are added up",
    HAND_LABELS: "labels by hand are tried",
    CURVES: "learning curves are drawn",
    AT_HOME: "parties' own rows are held out",
    REPORT: "report is drawn",
    CANDIDATES: "mechanisms are tried",
    FORECAST: "its worth is forecast",
    CHANGES: "changes are made",
    GAME: "the game is played",
    SETTLE: "cells are settled",
    ENSEMBLES: "divisions' teachers train",
    COMPARE: "methods are compared",
    MEASURE: "gains at home are measured",
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
        inner = (place for place, each in enumerate(self.open) if each is known or each.name not in AROUND)
        ended = self._end_from(next(inner, len(self.open)), at)
        found = StageState(name, total, at)
        if known is not None:
            found.times, found.before = known.times + 1, known.seconds(at)
        self.all[name] = found
        self.open.append(found)
        return StageChange(found, True, ended)

    def update(self, name: str, done: int, total: int, at: float) -> StageChange:
        """A stage is so far. One that was never begun, or that is less far than it was, begins."""
        known = self.all.get(name)
        if known is None or done < known.done or (known.ended is not None and known.done < known.total):
            change = self.begin(name, total, at)
        else:
            change = StageChange(known, False, [])
        found = change.stage
        if found.ended is None:
            found.done, found.total = done, total
            found.left.update(at, done)
            if done >= total:
                change.ended.extend(self._end_from(self.open.index(found), at))
        return change

    def end(self, at: float) -> list[StageState]:
        """Nothing goes on any more; what was open."""
        return self._end_from(0, at)

    def _end_from(self, place: int, at: float) -> list[StageState]:
        ended = self.open[place:]
        self.open = self.open[:place]
        for each in ended:
            each.ended = at
        return list(reversed(ended))
