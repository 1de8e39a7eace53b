"""Whose labels have a cost of known sensitivity, and which bound on it that is: GNMax, or LNMax.

LNMax
-----
Its local sensitivities follow from one fact: one moved vote changes log q by at most 2 gamma.

Source: Papernot et al. 2017 (arXiv 1610.05755) bound the smooth sensitivity of their moments "and add noise
proportional to it"; they print neither bound nor proof. This one is ours; proof: docs/laboratory/accounting.md.

The cost of a query is b(log q), the lesser of Theorem 3 and the data-independent curve; it does not decrease. The tail
of the difference of two Laplace variables falls by at most a factor e^gamma for each vote of the gap, and a moved vote
changes a gap by at most 2. So log q lies within h = 2 gamma of where it was, and the local sensitivity is at most the
largest rise of b over a step of length h that the query can reach. There is no condition like C5 and C6 of GNMax.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from consilium.accounting.checks import check_orders, check_votes_moved
from consilium.accounting.curves.gaussian import log_q_cap
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_lnmax, sum_rdp_lnmax
from consilium.accounting.errors import EventError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.sanitise.smooth import conditions, fill, label_profile, least_log_q, sensitivity_curve
from consilium.accounting.units import Noise

GAP_MOVED = 2
"""Most by which one moved vote changes the lead of one class over another."""

_FINEST = 64
"""Cells of the grid of log q for one step h, at most; the bound is too large by about one cell in a step."""
_MOST_VALUES = 1 << 22
"""Of the table of rises (orders x cells); with many orders and teachers the grid is coarser."""
_ROUNDING = 1e-11
_CELLS = 1 << 18
_ORDERS_AT_ONCE = 16


class LaplaceProfile:
    """Local sensitivities of LNMax labels, summed over queries; see `SensitivityProfile`.

    Parameters
    ----------
    votes : signed integers (queries, classes), ``teachers`` in every row. gamma : inverse scale of the noise.
    orders : float64 (orders,). k : votes that one unit moves; one *vote* is one step of distance.
    weights : float64 (queries,) in [0, 1], how much of its label each query pays.

    Raises
    ------
    VotesError, NoiseError, OrdersError.
    """

    def __init__(
        self,
        votes: np.ndarray,
        teachers: int,
        gamma: float,
        noise: Noise,
        orders: np.ndarray,
        k: int,
        weights: np.ndarray,
    ) -> None:
        self._gamma, self._noise, self._k = gamma, noise, check_votes_moved(k)
        self._orders = check_orders(orders)
        self._log_q = log_q_lnmax(votes, gamma, noise, teachers)
        self._paid = np.asarray(weights, dtype=np.float64)
        classes = np.asarray(votes).shape[1]
        unanimous = np.zeros((1, classes), dtype=np.int64)
        unanimous[0, 0] = teachers
        least = float(log_q_lnmax(unanimous, gamma, noise)[0])
        reach = log_q_cap(classes, noise) - least
        # A little longer than h, so that rounding cannot put a neighbour one cell out of reach.
        step = GAP_MOVED * gamma * (1 + 1e-9)
        self._cells_in_step = int(np.clip(_MOST_VALUES * step / (reach * self._orders.size), 4, _FINEST))
        width = step / self._cells_in_step
        cells = int(np.ceil(reach / width)) + 1
        self._rises = fill(self._table(least, width, cells))
        self._peaks = self._rises.argmax(axis=1)
        place = np.clip(np.floor((self._log_q - least) / width).astype(np.int64), 0, cells - 1)
        self._where, inverse = np.unique(place, return_inverse=True)
        self._counts = np.bincount(inverse, weights=self._paid, minlength=self._where.size)

    def _table(self, least: float, width: float, cells: int) -> np.ndarray:
        """Largest rise of the cost over a step that begins in each cell: float64 (orders, cells), rounded up."""
        grid = np.minimum(least + width * np.arange(cells + self._cells_in_step + 2), 0.0)
        out = np.empty((self._orders.size, cells))
        for first in range(0, self._orders.size, _ORDERS_AT_ONCE):
            part = slice(first, first + _ORDERS_AT_ONCE)
            cost = rdp_lnmax(grid, self._gamma, self._orders[part], self._k, noise=self._noise).T
            # The cost does not decrease: the step begins at the cell's left end and ends one step past its right end.
            upper = cost[:, self._cells_in_step + 1 :][:, :cells]
            out[part] = np.maximum(upper - cost[:, :cells], 0.0) + _ROUNDING * upper
        return out

    def cost(self) -> np.ndarray:
        """Sum of the costs whose sensitivity this is: float64 (orders,)."""
        return sum_rdp_lnmax(self._log_q, self._gamma, self._orders, self._k, noise=self._noise, weights=self._paid)

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """See `SensitivityProfile.at`."""
        out, last = np.zeros(order_index.size), self._rises.shape[1] - 1
        rows = max(1, _CELLS // max(1, self._where.size))
        for first in range(0, order_index.size, rows):
            pair = slice(first, first + rows)
            order, d = order_index[pair][:, None], distance[pair][:, None]
            # A step between two histograms within d votes and one more begins in one of these cells.
            left = np.maximum(self._where - self._cells_in_step * (d + 1), 0)
            right = np.minimum(self._where + self._cells_in_step * d, last)
            out[pair] = self._rises[order, np.clip(self._peaks[order], left, right)] @ self._counts
        return out


class LabelCost(Protocol):
    """The cost of the labels of a batch, and how much moved votes can change it. Secret."""

    def cost(self) -> np.ndarray:
        """Sum of the costs whose sensitivity this is: float64 (orders,)."""
        ...

    def at(self, order_index: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """See `SensitivityProfile.at`."""
        ...


def no_known_sensitivity(event: ReleaseEvent) -> EventError:
    """What to say of an event that has none."""
    return EventError(f"a {event.TYPE} release has no data-dependent bound with a known sensitivity. Drop the plan.")


def label_cost(
    event: ReleaseEvent, votes: np.ndarray, teachers: int, orders: np.ndarray, weights: np.ndarray
) -> LabelCost | None:
    """Cost and sensitivity of the labels that left; None where no bound on the sensitivity is known.

    Parameters
    ----------
    votes : signed integers (queries, classes), ``teachers`` in every row. weights : float64 (queries,), the realised
        answered mask (or probabilities, for a plan on public votes).

    Raises
    ------
    ConditionError : C5 or C6 fails at one of the orders. VotesError, NoiseError, OrdersError.
    """
    k = event.votes_moved
    if event.laplace_gamma is not None:
        return LaplaceProfile(votes, teachers, event.laplace_gamma, event.noise, orders, k, weights)
    if event.label_sigma is not None:
        return label_profile(votes, teachers, event.label_sigma, event.noise, orders, k, weights)
    return None


def proved_orders(event: ReleaseEvent, teachers: int, classes: int, orders: np.ndarray) -> np.ndarray:
    """The orders at which the bound on the sensitivity is proved: float64, some of ``orders``. Looks at no votes.

    Of Gaussian noise those with C5 and C6; of Laplace noise all.
    """
    if event.label_sigma is None:
        return orders
    curve = sensitivity_curve(event.label_sigma, classes, orders, event.votes_moved)
    c5, c6 = conditions(curve, least_log_q(teachers, classes, event.label_sigma, event.noise))
    return orders[c5 & c6]
