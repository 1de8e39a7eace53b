"""The label service's contract in plain Python: the same interface in-process and over a socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np

from consilium.protocol.rows.schema import Schema

NO_LABEL = -1
"""Stands in a label array where there is none."""


class Outcome(IntEnum):
    """What became of one query; numbers as in labels.proto."""

    ANSWERED = 1
    ABSTAINED = 2
    NOT_ASKED = 3
    REINFORCED = 4
    """Interactive only: the parties do not contradict the student's own confident prediction; costs no label."""


@dataclass(frozen=True)
class LabelTerms:
    """On which terms labels are given.

    `epsilon_worst_case` holds at `delta` if all caps are used up, whatever the votes are; it is fixed before the run.
    It is of a `unit`, whose data may differ as `neighbouring` says.
    """

    federation: str
    schema: Schema
    mechanism: str
    unit: str
    delta: float
    epsilon_worst_case: float
    queries_left: int
    answers_left: int
    parties: int
    simulation: bool
    neighbouring: str = "replace"


@dataclass(frozen=True)
class Answers:
    """In the order of the queries: `outcomes` and `labels` are int64 (queries,), NO_LABEL where not answered."""

    outcomes: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): where the parties gave a label."""
        return self.outcomes == Outcome.ANSWERED

    def __len__(self) -> int:
        return len(self.outcomes)


Progress = Callable[[str, int, int], None]
"""Called with stage, done and total while an answer is on its way."""


def no_progress(stage: str, done: int, total: int) -> None:
    """A `Progress` that tells nobody."""


class LabelSource(Protocol):
    """What a student may ask. Asking a query again returns the recorded outcome and costs nothing."""

    def describe(self) -> LabelTerms: ...

    def ask(
        self, queries: np.ndarray, progress: Progress = no_progress, probabilities: np.ndarray | None = None
    ) -> Answers:
        """Queries (n, features) -> answers; `probabilities` float64 (n, classes) are the student's own predictions.

        Raises BudgetExceeded, DataError, NotEnoughParties or ServiceError.
        """
        ...

    def finish(self) -> None: ...
