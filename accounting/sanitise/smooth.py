"""Smooth sensitivity: SS_beta = max over d of e^(-beta d) times the largest local sensitivity within d moved votes.

Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2; Papernot et al. 2018 (arXiv 1802.08908), appendix,
Algorithms 4 and 5. One neighbour changes one teacher, so one vote in *every* query: the local sensitivity of a sum
over queries is at most the sum of theirs, each at its own worst histogram within d votes.

Only log q depends on d, never on the order, so log q is computed once for each (query, distance) that is looked at, and
the maximum over d is found by bisection with bounds: the sum S(d) does not decrease in d, hence no d strictly between
a and b beats e^(-beta (a+1)) S(b). The maximum is exact; most distances are never evaluated.

All results here are functions of the votes, and secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from consilium.accounting.checks import check_count, check_orders
from consilium.accounting.curves.gaussian import ingredients, rdp_data_dependent, theorem6_at
from consilium.accounting.curves.threshold import log_q_threshold
from consilium.accounting.errors import AccountingError
from consilium.accounting.histogram import blocks
from consilium.accounting.sanitise.moved_votes import (
    envelope_tails,
    log_q_sorted,
    log_q_towards_consensus,
    log_q_towards_dissent,
    sort_rows,
)
from consilium.accounting.sanitise.sensitivity import log_q_shifted, require_conditions, sensitivity_curve
from consilium.accounting.units import Noise

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
