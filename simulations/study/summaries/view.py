"""A study's results as pages and findings look at them: the points of the axes in order, and means over seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from consilium.protocol.errors import DataError
from consilium.simulations.study.results import RowScores
from consilium.simulations.study.spec import COLUMNS, FACTS
from consilium.simulations.study.summaries.inference import LEAST, clipped, spread
from consilium.simulations.study.summaries.metrics import LEADING, MEASURED, kind, metric, place

_NO_NAME = re.compile(r'true$|false$|null$|[\[{"]')
Point = tuple[str, ...]  # a value of each axis


class Mean(NamedTuple):
    """Over seeds. low, high: its interval, None where there is none. over: what the interval is of."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    over: str

    @property
    def ends(self) -> tuple[float, float] | None:
        """Of the interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def tidy(results: pl.DataFrame) -> pl.DataFrame:
    """The same with every figure once, of what cells share, and without what is no number. Raises DataError: no such
    column."""
    if missing := [name for name in (*COLUMNS, *FACTS) if name not in results.columns]:
        raise DataError(f"a table of a study's results has no column {', '.join(missing)}", "Run: consilium study")
    key = [*axis_names(results), "seed", "method", "scope", "name", "metric"]
    known = results.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
    return known.unique(key, keep="first", maintain_order=True)


def axis_names(results: pl.DataFrame) -> list[str]:
    """Of the columns those that are axes, in their order.

    >>> axis_names(pl.DataFrame(schema=["cell", "division", *COLUMNS[1:]]))
    ['division']
    """
    return [name for name in results.columns if name not in (*COLUMNS, *FACTS)]


def as_number(text: str) -> float | None:
    """A point of a numeric axis as a number; None for one that is a name.

    >>> as_number("0.05"), as_number("natural"), as_number("nan")
    (0.05, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def short(axis: str) -> str:
    """
    >>> short("data.alpha"), short("federation.privacy.epsilon"), short("division")
    ('alpha', 'epsilon', 'division')
    """
    return axis.rsplit(".", 1)[-1].replace("_", " ")


def means_over_seeds(frame: pl.DataFrame, row_scores: RowScores | None = None) -> dict[tuple[Point, str, str], Mean]:
    """Of every metric of runs by point, method and metric. frame: `tidy`.

    Intervals are of "seeds and rows" of figures with row scores, see `summaries.inference`; of others that have an
    interval within their cells, this is added as if all seeds shared all that it is over, which is never too narrow; of
    "seeds" of others; of "rows" of one seed, the cell's own."""
    axes = axis_names(frame)
    below, above = (pl.col("value") - pl.col("low")).mean(), (pl.col("high") - pl.col("value")).mean()
    runs = frame.filter(pl.col("scope") == "run").group_by([*axes, "method", "metric"])
    rows = runs.agg("value", "cell", below=below, above=above).iter_rows(named=True)
    named = (((tuple(row[axis] for axis in axes), row["method"], row["metric"]), row) for row in rows)
    return {name: _mean(row, row_scores) for name, row in named}


def _mean(row: Mapping[str, Any], row_scores: RowScores | None) -> Mean:
    values, below, above = np.array(row["value"]), row["below"], row["above"]
    mean, seeds, within = float(values.mean()), len(values), metric(row["metric"]).within
    if not within[0] <= mean <= within[1]:
        within = (-math.inf, math.inf)
    if not math.isfinite(mean) or 1 < seeds < LEAST:
        return Mean(mean, None, None, seeds, "none")
    scores = [None if row_scores is None else row_scores.of(cell, row["metric"]) for cell in row["cell"]]
    there = [score for score in scores if score is not None]
    known = spread(values, there if len(there) == seeds else None)
    ends, over = known.interval(mean, within), known.over
    alone = seeds == 1 or known.over == "seeds" or (known.over != "none" and not known.half())
    if below is not None and above is not None and alone:
        half, over = known.half() if seeds > 1 else 0.0, "seeds and rows" if seeds > 1 else "rows"
        ends = clipped(mean - math.hypot(half, below), mean + math.hypot(half, above), within)
    return Mean(mean, *ends, seeds, over if ends[0] is not None else "none")


@dataclass(frozen=True)
class StudyView:
    """frame: tidy. points: those that have any figure, in order. metric: the leading one, or None where there is none.
    methods: all that is compared, see `metrics.place`; private: those that state a finite epsilon, PATE first.
    reference: the method that others are compared with, or None. row_scores: None where nobody kept them."""

    frame: pl.DataFrame = field(repr=False)
    axes: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    points: tuple[Point, ...]
    methods: tuple[str, ...]
    private: tuple[str, ...]
    metric: str | None
    seeds: tuple[int, ...]
    means: Mapping[tuple[Point, str, str], Mean] = field(repr=False)
    row_scores: RowScores | None = field(repr=False, default=None)

    @property
    def reference(self) -> str | None:
        """The first private method, else the last of all."""
        return next(iter([*self.private, *reversed(self.methods)]), None)

    def mean(self, point: Point, method: str, name: str) -> float | None:
        """Over seeds; None where there is no such figure."""
        known = self.means.get((point, method, name))
        return None if known is None else known.mean

    def judged(self, name: str) -> list[str]:
        """Methods that have this metric anywhere."""
        return [method for method in self.methods if any((point, method, name) in self.means for point in self.points)]

    def label(self, point: Point, axes: Sequence[str] | None = None) -> str:
        """A point in words, see `named`. axes: which of them are told; all, where None."""
        told = [pair for pair in zip(self.axes, point, strict=True) if (axes is None or pair[0] in axes) and pair[1]]
        return ", ".join(self.named(*pair) for pair in told) or "all"

    def named(self, axis: str, value: str) -> str:
        """With the name of its axis where the value alone does not tell what it is of: numbers, true, false, what is
        written as JSON, and what two axes have."""
        shared = sum(value in points for points in self.order.values()) > 1
        return f"{short(axis)} {value}" if shared or _NO_NAME.match(value) or as_number(value) is not None else value

    def distinct(self, method: str) -> tuple[list[Point], tuple[str, ...]]:
        """The first of the points between which no figure of this method's runs changes, and the axes that tell them
        apart: a partition has the same figures under every mechanism."""
        known: dict[Point, dict[str, Mean]] = {}
        for (point, of, name), mean in self.means.items():
            if of == method:
                known.setdefault(point, {})[name] = mean
        axes = tuple(axis for index, axis in enumerate(self.axes) if _changes(known, index))
        first: dict[Point, Point] = {}
        for point in (point for point in self.points if point in known):
            first.setdefault(tuple(point[self.axes.index(axis)] for axis in axes), point)
        return list(first.values()), axes

    def numeric_axes(self, least: int) -> list[str]:
        """Axes whose points are numbers, at least so many."""
        numeric = {axis for axis, points in self.order.items() if None not in map(as_number, points)}
        return [axis for axis in self.axes if axis in numeric and len(self.order[axis]) >= least]


def _changes(known: Mapping[Point, object], index: int) -> bool:
    """Whether what is known of points changes along the axis at this place, the others being equal."""
    seen: dict[Point, object] = {}
    rest = {point: (*point[:index], *point[index + 1 :]) for point in known}
    return any(seen.setdefault(rest[point], figures) != figures for point, figures in known.items())


def study_view(
    results: pl.DataFrame, order: Mapping[str, Sequence[str]], row_scores: RowScores | None = None
) -> StudyView:
    """results: `results.parquet`. order: of axes their points in the order of the study's file; of others as they come.
    The leading metric is AUC or accuracy, which more of the methods have."""
    frame = tidy(results)
    axes = tuple(axis_names(frame))
    found = {axis: frame[axis].unique(maintain_order=True).to_list() for axis in axes}
    order = {axis: list(dict.fromkeys([*order.get(axis, ()), *there])) for axis, there in found.items()}
    order = {axis: [point for point in points if point in found[axis]] for axis, points in order.items()}
    points = set(frame.select(axes).iter_rows()) if axes else {()}
    methods = sorted(set(frame["method"]) - set(MEASURED), key=place)
    runs = frame.filter((pl.col("scope") == "run") & pl.col("method").is_in(methods))
    stating = set(runs.filter((pl.col("metric") == "epsilon") & pl.col("value").is_finite())["method"])
    having = {name: runs.filter(pl.col("metric") == name)["method"].n_unique() for name in LEADING}
    lead = max(having, key=lambda name: having[name])
    return StudyView(
        frame,
        axes,
        order,
        tuple(point for point in product(*order.values()) if point in points),
        tuple(methods),
        tuple(sorted((name for name in methods if name in stating), key=lambda name: kind(name) != "pate")),
        lead if having[lead] else None,
        tuple(sorted(set(frame["seed"]))),
        means_over_seeds(frame, row_scores),
        row_scores,
    )
