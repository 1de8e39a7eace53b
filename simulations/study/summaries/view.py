"""A study's results as reports and findings look at them: the points of the axes in order, and means over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from consilium.simulations.study.row_scores import RowScores
from consilium.simulations.study.summaries.inference import spread
from consilium.simulations.study.summaries.tidy import (
    COUNTS,
    SHARES,
    as_number,
    axis_names,
    lead,
    methods_of,
    private_methods,
    short,
    tidy,
)


def over_seeds(frame: pl.DataFrame, row_scores: RowScores | None = None) -> pl.DataFrame:
    """The mean over seeds of every metric of runs, for each point of the axes.

    frame: tidy. row_scores: of the same study.

    Columns: the axes, method, metric, mean, low, high, seeds, over. `over` says what the interval is of. "seeds and
    rows": of figures with row scores, see `summaries.inference`; of others that have an interval within their cells,
    this is added as if all seeds shared all that it is over, which is never too narrow. "seeds": of others. "rows": of
    one seed, the cell's own. "none": low and high are null.
    """
    by = [*axis_names(frame), "method", "metric"]
    runs = frame.filter(pl.col("scope") == "run").group_by(by)
    grouped = runs.agg(
        "value",
        "cell",
        mean=pl.col("value").mean(),
        seeds=pl.len().cast(pl.Int64),
        below=(pl.col("value") - pl.col("low")).mean(),
        above=(pl.col("high") - pl.col("value")).mean(),
    )
    ends = [_ends(row, row_scores) for row in grouped.iter_rows(named=True)]
    kinds = {"low": pl.Float64, "high": pl.Float64, "over": pl.String}
    means = grouped.hstack(pl.DataFrame(ends, schema=kinds, orient="row"))
    low = pl.when(pl.col("metric").is_in(COUNTS)).then(pl.col("low").clip(lower_bound=0.0)).otherwise(pl.col("low"))
    return means.with_columns(low=low).select(*by, "mean", "low", "high", "seeds", "over").sort(by)


def _ends(row: Mapping[str, Any], row_scores: RowScores | None) -> tuple[float | None, float | None, str]:
    """Low, high and what the interval is over, of one row of `over_seeds`."""
    mean = row["mean"]
    if not math.isfinite(mean) or row["seeds"] == 2:
        return None, None, "none"
    share = row["metric"] in SHARES
    scores = [None if row_scores is None else row_scores.of(cell, row["metric"]) for cell in row["cell"]]
    there = [score for score in scores if score is not None]
    between = spread(np.array(row["value"]), there if len(there) == len(scores) else None)
    if row["below"] is not None and row["above"] is not None:
        if row["seeds"] == 1:
            return mean - row["below"], mean + row["above"], "rows"
        if between.over == "seeds" or not between.half():
            half = between.half()
            low, high = mean - math.hypot(half, row["below"]), mean + math.hypot(half, row["above"])
            return (max(low, 0.0), min(high, 1.0), "seeds and rows") if share else (low, high, "seeds and rows")
    low, high = between.share_interval(mean) if share else between.interval(mean)
    return low, high, between.over


Point = tuple[str, ...]
"""A value of each axis."""


@dataclass(frozen=True)
class StudyView:
    """frame: tidy. points: those that have any figure, in order. metric: the leading one, or None where there is none.

    reference: the method that others are compared with, or None. means: `over_seeds` of runs, by point, method, metric.
    row_scores: None where nobody kept them.
    """

    frame: pl.DataFrame = field(repr=False)
    axes: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    points: tuple[Point, ...]
    methods: tuple[str, ...]
    private: tuple[str, ...]
    metric: str | None
    reference: str | None
    seeds: tuple[int, ...]
    means: Mapping[tuple[Point, str, str], Mapping[str, Any]] = field(repr=False)
    row_scores: RowScores | None = field(repr=False, default=None)

    def mean(self, point: Point, method: str, metric: str) -> float | None:
        """Over seeds; None where there is no such figure."""
        row = self.means.get((point, method, metric))
        return None if row is None else float(row["mean"])

    def label(self, point: Point, axes: Sequence[str] | None = None) -> str:
        """A point in words; numbers with the name of their axis.

        `axes`: which of them are told; all, where None.
        """
        parts = [
            f"{short(axis)} {value}" if as_number(value) is not None else value
            for axis, value in zip(self.axes, point, strict=True)
            if (axes is None or axis in axes) and value
        ]
        return ", ".join(parts) or "all"

    def telling(self, method: str) -> tuple[str, ...]:
        """Axes along which some figure of this method's runs changes, such as none of a mechanism for a division."""
        known = self._known(method)
        return tuple(axis for place, axis in enumerate(self.axes) if _changes(known, place))

    def distinct(self, method: str) -> tuple[list[Point], tuple[str, ...]]:
        """The first of the points between which no figure of this method changes; and the axes that tell them apart."""
        axes, known = self.telling(method), self._known(method)
        first: dict[Point, Point] = {}
        for point in [point for point in self.points if point in known]:
            key = tuple(value for axis, value in zip(self.axes, point, strict=True) if axis in axes)
            first.setdefault(key, point)
        return list(first.values()), axes

    def _known(self, method: str) -> dict[Point, dict[str, tuple[Any, ...]]]:
        """Of each point what there is of this method's runs, by metric."""
        known: dict[Point, dict[str, tuple[Any, ...]]] = {}
        for (point, of, metric), row in self.means.items():
            if of == method:
                known.setdefault(point, {})[metric] = (row["mean"], row["low"], row["high"])
        return known

    def numeric_axes(self, least: int) -> list[str]:
        """Axes whose points are numbers, at least so many."""
        return [
            axis
            for axis in self.axes
            if len(self.order[axis]) >= least and all(as_number(value) is not None for value in self.order[axis])
        ]


def _changes(known: Mapping[Point, object], place: int) -> bool:
    """Whether what is known of points changes along the axis at this place, the others being equal."""
    seen: dict[Point, object] = {}
    rest = {point: (*point[:place], *point[place + 1 :]) for point in known}
    return any(seen.setdefault(rest[point], figures) != figures for point, figures in known.items())


def study_view(
    results: pl.DataFrame, order: Mapping[str, Sequence[str]], row_scores: RowScores | None = None
) -> StudyView:
    """results: `results.parquet`. order: of axes their points in the order of the study's file; of others as they come.

    The reference is the first private method, else the last of all.

    Raises
    ------
    DataError : a column is missing.
    """
    frame = tidy(results)
    axes = tuple(axis_names(frame))
    found = {axis: frame[axis].unique(maintain_order=True).to_list() for axis in axes}
    order = {axis: list(dict.fromkeys([*order.get(axis, ()), *there])) for axis, there in found.items()}
    order = {axis: [point for point in points if point in found[axis]] for axis, points in order.items()}
    points = set(frame.select(axes).iter_rows()) if axes else {()}
    methods, private = tuple(methods_of(frame)), tuple(private_methods(frame))
    means = {
        (tuple(row[axis] for axis in axes), row["method"], row["metric"]): row
        for row in over_seeds(frame, row_scores).iter_rows(named=True)
    }
    return StudyView(
        frame,
        axes,
        order,
        tuple(point for point in product(*order.values()) if point in points),
        methods,
        private,
        lead(frame),
        next(iter([*private, *reversed(methods)]), None),
        tuple(sorted(frame["seed"].unique().to_list())),
        means,
        row_scores,
    )
