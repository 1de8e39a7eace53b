"""From an attack's scores to what they prove: rates with exact intervals, and lower bounds on epsilon.

A score is high where the attacker believes that the target was there. Which threshold is used, and which side of it, is
chosen on some games and measured on others, so that choosing costs no confidence.

Two bounds on epsilon:

exact : (epsilon, delta)-privacy means Pr[S | there] <= e^epsilon Pr[S | not there] + delta for every set S of scores,
    and the same the other way round. Both probabilities are bounded by Clopper and Pearson 1934 (Jagielski, Ullman,
    Oprea 2020, arXiv 2006.07709). It holds for any mechanism.
gaussian : where the release is Gaussian noise on counts, it is mu-GDP (Dong, Roth, Su 2019, arXiv 1905.02383), and the
    same two probabilities bound mu from below (Nasr et al. 2023, arXiv 2302.07956). It says nothing of other
    mechanisms, and there much more than the first: a whole trade-off curve is claimed, and any point of it may refute
    it.

One game may have one of several targets, drawn by lot: a mixture of pairs that cannot be told apart by more than
(epsilon, delta) cannot be either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from consilium.accounting.curves.gdp import epsilon_of
from consilium.coordinator.distinguish.regions import epsilon_at_least, probability_at_least, probability_at_most

LEVELS = (0.001, 0.01)
"""Rates of false alarms at which the rate of right accusations is stated."""
_MIDDLE, _EXTREMES = 400, 32
"""Thresholds that are tried: so many quantiles, and so many of the most extreme scores at either end."""
_LARGEST = 50.0
"""No bound on epsilon goes beyond: games are too few by far."""


@dataclass(frozen=True)
class Hits:
    """So many of `runs` games.

    >>> Hits(3, 1000).share, [round(limit, 4) for limit in Hits(3, 1000).interval()]
    (0.003, [0.0006, 0.0087])
    """

    count: int
    runs: int

    @property
    def share(self) -> float:
        """nan of no games."""
        return self.count / self.runs if self.runs else math.nan

    def interval(self, error: float = 0.05) -> list[float]:
        """Clopper and Pearson's, two-sided, wrong with probability `error` at most."""
        if not self.runs:
            return [0.0, 1.0]
        hits = np.array(self.count)
        low, high = (bound(hits, self.runs, error / 2) for bound in (probability_at_least, probability_at_most))
        return [float(low), float(high)]


@dataclass(frozen=True)
class AttackScores:
    """there, away: float64 (games,), the scores of games with the target in them and without it. All finite."""

    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)

    def halves(self) -> tuple[AttackScores, AttackScores]:
        """The first games and the others, to choose on and to measure on."""
        there, away = len(self.there) // 2, len(self.away) // 2
        return AttackScores(self.there[:there], self.away[:away]), AttackScores(self.there[there:], self.away[away:])


@dataclass(frozen=True)
class Detection:
    """level: the rate of false alarms that was aimed at. hits: accusations where the target was there. alarms: where it
    was not."""

    level: float
    hits: Hits
    alarms: Hits


@dataclass(frozen=True)
class ProvedEpsilon:
    """Epsilon is at least this. exact, gaussian: see above; gaussian is None where it would say nothing. hits, alarms:
    how often the chosen set of scores came where it is likely, and where it is rare."""

    exact: float
    gaussian: float | None
    hits: Hits
    alarms: Hits


def detections(scores: AttackScores) -> tuple[Detection, ...]:
    """At each of `LEVELS`. The threshold is the lowest that does not pass the level on half of the games.

    >>> scores = AttackScores(np.tile(np.arange(200.0), 2) + 190, np.tile(np.arange(200.0), 2))
    >>> [(one.level, one.hits.share, one.alarms.count) for one in detections(scores)]
    [(0.001, 0.95, 0), (0.01, 0.96, 2)]
    """
    chosen, measured = scores.halves()
    ordered = np.sort(chosen.away)[::-1]
    return tuple(_detection(level, float(ordered[int(level * len(ordered))]), measured) for level in LEVELS)


def _detection(level: float, threshold: float, scores: AttackScores) -> Detection:
    there, away = (Hits(int((part > threshold).sum()), len(part)) for part in (scores.there, scores.away))
    return Detection(level, there, away)


def proved_epsilon(scores: AttackScores, delta: float, error: float, gaussian: bool = False) -> ProvedEpsilon:
    """The largest epsilon at `delta` that half of the games prove; the other half choose by what it is proved.

    error : probability that a true epsilon is below the bound, at most; the same for each of both bounds.
    gaussian : whether what was released is Gaussian noise on counts.

    >>> proved_epsilon(AttackScores(np.ones(2000), np.zeros(2000)), 1e-5, 0.05).exact > 5
    True
    >>> proved_epsilon(AttackScores(np.zeros(2000), np.zeros(2000)), 1e-5, 0.05).exact
    0.0
    """
    chosen, measured = scores.halves()
    alpha = error / 2
    exact = _best(_sets(chosen), delta, alpha, False)
    likely, rare = _count(measured, *exact)
    bound = _exact(np.array([likely.count]), np.array([rare.count]), likely.runs, rare.runs, delta, alpha)[0]
    curve = None
    if gaussian:
        wide = _count(measured, *_best(_sets(chosen), delta, alpha, True))
        mu = _mu(np.array([wide[0].count]), np.array([wide[1].count]), wide[0].runs, wide[1].runs, alpha)[0]
        curve = min(epsilon_of(float(mu) ** 2, delta), _LARGEST)
    return ProvedEpsilon(float(bound), curve, likely, rare)


_Sets = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]


def _sets(scores: AttackScores) -> list[tuple[bool, _Sets]]:
    """Of each side (True: at least the limit, likely where the target is there) limits, and counts of likely and
    rare."""
    there, away = np.sort(scores.there), np.sort(scores.away)
    ordered = np.unique(np.concatenate([there, away]))
    picked = np.linspace(0, len(ordered) - 1, _MIDDLE).astype(np.int64)
    limits = np.unique(np.concatenate([ordered[:_EXTREMES], ordered[picked], ordered[-_EXTREMES:]]))
    above = [len(part) - np.searchsorted(part, limits, side="left") for part in (there, away)]
    below = [np.searchsorted(part, limits, side="right") for part in (away, there)]
    return [
        (True, (limits, above[0], above[1], len(there), len(away))),
        (False, (limits, below[0], below[1], len(away), len(there))),
    ]


def _best(sides: list[tuple[bool, _Sets]], delta: float, alpha: float, gaussian: bool) -> tuple[bool, float]:
    """The side and the limit that promise most."""
    best, choice = -math.inf, (True, math.inf)
    for speaks, (limits, likely, rare, runs, rest) in sides:
        values = (
            _mu(likely, rare, runs, rest, alpha) if gaussian else _exact(likely, rare, runs, rest, delta, alpha)
        ) + 1e-6 * (likely + 1) / (rare + 1)  # where nothing is proved, the counts still say which is best
        place = int(np.argmax(values))
        if values[place] > best:
            best, choice = float(values[place]), (speaks, float(limits[place]))
    return choice


def _count(scores: AttackScores, speaks: bool, limit: float) -> tuple[Hits, Hits]:
    there, away = (part >= limit if speaks else part <= limit for part in (scores.there, scores.away))
    likely, rare = (there, away) if speaks else (away, there)
    return Hits(int(likely.sum()), len(likely)), Hits(int(rare.sum()), len(rare))


def _exact(likely: np.ndarray, rare: np.ndarray, runs: int, rest: int, delta: float, alpha: float) -> np.ndarray:
    return epsilon_at_least(probability_at_least(likely, runs, alpha), probability_at_most(rare, rest, alpha), delta)


def _mu(likely: np.ndarray, rare: np.ndarray, runs: int, rest: int, alpha: float) -> np.ndarray:
    """Of the Gaussian trade-off curve through both bounds: Phi^-1(Pr[S | likely]) - Phi^-1(Pr[S | rare]), 0 at
    least."""
    low, high = probability_at_least(likely, runs, alpha), probability_at_most(rare, rest, alpha)
    with np.errstate(invalid="ignore"):
        mu = ndtri(low) - ndtri(high)
    return np.where(np.isfinite(mu), np.maximum(mu, 0.0), 0.0)
