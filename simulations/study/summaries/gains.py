"""What each party gains at home by a method against its own teachers alone."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from consilium.simulations.study.summaries.tidy import axis_names, tidy

ALONE = "local"
AT_HOME = ("accuracy", "brier", "auc")
"""Metrics of parties, the first of them for pictures: all rows of a party have it, and it needs no probabilities."""
LESS_IS_BETTER = frozenset({"brier", "ece", "log_loss"})


def party_gains(frame: pl.DataFrame, method: str, metric: str) -> pl.DataFrame:
    """How much better a method is than local only on each party's own held-out rows: mean over the seeds with both.

    frame: `results.parquet`.

    Columns: the axes, party, gain (positive: better, also of a metric of which less is better), seeds; hellinger and
    rows as measured of the division (means over seeds), null where they were not.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == "party")
    axes = axis_names(frame)
    keys = [*axes, "name", "seed"]
    sides = plain.filter(pl.col("metric") == metric).select(*keys, "method", "value")
    alone = sides.filter(pl.col("method") == ALONE).select(*keys, other="value")
    both = sides.filter(pl.col("method") == method).join(alone, on=keys, how="inner")
    sign = -1.0 if metric in LESS_IS_BETTER else 1.0
    found = both.group_by(*axes, "name").agg(
        gain=sign * (pl.col("value") - pl.col("other")).mean(), seeds=pl.len().cast(pl.Int64)
    )
    for of in ("hellinger", "rows"):
        measured = plain.filter((pl.col("method") == "division") & (pl.col("metric") == of))
        found = found.join(
            measured.group_by(*axes, "name").agg(pl.col("value").mean().alias(of)), on=[*axes, "name"], how="left"
        )
    return found.rename({"name": "party"}).sort(*axes, "party")


def worst_decile(gains: np.ndarray) -> float:
    """Mean of the tenth of gains float64 (parties,) that is least, of at least one party.

    >>> worst_decile(np.arange(20.0)), worst_decile(np.array([-1.0, 2.0]))
    (0.5, -1.0)
    """
    return float(np.sort(gains)[: math.ceil(len(gains) / 10)].mean())
