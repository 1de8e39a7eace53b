"""Fewer outcomes, never a smaller divergence: classes with few votes are taken together.

Outcomes j of a group with probability P(J) and ratios r_j = P'(j)/P(j) are replaced by two, at the least and at the
largest ratio, with the same probability and the same mean ratio. Of all laws on an interval with a given mean the one
on its ends has the largest mean of any convex function, and every Renyi moment is the mean of one. Where all ratios of
a group are equal (equal counts and continuous noise) nothing is lost.

Groups go by rank of the counts and double in size, so that classes which can win stand alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Classes by count: the first ``alone`` of ``order`` stand alone, groups of the others start at ``starts``.

    order : int64 (queries, classes). log_p : float64 (queries, groups), log of each group's probability.
    share : float64 (queries, classes - alone), each class's part of its group's.
    """

    order: np.ndarray
    alone: int
    starts: np.ndarray
    log_p: np.ndarray
    share: np.ndarray

    def split(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (rows, classes) in the order of the counts: those alone, and the grouped."""
        return values[:, : self.alone], values[:, self.alone :]

    def least(self, grouped: np.ndarray) -> np.ndarray:
        return np.minimum.reduceat(grouped, self.starts, axis=-1)

    def largest(self, grouped: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(grouped, self.starts, axis=-1)


def groups(log_p: np.ndarray, gaps: np.ndarray, alone: int) -> Groups:
    """Groups of the classes beyond the first ``alone`` by count."""
    order = np.argsort(gaps, axis=1, kind="stable")
    rest = np.take_along_axis(log_p, order, axis=1)[:, alone:]
    starts = [0]
    while starts[-1] + 2 ** len(starts) < rest.shape[1]:
        starts.append(starts[-1] + 2 ** len(starts))
    total = np.logaddexp.reduceat(rest, starts, axis=1)
    sizes = np.diff([*starts, rest.shape[1]])
    return Groups(order, alone, np.array(starts), total, np.exp(rest - np.repeat(total, sizes, axis=1)))


def merged(found: Groups, query: np.ndarray, log_p: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log P and changes with groups in the place of classes: two float64 (rows, alone + 2 groups).

    query : int64 (rows,), the query of each row. log_p, change : float64 (rows, classes).
    """
    order = found.order[query]
    p_alone, _ = found.split(np.take_along_axis(log_p, order, axis=1))
    alone, grouped = found.split(np.take_along_axis(change, order, axis=1))
    low, high = found.least(grouped), found.largest(grouped)
    sizes = np.diff([*found.starts, grouped.shape[1]])
    # a difference that no double can hold makes the share of the upper end larger
    spread = np.expm1(np.minimum(high - low, _MOST))
    above = np.expm1(np.minimum(grouped - np.repeat(low, sizes, axis=1), _MOST)) * found.share[query]
    flat = spread == 0
    part = np.where(flat, 0.5, np.add.reduceat(above, found.starts, axis=1) / np.where(flat, 1.0, spread))
    upper = found.log_p[query] + np.log(np.clip(part, 1e-300, 1.0))
    lower = found.log_p[query] + np.log(np.clip(1 - part, 1e-16, 1.0))
    return np.hstack((p_alone, lower, upper)), np.hstack((alone, low, high))
