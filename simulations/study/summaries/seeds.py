"""Means over seeds with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import polars as pl
from scipy.stats import t

from consilium.simulations.study.summaries.tidy import axis_names, tidy

LEVEL = 0.95
"""Probability that an interval of these summaries covers what it is for."""
SHARES = frozenset(
    {
        "accuracy",
        "auc",
        "balanced_accuracy",
        "ece",
        "recall",
        "consensus",
        "labels_right",
        "plurality_right",
        "plurality_wrong",
        "home_accuracy",
        "home_auc",
        "gini",
    }
)
"""Metrics between 0 and 1: their intervals end there."""


def t_interval(mean: float, deviation: float, count: int) -> tuple[float, float]:
    """Of a mean of `count` draws, at least 2, by Student's law; deviation: of the sample, with count - 1.

    >>> [round(end, 3) for end in t_interval(0.5, 0.1, 5)]
    [0.376, 0.624]
    """
    half = _quantile(count) * deviation / math.sqrt(count)
    return mean - half, mean + half


@cache
def _quantile(count: int) -> float:
    """Of Student's law with count - 1."""
    return float(t.ppf((1 + LEVEL) / 2, count - 1))


def over_seeds(frame: pl.DataFrame, metrics: Sequence[str] | None = None, scope: str = "run") -> pl.DataFrame:
    """The mean over seeds of every metric of this scope, for each point of the axes.

    frame: `results.parquet`. metrics: all, where None.

    Columns: the axes, method, name, metric, mean, low, high, deviation, seeds, interval. The interval is the wider of
    two, and `interval` says which: "seeds", Student's t over seeds; "rows", the mean of the cells' own intervals over
    test rows, which seeds that share test rows do not average out. One seed has only the second, and where there is
    neither, low and high are null and `interval` is "none". deviation: over seeds, null for one.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == scope)
    if metrics is not None:
        plain = plain.filter(pl.col("metric").is_in(list(metrics)))
    by = [*axis_names(frame), "method", "name", "metric"]
    grouped = plain.group_by(by).agg(
        mean=pl.col("value").mean(),
        deviation=pl.col("value").std(),
        seeds=pl.len().cast(pl.Int64),
        below=(pl.col("value") - pl.col("low")).mean(),
        above=(pl.col("high") - pl.col("value")).mean(),
    )
    ends = [_ends(row) for row in grouped.iter_rows(named=True)]
    columns = {
        "low": pl.Series([each[0] for each in ends], dtype=pl.Float64),
        "high": pl.Series([each[1] for each in ends], dtype=pl.Float64),
        "interval": pl.Series([each[2] for each in ends], dtype=pl.String),
    }
    found = grouped.with_columns(**columns).sort(by)
    return found.select(*by, "mean", "low", "high", "deviation", "seeds", "interval")


def _ends(row: dict[str, float]) -> tuple[float | None, float | None, str]:
    """Low, high and what the interval is over, of one row of `over_seeds`."""
    mean, choices = row["mean"], []
    if not math.isfinite(mean):
        return None, None, "none"
    if row["seeds"] > 1:
        choices.append((*t_interval(mean, row["deviation"], int(row["seeds"])), "seeds"))
    if row["below"] is not None and row["above"] is not None:
        choices.append((mean - row["below"], mean + row["above"], "rows"))
    if not choices:
        return None, None, "none"
    low, high, over = max(choices, key=lambda each: each[1] - each[0])
    if row["metric"] in SHARES:
        low, high = max(low, 0.0), min(high, 1.0)
    return low, high, over
