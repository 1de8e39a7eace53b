"""Who wins a noisy argmax, where the winner lies, and what one moved vote does to both.

Ties of integer noise go to the lowest index, as `numpy.argmax` does: class i stays below winner j if its noisy count is
at most that of j where i > j, and less where i < j. Nothing is symmetrised: classes with equal counts keep their index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consilium.accounting.outcome.tables import Tables


@dataclass(frozen=True, slots=True, eq=False)
class Winners:
    """A block of histograms with the law of the winner. Secret.

    Fields
    ------
    votes, gaps : int64 (queries, classes); gaps to the largest count.
    active : int64 (queries, c), the classes with the largest counts.
    log_p : float64 (queries, classes), log Pr[j wins].
    at : float64 (queries, classes, nodes), where the winner lies if it is j; sums to 1 over nodes.
    """

    tables: Tables
    votes: np.ndarray
    gaps: np.ndarray
    active: np.ndarray
    low: int
    log_p: np.ndarray
    at: np.ndarray

    def of_active(self, array: np.ndarray) -> np.ndarray:
        """Entries of the active classes along axis 1."""
        return np.take_along_axis(array, self.active.reshape(*self.active.shape, *[1] * (array.ndim - 2)), axis=1)

    def window(self, table: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        return self.tables.window(table, gaps, self.low, self.at.shape[2])

    def first(self) -> np.ndarray:
        """Whether an active class has a lower index than class j, so that it wins their ties: (queries, c, classes)."""
        return self.active[:, :, None] < np.arange(self.votes.shape[1])


def winners(tables: Tables, votes: np.ndarray, active: int, low: int, high: int) -> Winners:
    """The law of the winner for int64 (queries, classes); ``low`` and ``high`` as from ``quadrature.reach``."""
    rule = tables.rule
    nodes = -(-(high - low) // rule.stride) + 1 if len(rule.offsets) == 1 else (high - low + 1) * len(rule.offsets)
    gaps = votes.max(axis=1, keepdims=True) - votes
    order = np.argsort(gaps, axis=1, kind="stable")[:, :active]
    weights = np.log(np.resize(np.array(rule.weights), nodes))
    # exclusive sums over the classes before (which must stay strictly below) and after
    weak = tables.window(tables.log_below, gaps, low, nodes)
    strict = tables.window(tables.log_below, gaps - 1, low, nodes) if tables.strict else weak
    log_at = tables.window(tables.log_density, gaps, low, nodes)
    log_at += weights
    if strict is weak:
        log_at += weak.sum(axis=1, keepdims=True) - weak
    else:
        log_at[:, 1:] += np.cumsum(strict[:, :-1], axis=1)
        log_at[:, :-1] += np.cumsum(weak[:, :0:-1], axis=1)[:, ::-1]
    peak = log_at.max(axis=2, keepdims=True)
    log_at -= peak
    at = np.exp(log_at, out=log_at)
    total = at.sum(axis=2, keepdims=True)
    at /= total
    return Winners(tables, votes, gaps, np.sort(order, axis=1), low, (peak + np.log(total))[..., 0], at)


def log1p_or(small: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """log(1 + small), from ``whole`` = 1 + small where that has not cancelled."""
    near = small < -0.5
    out = np.log1p(np.where(near, 0.0, small))
    if near.any():
        with np.errstate(divide="ignore"):
            np.copyto(out, np.log(whole), where=near)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """The law after one vote of an active class a is gone.

    change : float64 (queries, c, classes), log of the factor on Pr[j wins].
    at : float64 (queries, c, classes, nodes), where the winner j then lies.
    """

    change: np.ndarray
    at: np.ndarray


def remove(state: Winners) -> Removed:
    """One vote less for each active class. Sums of at and factor - 1, so that small changes keep their digits."""
    tables, gaps = state.tables, state.of_active(state.gaps)
    weak = state.window(tables.losing, gaps)
    factor = np.broadcast_to(weak[:, :, None], (*gaps.shape, *state.at.shape[1:]))
    if tables.strict:
        strict = state.window(tables.losing, gaps - 1)
        factor = np.where(state.first()[..., None], strict[:, :, None], factor)
    elif state.at.size:
        factor = factor.copy()
    rows = np.arange(gaps.shape[1])
    queries = np.arange(gaps.shape[0])[:, None]
    own = state.window(tables.own_losing, gaps)
    factor[queries, rows, state.active] = own - 1
    change = np.einsum("qamk,qmk->qam", factor, state.at)
    factor += 1
    factor[queries, rows, state.active] = own
    factor *= state.at[:, None]
    whole = factor.sum(axis=3)
    factor /= whole[..., None]
    return Removed(log1p_or(change, whole), factor)


def staying_below(state: Winners, at: np.ndarray) -> np.ndarray:
    """log of the factor on Pr[j wins] of one vote more for an active class b: float64 (queries, rows, c (b), classes).

    at : float64 (queries, rows, classes, nodes), where the winner j lies in several laws; sums to 1 over nodes.
    b = j is counted here as if its own density did not move.
    """
    tables, gaps = state.tables, state.of_active(state.gaps)
    queries, rows, classes, nodes = at.shape
    flat = at.reshape(queries, rows * classes, nodes)
    first = state.first().transpose(0, 2, 1)[:, None]

    def against(table: np.ndarray) -> np.ndarray:
        found = (flat @ state.window(table, gaps).transpose(0, 2, 1)).reshape(queries, rows, classes, -1)
        if tables.strict:
            strict = flat @ state.window(table, gaps - 1).transpose(0, 2, 1)
            found = np.where(first, strict.reshape(found.shape), found)
        return found.transpose(0, 1, 3, 2)

    small = against(tables.gaining)
    return log1p_or(small, against(tables.kept) if small.min(initial=0.0) < -0.5 else small)


def add(state: Winners, removed: Removed) -> np.ndarray:
    """log of the factor on Pr[j wins] of moving a vote from a to b: float64 (queries, c (a), c (b), classes)."""
    factor = staying_below(state, removed.at)
    # The winner b itself: its own density moves instead of its chance of staying below. A vote more never makes it less
    # likely, whatever rounding says.
    own = np.take_along_axis(removed.at, state.active[:, None, :, None], axis=2)
    own = np.einsum("qabk,qbk->qab", own, state.window(state.tables.own_gaining, state.of_active(state.gaps)))
    queries, c = state.active.shape
    factor[np.arange(queries)[:, None], :, np.arange(c), state.active] = np.log1p(np.maximum(own, 0.0)).transpose(
        0, 2, 1
    )
    return removed.change[:, :, None, :] + factor
