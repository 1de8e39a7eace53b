"""Exact Renyi cost of a noisy argmax at the votes at hand: the worst neighbour, both directions. Secret.

A neighbour moves one vote from a class a (with a vote) to a class b. The law of the winner is computed before and after
(``winners``), and at each order the largest D_alpha(P || P') and D_alpha(P' || P) over all moves is charged, never more
than the noise alone allows. The release is one label, so nothing less can be claimed; errors are all rounded up.
Statement and proof: docs/proofs.md.

Where a unit moves several votes, with more than 24 classes, and where doubles cannot hold the law (``computed``), the
papers' bounds are charged at the neighbour that is nearest to a tie. They hold in both directions, and are tight where
the plurality leads by far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from consilium.accounting import checks
from consilium.accounting.curves.gaussian import log_q_gnmax, rdp_data_dependent, rdp_gaussian
from consilium.accounting.curves.laplace import log_q_lnmax, rdp_laplace, rdp_lnmax
from consilium.accounting.curves.near_zero import LEAST
from consilium.accounting.outcome import divergence, winners
from consilium.accounting.units import Noise

Kind = Literal["gaussian", "laplace"]

MOST_CLASSES = 24
"""With more there are too many moves to try them all."""
_CELLS = 1 << 20
MOST_WORK = 2e8
"""Of `work`, some five seconds."""


def _worst_case(kind: str, scale: float, noise: Noise, orders: np.ndarray, moved: int) -> np.ndarray:
    """(alpha - 1) D_alpha of the noisy histogram: what the noise allows at most, whatever the votes are."""
    curve = rdp_gaussian(scale, orders, moved) if kind == "gaussian" else rdp_laplace(scale, orders, moved, noise=noise)
    return (orders - 1) * curve


def _largest(query: np.ndarray, values: np.ndarray, into: np.ndarray) -> None:
    """into[query] = max(into[query], values), for rows with ascending queries; in place."""
    if query.size:
        starts = np.nonzero(np.diff(query, prepend=-1))[0]
        some = query[starts]
        into[some] = np.maximum(into[some], np.maximum.reduceat(values, starts, axis=0))


def _worst(state: winners.Winners, orders: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """Largest (alpha - 1) D_alpha over moves and directions: float64 (queries, orders)."""
    possible = (state.votes > 0)[:, :, None] & ~np.eye(state.votes.shape[1], dtype=bool)
    query = np.nonzero(possible)[0]
    log_p, best = state.log_p[query], np.full((len(state.votes), orders.size), LEAST)
    change = divergence.outward(log_p, divergence.close(log_p, winners.move(state)[possible]))
    size = max(1, _CELLS // (log_p.shape[1] * orders.size))
    for part in (slice(start, start + size) for start in range(0, query.size, size)):
        for power in (1 - orders, orders):
            _largest(query[part], divergence.moments(log_p[part], change[part], power), best)
    return np.minimum(best, cap)


def _batches(votes: np.ndarray, kind: str, scale: float, noise: Noise) -> Iterator[tuple[np.ndarray, winners.Winners]]:
    """Blocks of queries with the law of their winners, in memory that does not grow."""
    widest, classes = np.ptp(votes, axis=1), votes.shape[1]
    rule = winners.rule(kind, scale, noise, classes)
    table = winners.tables(kind, scale, noise, rule, 1 << int(widest.max(initial=1)).bit_length())
    order, start = np.argsort(widest, kind="stable"), 0
    while start < order.size:
        low, high = winners.reach(kind, scale, int(widest[order[start]]))
        nodes = (high - low) / rule.stride * len(rule.offsets)
        part = order[start : start + max(1, int(_CELLS // (nodes * classes**2)))]
        low, high = winners.reach(kind, scale, int(widest[part[-1]]))
        yield part, winners.winners(table, votes[part], low, high)
        start += part.size


def _moments(votes: np.ndarray, kind: str, scale: float, noise: Noise, orders: np.ndarray, moved: int) -> np.ndarray:
    """(alpha - 1) D_alpha: float64 (queries, orders)."""
    known = computed(votes, scale, noise, kind, moved)
    out, rows = np.empty((len(votes), orders.size)), np.flatnonzero(known)
    out[~known] = _bounded(votes[~known], kind, scale, noise, orders, moved)
    if rows.size:
        cap = _worst_case(kind, scale, noise, orders, 1)
        for part, state in _batches(votes[rows], kind, scale, noise):
            out[rows[part]] = _worst(state, orders, cap)
    return out


def computed(votes: np.ndarray, scale: float, noise: Noise, kind: str, votes_moved: int) -> np.ndarray:
    """Queries of which every neighbour's law is computed, bool (queries,), for int64 (queries, classes): one vote moves
    among few enough classes, factors fit into doubles and tables into memory."""
    if votes_moved > 1 or votes.shape[1] > MOST_CLASSES:
        return np.zeros(len(votes), dtype=bool)
    return winners.fits(scale, votes.max(axis=1) - votes.min(axis=1), kind, noise, votes.shape[1])


def work(votes: np.ndarray, scale: float, noise: Noise, kind: str, votes_moved: int) -> float:
    """How much it is to compute the cost of these queries, int64 (queries, classes), about 25 ns each."""
    rows = np.unique(np.sort(votes, axis=1) if noise is Noise.CONTINUOUS else votes, axis=0)
    rows = rows[computed(rows, scale, noise, kind, votes_moved)]
    if not len(rows):
        return 0.0
    nodes = winners.cells(scale, rows.max(axis=1) - rows.min(axis=1), kind, noise, rows.shape[1])
    return float((nodes * (1.0 if kind == "laplace" else 0.1) + 100 * rows.shape[1] ** 3).sum())


def _bounded(votes: np.ndarray, kind: str, scale: float, noise: Noise, orders: np.ndarray, moved: int) -> np.ndarray:
    """(alpha - 1) D_alpha, at most, in both directions: float64 (queries, orders). The published bounds hold for any
    histogram and any class that wins but for a probability of at most q. So with the q of the neighbour at which the
    plurality leads least, by 2 k votes less, they bound both directions."""
    ordered = np.sort(votes, axis=1)
    far = ordered[:, -1] - ordered[:, -2] > 2 * moved
    out = np.tile(_worst_case(kind, scale, noise, orders, moved), (len(votes), 1))
    if far.any():
        ordered[:, -1] -= 2 * moved
        if kind == "gaussian":
            found = rdp_data_dependent(log_q_gnmax(ordered[far], scale, noise), scale, orders, moved)
        else:
            found = rdp_lnmax(log_q_lnmax(ordered[far], scale, noise), scale, orders, moved, noise=noise)
        out[far] = np.minimum(out[far], np.maximum((orders - 1) * found, LEAST))
    return out


def sum_rdp(
    votes: object,
    scale: float,
    noise: Noise | str,
    kind: Kind,
    orders: object,
    weights: object = None,
    *,
    votes_moved: int = 1,
) -> np.ndarray:
    """Cost of all queries: float64 (orders,), in memory that does not grow with them. Secret. Equal histograms are
    evaluated once; for continuous noise those that are permutations of each other are equal.

    votes : signed integers (queries, classes).
    scale : sigma of the noise on one count (gaussian), or gamma, its inverse scale (laplace).
    weights : float64 (queries,), each in [0, 1]: the answered mask, or the probability of an answer where an
        expectation is wanted.
    votes_moved : by one unit, from any classes to any others.

    Raises VotesError, NoiseError, OrdersError, UnitError.
    """
    array, moved = checks.check_votes(votes), checks.check_votes_moved(votes_moved)
    scale, noise, alpha = checks.check_scale(scale, "scale"), checks.check_noise(noise), checks.check_orders(orders)
    w = checks.check_weights(weights, (len(array),))
    kept = array[w > 0]
    rows = np.sort(kept, axis=1) if noise is Noise.CONTINUOUS else kept
    rows, which = np.unique(rows, axis=0, return_inverse=True)
    weight = np.bincount(which.ravel(), weights=w[w > 0], minlength=rows.shape[0])
    total, size = np.zeros(alpha.size), max(1, _CELLS // alpha.size)
    for some in (slice(start, start + size) for start in range(0, rows.shape[0], size)):
        total += weight[some] @ _moments(rows[some], kind, scale, noise, alpha, moved)
    return total / (alpha - 1)
