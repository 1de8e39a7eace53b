"""Statistics that tell runs under D from runs under D'.

Each is a log-likelihood ratio with probabilities estimated on draws of its own, so large values speak for D. Which one
is used, and with which limit, is decided on further draws (`distinguish.regions`); a poor statistic makes an
audit weak, never wrong.

single : sum over queries of log p(outcome | D) / p(outcome | D'). The best there is when queries are independent.
pairs : the same for pairs of queries, taken together. Sees what queries have in common, such as reused noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.distinguish.pairs import Layout


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
    found = [_unfitted("single", codes, np.arange(n), None, kinds, count)]
    if n >= 2:
        left = np.concatenate([np.arange(call.start, call.stop - 1, 2) for call in layout.calls])
        found.append(_unfitted("pairs", codes, left, left + 1, kinds[left], count))
    if len(layout.calls) == 2:
        left = np.arange(layout.calls[0].stop)
        found.append(_unfitted("pairs over two calls", codes, left, left + len(left), kinds[left], count))
    return found


def _unfitted(
    name: str, codes: int, left: np.ndarray, right: np.ndarray | None, kinds: np.ndarray, count: int
) -> Statistic:
    width = codes if right is None else codes**2
    return Statistic(name, codes, left, right, kinds * width, np.zeros(count * width))
