"""Pairs of neighbouring vote databases, laid out over the queries of one run.

A pair says, for every query of a run, the histogram under D and under D'. The number of teachers is public, so it is
the same in all of them; from D to D' at most k votes move in each query (k = 1 for a record). A teacher that changes
may vote otherwise in every query, in a direction that differs from query to query: a mechanism that reuses its noise
shows only when the directions differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Pair:
    """A pattern of slots that the queries of a run repeat.

    d, d_prime : int64 (slots, classes), the histograms under D and D'.
    kinds : int64 (slots,), slots that are alike for the statistics share a kind.
    probabilities : float64 (slots, classes), what the student says where a mechanism asks it; public, so equal in both.
    answered_cap : most answers in a run; after that nothing is asked any more. None for no cap.
    observed : seen on real teachers and not made for a mechanism: the slots are the queries of one run, each once, and
        more votes may move than the unit should.
    """

    name: str
    d: np.ndarray = field(repr=False)
    d_prime: np.ndarray = field(repr=False)
    kinds: np.ndarray = field(repr=False)
    probabilities: np.ndarray | None = field(default=None, repr=False)
    answered_cap: int | None = None
    observed: bool = False

    def moved(self) -> int:
        """Most votes that differ in one query, or -1 if the number of teachers is not always the same.

        >>> pair("tie", [[5, 4]], [[4, 5]]).moved()
        1
        """
        both = np.concatenate([self.d, self.d_prime])
        if both.min() < 0 or len(np.unique(both.sum(axis=1))) > 1:
            return -1
        return int(np.abs(self.d_prime - self.d).sum(axis=1).max() // 2)


def pair(
    name: str,
    d: list[list[int]],
    d_prime: list[list[int]],
    *,
    kinds: list[int] | None = None,
    probabilities: np.ndarray | None = None,
    answered_cap: int | None = None,
) -> Pair:
    """A pair from lists of histograms; by default all slots are of one kind."""
    left, right = np.array(d, dtype=np.int64), np.array(d_prime, dtype=np.int64)
    which = np.zeros(len(left), dtype=np.int64) if kinds is None else np.array(kinds, dtype=np.int64)
    return Pair(name, left, right, which, probabilities, answered_cap)


@dataclass(frozen=True)
class Layout:
    """The queries of one run: `d`, `d_prime` int64 (queries, classes), `kinds` int64 (queries,), calls as slices."""

    d: np.ndarray = field(repr=False)
    d_prime: np.ndarray = field(repr=False)
    kinds: np.ndarray = field(repr=False)
    probabilities: np.ndarray | None = field(repr=False)
    calls: tuple[slice, ...]
    answered_cap: int

    @property
    def queries(self) -> int:
        """Queries in one run."""
        return len(self.kinds)


def lay_out(chosen: Pair, queries: int) -> Layout:
    """Repeat the slots over `queries` queries, in two calls of the mechanism from 4 queries on.

    Row i of the second call gets the slot beside that of row i of the first (0 and 1 swap, 2 and 3, ...), so that noise
    that comes back in a second call meets a query in which the votes moved the other way. Observed slots stay as they
    are, and are as many as the queries.

    >>> layout = lay_out(pair("swap", [[5, 4], [4, 5]], [[4, 5], [5, 4]], kinds=[0, 1]), 4)
    >>> layout.kinds.tolist(), layout.calls
    ([0, 1, 1, 0], (slice(0, 2, None), slice(2, 4, None)))
    """
    slots = len(chosen.kinds)
    half = queries // 2 if queries >= 4 else queries
    first = np.arange(half) % slots
    second = np.arange(queries - half) % slots
    beside = np.where((second ^ 1) < slots, second ^ 1, second)
    order = np.arange(slots) if chosen.observed else np.concatenate([first, beside])
    return Layout(
        d=chosen.d[order],
        d_prime=chosen.d_prime[order],
        kinds=chosen.kinds[order],
        probabilities=None if chosen.probabilities is None else chosen.probabilities[order],
        calls=(slice(0, half), slice(half, queries)) if half < queries else (slice(0, queries),),
        answered_cap=queries if chosen.answered_cap is None else min(chosen.answered_cap, queries),
    )
