"""What a student is worth in manual labels, on made-up rows where that is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from consilium.models.keys import (
    EstimatorStudent,
    GraphCnnStudent,
    GraphStudent,
    LogisticRegressionStudent,
    TrainerKind,
)
from consilium.simulations.methods.manual_labels import PLAIN, Effort, ManualLabels, effort
from consilium.simulations.methods.worth import FEWEST, BreakEven, break_even, crossing, isotonic, worth
from consilium.student.config import StudentSpec
from tests.simulations.methods.public import made_up, student_on

SPEC = StudentSpec(trainer=LogisticRegressionStudent(C=1.0))
ROWS = np.random.default_rng(8).permutation(600)
"""That a student asked for."""


@pytest.mark.proofs
@pytest.mark.slow
@pytest.mark.parametrize(("labels", "classes"), [(40, 2), (150, 2), (60, 3)])
def test_a_student_of_true_labels_is_worth_about_as_many(labels: int, classes: int) -> None:
    """The 95 % interval misses two or more of ten with a chance of 9 %; the seeds are fixed."""
    public = made_up(classes=classes)
    found = [
        worth(public, student_on(public, labels, SPEC, seed), SPEC, labels, ROWS[:labels], seed, "quick")
        for seed in range(10)
    ]
    held = [(block["low"] or 0) <= labels <= (block["high"] or block["most"]) for block in found]
    assert sum(held) >= 9
    middle = np.median([block["most"] if block["manual_labels"] is None else block["manual_labels"] for block in found])
    assert labels / 2 < middle < labels * 2


def perfect(y: np.ndarray) -> np.ndarray:
    return np.eye(2)[y]


@pytest.mark.parametrize(
    ("change", "student", "expected"),
    [
        ({}, lambda y: 1 - perfect(y), (0, 0, 0)),
        ({}, perfect, (None, None, None)),
        ({"labels": np.zeros(600, dtype=np.int64)}, perfect, (None, None, None)),
        ({"labels": np.zeros(600, dtype=np.int64)}, lambda y: np.full((len(y), 2), 0.5), (0, 0, 0)),
    ],
    ids=["worse than anything", "better than all", "one class in the pool", "one class, and nothing learnt"],
)
def test_ends(change: dict, student, expected: tuple) -> None:
    public = replace(made_up(), **change)
    told: list[tuple[str, int, int]] = []
    block = worth(public, student(public.test_y), SPEC, 20, ROWS[:50], 0, "quick", lambda *step: told.append(step))
    assert [step[1] for step in told] == sorted({step[1] for step in told})  # how far it is never falls
    assert {step[2] for step in told} == {told[-1][1]} and told[0][1] == 0
    assert (block["manual_labels"], block["low"], block["high"]) == expected


@pytest.mark.parametrize(("released", "asked"), [(3, 3), (0, 2), (0, 0)])
def test_a_pool_of_three_rows(released: int, asked: int) -> None:
    public = made_up(pool=3)
    block = worth(public, perfect(public.test_y), SPEC, released, np.arange(asked), 0, "quick")
    assert (block["manual_labels"], block["fewest"], block["most"], block["public_rows"]) == (None, 3, 3, 3)
    assert (block["released"]["labels"], block["asked"]["labels"]) == (released, asked)


def test_one_class_of_test_rows_is_judged_by_accuracy() -> None:
    public = made_up()
    public = replace(public, test_x=public.test_x[public.test_y == 1], test_y=public.test_y[public.test_y == 1])
    block = worth(public, student_on(public, 50, SPEC, 0), SPEC, 50, ROWS[:50], 0, "quick")
    assert block["metric"] == "accuracy" and block["released"]["auc"] is None


def test_points_take_the_rows_that_were_asked_where_the_rows_decide() -> None:
    public = made_up(pool=200)
    typical = StudentSpec(trainer=SPEC.trainer, selection="typical")
    asked = np.flatnonzero(public.labels == 1)
    by_lot, chosen = (ManualLabels(public, spec, asked, 0, "quick") for spec in (SPEC, typical))
    assert by_lot.metrics_of(8)["draws"] == 20 and by_lot.metrics_of(8)["auc"] > 0.5
    # labels of one class teach nothing
    assert chosen.metrics_of(8)["draws"] == 1 and chosen.metrics_of(8)["auc"] == 0.5


def test_a_slow_trainer_is_not_searched_with() -> None:
    public = made_up()
    tree = EstimatorStudent(factory="sklearn.tree.DecisionTreeClassifier", parameters={"max_depth": 1})
    stump = StudentSpec(trainer=tree)
    block = worth(public, student_on(public, 50, SPEC, 0), stump, 20, ROWS[:40], 0, "quick")
    assert "manual_labels" not in block and block["released"]["trainer"] == PLAIN
    assert block["released"]["own"] < block["released"]["plain"]


def test_where_all_were_released_their_number_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    class Counting(ManualLabels):
        def metrics_of(self, count: int) -> dict:
            counts.append(count)
            return super().metrics_of(count)

    monkeypatch.setattr("consilium.simulations.methods.worth.ManualLabels", Counting)
    public = made_up()
    for released, asked in ((30, 30), (20, 30)):
        worth(public, student_on(public, 30, SPEC, 0), SPEC, released, ROWS[:asked], 0, "quick")
    assert counts[0] == 30 and sorted(counts[1:]) == [20, 30]


@pytest.mark.parametrize(
    ("kind", "rows", "inputs", "expected"),
    [
        (LogisticRegressionStudent(), 2000, 50, Effort(20, True)),
        (LogisticRegressionStudent(), 9000, 784, Effort(3, False)),
        (GraphStudent(), 100, 50, Effort(3, False)),
        (GraphCnnStudent(), 30, 784, Effort(1, False)),
    ],
)
def test_effort_of_each_kind(kind: TrainerKind, rows: int, inputs: int, expected: Effort) -> None:
    assert effort(kind, rows, inputs, 2, "quick") == expected


TEST = 400
"""Test rows."""


class KnownCurve:
    """Accuracy 0.9 - 0.8 / sqrt(n) with n labels, in each draw; a row's score is the accuracy itself."""

    def __init__(self, draws: int = 3) -> None:
        self.draws, self.asked = draws, []

    def __call__(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return np.full((self.draws, TEST), self.height(count))

    @staticmethod
    def height(count: float) -> float:
        return 0.9 - 0.8 / math.sqrt(count)


def found(level: float, most: int, curve: KnownCurve | None = None) -> BreakEven:
    return break_even(np.full(TEST, level), curve or KnownCurve(), most, np.random.default_rng(0))


@pytest.mark.parametrize("labels", [7, 120, 4000])
def test_finds_the_number_in_few_steps(labels: int) -> None:
    curve = KnownCurve()
    result = found(KnownCurve.height(labels), 10_000, curve)
    assert result.labels == pytest.approx(labels, rel=0.03, abs=1)
    assert result.low == pytest.approx(labels, rel=0.03, abs=1)
    assert result.high == pytest.approx(labels, rel=0.03, abs=1)
    assert len(set(curve.asked)) == len(curve.asked) <= 14


@pytest.mark.parametrize(
    ("level", "most", "expected"),
    [
        (0.1, 900, BreakEven(0, 0, 0)),
        (KnownCurve.height(FEWEST), 900, BreakEven(0, 0, 0)),
        (0.89, 900, BreakEven(math.inf, math.inf, math.inf)),
        (KnownCurve.height(900), 900, BreakEven(900, 900, 900)),
        (KnownCurve.height(3), 3, BreakEven(0, 0, 0)),
        (0.9, 3, BreakEven(math.inf, math.inf, math.inf)),
        (0.0, 1, BreakEven(0, 0, 0)),
    ],
    ids=["worse than anything", "as the fewest", "better than all", "as all", "3 rows", "3 rows, better", "1 row"],
)
def test_ends_of_the_search(level: float, most: int, expected: BreakEven) -> None:
    assert found(level, most) == expected


def test_the_interval_holds_the_luck_of_draws_and_of_test_rows() -> None:
    """Draws that differ by +-0.02 in accuracy lie where the known curve is that much higher or lower."""

    def with_luck(count: int) -> np.ndarray:
        heights = KnownCurve.height(count) + np.linspace(-0.02, 0.02, 21)
        return np.repeat(heights[:, None], TEST, axis=1)

    result = break_even(np.full(TEST, KnownCurve.height(100)), with_luck, 10_000, np.random.default_rng(0))
    assert result.labels == pytest.approx(100, rel=0.05)
    assert result.low == pytest.approx((0.8 / 0.1) ** 2, rel=0.1)  # 0.08 is missing at 100 labels, 0.10 there
    assert result.high == pytest.approx((0.8 / 0.06) ** 2, rel=0.1)

    rows = np.random.default_rng(1)
    student = (rows.random(TEST) < KnownCurve.height(100)).astype(float)
    student += KnownCurve.height(100) - student.mean()
    by_rows = break_even(student, KnownCurve(), 10_000, np.random.default_rng(0))
    assert by_rows.low < 80 and by_rows.high > 130


@given(st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=1, max_size=4))
def test_isotonic_regression_is_scipys(rows: list[list[float]]) -> None:
    expected = [isotonic_regression(row).x for row in rows]
    np.testing.assert_allclose(isotonic(np.array(rows)), expected, atol=1e-12)


def test_a_dip_is_levelled_before_it_is_crossed() -> None:
    counts = np.array([10, 20, 40])
    assert crossing(counts, np.array([[0.6, 0.8, 0.7]]), 0.78).tolist() == [math.inf]
    assert crossing(counts, np.array([[0.6, 0.8, 0.7]]), 0.75).tolist() == pytest.approx([20.0])
