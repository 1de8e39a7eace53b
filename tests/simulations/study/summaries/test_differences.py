"""Paired differences: scipy's test where nothing is known of rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from consilium.simulations.study.summaries import paired
from tests.simulations.study.made_up import figures

FIVE = {"pate": [0.70, 0.71, 0.69, 0.72, 0.705], "pooled": [0.74, 0.76, 0.75, 0.75, 0.751]}


def test_without_row_scores_it_is_the_paired_t_test_over_seeds() -> None:
    row = paired(figures(FIVE), "auc", "pate").row(0, named=True)
    steps = np.subtract(FIVE["pooled"], FIVE["pate"])
    assert (row["method"], row["seeds"], row["over"], row["unit"], row["units"]) == ("pooled", 5, "seeds", "", 0)
    assert row["difference"] == pytest.approx(steps.mean())
    assert row["p"] == pytest.approx(stats.ttest_rel(FIVE["pooled"], FIVE["pate"]).pvalue)
    assert (row["low"], row["high"]) == pytest.approx(stats.t.interval(0.95, 4, steps.mean(), stats.sem(steps)))


@pytest.mark.parametrize(
    ("steps", "low", "over", "p"),
    [
        ([0.1], None, "none", None),
        ([0.1, 0.1, 0.1], pytest.approx(0.1), "seeds", None),
        ([0.0, 0.0], 0.0, "seeds", 1.0),
    ],
)
def test_seeds_that_tell_no_spread_have_no_p(steps: list[float], low: float | None, over: str, p: float | None) -> None:
    values = {"pate": [0.5] * len(steps), "pooled": [0.5 + step for step in steps]}
    row = paired(figures(values), "auc", "pate").row(0, named=True)
    assert (row["low"], row["high"], row["over"], row["p"]) == (low, low, over, p)


def test_only_common_seeds_are_paired_and_the_same_lot_is_drawn() -> None:
    fewer = {**FIVE, "local": FIVE["pooled"][:3]}
    found = paired(figures(fewer), "auc", "pate")
    assert dict(found.select("method", "seeds").iter_rows()) == {"local": 3, "pooled": 5}
    assert paired(figures(fewer), "auc", "pate").equals(found)


def test_the_order_of_rows_is_nothing() -> None:
    frame = figures(FIVE)
    assert paired(frame.sample(fraction=1, shuffle=True, seed=5), "auc", "pate").equals(paired(frame, "auc", "pate"))


def test_points_of_an_axis_are_compared_for_the_same_method() -> None:
    frame = pl.concat(
        [
            figures(FIVE, axes={"division": "natural"}),
            figures(
                {name: [value + 0.02 for value in values] for name, values in FIVE.items()}, axes={"division": "iid"}
            ),
        ]
    )
    found = paired(frame, "auc", "natural", along="division")
    assert found.select("method", "division").rows() == [("pate", "iid"), ("pooled", "iid")]
    assert found["difference"].to_list() == pytest.approx([0.02, 0.02])
    assert found["p"].to_list() == [None, None]  # the same at every seed


@pytest.mark.parametrize(("metric", "reference"), [("auc", "nobody"), ("joy", "pate")])
def test_nothing_to_compare_is_an_empty_table(metric: str, reference: str) -> None:
    found = paired(figures(FIVE), metric, reference)
    assert found.height == 0 and {"difference", "low", "p"} <= set(found.columns)


def test_measures_are_no_methods() -> None:
    frame = pl.concat([figures(FIVE), figures({"teachers": [0.5] * 5})])
    assert set(paired(frame, "auc", "pate")["method"]) == {"pooled"}
