"""Smooth sensitivity: SS_beta = max over d of e^(-beta d) times the largest local sensitivity within d moved votes.

Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2; Papernot et al. 2018 (arXiv 1802.08908), appendix,
Algorithms 4 and 5. One neighbour changes one teacher, so one vote in *every* query: the local sensitivity of a sum
over queries is at most the sum of theirs, each at its own worst histogram within d votes.

Only log q depends on d, never on the order, so log q is computed once for each (query, distance) that is looked at, and
the maximum over d is found by bisection with bounds: the sum S(d) does not decrease in d, hence no d strictly between
a and b beats e^(-beta (a+1)) S(b). The maximum is exact; most distances are never evaluated.

All results here are functions of the votes, and secret.

q after d moved votes
---------------------
Towards dissent, q grows most if every moved vote goes from the plurality to the runner-up: the tail is convex in the
gap, so spreading the votes does less. Towards consensus, q falls most if votes go from whichever rival is highest to
the plurality: the rivals are levelled from the top, like water poured out. Both ends are closed forms in d, so no vote
is walked.

On the lattice q is replaced by an upper bound of the same shape: for D >= 1, Pr[Z - Z' >= D] <= 1/2 erfc((D - 1/2) /
(2 sigma)), up to a factor 1 + 3 e^(-pi^2 sigma^2). (The density is convex beyond its inflexion, where the midpoint rule
is below the integral; inside, where it is concave, the same holds for the complement. The factor is a ratio of lattice
sums to integrals.) At D = 0 both are above 1/2, where Theorem 6 never applies: it needs q <= 1/e. The bound is within a
factor e^(1 / (2 sigma)) of the exact table up to a gap of 4 sigma, and keeps the smoothness of erfc that the
sensitivity theorem needs.

What one moved vote can do to q is read off erfc itself (``log_q_shifted``), not off erfc times that factor,
and comes out too small by as much as the factor exceeds 1: at sigma 1 the bound on a cost was 1.70966 where the truth
was 1.70984. From sigma 2 on the factor is 1 in every digit of a double (3 e^(-4 pi^2) is 2e-17), so less is refused.

Local sensitivity as a function of log q
----------------------------------------
Source: Papernot et al. 2018 (arXiv 1802.08908), appendix on smooth sensitivity: Algorithm 3 and conditions C5, C6.

Write b(q) for the cost of one query (Theorem 6 or the data-independent curve, whichever is less), q0 for the largest q
at which Theorem 6 is the lesser, and B_U(q), B_L(q) for the largest and smallest q that one moved vote can lead to.
With the number of votes, q is known to change by at most 1/sigma in the argument of erfc, for each rival; because
erfc(erfc^-1(u) - c) is concave in u, moving all rivals together is the worst case:

    B_U(q) = (m-1)/2 erfc(erfc^-1(2q/(m-1)) - 1/sigma), and B_L with a plus.

C5: b does not decrease on (0, q0). C6: b(B_U(q)) - b(q) does not decrease on (0, q1), q1 = B_L(q0). Then the local
sensitivity is at most b(B_U(q)) - b(q) below q1, its value at q1 between q1 and q0 (the plateau), and alpha/sigma^2 -
b(B_L(q)) above q0. Where C6 fails the true local sensitivity has been seen up to 1.8 times above that, so these
parameters are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from consilium.accounting.checks import blocks, check_count, check_noise, check_orders, check_scale, check_votes_moved
from consilium.accounting.curves.gaussian import ingredients, log_q_threshold, rdp_data_dependent, theorem6_at
from consilium.accounting.errors import AccountingError, ConditionError, NoiseError
from consilium.accounting.units import Noise

LEAST_LATTICE_SIGMA = 2.0


def check_walkable(sigma: float, noise: Noise) -> None:
    """Refuse integer noise so small that moved votes are not bounded by the shape of erfc. Looks at no votes.

    Raises
    ------
    NoiseError : integer noise with sigma below 2.
    """
    if noise is Noise.DISCRETE and sigma < LEAST_LATTICE_SIGMA:
        raise NoiseError(
            f"sigma {sigma:g} of integer noise is below {LEAST_LATTICE_SIGMA:g}, where no bound on local sensitivity is"
            " proved. Take a larger sigma, or publish the worst case."
        )


def envelope_tails(sigma: float, max_gap: int, noise: Noise | str) -> np.ndarray:
    """log of the erfc-shaped bound by gap: float64 (max_gap + 1,). Continuous: the exact tail itself.

    Raises
    ------
    NoiseError : integer noise with sigma below 2, see ``check_walkable``.
    """
    gaps = np.arange(max_gap + 1, dtype=np.float64)
    if check_noise(noise) is Noise.CONTINUOUS:
        return log_ndtr(-gaps / (math.sqrt(2) * sigma))
    check_walkable(sigma, Noise.DISCRETE)
    return log_ndtr(-(gaps - 0.5) / (math.sqrt(2) * sigma)) + math.log1p(3 * math.exp(-(math.pi**2) * sigma**2))


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log of the sum of exponentials over the last axis; -inf entries are fine, all -inf is not expected."""
    peak = logs.max(axis=-1)
    return peak + np.log(np.exp(logs - peak[..., None]).sum(axis=-1))


def sort_rows(votes: np.ndarray) -> np.ndarray:
    """Votes int64 (queries, classes), each row in descending order."""
    return -np.sort(-votes, axis=1)


def log_q_sorted(ordered: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """log q (not capped) of rows in descending order: float64 (queries,)."""
    return _log_sum(tails[ordered[:, :1] - ordered[:, 1:]])


def _runs(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct counts of each row and how often each occurs, padded with count 0 occurring 0 times.

    Most of 150 classes share a handful of small counts, so there is far less to look up than classes.
    """
    starts = np.concatenate((np.ones((len(ordered), 1), dtype=bool), np.diff(ordered, axis=1) != 0), axis=1)
    place = np.cumsum(starts, axis=1) - 1
    width = int(place.max(initial=0)) + 1
    flat = (np.arange(len(ordered))[:, None] * width + place).ravel()
    times = np.bincount(flat, minlength=len(ordered) * width).reshape(-1, width)
    counts = np.zeros(times.size, dtype=np.int64)
    counts[flat] = ordered.ravel()
    return counts.reshape(times.shape), times


def log_q_towards_dissent(ordered: np.ndarray, distances: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Largest log q within each distance: float64 (queries, distances).

    ordered : int64 (queries, classes), rows descending. Beyond the point where the first two classes meet, the value
        there stands for all larger distances; it is above every q at which Theorem 6 applies.
    """
    top, second = ordered[:, 0], ordered[:, 1]
    d = np.minimum(distances[None, :], ((top - second) // 2)[:, None])
    log_q = tails[(top - second)[:, None] - 2 * d]
    # The other classes fall behind the plurality by d only.
    if ordered.shape[1] > 2:
        counts, times = _runs(ordered[:, 2:])
        gaps = top[:, None] - counts
        peak = tails[np.maximum(gaps[:, :1] - d, 0)]
        total = np.zeros(d.shape)
        for column in range(counts.shape[1]):
            term = tails[np.maximum(gaps[:, column : column + 1] - d, 0)] - peak
            total += times[:, column : column + 1] * np.exp(term)
            # Columns descend, so once all that remain change nothing together, they can be left out.
            if term.max() < -60 - math.log(ordered.shape[1]):
                break
        log_q = np.logaddexp(log_q, peak + np.log(total))
    return log_q


def log_q_towards_consensus(ordered: np.ndarray, distances: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Smallest log q within each distance: float64 (queries, distances); -inf never, a unanimous row has the least.

    ordered : int64 (queries, classes), rows descending.
    """
    top, rivals = ordered[:, 0], ordered[:, 1:]
    size = rivals.shape[1]
    sums = np.cumsum(rivals, axis=1)
    following = np.concatenate((rivals[:, 1:], np.zeros((len(rivals), 1), dtype=rivals.dtype)), axis=1)
    # Votes to take until the first j rivals are level with the next one.
    to_level = sums - np.arange(1, size + 1) * following
    out = np.empty((len(ordered), len(distances)))
    for column, distance in enumerate(distances):
        d = np.minimum(distance, sums[:, -1])
        group = np.minimum((to_level < d[:, None]).sum(axis=1), size - 1)
        left = np.take_along_axis(sums, group[:, None], axis=1)[:, 0] - d
        count = group + 1
        level, remainder = left // count, left % count
        index = np.arange(size)
        counts = np.where(index <= group[:, None], level[:, None] + (index < remainder[:, None]), rivals)
        out[:, column] = _log_sum(tails[(top + d)[:, None] - counts])
    return out


_GRID = 600
_ROUNDING = 1e-9


def log_q_shifted(log_q: np.ndarray, sigma: float, classes: int, sign: int) -> np.ndarray:
    """log B_U(q) for sign +1, log B_L(q) for sign -1, without the cap at 1: float64, shape of log_q."""
    spread = math.log(classes - 1)
    z = ndtri_exp(np.minimum(log_q - spread, -1e-300))
    return spread + log_ndtr(z + sign * math.sqrt(2) / sigma)


def _cost(log_q: np.ndarray, variance: float, alpha: np.ndarray) -> np.ndarray:
    """b(q), elementwise over arrays that broadcast; log_q above 0 counts as 0."""
    log_q, alpha = np.broadcast_arrays(np.minimum(log_q, 0.0), alpha)
    flat = log_q.ravel()
    return theorem6_at(flat, ingredients(flat, variance), alpha.ravel(), variance).reshape(log_q.shape)


@dataclass(frozen=True, slots=True)
class SensitivityCurve:
    """Where the three regimes of the local sensitivity lie, for each order: arrays of shape (orders,).

    sigma : noise on one count. k : votes that one unit moves (cost is at sigma / k; one *vote* is one step of
        distance).
    """

    sigma: float
    k: int
    classes: int
    orders: np.ndarray
    log_q0: np.ndarray
    log_q1: np.ndarray
    plateau: np.ndarray

    @property
    def variance(self) -> float:
        """(sigma / k)^2, the variance at which Theorem 6 is evaluated."""
        return (self.sigma / self.k) ** 2


def _largest_useful(variance: float, alpha: np.ndarray) -> np.ndarray:
    """log q0: the largest log q at which Theorem 6 holds and is below the data-independent curve, by bisection."""
    low, high = np.full(alpha.shape, -4.0), np.zeros(alpha.shape)
    base = alpha / variance
    while True:
        useless = _cost(low, variance, alpha) >= base
        if not useless.any():
            break
        low = np.where(useless, 2 * low, low)
    for _ in range(110):
        middle = (low + high) / 2
        useful = _cost(middle, variance, alpha) < base
        low, high = np.where(useful, middle, low), np.where(useful, high, middle)
    return low


def _make(sigma: float, classes: int, orders: tuple[float, ...], k: int) -> SensitivityCurve:
    alpha = check_orders(orders)
    variance = (check_scale(sigma, "sigma") / check_votes_moved(k)) ** 2
    log_q0 = _largest_useful(variance, alpha)
    log_q1 = log_q_shifted(log_q0, sigma, classes, -1)
    plateau = alpha / variance - _cost(log_q1, variance, alpha)
    for array in (alpha, log_q0, log_q1, plateau):
        array.setflags(write=False)
    return SensitivityCurve(sigma, k, classes, alpha, log_q0, log_q1, plateau)


_cached = lru_cache(maxsize=32)(_make)


def sensitivity_curve(sigma: float, classes: int, orders: object, k: int = 1) -> SensitivityCurve:
    """Regimes of the local sensitivity at these public parameters (cached).

    >>> curve = sensitivity_curve(40.0, 10, [20.0])
    >>> float(curve.log_q0[0].round(6)), float(curve.log_q1[0].round(6)), float(curve.plateau[0].round(9))
    (-3.156873, -3.260313, 0.000818199)
    """
    return _cached(float(sigma), classes, tuple(check_orders(orders).tolist()), k)


def conditions(curve: SensitivityCurve, least_log_q: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether C5 and C6 hold for each order: two bool (orders,), checked on a grid from ``least_log_q`` up.

    The grid has 600 points, even in the argument of erfc. ``least_log_q`` is the smallest q that the number of teachers
    allows (a unanimous query); below it nothing is ever evaluated.
    """
    spread = math.log(curve.classes - 1)
    share = np.linspace(0.0, 1.0, _GRID)[:, None]

    def grid(upper: np.ndarray) -> np.ndarray:
        last = ndtri_exp(upper - spread)
        first = np.minimum(ndtri_exp(np.minimum(least_log_q, upper) - spread), last - 1e-6)
        return spread + log_ndtr(first + (last - first) * share)

    def rises(values: np.ndarray) -> np.ndarray:
        return np.all(np.diff(values, axis=0) >= -_ROUNDING * np.abs(values[1:]), axis=0)

    below_q0 = grid(curve.log_q0)
    below_q1 = grid(curve.log_q1)
    alpha = curve.orders[None, :]
    c5 = rises(_cost(below_q0, curve.variance, alpha))
    lifted = log_q_shifted(below_q1, curve.sigma, curve.classes, +1)
    # B_U(q1) = q0 up to rounding, which must not fall on the far side of a jump of b at q0.
    lifted = np.minimum(lifted, curve.log_q0)
    c6 = rises(_cost(lifted, curve.variance, alpha) - _cost(below_q1, curve.variance, alpha))
    return c5, c6


def require_conditions(curve: SensitivityCurve, least_log_q: float) -> None:
    """Refuse parameters for which the bound on local sensitivity is not proved.

    Raises
    ------
    ConditionError : C5 or C6 fails at an order; the message names it and what to change. Depends on public numbers
        only.
    """
    c5, c6 = conditions(curve, least_log_q)
    for name, holds in (("C5", c5), ("C6", c6)):
        if not holds.all():
            order = float(curve.orders[~holds][0])
            raise ConditionError(
                f"condition {name} fails at order {order:g}, sigma {curve.sigma:g}, {curve.classes} classes, "
                f"{curve.k} vote(s) moved: the bound on local sensitivity is not proved there. Take a smaller order, a "
                "larger sigma, or publish the worst case."
            )


def local_sensitivity(log_q: np.ndarray, curve: SensitivityCurve) -> np.ndarray:
    """Bound on how much one moved vote changes the cost, at each log q and order: float64 (queries, orders). Secret.

    Holds for the histograms with that q; see the module's text for the three regimes.
    """
    lq = np.asarray(log_q, dtype=np.float64)[:, None]
    alpha = curve.orders[None, :]
    base = alpha / curve.variance
    up = _cost(log_q_shifted(lq, curve.sigma, curve.classes, +1), curve.variance, alpha)
    down = _cost(log_q_shifted(lq, curve.sigma, curve.classes, -1), curve.variance, alpha)
    below = up - _cost(lq, curve.variance, alpha)
    out = np.where(lq < curve.log_q1, below, base - down)
    inside = (lq >= curve.log_q1) & (lq <= curve.log_q0)
    return np.where(inside, curve.plateau, np.maximum(out, 0.0))


_ROWS = 1024
_CELLS = 1 << 18
_FIRST_DISTANCES = 20


class SensitivityProfile(Protocol):
    """Sum over queries of the largest local sensitivity within d votes, for pairs of (order, distance)."""

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """float64 (pairs,); does not decrease with distance at a fixed order."""
        ...


class LabelProfile:
    """Local sensitivities of the GNMax step, summed over queries, without asking whether C5 and C6 hold.

    Use ``label_profile``, which asks; this class alone serves benchmarks and tests of the formulas.
    """

    def __init__(
        self,
        votes: np.ndarray,
        teachers: int,
        sigma: float,
        noise: Noise,
        orders: np.ndarray,
        k: int,
        weights: np.ndarray,
    ) -> None:
        array = np.asarray(votes)
        used = np.asarray(weights) > 0
        rows = np.concatenate([sort_rows(block[used[part]]) for part, block in blocks(array, teachers)] or [array[:0]])
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        classes = rows.shape[1]
        self._curve = sensitivity_curve(sigma, classes, orders, k)
        self._tails = envelope_tails(sigma, teachers, noise)
        # Histograms that are the same up to the names of classes are walked once.
        keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * classes))).ravel()
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        self._weights = np.bincount(inverse, weights=weights[used], minlength=first.size)
        self._rows = rows[first]
        self._log_q = log_q_sorted(self._rows, self._tails) if first.size else np.zeros(0)

    def cost(self) -> np.ndarray:
        """Sum of the costs whose sensitivity this is: float64 (orders,); on the lattice a little more."""
        log_q = np.minimum(self._log_q, 0.0)
        return self._weights @ rdp_data_dependent(log_q, self._curve.sigma, self._curve.orders, self._curve.k)

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        total = np.zeros(order_index.size)
        for start in range(0, len(self._rows), _ROWS):
            part = slice(start, start + _ROWS)
            total += self._block(self._rows[part], self._log_q[part], self._weights[part], order_index, distance)
        return total

    def _block(
        self, rows: np.ndarray, start: np.ndarray, weights: np.ndarray, order_index: np.ndarray, distance: np.ndarray
    ) -> np.ndarray:
        curve = self._curve
        disputed = start > curve.log_q0.min()
        total = np.zeros(order_index.size)
        distances, column = np.unique(distance, return_inverse=True)
        agreed = np.flatnonzero(start <= curve.log_q0.max())
        if agreed.size:
            away = log_q_towards_dissent(rows[agreed], distances, self._tails)
            total += self._sum(away, start[agreed], weights[agreed], order_index, column, +1)
        if disputed.any():
            which = np.flatnonzero(disputed)
            towards = log_q_towards_consensus(rows[which], distances, self._tails)
            total += self._sum(towards, start[which], weights[which], order_index, column, -1)
        return total

    def _sum(
        self,
        log_q: np.ndarray,
        start: np.ndarray,
        weights: np.ndarray,
        order_index: np.ndarray,
        column: np.ndarray,
        sign: int,
    ) -> np.ndarray:
        """Sum over queries for each pair; sign +1 for queries at or below q0 (walking away), -1 for those above it."""
        curve = self._curve
        # (distances, queries): a pair then reads one contiguous row.
        log_q = np.ascontiguousarray(np.minimum(log_q, 0.0).T)
        shifted = np.minimum(log_q_shifted(log_q, curve.sigma, curve.classes, sign), 0.0)
        here = ingredients(log_q.ravel(), curve.variance) if sign > 0 else ()
        there = ingredients(shifted.ravel(), curve.variance)
        out = np.zeros(order_index.size)
        queries = log_q.shape[1]
        step = max(1, _CELLS // max(1, queries))
        for first in range(0, order_index.size, step):
            pair = slice(first, first + step)
            orders, columns = order_index[pair], column[pair]
            q = log_q[columns]
            log_q0, log_q1 = curve.log_q0[orders][:, None], curve.log_q1[orders][:, None]
            mine = start[None, :] <= log_q0 if sign > 0 else start[None, :] > log_q0
            flat_limit = q >= log_q1 if sign > 0 else q <= log_q0
            terms = np.where(mine & flat_limit, curve.plateau[orders][:, None], 0.0)
            active = mine & ~flat_limit
            if sign < 0:
                active &= shifted[columns] < log_q0
            row, query = np.nonzero(active)
            cell = columns[row] * queries + query
            alpha = curve.orders[orders[row]]
            far = theorem6_at(shifted.ravel()[cell], tuple(part[cell] for part in there), alpha, curve.variance)
            if sign > 0:
                near = theorem6_at(log_q.ravel()[cell], tuple(part[cell] for part in here), alpha, curve.variance)
                terms[row, query] = np.maximum(far - near, 0.0)
            else:
                terms[row, query] = np.maximum(alpha / curve.variance - far, 0.0)
            out[pair] = terms @ weights
        return out


def least_log_q(teachers: int, classes: int, sigma: float, noise: Noise) -> float:
    """log q of a unanimous query: the smallest that can occur."""
    unanimous = np.zeros((1, classes), dtype=np.int64)
    unanimous[0, 0] = teachers
    return float(log_q_sorted(unanimous, envelope_tails(sigma, teachers, noise))[0])


def label_profile(
    votes: np.ndarray, teachers: int, sigma: float, noise: Noise, orders: np.ndarray, k: int, weights: np.ndarray
) -> LabelProfile:
    """Local sensitivities of the GNMax step, if they are proved for these public parameters.

    Parameters
    ----------
    votes : signed integers (queries, classes). sigma, noise, orders, k : as everywhere.
    weights : float64 (queries,), the realised answered mask (or probabilities, for a plan on public votes).

    Raises
    ------
    ConditionError : C5 or C6 fails at one of the orders. VotesError, NoiseError, OrdersError.
    """
    classes = np.asarray(votes).shape[1]
    curve = sensitivity_curve(sigma, classes, orders, k)
    require_conditions(curve, least_log_q(teachers, classes, sigma, noise))
    return LabelProfile(votes, teachers, sigma, noise, orders, k, weights)


def fill(hump: np.ndarray) -> np.ndarray:
    """Least array above ``hump`` (orders, values) that rises up to its peak and falls after it, row by row."""
    peak = hump.argmax(axis=1)[:, None]
    rising = np.maximum.accumulate(hump, axis=1)
    falling = np.maximum.accumulate(hump[:, ::-1], axis=1)[:, ::-1]
    return np.where(np.arange(hump.shape[1]) <= peak, rising, falling)


class CheckProfile:
    """Local sensitivities of the threshold check, summed over queries: exact, by trying every value of the top count.

    Unlike GNMax's they can fall with distance, so the largest within d is taken for each query before summing.

    Parameters
    ----------
    top : int64 (queries,), the number that is compared; moved by at most 1 by one vote, within [least, most].
    """

    def __init__(
        self,
        top: np.ndarray,
        threshold: float,
        sigma1: float,
        noise: Noise,
        orders: np.ndarray,
        k: int,
        least: int,
        most: int,
    ) -> None:
        values = np.arange(least, most + 1, dtype=np.int64)
        log_q = log_q_threshold(values, threshold, sigma1, noise)
        # (orders, values): a pair of order and distance then reads one contiguous row.
        table = np.ascontiguousarray(rdp_data_dependent(log_q, sigma1, orders, k, scalar=True).T)
        change = np.abs(np.diff(table, axis=1))
        edge = np.zeros((table.shape[0], 1))
        local = np.maximum(np.concatenate((change, edge), axis=1), np.concatenate((edge, change), axis=1))
        self._flat = not local.any()
        # One hump on each side of the threshold. Filling the dips of a hump keeps the bound an upper bound, and the
        # largest value of a hump within a window is then the one nearest its peak.
        self._middle = min(max(round(threshold) - least, 0), values.size - 1)
        below, above = local[:, : self._middle + 1], local[:, self._middle :]
        self._peaks = below.argmax(axis=1), above.argmax(axis=1) + self._middle
        self._humps = fill(below), fill(above)
        self._where, self._counts = np.unique(top - least, return_counts=True)
        self._table = table

    def cost(self) -> np.ndarray:
        """Sum of the costs whose sensitivity this is: float64 (orders,)."""
        return self._table[:, self._where] @ self._counts

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        out = np.zeros(order_index.size)
        if self._flat:
            return out
        middle, last = self._middle, self._table.shape[1] - 1
        step = max(1, _CELLS // max(1, self._where.size))
        for first in range(0, order_index.size, step):
            pair = slice(first, first + step)
            order, d = order_index[pair][:, None], distance[pair][:, None]
            left, right = np.maximum(self._where - d, 0), np.minimum(self._where + d, last)
            low_peak, high_peak = self._peaks[0][order], self._peaks[1][order]
            low = self._humps[0][order, np.clip(low_peak, np.minimum(left, middle), np.minimum(right, middle))]
            high = self._humps[1][
                order, np.clip(high_peak, np.maximum(left, middle), np.maximum(right, middle)) - middle
            ]
            # A window wholly on one side reads the other hump at the threshold itself, which lies outside it.
            best = np.maximum(np.where(left <= middle, low, 0.0), np.where(right >= middle, high, 0.0))
            out[pair] = best @ self._counts
        return out


def smooth_sensitivity(
    profiles: Sequence[SensitivityProfile], orders: object, betas: object, teachers: int
) -> np.ndarray:
    """SS_beta of the sum of all profiles, at each order with its own beta: float64 (orders,). Secret, exact.

    Parameters
    ----------
    betas : float64 (orders,), each above 0. teachers : most votes that can move.

    Raises
    ------
    AccountingError : betas do not fit the orders.
    """
    alpha = check_orders(orders)
    beta = np.asarray(betas, dtype=np.float64)
    if beta.shape != alpha.shape or not np.all(np.isfinite(beta) & (beta > 0)):
        raise AccountingError(f"betas must be above 0, one for each of the {alpha.size} orders.")
    most = check_count(teachers, "teachers", 1)

    def total(index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        return np.sum([profile.at(index, distance) for profile in profiles], axis=0)

    first = np.unique(np.round(np.linspace(0, 1, _FIRST_DISTANCES) ** 2 * most).astype(np.int64))
    index = np.repeat(np.arange(alpha.size), first.size)
    distance = np.tile(first, alpha.size)
    values = total(index, distance)
    best = (np.exp(-beta[index] * distance) * values).reshape(alpha.size, -1).max(axis=1)
    grid = values.reshape(alpha.size, -1)
    index = np.repeat(np.arange(alpha.size), first.size - 1)
    low, high = np.tile(first[:-1], alpha.size), np.tile(first[1:], alpha.size)
    high_value = grid[:, 1:].ravel()
    while True:
        open_ = (high - low > 1) & (np.exp(-beta[index] * (low + 1)) * high_value > best[index])
        index, low, high, high_value = index[open_], low[open_], high[open_], high_value[open_]
        if not index.size:
            return best
        middle = (low + high) // 2
        value = total(index, middle)
        np.maximum.at(best, index, np.exp(-beta[index] * middle) * value)
        index = np.concatenate((index, index))
        low, high = np.concatenate((low, middle)), np.concatenate((middle, high))
        high_value = np.concatenate((value, high_value))
