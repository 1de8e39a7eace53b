"""Means over seeds with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.summaries.inference import spread
from consilium.simulations.study.summaries.tidy import axis_names, tidy
from consilium.simulations.study.summaries.words import COUNTS

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


def over_seeds(
    frame: pl.DataFrame,
    metrics: Sequence[str] | None = None,
    scope: str = "run",
    row_scores: RowScores | None = None,
) -> pl.DataFrame:
    """The mean over seeds of every metric of this scope, for each point of the axes.

    frame: `results.parquet`. metrics: all, where None. row_scores: of the same study.

    Columns: the axes, method, name, metric, mean, low, high, deviation (over seeds, null for one), seeds, over. `over`
    says what the interval is of. "seeds and rows": of figures with row scores, see `summaries.inference`; of others
    that have an interval within their cells, this is added as if all seeds shared all that it is over, which is never
    too narrow. "seeds": of others. "rows": of one seed, the cell's own. "none": low and high are null.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == scope)
    if metrics is not None:
        plain = plain.filter(pl.col("metric").is_in(list(metrics)))
    by = [*axis_names(frame), "method", "name", "metric"]
    grouped = plain.group_by(by).agg(
        "value",
        "cell",
        mean=pl.col("value").mean(),
        deviation=pl.col("value").std(),
        seeds=pl.len().cast(pl.Int64),
        below=(pl.col("value") - pl.col("low")).mean(),
        above=(pl.col("high") - pl.col("value")).mean(),
    )
    known = row_scores if scope == "run" else None
    ends = [_ends(row, known) for row in grouped.iter_rows(named=True)]
    columns = {
        "low": pl.Series([each[0] for each in ends], dtype=pl.Float64),
        "high": pl.Series([each[1] for each in ends], dtype=pl.Float64),
        "over": pl.Series([each[2] for each in ends], dtype=pl.String),
    }
    counts = pl.col("metric").is_in(list(COUNTS))
    low = pl.when(counts).then(pl.col("low").clip(lower_bound=0.0)).otherwise(pl.col("low"))
    found = grouped.with_columns(**columns).with_columns(low=low).sort(by)
    return found.select(*by, "mean", "low", "high", "deviation", "seeds", "over")


def _ends(row: Mapping[str, Any], row_scores: RowScores | None) -> tuple[float | None, float | None, str]:
    """Low, high and what the interval is over, of one row of `over_seeds`."""
    mean = row["mean"]
    if not math.isfinite(mean):
        return None, None, "none"
    share = row["metric"] in SHARES
    scores = [None if row_scores is None else row_scores.of(cell, row["metric"]) for cell in row["cell"]]
    there = [each for each in scores if each is not None]
    found = spread(np.array(row["value"]), there if len(there) == len(scores) else None)
    if row["below"] is not None and row["above"] is not None:
        if row["seeds"] == 1:
            return mean - row["below"], mean + row["above"], "rows"
        if found.over == "seeds" or not found.half():
            half = found.half()
            low, high = mean - math.hypot(half, row["below"]), mean + math.hypot(half, row["above"])
            return (max(low, 0.0), min(high, 1.0), "seeds and rows") if share else (low, high, "seeds and rows")
    low, high = found.share_interval(mean) if share else found.interval(mean)
    return low, high, found.over
