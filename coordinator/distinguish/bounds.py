"""From an attacker's scores to what they prove: rates with exact intervals, and lower bounds on epsilon.

A score is high where the attacker believes that the target was there. Which scores accuse is chosen on the first half
of the games and measured on the other, so that choosing costs no confidence. Every probability is bounded by the exact
binomial interval of Clopper and Pearson 1934 (Jagielski, Ullman, Oprea 2020, arXiv 2006.07709).

exact : (epsilon, delta)-privacy means Pr[S | there] <= e^epsilon Pr[S | away] + delta for every set S of scores, and
    the same the other way round. It holds for any mechanism.
gaussian : where Gaussian noise on counts is released, it is mu-GDP (Dong, Roth, Su 2019, arXiv 1905.02383), and the
    same two probabilities bound mu from below (Nasr et al. 2023, arXiv 2302.07956). It needs far fewer games.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincinv, ndtri

from consilium.accounting.curves.gdp import epsilon_of

MOST_GAMES = 10**9
"""Nobody plays more."""


def probability_at_least(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """One-sided lower bounds: float64, wrong with probability at most alpha each.

    hits : counts among `runs` independent games.

    >>> probability_at_least(np.array([0, 500, 1000]), 1000, 0.001).round(4).tolist()
    [0.0, 0.4508, 0.9931]
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, alpha), 0.0)


def probability_at_most(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """One-sided upper bounds, likewise.

    >>> probability_at_most(np.array([0, 500, 1000]), 1000, 0.001).round(4).tolist()
    [0.0069, 0.5492, 1.0]
    """
    return 1.0 - probability_at_least(runs - np.asarray(hits), runs, alpha)


def share_of(hits: int, runs: int, error: float = 0.05) -> tuple[float, float, float]:
    """The share, and both ends of its interval, wrong with probability `error` at most.

    >>> [round(value, 4) for value in share_of(3, 1000)]
    [0.003, 0.0006, 0.0087]
    """
    low, high = (end(np.array(hits), runs, error / 2) for end in (probability_at_least, probability_at_most))
    return hits / runs, float(low), float(high)


@dataclass(frozen=True)
class Scores:
    """there, away: float64 (games,), of games with the target in them and without it. At least two of each."""

    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)

    def halves(self) -> tuple[Scores, Scores]:
        """The first games and the others, to choose on and to measure on."""
        there, away = len(self.there) // 2, len(self.away) // 2
        return Scores(self.there[:there], self.away[:away]), Scores(self.there[there:], self.away[away:])


@dataclass(frozen=True)
class LowerBound:
    """On epsilon at `delta`, wrong with probability `error` at most. gaussian : whether by way of mu, see above."""

    delta: float
    error: float
    gaussian: bool = False

    def strength(self, likely: np.ndarray, rare: np.ndarray, runs: int, rest: int) -> np.ndarray:
        """Epsilon, or mu, of sets with so many hits where they are likely, in `runs` games, and rare, in `rest`."""
        low, high = probability_at_least(likely, runs, self.error / 2), probability_at_most(rare, rest, self.error / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.gaussian:
                strength = ndtri(low) - ndtri(high)
            else:
                strength = np.log(np.maximum(low - self.delta, 0.0)) - np.log(high)
        return np.where(np.isfinite(strength), np.maximum(strength, 0.0), 0.0)

    def epsilon(self, strength: float) -> float:
        """What a strength proves."""
        return epsilon_of(strength**2, self.delta) if self.gaussian else strength


def proved(scores: Scores, bound: LowerBound) -> float:
    """Epsilon is at least this.

    >>> sure = Scores(np.ones(2000), np.zeros(2000))
    >>> round(proved(sure, LowerBound(1e-5, 0.05)), 2)
    5.6
    """
    chosen, rest = scores.halves()
    # likely where the target is there: scores at least the limit; where it is not: at most. The same, turned round
    sides = ((chosen, rest), (Scores(-chosen.away, -chosen.there), Scores(-rest.away, -rest.there)))
    options = [(*_best_limit(side, bound), measured) for side, measured in sides]
    _, limit, measured = max(options, key=lambda option: option[0])
    likely, rare = ((part >= limit).sum() for part in (measured.there, measured.away))
    return bound.epsilon(float(bound.strength(likely, rare, len(measured.there), len(measured.away))))


def _best_limit(scores: Scores, bound: LowerBound) -> tuple[float, float]:
    """The strongest bound of "at least the limit", which proves nothing on these games, and the limit."""
    limits = np.unique(np.concatenate([scores.there, scores.away]))
    likely, rare = (
        len(part) - np.searchsorted(np.sort(part), limits, side="left") for part in (scores.there, scores.away)
    )
    # where nothing is proved, the counts still say which is best
    strengths = bound.strength(likely, rare, len(scores.there), len(scores.away)) + 1e-6 * (likely + 1) / (rare + 1)
    best = int(np.argmax(strengths))
    return float(strengths[best]), float(limits[best])


def games_needed(epsilon: float, bound: LowerBound) -> int | None:
    """Games of each world below which even an attack that is always right proves no more than `epsilon`. None where
    nobody plays so many.

    >>> games_needed(5.5, LowerBound(1e-5, 0.05)), games_needed(40.0, LowerBound(1e-5, 0.05))
    (1809, None)
    """

    def most(games: int) -> float:
        half = games - games // 2
        return bound.epsilon(float(bound.strength(np.array(half), np.array(0), half, half)))

    if not most(MOST_GAMES) > epsilon:
        return None
    low, high = 1, MOST_GAMES
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if most(middle) > epsilon else (middle, high)
    return high
