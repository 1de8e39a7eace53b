"""Differences paired by seed, and which of many are more than chance.

Interval: bootstrap over seeds with expanded percentiles (Hesterberg 2015, "What Teachers Should Know About the
Bootstrap", section 5.3): the usual percentiles of a handful of seeds are too narrow, so those are taken that for normal
differences give the length of Student's interval. With fewer than `LEAST_BOOTSTRAP` seeds: Student's t, for no mean of
resampled values lies outside the values. Of 3,000 samples of normal differences the expanded percentiles covered the
truth in 92 of 100 with 5 seeds, 94 with 6 and 7, 95 from 8 on, Student's in 95 of all; of exponential ones, which are
far from normal, 87, 89, 90 and Student's 89, 89, 90. The lot of the bootstrap is fixed and the same for all comparisons
of as many seeds.
Many comparisons: p of the paired t-test, corrected by Holm (1979, "A simple sequentially rejective multiple test
procedure"), over all comparisons of one table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl
from scipy.stats import norm, t

from consilium.simulations.study.summaries.seeds import LEVEL, t_interval
from consilium.simulations.study.summaries.tidy import MEASURED, axis_names, tidy

LEAST_BOOTSTRAP = 8
REPLICATES = 10_000
_PURPOSE = 0x706169726564


def paired(
    frame: pl.DataFrame, metric: str, reference: str, by: Sequence[str] | None = None, along: str = "method"
) -> pl.DataFrame:
    """What every method has more than the reference at the same seed and the same point of the axes.

    frame: `results.parquet`. metric: of runs. along: what is compared; an axis's name compares its points, each with
    the point `reference`, for the same method. by: what both sides have in common; None: the axes, or the other axes
    and the method.

    Columns: `by`, `along`, difference (mean over the common seeds), low, high, seeds, how ("bootstrap", "t", "one
    seed"), p and p_holm (null without at least 2 seeds that differ), significant (p_holm < 0.05).

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter((pl.col("scope") == "run") & (pl.col("metric") == metric))
    if by is None:
        by = [name for name in (*axis_names(frame), "method") if name != along]
    keys = [*by, "seed"]
    plain = plain.filter(~pl.col("method").is_in(MEASURED)) if along == "method" else plain
    base = plain.filter(pl.col(along) == reference).select(*keys, pl.col("value").alias("other"))
    both = plain.filter(pl.col(along) != reference).join(base, on=keys, how="inner")
    both = both.with_columns(step=pl.col("value") - pl.col("other")).sort(*by, along, "seed")
    grouped = both.group_by(*by, along, maintain_order=True).agg(pl.col("step"))
    compared = [difference(np.array(steps)) for steps in grouped["step"].to_list()]
    corrected = holm([each[3] for each in compared])
    columns = {
        "difference": pl.Series([float(np.mean(steps)) for steps in grouped["step"].to_list()], dtype=pl.Float64),
        "low": pl.Series([each[0] for each in compared], dtype=pl.Float64),
        "high": pl.Series([each[1] for each in compared], dtype=pl.Float64),
        "seeds": grouped["step"].list.len().cast(pl.Int64),
        "how": pl.Series([each[2] for each in compared], dtype=pl.String),
        "p": pl.Series([each[3] for each in compared], dtype=pl.Float64),
        "p_holm": pl.Series(corrected, dtype=pl.Float64),
        "significant": pl.Series([p is not None and p < 1 - LEVEL for p in corrected], dtype=pl.Boolean),
    }
    return grouped.select(*by, along).with_columns(**columns)


def difference(steps: np.ndarray) -> tuple[float | None, float | None, str, float | None]:
    """Low, high, how, p of the mean of paired differences float64 (seeds,), at least 1.

    Seeds that all give the same difference tell nothing of its spread: then there is no p, but for a difference of 0,
    which is none: p is 1.
    """
    count = len(steps)
    if count < 2:
        return None, None, "one seed", None
    mean, deviation = float(steps.mean()), float(steps.std(ddof=1))
    if deviation <= 1e-12 * max(abs(mean), 1e-12):
        return mean, mean, "t", 1.0 if mean == 0 else None
    p = float(2 * t.sf(abs(mean) / (deviation / math.sqrt(count)), count - 1))
    if count < LEAST_BOOTSTRAP:
        return *t_interval(mean, deviation, count), "t", p
    low, high = np.quantile(steps[_lot(count)].mean(axis=1), [expanded(count), 1 - expanded(count)])
    return float(low), float(high), "bootstrap", p


def expanded(count: int) -> float:
    """The percentile, as a share, in place of 0.025 for so many seeds.

    >>> round(expanded(5), 5), round(expanded(20), 4), round(expanded(1000), 4)
    (0.00095, 0.0159, 0.0248)
    """
    return float(norm.cdf(-math.sqrt(count / (count - 1)) * t.ppf((1 + LEVEL) / 2, count - 1)))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's corrected p of each; what has none is in no comparison.

    >>> holm([0.01, 0.04, None, 0.03])
    [0.03, 0.06, None, 0.06]
    """
    there = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, index) in enumerate(there):
        least = max(least, min(1.0, (len(there) - rank) * p))
        corrected[index] = least
    return corrected


@cache
def _lot(count: int) -> np.ndarray:
    """Which seeds each replicate draws: int64 (replicates, count)."""
    return np.random.default_rng([_PURPOSE, count]).integers(count, size=(REPLICATES, count))
