"""A study's results as pages and findings look at them: the points of the axes in order, means over seeds, and words.

Of every metric: what it is called, and between which ends it lies; of every method: what tables call it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from consilium.report import words
from consilium.report.disclosure import epsilon_text
from consilium.report.words import range_text, value_text
from consilium.simulations.study.spec import COLUMNS, FACTS
from consilium.simulations.study.summaries.inference import LEAST, Range, UnitScores, clipped, spread

Point = tuple[str, ...]  # a value of each axis
Scores = Mapping[tuple[str, str], UnitScores]  # of figures that are means over test rows, by cell and metric


class Metric(NamedTuple):
    """within: both ends of what it can be. count: a number of things, said in whole numbers from 10 on."""

    within: Range = (-inf, inf)
    count: bool = False


_SHARE = (
    "accuracy auc brier recall plurality_right consensus gini hellinger js labels_right one_class_parties shift delta"
    " c2st_auc teacher_right ambiguity_10"
)
_COUNT = (
    "answered asked c2st_parties labels left_out parties parties_left_out reinforced rounds rows teachers units"
    " winners_flipped gain_accuracy_better gain_accuracy_worse gain_accuracy_parties"
)
_POSITIVE = "epsilon gap clip learning_rate noise_deviation noise_multiplier shrinkage step"
METRICS: dict[str, Metric] = {
    **dict.fromkeys(_SHARE.split(), Metric((0, 1))),
    **dict.fromkeys(_COUNT.split(), Metric((0, inf), count=True)),
    **dict.fromkeys(_POSITIVE.split(), Metric((0, inf))),
    **dict.fromkeys(("gain_accuracy", "kappa"), Metric((-1, 1))),
}
"""By name; a longer name, as `hellinger_mean_floor`, is of the longest name here that it begins with, and of models at
home (`home_auc`) as without the prefix. What stands nowhere has no ends; of Brier scores those of two classes."""
LEADING = ("auc", "accuracy")  # by which of the metrics methods are compared first
JUDGED = (*LEADING, "brier")  # by which models are judged; of the last less is better
_CALLED = {
    "auc": "AUC",
    "brier": "Brier score",
    "c2st_auc": "AUC of telling a party from all",
    "teacher_right": "one party’s teachers right",
    "ambiguity_10": "gap below 10%",
}
_WORDS = {"hellinger": "Hellinger", "js": "Jensen-Shannon", "gini": "Gini index", "auc": "AUC", "p50": "median"}
MEASURED = ("division", "teachers")
"""In the column `method`: what is measured of the partition and of the votes, and no method."""
_TITLES = {
    "local": words.ALONE,
    "pooled": words.POOLED,
    "plurality": words.PLURALITY,
    "fedavg": "FedAvg",
    "noisy_average": words.NOISY_AVERAGE,
    "private_gradient": words.PRIVATE_GRADIENT,
    "pate": words.STUDENT,
}
"""Of methods, in the order of tables: those without a guarantee first."""
_NO_NAME = re.compile(r'true$|false$|null$|[\[{"]')


def metric(name: str) -> Metric:
    """
    >>> metric("home_auc").within, metric("hellinger_mean_floor").within, metric("joy").within
    ((0, 1), (0, 1), (-inf, inf))
    """
    parts = re.sub("^(home|test)_", "", name).split("_")
    starts = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((METRICS[start] for start in starts if start in METRICS), Metric())


def metric_words(name: str) -> str:
    """
    >>> metric_words("auc"), metric_words("c2st_auc_mean"), metric_words("hellinger_mean"), metric_words("gap_p50")
    ('AUC', 'AUC of telling a party from all', 'Hellinger mean', 'gap median')
    """
    if name.startswith("shift_"):
        return name.removeprefix("shift_").replace("_", ", ")
    known = _CALLED.get(name.removesuffix("_mean"))
    return known or " ".join(_WORDS.get(part, part) for part in name.split("_"))


def figure_text(name: str, value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """A value of a metric, and its interval ("" where there is none): counts are whole numbers from 10 on, an epsilon
    is rounded up.

    >>> figure_text("answered", 11.4, 0.0, 39.1), figure_text("winners_flipped_mean", 0.48, None, None)
    (('11', '0 to 39'), ('0.480', ''))
    >>> figure_text("auc", 0.8, 0.7, 0.9), figure_text("epsilon", 0.79929, None, None)
    (('0.800', '0.700 to 0.900'), ('0.800', ''))
    """
    count = metric(name).count
    text = epsilon_text(value) if name == "epsilon" else value_text(value)
    whole = count and low is not None and high is not None and low != high and high >= 10
    ends = f"{low:,.0f} to {high:,.0f}" if whole else range_text(low, high)
    return f"{value:,.0f}" if count and value >= 10 else text, ends


def kind(method: str) -> str:
    """The name of a method without its keys, as `fedavg` of `fedavg (rounds=20)` or `fedavg-2`."""
    return next((kind for kind in sorted(_TITLES, key=len, reverse=True) if method.startswith(kind)), method)


def title(method: str) -> str:
    """As tables and pictures call it.

    >>> title("pate"), title("pate (most_answers=10)"), title("median_of_means")
    ('student', 'student (most_answers=10)', 'median of means')
    """
    of = kind(method)
    return _TITLES[of] + method.removeprefix(of) if of in _TITLES else method.replace("_", " ")


def noun(method: str) -> str:
    """The same within a sentence: "the student", "pooled"."""
    return f"the {title(method)}" if kind(method) == "pate" else title(method)


class Mean(NamedTuple):
    """Over seeds. low, high: its interval, None where there is none. over: what the interval is of."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    over: str

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


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


def _mean(row: Mapping[str, Any], row_scores: Scores) -> Mean:
    """Intervals are of "seeds and rows" of figures with row scores, see `inference`; of others that have an interval
    within their cells, this is added as if all seeds shared all that it is over, which is never too narrow; of "seeds"
    of others; of "rows" of one seed, the cell's own."""
    values, below, above = np.array(row["value"]), row["below"], row["above"]
    mean, seeds, within = float(values.mean()), len(values), metric(row["metric"]).within
    if not within[0] <= mean <= within[1]:
        within = (-inf, inf)
    if not math.isfinite(mean) or 1 < seeds < LEAST:
        return Mean(mean, None, None, seeds, "none")
    scores = [row_scores.get((cell, row["metric"])) for cell in row["cell"]]
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
    """frame: every figure once. points: those that have any figure, in order. metric: the leading one, or None where
    there is none. methods: all that is compared, in the order of tables; private: those that state a finite epsilon,
    PATE first. reference: the method that others are compared with, the first private one, else the last of all, or
    None. means: of every metric of runs, by point, method and metric."""

    frame: pl.DataFrame = field(repr=False)
    axes: tuple[str, ...]
    order: Mapping[str, Sequence[str]]
    points: tuple[Point, ...]
    methods: tuple[str, ...]
    private: tuple[str, ...]
    metric: str | None
    reference: str | None
    seeds: tuple[int, ...]
    means: Mapping[tuple[Point, str, str], Mean] = field(repr=False)
    row_scores: Scores = field(repr=False)

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

        def changes(index: int) -> bool:
            seen: dict[Point, object] = {}
            rest = {point: (*point[:index], *point[index + 1 :]) for point in known}
            return any(seen.setdefault(rest[point], figures) != figures for point, figures in known.items())

        axes = tuple(axis for index, axis in enumerate(self.axes) if changes(index))
        first: dict[Point, Point] = {}
        for point in (point for point in self.points if point in known):
            first.setdefault(tuple(point[self.axes.index(axis)] for axis in axes), point)
        return list(first.values()), axes


def study_view(
    results: pl.DataFrame, order: Mapping[str, Sequence[str]], row_scores: Scores = MappingProxyType({})
) -> StudyView:
    """results: `results.parquet`. order: of axes their points in the order of the study's file; of others as they come.
    The leading metric is AUC or accuracy, which more of the methods have."""
    axes = tuple(name for name in results.columns if name not in (*COLUMNS, *FACTS))
    known = results.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
    frame = known.unique([*axes, "seed", "method", "scope", "name", "metric"], keep="first", maintain_order=True)
    found = {axis: frame[axis].unique(maintain_order=True).to_list() for axis in axes}
    order = {axis: list(dict.fromkeys([*order.get(axis, ()), *there])) for axis, there in found.items()}
    order = {axis: [point for point in points if point in found[axis]] for axis, points in order.items()}
    points = set(frame.select(axes).iter_rows()) if axes else {()}
    places = list(_TITLES)
    methods = sorted(
        set(frame["method"]) - set(MEASURED),
        key=lambda method: (places.index(kind(method)) if kind(method) in places else len(places), method),
    )
    runs = frame.filter(pl.col("scope") == "run")
    judged = runs.filter(pl.col("method").is_in(methods))
    stating = set(judged.filter((pl.col("metric") == "epsilon") & pl.col("value").is_finite())["method"])
    private = sorted((name for name in methods if name in stating), key=lambda name: kind(name) != "pate")
    having = {name: judged.filter(pl.col("metric") == name)["method"].n_unique() for name in LEADING}
    lead = max(having, key=lambda name: having[name])
    below, above = (pl.col("value") - pl.col("low")).mean(), (pl.col("high") - pl.col("value")).mean()
    figures = runs.group_by([*axes, "method", "metric"]).agg("value", "cell", below=below, above=above)
    return StudyView(
        frame,
        axes,
        order,
        tuple(point for point in product(*order.values()) if point in points),
        tuple(methods),
        tuple(private),
        lead if having[lead] else None,
        next(iter([*private, *reversed(methods)]), None),
        tuple(sorted(set(frame["seed"]))),
        {
            (tuple(row[axis] for axis in axes), row["method"], row["metric"]): _mean(row, row_scores)
            for row in figures.iter_rows(named=True)
        },
        row_scores,
    )
