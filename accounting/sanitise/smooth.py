"""Smooth sensitivity: SS_beta = max over d of e^(-beta d) times the largest local sensitivity within d moved votes.
Secret.

Source: Nissim, Raskhodnikova, Smith 2007, Definition 2.2; Papernot et al. 2018 (arXiv 1802.08908), appendix, Algorithms
4 and 5. One neighbour changes one teacher, so one vote in *every* query: the local sensitivity of a sum over queries is
at most the sum of theirs, each at its own worst histogram within d votes.

The maximum over d is found by bisection with bounds: the sum S(d) does not decrease in d, hence no d strictly between a
and b beats e^(-beta (a+1)) S(b). It is exact; most distances are never evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.accounting.checks import check_count, check_orders, check_votes
from consilium.accounting.errors import AccountingError, EventError
from consilium.accounting.events import Comparison
from consilium.accounting.outcome import check
from consilium.accounting.sanitise.gap import GAP_MOVED

_CELLS = 1 << 18
_MOST_ENTRIES = 1 << 23
"""Of the table of a check: 64 MiB, and about as much again while it is made."""
_FIRST_DISTANCES = 20


class LabelProfile:
    """Local sensitivities of labels, summed over queries: of what ``gap.envelope`` charges for the plurality's lead.

    votes : signed integers (queries, classes), ``teachers`` in every row, else VotesError.
    costs : float64 (orders, leads), of one label; the last stands for all larger leads.
    weights : float64 (queries,) in [0, 1], how much of its label each query pays.
    """

    def __init__(self, votes: np.ndarray, teachers: int, costs: np.ndarray, weights: np.ndarray) -> None:
        leads = np.diff(np.partition(check_votes(votes, teachers), (-2, -1), axis=1)[:, -2:])[:, 0]
        self._where, inverse = np.unique(leads, return_inverse=True)
        self._paid = np.bincount(inverse, weights=np.asarray(weights, np.float64), minlength=self._where.size)
        self._costs = costs
        # Two neighbours are in a step of so many leads, and the cost does not rise with the lead. Dips are filled.
        after = np.pad(costs, ((0, 0), (0, GAP_MOVED)), mode="edge")[:, GAP_MOVED:]
        falls = costs - after
        rising, falling = (np.maximum.accumulate(x, axis=1) for x in (falls, falls[:, ::-1]))
        self._peaks = falls.argmax(axis=1)
        self._falls = np.where(np.arange(falls.shape[1]) <= self._peaks[:, None], rising, falling[:, ::-1])

    def cost(self) -> np.ndarray:
        """Sum over queries of the costs whose sensitivity this is: float64 (orders,)."""
        return self._costs[:, np.minimum(self._where, self._costs.shape[1] - 1)] @ self._paid

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Sum over queries of the largest local sensitivity within d votes: float64 (pairs,)."""
        out, last = np.zeros(order_index.size), self._falls.shape[1] - 1
        rows = max(1, _CELLS // max(1, self._where.size))
        for first in range(0, order_index.size, rows):
            pair = slice(first, first + rows)
            order, d = order_index[pair][:, None], distance[pair][:, None]
            # A step between two histograms within d votes and one more begins at one of these leads.
            left = np.maximum(self._where - GAP_MOVED * (d + 1), 0)
            nearest = np.clip(self._peaks[order], left, self._where + GAP_MOVED * d)
            out[pair] = self._falls[order, np.minimum(nearest, last)] @ self._paid
        return out


class CheckProfile:
    """Local sensitivities of the threshold check, summed over queries: exact, by trying every value of the number. They
    can fall with distance, so the largest within d is taken for each query before summing. The cost is that of both
    directions (``outcome.check``).

    Raises EventError: more orders than ``most_orders``.
    """

    def __init__(self, compared: Comparison, orders: np.ndarray) -> None:
        if orders.size > self.most_orders(compared):
            raise EventError(
                f"a check of {compared.most - compared.least:,} votes at {orders.size} orders needs too large a table."
                " Take fewer orders, or publish the worst case."
            )
        values = np.arange(compared.least, compared.most + 1, dtype=np.int64)
        # (orders, values): a pair of order and distance then reads one contiguous row.
        costs = check.per_query(values, compared.threshold, compared.sigma, compared.noise, orders)
        table = np.ascontiguousarray(costs.T)
        change = np.abs(np.diff(table, axis=1))
        edge = np.zeros((table.shape[0], 1))
        self._local = np.maximum(np.concatenate((change, edge), axis=1), np.concatenate((edge, change), axis=1))
        self._where, self._counts = np.unique(compared.number - compared.least, return_counts=True)
        self._table = table

    @staticmethod
    def most_orders(compared: Comparison) -> int:
        """So many orders together take seconds."""
        values = compared.most - compared.least + 1
        return _MOST_ENTRIES // (values * values.bit_length())

    def cost(self) -> np.ndarray:
        return self._table[:, self._where] @ self._counts

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        from scipy.ndimage import maximum_filter1d  # as in `gdp`

        windows = zip(order_index.tolist(), (2 * distance + 1).tolist(), strict=True)
        largest = (maximum_filter1d(self._local[order], size, mode="constant") for order, size in windows)
        return np.array([each[self._where] @ self._counts for each in largest])


SensitivityProfile = LabelProfile | CheckProfile
"""The cost of one step of a batch, and how much moved votes can change it. Secret. ``at``, for pairs of (order,
distance), does not fall with distance at a fixed order."""


def smooth_sensitivity(
    profiles: Sequence[SensitivityProfile], orders: object, betas: object, teachers: int
) -> np.ndarray:
    """SS_beta of the sum of all profiles, at each order with its own beta above 0: float64 (orders,). teachers: most
    votes that can move. Raises AccountingError: betas do not fit the orders."""
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
