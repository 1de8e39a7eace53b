"""Differences paired by seed. Interval and p: `summaries.inference`; what belongs together, and is corrected for that:
`summaries.questions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from consilium.simulations.study.row_scores import RowScores, UnitScores
from consilium.simulations.study.summaries.inference import Spread, minus, spread
from consilium.simulations.study.summaries.tidy import MEASURED, axis_names, tidy


def paired(
    frame: pl.DataFrame,
    metric: str,
    reference: str,
    by: Sequence[str] | None = None,
    along: str = "method",
    row_scores: RowScores | None = None,
) -> pl.DataFrame:
    """What every method has more than the reference at the same seed and the same point of the axes.

    frame: `results.parquet`. metric: of runs. along: what is compared; an axis's name compares its points, each with
    the point `reference`, for the same method. by: what both sides have in common; None: the axes, or the other axes
    and the method. row_scores: of the same study; without them nothing is known of test rows, and intervals are of
    seeds alone.

    Columns: `by`, `along`, difference (mean over the common seeds), low, high, seeds, over ("seeds and rows", "seeds",
    "rows" of one seed, "none": what might have been otherwise), unit and units (of test rows, what and how many; "" and
    0 where nothing is known of them), p (of this comparison alone; null without at least 2 seeds).

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter((pl.col("scope") == "run") & (pl.col("metric") == metric))
    if by is None:
        by = [name for name in (*axis_names(frame), "method") if name != along]
    keys = [*by, "seed"]
    plain = plain.filter(~pl.col("method").is_in(MEASURED)) if along == "method" else plain
    base = plain.filter(pl.col(along) == reference)
    base = base.select(*keys, pl.col("value").alias("other"), pl.col("cell").alias("other_cell"))
    both = plain.filter(pl.col(along) != reference).join(base, on=keys, how="inner")
    both = both.with_columns(step=pl.col("value") - pl.col("other")).sort(*by, along, "seed")
    grouped = both.group_by(*by, along, maintain_order=True).agg("step", "cell", "other_cell")
    rows = [(np.mean(row["step"]), _spread(row, metric, row_scores)) for row in grouped.iter_rows(named=True)]
    columns = {
        "difference": pl.Series([float(mean) for mean, _ in rows], dtype=pl.Float64),
        "low": pl.Series([found.interval(mean)[0] for mean, found in rows], dtype=pl.Float64),
        "high": pl.Series([found.interval(mean)[1] for mean, found in rows], dtype=pl.Float64),
        "seeds": grouped["step"].list.len().cast(pl.Int64),
        "over": pl.Series([found.over for _, found in rows], dtype=pl.String),
        "unit": pl.Series([found.unit for _, found in rows], dtype=pl.String),
        "units": pl.Series([found.units for _, found in rows], dtype=pl.Int64),
        "p": pl.Series([found.p(mean) for mean, found in rows], dtype=pl.Float64),
    }
    return grouped.select(*by, along).with_columns(**columns)


def _spread(row: Mapping[str, Any], metric: str, row_scores: RowScores | None) -> Spread:
    """row: step, cell and other_cell, a list over seeds each."""
    scores: list[UnitScores] = []
    for one, other in zip(row["cell"], row["other_cell"], strict=True):
        found = None if row_scores is None else (row_scores.of(one, metric), row_scores.of(other, metric))
        if found is None or found[0] is None or found[1] is None:
            return spread(np.array(row["step"]))
        scores.append(minus(found[0], found[1]))
    return spread(np.array(row["step"]), scores)
