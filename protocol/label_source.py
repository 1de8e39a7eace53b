"""The label service's contract in plain Python: the same interface in-process and over a socket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Protocol

import numpy as np
from pydantic import ConfigDict, Field

from consilium.protocol.releases import ReleaseKind
from consilium.protocol.schema import Schema

NO_LABEL = -1
"""Stands in a label array where there is none."""
MOST_COUNT = 2**53
"""Most votes or noisy votes in a histogram: beyond it a float64 is not exact any more."""


class Outcome(IntEnum):
    """What became of one query; these numbers travel."""

    ANSWERED = 1
    ABSTAINED = 2
    NOT_ASKED = 3
    REINFORCED = 4
    """Interactive only: the parties do not contradict the student's own confident prediction; costs no label."""


USES_UP = "uses up nothing more, unless a secure sum has to begin anew"
"""The effect of asking the same again: under masks parties charge each new sum."""

Deviation = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class LabelLaw:
    """The public law of a label. Of counts n (classes,), of `votes` votes at most, a label is argmax_j(n_j + Z_j), Z_j
    of standard deviation `deviation`, 0 where it is the exact winner. threshold: of a check, None where every query is
    answered. A query is answered where max_j(n_j - m_j + C_j) + Z >= threshold: C_j of deviation `cell_deviation` (of
    sums that hold noise), Z of `check_deviation`, all noise independent; m_j is 0, or votes times the student's own
    probability where it is `predicted`."""

    votes: Annotated[int, Field(ge=1)]
    deviation: Deviation
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    check_deviation: Deviation = 0.0
    cell_deviation: Deviation = 0.0
    predicted: bool = False
    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class LabelTerms:
    """The terms on which labels are given.

    `epsilon` holds at `delta` if the whole query budget is used up, whatever the votes are; it is fixed before the run.
    It is for one `unit`, whose data may differ as `neighbouring` says. `count_sigma`: standard deviation of the
    Gaussian noise on one count, in votes, where noisy histograms are given, else 0; where parties add it, as if all
    took part. `most_votes`: the most that may be in such a histogram: how many there were follows from private rows.
    `law`: how a label follows from the votes, None where counts are released. `release`: what is released for a query.
    `epsilon_nodes`: towards whoever sees noisy sums of the votes; 0 where none is stated. `simulation`: all parties are
    simulated. `real_noise`: of a simulation, whether its noise is the operating system's, as that of every other
    federation is. `recorded`, `spent`: where public rows were fixed beforehand, the ids of those whose outcome is in
    the ledger, so that asking them is free, and of those that the parties answered in an earlier federation.
    """

    federation: str
    schema: Schema
    mechanism: str
    unit: str
    delta: float
    epsilon: float
    queries_left: Annotated[int, Field(ge=0)]
    parties: int
    simulation: bool
    neighbouring: str = "replace"
    count_sigma: Deviation = 0.0
    most_votes: Annotated[int, Field(ge=0, le=MOST_COUNT)] = 0
    law: LabelLaw | None = None
    release: ReleaseKind = ReleaseKind.WINNER_OR_ABSTENTION
    epsilon_nodes: float = 0.0
    real_noise: bool = False
    recorded: tuple[str, ...] = ()
    spent: tuple[str, ...] = ()
    __pydantic_config__ = ConfigDict(ser_json_inf_nan="constants")


@dataclass(frozen=True)
class Answers:
    """What was released, in the order of the queries: `outcomes` and `labels` are int64 (queries,), NO_LABEL where not
    answered. counts: where counts are released, int64 (queries, classes): the noisy histograms, whose largest counts
    the labels are; a count may be negative; 0 for a query that was not asked."""

    outcomes: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)

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

    def ask(self, queries: np.ndarray, probabilities: np.ndarray | None = None) -> Answers:
        """Queries (n, features) -> answers; `probabilities` float64 (n, classes) are the student's own predictions.
        Raises BudgetExceeded, DataError, NotEnoughParties or ServiceError."""
        ...
