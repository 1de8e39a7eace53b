"""Pairs of neighbouring vote databases, laid out over the queries of one run.

A pair says, for every query of a run, the histogram under D and under D'. The number of teachers is public, so it is
the same in all of them; from D to D' at most k votes move in each query (k = 1 for a record). A teacher that changes
may vote otherwise in every query, in a direction that differs from query to query: a mechanism that reuses its noise
shows only when the directions differ.

An audit tries the pairs at which a mechanism of each kind leaks most. Labels leak most at a tie (the noise decides), a
check leaks most where its number sits at the threshold, and rare answers tell more than their share when the number of
answers is what is paid for. Which of them is worst depends on the parameters, so all are tried on few draws and the
worst are measured on many (`coordinator.distinguish.audit`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from consilium.coordinator.mechanisms.base import Mechanism
from consilium.coordinator.mechanisms.distributed import noise_bias
from consilium.protocol.errors import ConfigError


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


Rows = tuple[list[int], list[int]]
"""A histogram under D and its neighbour under D'."""


@dataclass(frozen=True)
class Shape:
    """What all pairs of an audit have in common. moved : votes that one unit moves."""

    classes: int
    moved: int
    queries: int

    @property
    def rungs(self) -> int:
        """Different heights of a ladder: each gets all four places that `lay_out` has for it."""
        return max(1, min(self.queries // 4, 32))

    def row(self, *counts: int) -> list[int]:
        """A histogram that starts with these counts."""
        return [*counts, *[0] * (self.classes - len(counts))]


def candidates(mechanism: Mechanism, *, classes: int, moved: int, queries: int) -> list[Pair]:
    """All pairs worth trying for runs of `queries` queries.

    Raises
    ------
    ConfigError : nobody has written pairs for this mechanism.
    """
    builder = BUILDERS.get(mechanism.name)
    if builder is None:
        known = ", ".join(sorted(BUILDERS))
        raise ConfigError(f"there are no worst pairs for mechanism {mechanism.name!r}", f"Audit one of {known}.")
    return builder(mechanism, Shape(classes, moved, queries))


def label_pairs(shape: Shape, base: int, spread: float, where: str = "") -> list[Pair]:
    """Pairs for a noisy argmax: about `base` votes for each of two classes, `spread` the noise on their difference."""
    k, row = shape.moved, shape.row
    pairs = [pair(f"tie{where}", [row(base + k, base)], [row(base, base + k)])]
    if shape.classes > 2:
        rest = [base + k // 2] * (shape.classes - 2)
        pairs.append(pair(f"tie of all classes{where}", [[base + k, base, *rest]], [[base, base + k, *rest]]))
    for gap in sorted({round(spread), round(2 * spread)} - {0}):
        d, d_prime = row(base + gap + k, base), row(base + gap, base + k)
        pairs.append(pair(f"lead of {gap} vote{'s' if gap > 1 else ''}{where}", [d], [d_prime]))
    if shape.queries > 1:
        halves = _ladder(shape, 0.75 * spread)
        rows = [(row(base + h + k, base - h), row(base + h, base - h + k)) for h in halves]
        pairs.append(_to_and_fro(f"ties, votes moving to and fro{where}", rows))
    return pairs


def check_pairs(shape: Shape, rows_at: Callable[[float], Rows | None], pays: bool) -> list[Pair]:
    """Pairs for a noisy check. `rows_at(z)` gives D and D' where the checked number lies z standard deviations above
    its threshold, None where there are no such votes. `pays`: answers cost, so runs with few of them are tried too."""
    n = shape.queries
    wanted: list[tuple[str, float, int | None]] = [
        ("at the threshold", 0.0, None),
        ("1 sd above the threshold", 1.0, None),
        ("1 sd below the threshold", -1.0, None),
    ]
    if pays:
        for z, share in ((-0.8, 0.2), (-1.6, 0.05), (-2.3, 0.01)):
            cap = max(1, math.floor(share * n))
            if cap < n:
                plural = "s" if cap > 1 else ""
                wanted.append((f"{-z:g} sd below the threshold, stop after {cap} answer{plural}", z, cap))
    return [
        pair(name, [rows[0]], [rows[1]], answered_cap=cap)
        for name, z, cap in wanted
        if (rows := rows_at(z)) is not None
    ]


def _ladder(shape: Shape, reach: float) -> list[int]:
    """Whole heights from -reach to reach; 0 if there is one rung only."""
    return np.linspace(-reach, reach, shape.rungs).round().astype(int).tolist() if shape.rungs > 1 else [0]


def _to_and_fro(name: str, ladder: list[Rows]) -> Pair:
    """Every slot twice, the second time with D and D' exchanged."""
    left = [row for d, d_prime in ladder for row in (d, d_prime)]
    right = [row for d, d_prime in ladder for row in (d_prime, d)]
    return pair(name, left, right, kinds=[0, 1] * len(ladder))


def _parameter(mechanism: Mechanism, name: str) -> float:
    return float(getattr(mechanism, name))


def _argmax(mechanism: Mechanism, shape: Shape, spread: float) -> list[Pair]:
    return label_pairs(shape, math.ceil(6 * spread) + shape.moved, spread)


def _gnmax(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    """Also for `immutable_gaussian`."""
    return _argmax(mechanism, shape, math.sqrt(2) * _parameter(mechanism, "sigma"))


def _lnmax(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    """Also for `immutable`, whose constant changes hands at a tie (the counterexample of `curves.immutable`)."""
    # Votes are counted in int64, and nobody has more than 2^40 teachers.
    return _argmax(mechanism, shape, min(2 / _parameter(mechanism, "gamma"), 2.0**40))


def _top_count_pairs(shape: Shape, threshold: float, sigma1: float, spread: float, pays: bool) -> list[Pair]:
    """A check of the top count with noise sigma1, and a noisy argmax with `spread` on a difference."""
    k, row = shape.moved, shape.row

    def rows_at(z: float) -> Rows | None:
        top = round(threshold + z * sigma1 + k / 2)
        return (row(top), row(top - k, k)) if top >= 2 * k else None

    pairs = check_pairs(shape, rows_at, pays)
    always = math.ceil(max(threshold + 6 * sigma1, 6 * spread)) + k
    pairs += label_pairs(shape, always, spread, ", all answered")
    for z in (0.0, 1.0):
        top = round(threshold + z * sigma1)
        if top >= k:
            name = "tie at the threshold" if z == 0 else f"tie {z:g} sd above the threshold"
            pairs.append(pair(name, [row(top, top)], [row(top - k, top + k)]))
    top = round(threshold + k / 2)
    heights = _ladder(shape, 1.5 * sigma1) if shape.queries > 1 else []
    # The number of teachers is the same at every height; who is not in the top class votes for the next one.
    if heights and top + min(heights) - k > max(heights) - min(heights) + k:
        most = max(heights)
        rows = [(row(top + h, most - h), row(top + h - k, most - h + k)) for h in heights]
        pairs.append(_to_and_fro("around the threshold, votes moving to and fro", rows))
    return pairs


def _confident(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    threshold, sigma1, sigma2 = (_parameter(mechanism, name) for name in ("threshold", "sigma1", "sigma2"))
    return _top_count_pairs(shape, threshold, sigma1, math.sqrt(2) * sigma2, pays=True)


def _interactive(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    """The same against a student who is sure of a class without votes, and against one who knows nothing."""
    k, row, m = shape.moved, shape.row, shape.classes
    sure = np.zeros(m)
    sure[-1] = 1.0
    pairs = [
        replace(pair_made, probabilities=np.tile(sure, (len(pair_made.d), 1)))
        for pair_made in _confident(mechanism, shape)
        if m > 2 or not pair_made.d[:, -1].any()
    ]
    threshold, sigma1 = _parameter(mechanism, "threshold"), _parameter(mechanism, "sigma1")

    def rows_at(z: float) -> Rows | None:
        # All votes on one class: the check sees top - top / m.
        top = round((threshold + z * sigma1 + k / 2) * m / (m - 1))
        return (row(top), row(top - k, k)) if top >= 2 * k else None

    for pair_made in check_pairs(shape, rows_at, pays=True):
        unsure = np.full((len(pair_made.d), m), 1 / m)
        pairs.append(replace(pair_made, name=f"{pair_made.name}, unsure student", probabilities=unsure))
    return pairs


def _distributed(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    """Check and label of one noisy histogram; every query pays for it, answered or not."""
    sigma = _parameter(mechanism, "sigma")
    threshold = _parameter(mechanism, "threshold") + noise_bias(sigma, shape.classes)
    return _top_count_pairs(shape, threshold, sigma, math.sqrt(2) * sigma, pays=False)


def _two_phase(mechanism: Mechanism, shape: Shape) -> list[Pair]:
    sigma1, sigma2 = _parameter(mechanism, "sigma1"), _parameter(mechanism, "sigma2")
    threshold = _parameter(mechanism, "threshold") + noise_bias(sigma1, shape.classes)
    return _top_count_pairs(shape, threshold, sigma1, math.sqrt(2) * sigma2, pays=True)


BUILDERS: dict[str, Callable[[Mechanism, Shape], list[Pair]]] = {
    "gnmax": _gnmax,
    "histogram": _gnmax,
    "lnmax": _lnmax,
    "immutable": _lnmax,
    "immutable_gaussian": _gnmax,
    "confident": _confident,
    "interactive": _interactive,
    "distributed": _distributed,
    "distributed_two_phase": _two_phase,
}
"""Pairs for each mechanism, by its name."""
