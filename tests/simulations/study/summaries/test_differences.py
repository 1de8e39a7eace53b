"""Paired differences: scipy's tests and bootstrap, Holm by its closed test, and how often intervals cover the truth."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from consilium.simulations.study.summaries import paired
from consilium.simulations.study.summaries.differences import LEAST_BOOTSTRAP, difference, expanded, holm
from tests.simulations.study.made_up import figures

FIVE = {"pate": [0.70, 0.71, 0.69, 0.72, 0.705], "pooled": [0.74, 0.76, 0.75, 0.75, 0.751]}
EIGHT = {"pate": [*FIVE["pate"], 0.71, 0.7, 0.69], "pooled": [*FIVE["pooled"], 0.73, 0.77, 0.75]}


def closed(values: list[float]) -> list[float]:
    """Holm's corrected p as the closed test of Bonferroni's: the largest over all sets of hypotheses with this one."""
    every = range(len(values))
    sets = [chosen for size in range(1, len(values) + 1) for chosen in combinations(every, size)]
    return [
        min(1.0, max(len(chosen) * min(values[each] for each in chosen) for chosen in sets if index in chosen))
        for index in every
    ]


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_the_closed_test(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = (generator.random(generator.integers(1, 8)) ** 3).tolist()
    assert holm(values) == pytest.approx(closed(values))


def test_holm_leaves_out_what_has_no_p() -> None:
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert holm([]) == []


@pytest.mark.parametrize("how", ["t", "bootstrap"])
def test_p_is_that_of_the_paired_t_test(how: str) -> None:
    values = {"t": FIVE, "bootstrap": EIGHT}[how]
    row = paired(figures(values), "auc", "pate").row(0, named=True)
    expected = stats.ttest_rel(values["pooled"], values["pate"])
    assert (row["method"], row["seeds"], row["how"]) == ("pooled", len(values["pate"]), how)
    assert row["difference"] == pytest.approx(np.mean(values["pooled"]) - np.mean(values["pate"]))
    assert row["p"] == row["p_holm"] == pytest.approx(expected.pvalue)
    assert row["significant"]


def test_the_bootstrap_is_scipys_at_the_expanded_level() -> None:
    steps = np.random.default_rng(3).normal(0.02, 0.01, 12)
    low, high, how, _ = difference(steps)
    level = 1 - 2 * expanded(12)
    expected = stats.bootstrap(
        (steps,), np.mean, confidence_level=level, n_resamples=100_000, method="percentile", rng=1
    ).confidence_interval
    assert how == "bootstrap"
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=4e-4)  # 10,000 draws against 100,000


def test_fewer_seeds_have_students_interval() -> None:
    steps = np.array([0.01, 0.03, 0.02])
    low, high, how, p = difference(steps)
    assert len(steps) < LEAST_BOOTSTRAP and how == "t"
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, steps.mean(), stats.sem(steps)))
    assert p == pytest.approx(stats.ttest_1samp(steps, 0).pvalue)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([0.1], (None, None, "one seed", None)),
        ([0.1, 0.1, 0.1], (pytest.approx(0.1), pytest.approx(0.1), "t", None)),
        ([0.0, 0.0], (0.0, 0.0, "t", 1.0)),
    ],
)
def test_seeds_that_tell_no_spread_have_no_p(steps: list[float], expected: tuple) -> None:
    assert difference(np.array(steps)) == expected


@pytest.mark.statistics
@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5, 8, 20])
def test_intervals_cover_the_truth_as_often_as_they_say(count: int) -> None:
    """1,500 normal samples: 95% within 2.5 points, which is beyond four standard errors (by chance 1 in 16,000)."""
    drawn = np.random.default_rng([17, count]).normal(0, 1, (1500, count))
    ends = [difference(steps)[:2] for steps in drawn]
    covered = np.mean([low <= 0 <= high for low, high in ends if low is not None and high is not None])
    assert 0.925 < covered < 0.975


def test_usual_percentiles_would_be_too_narrow() -> None:
    """The control: with 5 seeds they cover the truth in fewer than 88 of 100 samples."""
    drawn = np.random.default_rng(17).normal(0, 1, (2000, 5))
    lot = np.random.default_rng(1).integers(5, size=(2000, 5))
    ends = np.quantile(drawn[:, lot].mean(axis=2), [0.025, 0.975], axis=1)
    assert np.mean((ends[0] <= 0) & (ends[1] >= 0)) < 0.88


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
    assert found.height == 0 and {"difference", "p_holm", "significant"} <= set(found.columns)


def test_measures_are_no_methods() -> None:
    frame = pl.concat([figures(FIVE), figures({"teachers": [0.5] * 5})])
    assert set(paired(frame, "auc", "pate")["method"]) == {"pooled"}
