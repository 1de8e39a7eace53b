"""How often a student's trainer may be run again on labels by hand: as often as it is cheap.

From the kind and the numbers of rows, inputs and classes, never from a clock: a run must give the same twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from consilium.simulations.population.specs import HandLabelMode
from consilium.student.trainers.kinds import FeatureMatchingStudent, LogisticRegressionStudent, TreesStudent
from consilium.student.trainers.settings import (
    GraphAndNetworksStudent,
    ImageStudent,
    KernelStudent,
    SpreadingStudent,
    TrainerKind,
)

MOST_DRAWS: dict[HandLabelMode, int] = {"full": 60, "quick": 20, "none": 0}
FEWEST_DRAWS = 3
_BUDGET = 1e10
"""Floating point operations, a second or two, of all draws of one number of labels."""
_SOLVER_STEPS = 200


@dataclass(frozen=True)
class Effort:
    """What is tried. `draws` of labels; `bisected`: whether the search for the break-even uses the trainer too."""

    draws: int
    bisected: bool


def draws_of(operations: float, mode: HandLabelMode) -> int:
    """Draws of labels for a training of so many floating point operations.

    >>> draws_of(1e6, "quick"), draws_of(2e9, "quick"), draws_of(1e12, "quick")
    (20, 5, 3)
    """
    return int(min(MOST_DRAWS[mode], max(FEWEST_DRAWS, _BUDGET // max(operations, 1.0))))


def plain_operations(rows: int, inputs: int) -> float:
    """Of one training of `plain_ridge`, roughly."""
    return 2.0 * rows * inputs * min(rows, inputs)


def most_plain_rows(rows: int, inputs: int, mode: HandLabelMode) -> int:
    """So many of the `rows` of the pool are labelled by hand at most; all but where that takes minutes.

    >>> most_plain_rows(9000, 50, "quick"), most_plain_rows(9000, 3969, "quick"), most_plain_rows(9000, 3969, "full")
    (9000, 1587, 9000)
    """
    limit = 2 * _BUDGET
    if mode == "full" or plain_operations(rows, inputs) <= limit:
        return rows
    return int((limit / (2 * inputs)) ** 0.5 if 2 * inputs**3 > limit else limit / (2 * inputs**2))


@singledispatch
def effort(kind: TrainerKind, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    """Of a trainer on at most `rows` labelled rows of so many `inputs`; a kind without an entry is tried rarely."""
    return Effort(FEWEST_DRAWS, bisected=mode == "full")


@effort.register
def _(kind: LogisticRegressionStudent, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    return _cheap(4.0 * _SOLVER_STEPS * rows * inputs * classes, mode)


@effort.register
def _(kind: KernelStudent, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    return _cheap(2.0 * rows * rows * (inputs + rows), mode)


@effort.register
def _(kind: SpreadingStudent, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    """It spreads labels over the whole pool, however few they are."""
    return Effort(FEWEST_DRAWS, bisected=mode == "full")


@effort.register
def _(kind: TreesStudent, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    return Effort(5, bisected=mode == "full")


@effort.register(ImageStudent)
@effort.register(GraphAndNetworksStudent)
@effort.register(FeatureMatchingStudent)
def _(kind: TrainerKind, rows: int, inputs: int, classes: int, mode: HandLabelMode) -> Effort:
    """Minutes each, so once and never in the search."""
    return Effort(FEWEST_DRAWS if mode == "full" else 1, bisected=False)


def _cheap(operations: float, mode: HandLabelMode) -> Effort:
    return Effort(draws_of(operations, mode), bisected=mode == "full" or operations <= _BUDGET)
