"""Means over seeds: scipy's intervals, both parts of them, every figure once."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from consilium.protocol.errors import DataError
from consilium.simulations.study.summaries.tidy import tidy
from consilium.simulations.study.summaries.view import over_seeds
from tests.simulations.study.made_up import MadeUp, figures


@pytest.mark.parametrize("values", [[0.5, 0.51, 0.53], [0.5, 0.52, 0.55, 0.49, 0.51], list(np.linspace(0.2, 0.4, 12))])
def test_the_interval_over_seeds_is_students(values: list[float]) -> None:
    row = over_seeds(figures({"pate": values}, metric="gap_mean")).row(0, named=True)
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((np.mean(values), low, high))
    assert (row["seeds"], row["over"]) == (len(values), "seeds")


@pytest.mark.parametrize(
    ("values", "half", "over"),
    [
        ([0.5, 0.501, 0.499], 0.05, "seeds and rows"),
        ([0.4, 0.5, 0.6], 0.01, "seeds and rows"),
        ([0.4, 0.5, 0.6], None, "seeds"),
        ([0.5, 0.501], 0.05, "none"),
        ([0.5], 0.05, "rows"),
        ([0.5], None, "none"),
    ],
)
def test_what_seeds_may_share_is_added_to_their_own(values: list[float], half: float | None, over: str) -> None:
    row = over_seeds(figures({"pate": values}, half, metric="gap_mean")).row(0, named=True)
    assert row["over"] == over
    if over == "none":
        assert (row["low"], row["high"]) == (None, None)
        return
    own = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else 0.0
    both = math.hypot(own, half or 0.0)
    assert (row["low"], row["high"]) == pytest.approx((np.mean(values) - both, np.mean(values) + both))


def test_shares_end_at_0_and_1() -> None:
    row = over_seeds(figures({"pate": [0.9, 1.0, 0.95]})).row(0, named=True)
    assert 0.95 < row["high"] < 1.0 and row["mean"] - row["low"] > row["high"] - row["mean"]
    row = over_seeds(figures({"pate": [0.9, 1.0, 0.95]}, 0.1)).row(0, named=True)
    assert row["high"] == 1.0
    row = over_seeds(figures({"pate": [0.9, 1.0, 0.95]}, metric="gap_mean")).row(0, named=True)
    assert row["high"] > 1.0


@pytest.mark.parametrize("metric", ["hand_labels", "hand_labels_above", "answered"])
@pytest.mark.parametrize("half", [None, 20.0])
def test_no_count_is_below_0(metric: str, half: float | None) -> None:
    """Labels by hand at three seeds, of which two are worth hardly any: Student's interval begins below 0."""
    values = [0.0, 4.0, 30.0]
    low, _ = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert low < -10
    row = over_seeds(figures({"pate": values}, half, metric)).row(0, named=True)
    assert row["low"] == 0.0 and row["high"] > 40
    assert over_seeds(figures({"pate": values}, half, "gain_mean")).row(0, named=True)["low"] < -10


def test_a_figure_that_several_cells_share_counts_once() -> None:
    once = figures({"division": [0.1, 0.2]}, metric="hellinger_mean")
    twice = pl.concat([once, once.with_columns(cell=pl.lit("other"))])
    assert over_seeds(tidy(twice)).to_dicts() == over_seeds(once).to_dicts()


def test_scopes_do_not_mix_and_axes_are_kept() -> None:
    found = over_seeds(MadeUp(parties=4).frame()).filter(pl.col("metric") == "accuracy")
    assert found.height == 4 * 6 and set(found["seeds"]) == {5}


def test_no_number_is_left_out_and_an_infinite_epsilon_is_not() -> None:
    frame = tidy(figures({"pate": [0.5, math.nan]}))
    assert over_seeds(frame)["seeds"].to_list() == [1]
    row = over_seeds(figures({"pate": [math.inf, math.inf]}, metric="epsilon")).row(0, named=True)
    assert (row["mean"], row["low"], row["over"]) == (math.inf, None, "none")


@pytest.mark.parametrize("column", ["cell"])
def test_a_table_of_something_else_is_refused(column: str) -> None:
    with pytest.raises(DataError, match=f"no column {column}"):
        tidy(MadeUp(parties=2, seeds=[0]).frame().drop(column))
