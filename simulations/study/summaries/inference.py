"""What is known of a mean over seeds, when seeds redo the luck of a method and share test rows.

Seeds and test rows are crossed, as readers and cases are where several readers judge the same images. The variance of
the mean over S seeds is A + C: A = s^2 / S is that of seeds as they differ (division, lots, noise, and test rows that
one of them has alone), and C the covariance of two seeds, in the mean over pairs, by test rows that both have. More
seeds do not make C less. It is estimated from the units that seeds have in common, all of them or some, and is 0 where
the estimate is below. Half the interval is sqrt(t_a^2 A + t_c^2 C), with Student's quantiles of S - 1 degrees of
freedom, and of the effective number of units less 1; p is the error of the interval that ends at 0.

Sources: Obuchowski, Rockette 1995 (covariance of readers by their cases); Hillis 2007 (C is at least 0); Banerjee 1960
(this interval, which is never too narrow for independent normal parts); Cameron, Gelbach, Miller 2011 (clustering in
two ways, to which C leads where units are few); DeLong, DeLong, Clarke-Pearson 1988 (row scores of an AUC).
`benchmarks/inference.py` simulates error and coverage, beside those of other rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit, logit, stdtr, stdtrit

from consilium.simulations.study.row_scores import UnitScores

LEVEL = 0.95
"""Probability that an interval of these summaries covers what it is for."""
Over = Literal["seeds and rows", "seeds", "rows", "none"]
"""What might have been otherwise: seeds, test rows (or the owners or patients that these came from), both, nothing."""


@dataclass(frozen=True)
class Spread:
    """Of a mean over seeds: A and C of this module, variances of the mean, each with its degrees of freedom, 0 for a
    part that nothing is known of. units: of test rows, how many different ones; unit: what these are."""

    seeds: float = 0.0
    seeds_df: float = 0.0
    rows: float = 0.0
    rows_df: float = 0.0
    unit: str = ""
    units: int = 0

    @property
    def over(self) -> Over:
        """What the interval is of."""
        if self.seeds_df:
            return "seeds and rows" if self.rows_df else "seeds"
        return "rows" if self.rows_df else "none"

    def half(self, error: float = 1 - LEVEL) -> float:
        """Half of the interval that misses the truth with this probability; 0 where nothing is known."""
        parts = [(self.seeds, self.seeds_df), (self.rows, self.rows_df)]
        return math.sqrt(sum(float(stdtrit(df, 1 - error / 2)) ** 2 * part for part, df in parts if df and part))

    def interval(self, mean: float) -> tuple[float | None, float | None]:
        """Both ends, or None and None."""
        return (None, None) if self.over == "none" else (mean - self.half(), mean + self.half())

    def share_interval(self, mean: float) -> tuple[float | None, float | None]:
        """The same of a share between 0 and 1, on the logit scale, where its law is nearer to symmetric."""
        if self.over == "none" or not 0 < mean < 1:
            return self.interval(mean)
        half = self.half() / (mean * (1 - mean))
        return float(expit(logit(mean) - half)), float(expit(logit(mean) + half))

    def p(self, mean: float) -> float | None:
        """Two-sided, of a difference that is 0; None where seeds were not drawn again, or nothing differs anywhere.

        A difference of 0 at every seed and row is none: p is 1.
        """
        if not self.seeds_df:
            return None
        if self.seeds + self.rows == 0:
            return 1.0 if mean == 0 else None
        if not self.rows:
            return float(2 * stdtr(self.seeds_df, -abs(mean) / math.sqrt(self.seeds)))
        if abs(mean) >= self.half(_LEAST_P):
            return _LEAST_P
        low, high = _LEAST_P, 1.0
        while high > low * (1 + 1e-9):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.half(middle) > abs(mean) else (low, middle)
        return high


_LEAST_P = 1e-15
"""Nothing smaller is told."""


def spread(values: np.ndarray, scores: Sequence[UnitScores] | None = None) -> Spread:
    """Of the mean of values float64 (seeds,), at least one.

    scores: of each seed, in the same order, for the same figure; None where it is no mean over test rows. Then nothing
    is known of these, and the interval is of the seeds alone. Of two seeds nothing is said: with one degree of freedom
    an interval is wider than any difference.
    """
    if len(values) == 2:
        return Spread()
    by_unit = None if scores is None else _by_unit(scores)
    if scores is not None and by_unit is not None:
        return crossed(values, *by_unit, scores[0].unit)
    return Spread(_of_seeds(values), len(values) - 1) if len(values) > 1 else Spread()


def crossed(values: np.ndarray, scores: np.ndarray, weights: np.ndarray, unit: str = "row") -> Spread:
    """Of the mean of values float64 (seeds,).

    scores: float64 (seeds, units), `UnitScores.scores`, 0 where a seed has no row of a unit. weights: of the same form,
    the share of a seed's rows that are of this unit. Two units or more.
    """
    seeds = len(values)
    of_seeds = _of_seeds(values) if seeds > 1 else 0.0
    effective = 1 / float((weights.mean(axis=0) ** 2).sum())
    shared = _covariance(values, scores, weights, of_seeds)
    shared = shared if shared > _rounding(values) else 0.0
    return Spread(of_seeds, seeds - 1.0, shared, max(1.0, effective - 1), unit, scores.shape[1])


def _of_seeds(values: np.ndarray) -> float:
    """Variance of the mean, at least two seeds."""
    variance = float(values.var(ddof=1)) / len(values)
    return variance if variance > _rounding(values) else 0.0


def _rounding(values: np.ndarray) -> float:
    """A variance that sums in another order may give."""
    return 1e-24 * float(np.abs(values).max()) ** 2


def _covariance(values: np.ndarray, scores: np.ndarray, weights: np.ndarray, of_seeds: float) -> float:
    """Of two seeds' figures by the units that both have, in the mean over pairs of seeds; of one seed its variance.

    Deviations are from the mean over all seeds, from which seeds with few units differ less than from their own. Both
    what that mean takes from the squares, and how far seeds lie from it (`own`, variance of it), are put back.
    """
    seeds, mean = len(values), weights.mean(axis=0)
    moved = scores + (values - values.mean())[:, None] * weights
    if seeds == 1:
        products, pairs = float((moved**2).sum()), weights[0] ** 2
    else:
        products = float((moved.sum(axis=0) ** 2).sum() - (moved**2).sum()) / (seeds * (seeds - 1))
        pairs = (weights.sum(axis=0) ** 2 - (weights**2).sum(axis=0)) / (seeds * (seeds - 1))
    if not pairs.any():
        return 0.0
    remaining = 1 + float((mean**2).sum()) - 2 * float((pairs * mean).sum() / pairs.sum())
    return (products + of_seeds * float(pairs.sum())) / max(_LEAST_KEPT, remaining)


_LEAST_KEPT = 0.3
"""Where units are so few and unequal that less is left of the squares, more than that is lost."""


def minus(one: UnitScores, other: UnitScores) -> UnitScores:
    """Of the difference of two figures. Units of different spaces are taken for different ones."""
    if one.space == other.space:
        ids = np.union1d(one.ids, other.ids)
        first, second, space = np.searchsorted(ids, one.ids), np.searchsorted(ids, other.ids), one.space
    else:
        ids = np.concatenate([one.ids * 2, other.ids * 2 + 1])
        first, second = np.arange(len(one.ids)), np.arange(len(one.ids), len(ids))
        space = f"{one.space} and {other.space}"
    scores, rows = np.zeros(len(ids)), np.zeros(len(ids), dtype=np.int64)
    scores[first], rows[first] = one.scores, one.rows
    scores[second] -= other.scores
    rows[second] = np.maximum(rows[second], other.rows)
    return UnitScores(space, one.unit, ids, rows, scores)


def _by_unit(scores: Sequence[UnitScores]) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores and weights float64 (seeds, units); None of a single unit, which has no spread to see."""
    spaces = {space: number for number, space in enumerate(dict.fromkeys(seed.space for seed in scores))}
    named = [np.stack([np.full(len(seed.ids), spaces[seed.space]), seed.ids], axis=1) for seed in scores]
    units, place = np.unique(np.concatenate(named), axis=0, return_inverse=True)
    if len(units) < 2:
        return None
    number = np.repeat(np.arange(len(scores)), [len(seed.ids) for seed in scores])
    values, weights = np.zeros((2, len(scores), len(units)))
    values[number, place.ravel()] = np.concatenate([seed.scores for seed in scores])
    weights[number, place.ravel()] = np.concatenate([seed.rows / seed.rows.sum() for seed in scores])
    return values, weights
