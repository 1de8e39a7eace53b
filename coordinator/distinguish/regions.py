"""Sets of outcomes that tell D from D': chosen on some draws, measured on others.

A set is "the statistic is at least t" (likely under D) or "at most t" (likely under D'). By Neyman and Pearson these
are the best sets if the statistic is the true likelihood ratio. Statistic, side, limit and the delta at which the claim
is tested are all chosen on draws that are not used again, so choosing costs no confidence.

Statistics
----------
Each is a log-likelihood ratio with probabilities estimated on draws of its own, so large values speak for D. Which one
is used, and with which limit, is decided on further draws; a poor statistic makes an
audit weak, never wrong.

single : sum over queries of log p(outcome | D) / p(outcome | D'). The best there is when queries are independent.
pairs : the same for pairs of queries, taken together. Sees what queries have in common, such as reused noise.

Bounds
------
A mechanism is (epsilon, delta)-DP only if Pr[S | D] <= e^epsilon Pr[S | D'] + delta for every set S of outcomes. So any
S gives epsilon >= log((Pr[S | D] - delta) / Pr[S | D']). Each probability is bounded by the exact binomial interval of
Clopper and Pearson 1934; Jagielski, Ullman, Oprea 2020 (arXiv 2006.07709) audit the same way. Bayesian or
log-Katz intervals would be a little tighter, but are not guaranteed to cover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincinv

from consilium.coordinator.distinguish.pairs import Layout


def probability_at_least(hits: np.ndarray, runs: int, alpha: float) -> np.ndarray:
    """One-sided lower bounds: float64, wrong with probability at most alpha each.

    hits : counts among `runs` independent runs.

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


def epsilon_at_least(likely: np.ndarray, rare: np.ndarray, delta: np.ndarray | float) -> np.ndarray:
    """Epsilon that no smaller one explains, clipped at 0.

    likely : lower bounds of Pr[S] under one database. rare : upper bounds of Pr[S] under the other.

    >>> epsilon_at_least(np.array([0.6, 0.01]), np.array([0.2, 0.2]), 0.1).round(4).tolist()
    [0.9163, 0.0]
    """
    above = np.maximum(likely - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(above) - np.log(rare), 0.0)


@dataclass(frozen=True)
class Statistic:
    """A table of log-likelihood ratios over symbols; a symbol is read at one query, or at two at a time.

    left, right : int64 (symbols per run,), the queries of each symbol; `right` is None where one query makes a symbol.
    base : int64 (symbols per run,), where the table of the symbol's kind starts.
    """

    name: str
    codes: int
    left: np.ndarray = field(repr=False)
    right: np.ndarray | None = field(repr=False)
    base: np.ndarray = field(repr=False)
    table: np.ndarray = field(repr=False)

    def _symbols(self, outcomes: np.ndarray) -> np.ndarray:
        first = outcomes[:, self.left].astype(np.int64)
        if self.right is not None:
            first = first * self.codes + outcomes[:, self.right]
        return self.base + first

    def score(self, outcomes: np.ndarray) -> np.ndarray:
        """float64 (runs,) of outcomes int16 (runs, queries). Rounded, so that equal runs tie in spite of summation."""
        return self.table[self._symbols(outcomes)].sum(axis=1).round(9)

    def fitted(self, under_d: np.ndarray, under_d_prime: np.ndarray) -> Statistic:
        """With the table estimated from outcomes (runs, queries) of both; half a count is added everywhere."""
        size = len(self.table)
        width = self.codes if self.right is None else self.codes**2
        logs = []
        for outcomes in (under_d, under_d_prime):
            counts = np.bincount(self._symbols(outcomes).ravel(), minlength=size).reshape(-1, width) + 0.5
            logs.append(np.log(counts / counts.sum(axis=1, keepdims=True)).ravel())
        return Statistic(self.name, self.codes, self.left, self.right, self.base, logs[0] - logs[1])


def statistics_of(layout: Layout, codes: int) -> list[Statistic]:
    """Unfitted statistics for runs of this layout, whose outcomes are numbers below `codes`."""
    n, kinds = layout.queries, layout.kinds
    count = int(kinds.max()) + 1
    statistics = [_unfitted("single", codes, np.arange(n), None, kinds, count)]
    if n >= 2:
        left = np.concatenate([np.arange(call.start, call.stop - 1, 2) for call in layout.calls])
        statistics.append(_unfitted("pairs", codes, left, left + 1, kinds[left], count))
    if len(layout.calls) == 2:
        left = np.arange(layout.calls[0].stop)
        statistics.append(_unfitted("pairs over two calls", codes, left, left + len(left), kinds[left], count))
    return statistics


def _unfitted(
    name: str, codes: int, left: np.ndarray, right: np.ndarray | None, kinds: np.ndarray, count: int
) -> Statistic:
    width = codes if right is None else codes**2
    return Statistic(name, codes, left, right, kinds * width, np.zeros(count * width))


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
    clear = max(float(errors_of.max()) for errors_of in errors.values()) > 2
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
