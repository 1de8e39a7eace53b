"""Validation that every bound shares, of numbers and of vote histograms, so that one mistake has one message."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np

from consilium.accounting.errors import (
    AccountingError,
    DeltaError,
    EventError,
    NoiseError,
    OrdersError,
    ThresholdError,
    UnitError,
    VotesError,
)
from consilium.accounting.units import Noise

LEAST_SCALE, MOST_SCALE = 1e-100, 1e100
LEAST_DELTA = 1e-250
"""Below it a share of delta for each of many releases is lost in doubles."""
MOST_COUNT = 10**15
"""Of queries, teachers and the like: doubles hold the sums of their squares."""
MOST_MOVED = 1000
"""Votes of one unit on one query: curves of several moves are sums over them."""
MOST_ENTRIES = 1 << 23
"""Numbers in one table: 64 MiB, and a few times as much while it is made."""
MOST_GAP = 1 << 22
"""Votes by which a class may lead, and a number may be away from its threshold, where a table has an entry for each."""


def _number(value: object) -> float:
    """NaN for what is no number."""
    return math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)


def as_array(values: object) -> np.ndarray:
    """Any votes as an array; VotesError for rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise VotesError("votes have rows of different lengths. Pass a (queries, classes) matrix.") from None


def check_orders(orders: object) -> np.ndarray:
    """Renyi orders as float64 (orders,), all finite and above 1; else OrdersError."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise OrdersError(f"orders must be a non-empty vector, got shape {array.shape}. Pass DEFAULT_ORDERS.")
    good = np.isfinite(array) & (array > 1.0)
    if not good.all():
        raise OrdersError(f"a Renyi order must be finite and above 1, got {array[~good][0]}. Drop it from the grid.")
    return array


def check_scale(value: object, name: str) -> float:
    """A noise scale: a finite number above 0, whose square is neither 0 nor infinite in doubles; else NoiseError."""
    scale = _number(value)
    if not 0 < scale < math.inf:
        raise NoiseError(f"{name} must be a finite number above 0, got {value!r}. Without noise there is no guarantee.")
    if not LEAST_SCALE <= scale <= MOST_SCALE:
        raise NoiseError(
            f"{name} {scale:g} is outside {LEAST_SCALE:g} to {MOST_SCALE:g}: its square is lost in doubles."
            " Choose a scale that can be computed with."
        )
    return scale


def check_share(value: object, name: str) -> float:
    """A number from 0 to 1; else ThresholdError."""
    if not 0 <= _number(value) <= 1:
        raise ThresholdError(f"{name} must be from 0 to 1, got {value!r}. 1 confirms nothing.")
    return _number(value)


def check_noise(noise: Noise | str) -> Noise:
    """The noise as an enum member, else NoiseError: q of the wrong noise is not an upper bound."""
    try:
        return Noise(noise)
    except ValueError:
        raise NoiseError(f"noise must be 'discrete' or 'continuous', got {noise!r}.") from None


def check_gap(gap: int) -> int:
    """A number of votes up to which a table goes; VotesError above ``MOST_GAP``, which does not show this secret."""
    if gap > MOST_GAP:
        raise VotesError(
            f"a count of votes is too large for exact tables, which go to {MOST_GAP:,}. Count fewer voters, or ask for"
            " the worst case, which needs no votes."
        )
    return gap


def check_table(entries: float, name: str, scale: float) -> None:
    """Raise NoiseError if noise needs a table of more than ``MOST_ENTRIES`` entries."""
    if entries > MOST_ENTRIES:
        raise NoiseError(
            f"{name} {scale:g} needs a table of {entries:.2g} numbers for noise on integers; at most {MOST_ENTRIES:,}"
            " are made. Choose less noise, pass noise='continuous', or ask for the worst case, which needs no table."
        )


def check_delta(value: object) -> float:
    """A probability strictly between 0 and 1, and at least ``LEAST_DELTA``; else DeltaError."""
    delta = _number(value)
    if not 0.0 < delta < 1.0:
        raise DeltaError(f"delta must lie strictly between 0 and 1, got {value!r}. Take one well below 1 / records.")
    if delta < LEAST_DELTA:
        raise DeltaError(f"delta {delta:g} is below {LEAST_DELTA:g}, the least that is computed. Raise it.")
    return delta


def check_count(value: object, name: str, least: int = 0, error: type[AccountingError] = EventError) -> int:
    """A whole number from ``least`` to ``MOST_COUNT``; else ``error``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= MOST_COUNT:
        raise error(f"{name} must be a whole number from {least} to {MOST_COUNT:,}, got {value!r}.")
    return int(value)


def check_votes_moved(value: object) -> int:
    """How many votes one unit moves: a whole number from 1 to ``MOST_MOVED``; else UnitError."""
    moved = check_count(value, "votes that one unit moves", 1, UnitError)
    if moved > MOST_MOVED:
        raise UnitError(
            f"one unit moves {moved:,} votes, and at most {MOST_MOVED:,} are computed. Take fewer teachers for a party."
        )
    return moved


def check_log_q(log_q: object) -> np.ndarray:
    """Logarithms of probabilities as float64 (queries,), from -inf (q = 0) to 0 (q = 1); else AccountingError."""
    array = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if array.ndim != 1:
        raise AccountingError(f"log_q must be a vector over queries, got {array.ndim} dimensions. Flatten it first.")
    if not np.all(array <= 0.0):
        raise AccountingError("log_q holds NaN or a value above 0, so q is no probability. Recompute it.")
    return array


def check_weights(weights: object, shape: tuple[int, ...]) -> np.ndarray:
    """How much of its label each query pays, in [0, 1]: float64 of this shape, 1 everywhere if None; else
    AccountingError."""
    found = np.ones(shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if found.shape != shape or not np.all((found >= 0) & (found <= 1)):
        raise AccountingError(f"weights must lie in [0, 1] and have shape {shape}. Pass a mask or probabilities.")
    return found


def _check_type(array: np.ndarray) -> None:
    kind, dtype = array.dtype.kind, array.dtype
    if kind == "f":
        what = f"float counts ({dtype}) {'hold NaN' if np.any(np.isnan(array)) else 'are not exact'}"
        if array.size and np.all((array >= 0) & (array <= 1)):
            raise VotesError(f"{what}: shares of the votes? Multiply them by the teachers, and make int64 of them.")
    elif kind == "b":
        what = "bool counts cannot hold more than one vote"
    elif kind == "u":
        what = f"unsigned counts ({dtype}) wrap around when votes are subtracted"
    else:
        what = f"counts of type {dtype} are not whole numbers"
    if kind != "i":
        raise VotesError(f"{what}. Convert the counts to int64 where they are made.")


def check_votes(votes: object, teachers: int | None = None) -> np.ndarray:
    """Votes as int64 (queries, classes), or an error; no copy if they are int64 already. Zero queries cost nothing.

    votes : signed integers (queries, classes); row i is the histogram of query i.
    teachers : number of votes in every row, where it is known.

    Raises VotesError: unsigned, float or bool counts, NaN, fewer than 2 classes, not two dimensions, a negative count,
    a row that does not sum to ``teachers``. The message names the query, never a count.
    """
    array = as_array(votes)
    if teachers is not None:
        check_count(teachers, "teachers", 1, VotesError)
    if array.ndim != 2:
        raise VotesError(f"votes must be a (queries, classes) matrix, got {array.ndim} dimension(s). Reshape them.")
    if array.shape[1] < 2:
        raise VotesError(f"votes need at least 2 classes, got {array.shape[1]}: one class has one possible answer.")
    _check_type(array)
    array = array.astype(np.int64, copy=False)
    if array.min(initial=0) < 0:
        row = int(np.argmax(array.min(axis=1) < 0))
        raise VotesError(f"votes hold a negative count (first in query {row}). Collect that query again.")
    wrong = array.sum(axis=1) != teachers
    if teachers is not None and wrong.any():
        raise VotesError(
            f"{int(wrong.sum())} of the queries do not sum to the {teachers} teachers (first: query"
            f" {int(np.argmax(wrong))}). Every teacher casts exactly one vote per query; fix the collection or the"
            " number of teachers."
        )
    return array


def check_same_total(votes: object, teachers: int | None = None) -> int:
    """The one number of votes that every row has; 0 without rows. A row with votes missing or to spare has another
    sensitivity than the one that is charged for.

    Raises VotesError: rows have different numbers of votes, or another one than ``teachers``, or as in ``check_votes``.
    """
    array = check_votes(votes, teachers)
    totals = array.sum(axis=1)
    found, times = np.unique(totals, return_counts=True)
    wrong = totals != (found[np.argmax(times)] if totals.size else 0)
    if wrong.any():
        raise VotesError(
            f"{int(wrong.sum())} of {totals.size} rows of votes ({as_array(votes).dtype}) have another number of votes"
            f" than most (first: query {int(np.argmax(wrong))}). Take queries apart whose votes are not complete."
        )
    return int(totals[0]) if totals.size else 0
