"""Sets of outcomes that tell D from D': chosen on some draws, measured on others.

A set is "the statistic is at least t" (likely under D) or "at most t" (likely under D'). By Neyman and Pearson these
are the best sets if the statistic is the true likelihood ratio. Statistic, side, limit and the delta at which the claim
is tested are all chosen on draws that are not used again, so choosing costs no confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.distinguish.bounds import epsilon_at_least, probability_at_least, probability_at_most
from consilium.coordinator.distinguish.statistics import Statistic

Claim = Callable[[float], float]
"""Epsilon that is claimed at a delta; inf where nothing is claimed."""

_MIDDLE = 200
_EXTREMES = 24


@dataclass(frozen=True)
class Region:
    """A set of outcomes, and the delta at which it speaks about epsilon."""

    statistic: Statistic = field(repr=False)
    speaks_for_d: bool
    limit: float
    delta: float

    def hits(self, outcomes: np.ndarray) -> int:
        """How many runs, outcomes int16 (runs, queries), fall into it."""
        scores = self.statistic.score(outcomes)
        return int((scores >= self.limit if self.speaks_for_d else scores <= self.limit).sum())


@dataclass(frozen=True)
class Measured:
    """What a region proves: epsilon is at least `lower` at `delta`, where `claimed` was claimed."""

    delta: float
    claimed: float
    lower: float
    statistic: str

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower > self.claimed


@dataclass(frozen=True)
class _Choices:
    """Hit rates of all regions that are considered; arrays of equal length."""

    statistics: np.ndarray
    speaks_for_d: np.ndarray
    limits: np.ndarray
    likely: np.ndarray
    rare: np.ndarray
    runs: int

    def region(self, index: int, fitted: Sequence[Statistic], delta: float) -> Region:
        return Region(
            fitted[int(self.statistics[index])], bool(self.speaks_for_d[index]), float(self.limits[index]), delta
        )


def _limits(scores: np.ndarray) -> np.ndarray:
    """Limits worth trying: quantiles in the middle, every value at both ends."""
    ordered = np.sort(scores)
    picked = np.linspace(0, len(ordered) - 1, _MIDDLE).astype(np.int64)
    return np.unique(np.concatenate([ordered[:_EXTREMES], ordered[picked], ordered[-_EXTREMES:]]))


def _choices(fitted: Sequence[Statistic], under_d: np.ndarray, under_d_prime: np.ndarray) -> _Choices:
    columns: list[tuple[np.ndarray, ...]] = []
    for index, statistic in enumerate(fitted):
        a, b = np.sort(statistic.score(under_d)), np.sort(statistic.score(under_d_prime))
        limits = _limits(np.concatenate([a, b]))
        at_least = [len(s) - np.searchsorted(s, limits, side="left") for s in (a, b)]
        at_most = [np.searchsorted(s, limits, side="right") for s in (b, a)]
        for speaks_for_d, (likely, rare) in ((True, at_least), (False, at_most)):
            full = np.full(len(limits), index)
            columns.append((full, np.full(len(limits), speaks_for_d), limits, likely, rare))
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    return _Choices(*joined, runs=len(under_d))


def _standard_errors(choices: _Choices, allowed: float, delta: float) -> np.ndarray:
    """By how many standard errors each region refutes that epsilon is `allowed` at delta; negative if it does not."""
    if not np.isfinite(allowed) or allowed > 500:
        return np.full(len(choices.limits), -np.inf)
    n = choices.runs
    # One more hit and one more miss than seen keeps the error of an empty count away from 0.
    p, q = ((hits + 1) / (n + 2) for hits in (choices.likely, choices.rare))
    factor = np.exp(allowed)
    error = np.sqrt((p * (1 - p) + factor**2 * q * (1 - q)) / n)
    return (p - factor * q - delta) / error


def choose(
    fitted: Sequence[Statistic],
    under_d: np.ndarray,
    under_d_prime: np.ndarray,
    claim: Claim,
    delta: float,
    more_deltas: Sequence[float],
    alpha: float,
) -> tuple[list[Region], tuple[float, float]]:
    """Two regions (one if there are no `more_deltas`) and how much each promises.

    The first puts the highest lower bound on epsilon at `delta`. The second is the one that refutes the claim most
    clearly at any of `delta` and `more_deltas`, or if none does, the one that comes closest. A claim that holds at
    every delta can fail at any of them, and where delta is large far fewer runs are needed to see it.

    alpha : error of one bound on a probability. Promises: lower bound over claim at `delta`; the same for the second
        region, or, where it refutes the claim by more than two standard errors, their number.
    """
    choices = _choices(fitted, under_d, under_d_prime)
    likely = probability_at_least(choices.likely, choices.runs, alpha)
    rare = probability_at_most(choices.rare, choices.runs, alpha)
    # Where no region bounds epsilon away from 0 the ratio of the counts still says which is best. A claim of 0 counts
    # as 0.01 here, so that it is not always the one that a tiny bound comes closest to; no claim at all is the largest.
    hint = 1e-6 * (choices.likely + 1) / (choices.rare + 1)
    share = {
        value: (epsilon_at_least(likely, rare, value) + hint) / min(max(claim(value), 0.01), 1e6)
        for value in (delta, *more_deltas)
    }
    best = int(np.argmax(share[delta]))
    regions = [choices.region(best, fitted, delta)]
    promise = float(share[delta][best])
    if not more_deltas:
        return regions, (promise, promise)
    errors = {value: _standard_errors(choices, claim(value), value) for value in share}
    clear = max(float(each.max()) for each in errors.values()) > 2
    value, score = max((errors if clear else share).items(), key=lambda item: item[1].max())
    index = int(np.argmax(score))
    regions.append(choices.region(index, fitted, value))
    return regions, (promise, float(score[index]))


def measure(region: Region, under_d: np.ndarray, under_d_prime: np.ndarray, claim: Claim, alpha: float) -> Measured:
    """Lower bound on epsilon from draws that had no part in choosing the region; wrong with probability 2 alpha."""
    likely, rare = (under_d, under_d_prime) if region.speaks_for_d else (under_d_prime, under_d)
    p = probability_at_least(np.array(region.hits(likely)), len(likely), alpha)
    q = probability_at_most(np.array(region.hits(rare)), len(rare), alpha)
    lower = float(epsilon_at_least(p, q, region.delta))
    return Measured(region.delta, claim(region.delta), lower, region.statistic.name)
