"""Where a row of a simulation stands in the user's files: what an error names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Counted = tuple[str, str, np.ndarray]
"""A file's name, what its numbers count ("line" or "row"), and the number of each row, int64 (rows,)."""


@dataclass(frozen=True)
class Places:
    """files: one below the other. rows int64 (n,): of those that are left, the position among all; None for all."""

    files: tuple[Counted, ...] = field(repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of_rows(cls, name: str, rows: int) -> Places:
        """Of rows that are in no file."""
        return cls(((name, "row", np.arange(1, rows + 1)),))

    @classmethod
    def joined(cls, places: Sequence[Places]) -> Places:
        """Several that are whole, one below the other."""
        return cls(tuple(file for each in places for file in each.files))

    @property
    def whole(self) -> str:
        """All files in a few words."""
        first, *others = dict.fromkeys(name for name, _, _ in self.files)
        return f"{first} and {len(others)} more" if others else first

    def of(self, row: int) -> str:
        """The place of the row at this index.

        >>> Places.joined([Places.of_rows("a.csv", 2), Places.of_rows("b.csv", 3)]).of(3)
        'b.csv, row 2'
        """
        at = row if self.rows is None else int(self.rows[row])
        for name, word, numbers in self.files:
            if at < len(numbers):
                return f"{name}, {word} {numbers[at]}"
            at -= len(numbers)
        raise IndexError(row)

    def told(self, rows: np.ndarray) -> str:
        """The first of the rows at these indices, and how many there are."""
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        return f"{self.of(int(rows[0]))}{more}"

    def left(self, kept: np.ndarray) -> Places:
        """Of the rows that `kept` bool (n,) keeps."""
        rows = np.arange(len(kept)) if self.rows is None else self.rows
        return Places(self.files, rows[kept])
