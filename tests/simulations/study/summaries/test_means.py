"""Means over seeds: scipy's intervals, both parts of them, never outside what a metric can be, every figure once."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from consilium.protocol.errors import DataError
from consilium.simulations.study.summaries.metrics import METRICS, metric
from consilium.simulations.study.summaries.questions import compared
from consilium.simulations.study.summaries.view import Mean, means_over_seeds, study_view, tidy
from tests.simulations.study.made_up import DIVISIONS, METHODS, MadeUp, figures


def mean_of(values: list[float], half: float | None = None, name: str = "joy") -> Mean:
    """Of a metric without ends, if no other is named."""
    return means_over_seeds(figures({"pate": values}, half, name))[(), "pate", name]


@given(
    st.sampled_from([*METRICS, "home_auc", "hellinger_mean_floor", "test_consensus"]),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.sampled_from([None, 0.001, 0.3, 2.0]),
)
def test_no_interval_ends_where_the_figure_cannot_be(
    name: str, first: list[float], second: list[float], half: float | None
) -> None:
    """Values from end to end of the metric, its means and its differences; two seeds have none at all."""
    low, high = metric(name).within
    least, most = (-3.0 if math.isinf(low) else low), (40.0 if math.isinf(high) else high)
    values = {
        "pate": [least + share * (most - least) for share in first],
        "pooled": [least + share * (most - least) for share in second[: len(first)]],
    }
    view = study_view(figures(values, half, name), {})
    for known in view.means.values():
        assert known.ends is None or low <= known.ends[0] <= known.ends[1] <= high
        assert len(first) != 2 or known.ends is None
    (difference,) = compared(view, name, "pate")
    if difference.low is not None and difference.high is not None:
        assert len(first) > 2 and low - high <= difference.low <= difference.high <= high - low
        assert (difference.low, difference.high) != (low - high, high - low)


@pytest.mark.parametrize("values", [[0.5, 0.51, 0.53], list(np.linspace(0.2, 0.4, 12))])
def test_the_interval_over_seeds_is_students(values: list[float]) -> None:
    known = mean_of(values)
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert known[:3] == pytest.approx((np.mean(values), low, high))
    assert (known.seeds, known.over) == (len(values), "seeds")


@pytest.mark.parametrize(
    ("values", "half", "over"),
    [
        ([0.5, 0.501, 0.499], 0.05, "seeds and rows"),
        ([0.4, 0.5, 0.6], None, "seeds"),
        ([0.5, 0.501], 0.05, "none"),
        ([0.5], 0.05, "rows"),
        ([0.5], None, "none"),
    ],
)
def test_what_seeds_may_share_is_added_to_their_own(values: list[float], half: float | None, over: str) -> None:
    known = mean_of(values, half)
    assert known.over == over
    if over == "none":
        assert known.ends is None
        return
    own = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else 0.0
    both = math.hypot(own, half or 0.0)
    assert known.ends == pytest.approx((np.mean(values) - both, np.mean(values) + both))


def test_a_figure_that_several_cells_share_counts_once() -> None:
    once = figures({"division": [0.1, 0.2]}, metric="hellinger_mean")
    twice = pl.concat([once, once.with_columns(cell=pl.lit("other"))])
    assert means_over_seeds(tidy(twice)) == means_over_seeds(once)


def test_no_number_is_left_out_and_an_infinite_epsilon_is_not() -> None:
    frame = tidy(figures({"pate": [0.5, math.nan]}))
    assert [known.seeds for known in means_over_seeds(frame).values()] == [1]
    assert mean_of([math.inf, math.inf], None, "epsilon") == (math.inf, None, None, 2, "none")


def test_a_table_of_something_else_is_refused() -> None:
    with pytest.raises(DataError, match="no column cell"):
        tidy(MadeUp(parties=2, seeds=[0]).frame().drop("cell"))


def test_the_view_knows_what_is_private_and_what_leads() -> None:
    view = study_view(MadeUp(parties=2, seeds=[0]).frame(), {"division": ["iid"]})
    assert set(view.methods) == set(METHODS) and view.private == ("pate",)
    assert (view.metric, view.reference) == ("auc", "pate")
    assert view.order["division"][0] == "iid" and set(view.order["division"]) == set(DIVISIONS)


def test_axes_along_which_nothing_changes_are_known() -> None:
    frame = pl.concat(
        [
            figures({"division": [value]}, metric="gini", axes={"kind": kind, "epsilon": epsilon})
            for kind, value in (("iid", 0.1), ("natural", 0.2))
            for epsilon in ("1", "3")
        ]
    )
    assert study_view(frame, {}).distinct("division") == ([("iid", "1"), ("natural", "1")], ("kind",))
