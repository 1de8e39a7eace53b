"""What is known of a mean over seeds, when seeds redo the luck of a method and share test rows.

Seeds and test rows are crossed, as readers and cases are where several readers judge the same images. The variance of
the mean over S seeds is A + C: A = s^2 / S is that of seeds as they differ (division, lots, noise, and test rows that
one of them has alone), and C the mean covariance of two seeds, from the test rows that both have. C does not go away
with more seeds. It is estimated from the units that seeds have in common, whole or in part, and is 0 where it comes out
below. The law of the mean is Student's with the degrees of freedom of (A + C)^2 / (A^2 / (S - 1) + C^2 / (U - 1)), U
the effective number of units.

Sources: Obuchowski, Rockette 1995 (covariance of readers by their cases); Hillis 2007 (degrees of freedom, with a floor
of 0 for C); DeLong, DeLong, Clarke-Pearson 1988 (row scores of an AUC); Cameron, Gelbach, Miller 2011 (units in two
ways). `benchmarks/inference.py` simulates its error and coverage beside those of others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t

from consilium.simulations.study.row_scores import UnitScores

LEVEL = 0.95
"""Probability that an interval of these summaries covers what it is for."""
Over = Literal["seeds and rows", "seeds", "rows", "none"]
"""What might have been otherwise: seeds, test rows (or the owners or patients that these came from), both, nothing."""


@dataclass(frozen=True)
class Spread:
    """Of a mean over seeds. variance: of the mean; None where nothing is known of it. df: degrees of freedom of its
    estimate. units: of test rows, how many different ones; unit: what these are."""

    variance: float | None
    df: float
    over: Over
    unit: str = ""
    units: int = 0

    def half(self) -> float:
        """Of the interval, on the scale of the mean; needs a variance."""
        return float(t.ppf((1 + LEVEL) / 2, self.df)) * math.sqrt(self.variance or 0.0)

    def interval(self, mean: float) -> tuple[float | None, float | None]:
        """Both ends, or None and None."""
        return (None, None) if self.variance is None else (mean - self.half(), mean + self.half())

    def share_interval(self, mean: float) -> tuple[float | None, float | None]:
        """The same of a share between 0 and 1, on the logit scale, where its law is nearer to symmetric."""
        if self.variance is None or not 0 < mean < 1:
            return self.interval(mean)
        half = self.half() / (mean * (1 - mean))
        return float(expit(logit(mean) - half)), float(expit(logit(mean) + half))

    def p(self, mean: float) -> float | None:
        """Two-sided, of a difference that is 0; None where seeds were not drawn again, or show no spread.

        A difference of 0 at every seed and row is none: p is 1.
        """
        if self.variance is None or self.over == "rows":
            return None
        if self.variance == 0:
            return 1.0 if mean == 0 else None
        return float(2 * t.sf(abs(mean) / math.sqrt(self.variance), self.df))


def spread(values: np.ndarray, scores: Sequence[UnitScores] | None = None) -> Spread:
    """Of the mean of values float64 (seeds,), at least one.

    scores: of each seed, in the same order, for the same figure; None where it is no mean over test rows. Then nothing
    is known of these, and the interval is of the seeds alone.
    """
    seeds = len(values)
    own = float(values.var(ddof=1)) / seeds if seeds > 1 else 0.0
    if own <= 1e-24 * float(np.abs(values).max()) ** 2:  # sums in another order
        own = 0.0
    by_unit = None if scores is None else _by_unit(scores)
    if scores is None or by_unit is None:
        return Spread(None, 0.0, "none") if seeds < 2 else Spread(own, seeds - 1, "seeds")
    each, weights = by_unit
    effective = 1 / float((weights.mean(axis=0) ** 2).sum())
    shared = max(0.0, covariance(each, weights))
    of_rows = {"unit": scores[0].unit, "units": each.shape[1]}
    if seeds < 2:
        return Spread(shared, max(1.0, effective - 1), "rows", **of_rows)
    return Spread(own + shared, freedom(own, seeds, shared, effective), "seeds and rows", **of_rows)


def covariance(each: np.ndarray, weights: np.ndarray) -> float:
    """Of two seeds' figures by the test rows that both have, in the mean over pairs of seeds; of one seed its variance.

    each: float64 (seeds, units), `UnitScores.scores`, 0 where a seed has no row of a unit. weights: of the same form,
    the share of a seed's rows that are of this unit.
    """
    seeds = len(each)
    squares = float((each**2).sum())
    found = squares if seeds == 1 else (float((each.sum(axis=0) ** 2).sum()) - squares) / (seeds * (seeds - 1))
    return found / _shrinkage(weights)


def freedom(own: float, seeds: int, shared: float, effective: float) -> float:
    """Degrees of freedom of own + shared (Satterthwaite 1946), at least 1.

    >>> round(freedom(1.0, 5, 0.0, 100.0), 6), round(freedom(1.0, 5, 1.0, 101.0), 2)
    (4.0, 15.38)
    """
    total = own + shared
    if total <= 0:
        return max(1.0, seeds - 1.0)
    return max(1.0, total**2 / (own**2 / (seeds - 1) + shared**2 / max(1.0, effective - 1)))


def minus(one: UnitScores, other: UnitScores) -> UnitScores:
    """Of the difference of two figures. Units of different spaces are taken for different ones."""
    if one.space == other.space:
        ids = np.union1d(one.ids, other.ids)
        at, to, space = np.searchsorted(ids, one.ids), np.searchsorted(ids, other.ids), one.space
    else:
        ids = np.concatenate([one.ids * 2, other.ids * 2 + 1])
        at, to, space = np.arange(len(one.ids)), np.arange(len(one.ids), len(ids)), f"{one.space} and {other.space}"
    scores, rows = np.zeros(len(ids)), np.zeros(len(ids), dtype=np.int64)
    scores[at], rows[at] = one.scores, one.rows
    scores[to] -= other.scores
    rows[to] = np.maximum(rows[to], other.rows)
    return UnitScores(space, one.unit, ids, rows, scores)


def _by_unit(scores: Sequence[UnitScores]) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores and weights float64 (seeds, units); None of a single unit, which has no spread to see."""
    spaces = {space: number for number, space in enumerate(dict.fromkeys(each.space for each in scores))}
    named = [np.stack([np.full(len(each.ids), spaces[each.space]), each.ids], axis=1) for each in scores]
    units, place = np.unique(np.concatenate(named), axis=0, return_inverse=True)
    if len(units) < 2:
        return None
    seed = np.repeat(np.arange(len(scores)), [len(each.ids) for each in scores])
    found, weights = np.zeros((2, len(scores), len(units)))
    found[seed, place.ravel()] = np.concatenate([each.scores for each in scores])
    weights[seed, place.ravel()] = np.concatenate([each.rows / each.rows.sum() for each in scores])
    return found, weights


def _shrinkage(weights: np.ndarray) -> float:
    """By what squares of deviations from a seed's own mean are too small: (units - 1) / units where units are equal.

    Of very unequal units more is lost than can be known; then it is taken for a half, as of two.
    """
    squares, cubes = (weights**2).sum(axis=1), (weights**3).sum(axis=1)
    return max(0.5, float((1 + squares - 2 * cubes / squares).mean()))
