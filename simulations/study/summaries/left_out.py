"""Each hospital left out whole in turn: internal-external validation, with its means over hospitals by random effects.

Every place (a hospital, or a fold of hospitals) has a figure with its standard error, over seeds and its test rows
together; of these the mean over places, tau and I^2 (DerSimonian, Laird 1986, interval as Hartung, Knapp 2001), and
what a further place may have (Higgins, Thompson, Spiegelhalter 2009; Debray et al. 2017, "A guide to systematic review
and meta-analysis of prediction model performance"). Shares such as the AUC are pooled on the logit scale, and told as
shares; tau is on the scale on which it was pooled. Differences of two methods are pooled as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import expit, logit

from consilium.report.words import many, range_text, signed_text, value_text
from consilium.simulations.metrics import PooledEffect, pooled_effect, prediction_interval
from consilium.simulations.study.row_scores import UnitScores
from consilium.simulations.study.summaries.inference import minus, spread
from consilium.simulations.study.summaries.tidy import SHARES, metric_words, noun
from consilium.simulations.study.summaries.view import Point, StudyView

Ends = tuple[float, float]


@dataclass(frozen=True)
class PlaceEffect:
    """A place that was left out: the mean over seeds, its 95 % interval, and its standard error, 0 where none is
    known."""

    place: str
    value: float
    ends: Ends | None
    error: float


@dataclass(frozen=True)
class ForestPlot:
    """One method, or its difference to `against`, over all places at one point of the other axes.

    point: with "" for the axis that leaves out. mean, ends, further: over places, its interval, and that of a further
    place (None of fewer than 3); tau on the logit scale of a share that is no difference. pooled: of how many places.
    """

    point: Point
    method: str
    against: str
    metric: str
    places: tuple[PlaceEffect, ...]
    mean: float
    ends: Ends
    further: Ends | None
    tau: float
    i2: float
    pooled: int


def forests(view: StudyView, metric: str, method: str, against: str = "") -> list[ForestPlot]:
    """For each point of the other axes that has two places with a standard error; none where nothing is left out."""
    if view.left_out not in view.axes:
        return []
    axis = view.axes.index(view.left_out)
    cells = _cells(view, metric)
    groups: dict[Point, list[PlaceEffect]] = {}
    for point in view.points:
        mine, others = cells.get((point, method), {}), cells.get((point, against), {}) if against else None
        if (effect := _effect(view, point[axis], metric, mine, others)) is not None:
            groups.setdefault((*point[:axis], "", *point[axis + 1 :]), []).append(effect)
    share = metric in SHARES and not against
    drawn = (_forest(point, method, against, metric, places, share) for point, places in groups.items())
    return [forest for forest in drawn if forest is not None]


Cells = Mapping[int, tuple[float, str]]
"""Value and cell by seed."""


def _cells(view: StudyView, metric: str) -> dict[tuple[Point, str], dict[int, tuple[float, str]]]:
    """By point and method."""
    cells: dict[tuple[Point, str], dict[int, tuple[float, str]]] = {}
    for row in view.frame.filter((pl.col("scope") == "run") & (pl.col("metric") == metric)).iter_rows(named=True):
        point = tuple(row[axis] for axis in view.axes)
        cells.setdefault((point, row["method"]), {})[row["seed"]] = row["value"], row["cell"]
    return cells


def _effect(view: StudyView, place: str, metric: str, mine: Cells, others: Cells | None) -> PlaceEffect | None:
    seeds = sorted(mine if others is None else mine.keys() & others.keys())
    if not seeds:
        return None
    values = np.array([mine[seed][0] - (0.0 if others is None else others[seed][0]) for seed in seeds])
    scores = [_scores(view, metric, mine[seed][1], None if others is None else others[seed][1]) for seed in seeds]
    there = [score for score in scores if score is not None]
    between = spread(values, there if len(there) == len(scores) else None)
    mean = float(values.mean())
    share = others is None and metric in SHARES
    low, high = between.share_interval(mean) if share else between.interval(mean)
    ends = None if low is None or high is None else (low, high)
    return PlaceEffect(place, mean, ends, math.sqrt(between.seeds + between.rows))


def _scores(view: StudyView, metric: str, cell: str, other: str | None) -> UnitScores | None:
    if view.row_scores is None or (scores := view.row_scores.of(cell, metric)) is None:
        return None
    if other is None:
        return scores
    beside = view.row_scores.of(other, metric)
    return None if beside is None else minus(scores, beside)


def _forest(
    point: Point, method: str, against: str, metric: str, places: list[PlaceEffect], share: bool
) -> ForestPlot | None:
    known = [place for place in places if place.error > 0 and (not share or 0 < place.value < 1)]
    if len(known) < 2:
        return None
    values, errors = np.array([place.value for place in known]), np.array([place.error for place in known])
    if share:
        values, errors = logit(values), errors / (values * (1 - values))
    effect = pooled_effect(values, errors)
    if effect is None:
        return None
    further = prediction_interval(effect, len(known))
    return ForestPlot(
        point, method, against, metric, tuple(places), _mean(effect, share), _ends(effect.interval, share),
        None if further is None else _ends(further, share), effect.tau, effect.i2, len(known),
    )  # fmt: skip


def _mean(effect: PooledEffect, share: bool) -> float:
    return float(expit(effect.mean)) if share else effect.mean


def _ends(interval: list[float], share: bool) -> Ends:
    low, high = (float(expit(end)) if share else end for end in interval)
    return low, high


def left_out_sentences(view: StudyView) -> Iterator[str]:
    """How the reference does at a place that it has not seen, and beside pooled."""
    if view.metric is None or view.reference is None:
        return
    for forest in forests(view, view.metric, view.reference)[:1]:
        where = f" at {label}" if (label := _where(view, forest)) else ""
        further = ""
        if forest.further is not None:
            low, high = map(value_text, forest.further)
            further = f"; a further place is expected between {low} and {high}"
        yield (
            f"At {many(forest.pooled, 'place')}, each left out whole in turn{where}, {noun(forest.method)} has"
            f" {metric_words(forest.metric)} {value_text(forest.mean)} in the mean ({range_text(*forest.ends)};"
            f" I² {forest.i2:.0%}){further}."
        )
    pooled = next((name for name in view.methods if name == "pooled"), None)
    for forest in forests(view, view.metric, view.reference, pooled)[:1] if pooled else ():
        yield (
            f"At the places left out {noun(forest.method)} differs from {noun(forest.against)} in"
            f" {metric_words(forest.metric)} by {signed_text(forest.mean)} in the mean ({range_text(*forest.ends)};"
            f" I² {forest.i2:.0%})."
        )


def _where(view: StudyView, forest: ForestPlot) -> str:
    others = [axis for axis in view.axes if axis != view.left_out and len(view.order[axis]) > 1]
    return view.label(forest.point, others) if others else ""
