"""Where rows stand: lines of a CSV file, rows of another, in one file or in several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Lines:
    """Of each file in turn its name, what its numbers count ("line" or "row"), and the numbers, int64 (rows,)."""

    files: tuple[tuple[str, str, np.ndarray], ...] = field(repr=False)

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        """Several, one below the other."""
        return cls(tuple(file for part in parts for file in part.files))

    def __len__(self) -> int:
        return sum(len(numbers) for _, _, numbers in self.files)

    def place(self, row: int) -> str:
        """Where row `row` stands, counted from 0.

        >>> Lines((("a.csv", "line", np.array([2, 3])), ("b.csv", "line", np.array([2])))).place(2)
        'line 2 of b.csv'
        """
        for name, word, numbers in self.files:
            if row < len(numbers):
                return f"{word} {numbers[row]}" + (f" of {name}" if len(self.files) > 1 else "")
            row -= len(numbers)
        raise IndexError(row)
