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
`benchmarks/inference.py` simulates error and coverage, beside those of other rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import expit, logit, stdtr, stdtrit

Range = tuple[float, float]  # both ends of what a figure can be
LEVEL = 0.95  # probability that an interval of these summaries covers what it is for
_LEAST_KEPT = 0.3  # where units are so few and unequal that less is left of the squares, more than that is lost
_LEAST_P = 1e-15  # nothing smaller is told
LEAST = 3  # seeds, or units of test rows, of which anything is said: of fewer an interval is wider than any difference


@dataclass(frozen=True)
class UnitScores:
    """Of one figure of one cell, by what is drawn from a population when test rows are: an owner where whole owners
    were held out, a patient where patients are known, else a row. space: which data and which kind of unit; ids of
    different spaces are unrelated. ids, rows (how many): int64 (units,). scores: float64 (units,), the sum of (row
    score - figure) over a unit's rows, divided by the number of all rows; they add up to 0."""

    space: str
    unit: str
    ids: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Spread:
    """Of a mean over seeds: A and C of this module, variances of the mean, each with its degrees of freedom, 0 for a
    part that nothing is known of."""

    seeds: float = 0.0
    seeds_df: float = 0.0
    rows: float = 0.0
    rows_df: float = 0.0

    @property
    def over(self) -> str:
        """What might have been otherwise: seeds, test rows (or whose these are), both, nothing."""
        if self.seeds_df:
            return "seeds and rows" if self.rows_df else "seeds"
        return "rows" if self.rows_df else "none"

    def half(self, error: float = 1 - LEVEL) -> float:
        """Half of the interval that misses the truth with this probability; 0 where nothing is known."""
        parts = [(self.seeds, self.seeds_df), (self.rows, self.rows_df)]
        return math.sqrt(sum(float(stdtrit(df, 1 - error / 2)) ** 2 * part for part, df in parts if df and part))

    def interval(self, mean: float, within: Range = (-math.inf, math.inf)) -> tuple[float | None, float | None]:
        """Both ends, or None and None. within: what the figure can be. Of a share, between 0 and 1, it is made on the
        logit scale, where its law is nearer to symmetric."""
        if self.over == "none":
            return None, None
        if within == (0, 1) and 0 < mean < 1:
            half = self.half() / (mean * (1 - mean))
            return float(expit(logit(mean) - half)), float(expit(logit(mean) + half))
        return clipped(mean - self.half(), mean + self.half(), within)

    def p(self, mean: float) -> float | None:
        """Two-sided, of a difference that is 0; None where seeds were not drawn again, or nothing differs anywhere. A
        difference of 0 at every seed and row is none: p is 1."""
        if not self.seeds_df:
            return None
        if self.seeds + self.rows == 0:
            return 1.0 if mean == 0 else None
        if not self.rows:
            return float(2 * stdtr(self.seeds_df, -abs(mean) / math.sqrt(self.seeds)))
        if abs(mean) >= self.half(_LEAST_P):
            return _LEAST_P
        ends = (math.log(_LEAST_P), 0.0)
        return math.exp(root_scalar(lambda log: self.half(math.exp(log)) - abs(mean), bracket=ends).root)


def clipped(low: float, high: float, within: Range) -> tuple[float | None, float | None]:
    """The part of an interval that a figure can be in; None and None where that is everywhere.

    >>> clipped(-1.37, 0.2, (-1, 1)), clipped(-1.37, 1.885, (-1, 1))
    ((-1, 0.2), (None, None))
    """
    if low <= within[0] and high >= within[1]:
        return None, None
    return max(low, within[0]), min(high, within[1])


def spread(values: np.ndarray, scores: Sequence[UnitScores] | None = None, less: Sequence[UnitScores] = ()) -> Spread:
    """Of the mean of values float64 (seeds,), at least one. scores: of each seed, in the same order, for the same
    figure; of a difference less those of the other side. None where it is no mean over test rows: then nothing is known
    of these, and the interval is of the seeds alone. Of two seeds nothing is said, nor of units fewer than three
    (`effective`), or of seeds whose units are of several kinds: seeds alone would take the few for all, and tell equal
    methods apart."""
    if 1 < len(values) < LEAST:
        return Spread()
    if scores is not None:
        by_unit = _by_unit(scores, less)
        return Spread() if by_unit is None else crossed(values, *by_unit)
    return Spread(_of_seeds(values), len(values) - 1) if len(values) > 1 else Spread()


def crossed(values: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> Spread:
    """Of the mean of values float64 (seeds,). scores: float64 (seeds, units), `UnitScores.scores`, 0 where a seed has
    no row of a unit. weights: of the same form, the share of a seed's rows that are of this unit. Two units or more."""
    seeds = len(values)
    of_seeds = _of_seeds(values) if seeds > 1 else 0.0
    shared = _covariance(values, scores, weights, of_seeds)
    shared = shared if shared > _rounding(values) else 0.0
    return Spread(of_seeds, seeds - 1.0, shared, max(1.0, effective(weights) - 1))


def _of_seeds(values: np.ndarray) -> float:
    variance = float(values.var(ddof=1)) / len(values)
    return variance if variance > _rounding(values) else 0.0


def _rounding(values: np.ndarray) -> float:
    """A variance that sums in another order may give."""
    return 1e-24 * float(np.abs(values).max()) ** 2


def _covariance(values: np.ndarray, scores: np.ndarray, weights: np.ndarray, of_seeds: float) -> float:
    """Of two seeds' figures by the units that both have, in the mean over pairs of seeds; of one seed its variance.
    Deviations are from the mean over all seeds, from which seeds with few units differ less than from their own. What
    that mean takes from the squares, and how far seeds lie from it, are put back."""
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


def _by_unit(scores: Sequence[UnitScores], less: Sequence[UnitScores]) -> tuple[np.ndarray, np.ndarray] | None:
    """Scores and weights float64 (seeds, units); None where their spread tells nothing, see `spread`."""
    sides, seeds = [*scores, *less], len(scores)
    if len({each.unit for each in scores}) > 1 or not all(len(each.ids) for each in sides):
        return None
    spaces = list(dict.fromkeys(side.space for side in sides))
    named = np.concatenate([side.ids * len(spaces) + spaces.index(side.space) for side in sides])
    units, place = np.unique(named, return_inverse=True)
    where = np.repeat(np.arange(len(sides)) % seeds, [len(side.ids) for side in sides]), place
    values, rows = np.zeros((2, seeds, len(units)))
    np.add.at(values, where, np.concatenate([*(one.scores for one in scores), *(-one.scores for one in less)]))
    np.maximum.at(rows, where, np.concatenate([side.rows for side in sides]))
    weights = rows / rows.sum(axis=1, keepdims=True)
    return (values, weights) if effective(weights) > LEAST - 1e-9 else None


def effective(weights: np.ndarray) -> float:
    """So many units of equal size tell as much as these, float64 (seeds, units)."""
    return 1 / float((weights.mean(axis=0) ** 2).sum())
