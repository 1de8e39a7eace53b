"""The search for the number of labels, on curves that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from consilium.simulations.compare.break_even import FEWEST, BreakEven, break_even, crossing, isotonic

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


@pytest.mark.parametrize("labels", [7, 30, 120, 500, 4000])
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
def test_ends(level: float, most: int, expected: BreakEven) -> None:
    assert found(level, most) == expected


def test_a_better_student_is_never_worth_less() -> None:
    results = [found(level, 2000) for level in np.linspace(0.5, 0.9, 15)]
    for name in ("labels", "low", "high"):
        values = [getattr(result, name) for result in results]
        assert values == sorted(values)


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
