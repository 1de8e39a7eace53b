"""How the votes of a party stand when they are proved: one row for each query and teacher, the rows as a grid.

Row i is at point i % points + 1 of line i // points; along each line runs a polynomial through what its rows become
under the challenge. Fewer points make the party's work less, fewer lines the messages of the aggregators: a proof has
2 points + 1 + lines elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_ROWS = 2**24
"""Queries times teachers: a grid of 2,048 points and 8,192 lines."""


@dataclass(frozen=True)
class VoteGrid:
    """Sizes of all that is sent and computed in a session of `queries` x `classes` votes by `teachers` of a party."""

    queries: int
    classes: int
    teachers: int

    @property
    def rows(self) -> int:
        """Queries times teachers; the rows of a query stand together."""
        return self.queries * self.teachers

    @property
    def cells(self) -> int:
        """Elements of one share of the votes."""
        return self.rows * self.classes

    @cached_property
    def points(self) -> int:
        """Rows on a line.

        >>> VoteGrid(10_000, 10, 1).points, VoteGrid(10_000, 10, 1).lines
        (50, 200)
        """
        return math.ceil(math.sqrt(self.rows) / 2)

    @cached_property
    def lines(self) -> int:
        """Lines; the last may be filled up with rows of zeros."""
        return math.ceil(self.rows / self.points)

    @property
    def values(self) -> int:
        """Elements of the extension that the polynomial of the proof is given by: its values at 0 to 2 points."""
        return 2 * self.points + 1

    @property
    def last_points(self) -> int:
        """Rows on the last line."""
        return self.rows - (self.lines - 1) * self.points

    def picks(self, votes: np.ndarray) -> np.ndarray:
        """The class of each row, int64 (rows,).

        votes: integers (queries, classes), as many in each row as there are teachers; not checked here.

        >>> VoteGrid(2, 3, 2).picks(np.array([[1, 0, 1], [0, 2, 0]])).tolist()
        [0, 2, 1, 1]
        """
        if self.teachers == 1:
            return np.argmax(votes, axis=1)
        classes = np.broadcast_to(np.arange(self.classes), votes.shape)
        return np.repeat(classes.ravel(), votes.ravel())

    def summed(self, share: np.ndarray) -> np.ndarray:
        """A share of the votes (cells,) -> (queries, classes), not reduced, the sum over the teachers."""
        if self.teachers == 1:
            return share.reshape(self.queries, self.classes)
        by_teacher = share.reshape(self.queries, self.teachers, self.classes)
        return by_teacher.sum(axis=1, dtype=np.uint32)
