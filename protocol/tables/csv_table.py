"""A CSV file, a block of rows at a time; a field that nobody asks for is dropped as soon as it is parsed.

The standard library's parser finds the fields, for it counts them: a line with one too many (a decimal comma) would
otherwise shift its values under other names unseen.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.rows.csv_files import CsvRule, foreign_kind, is_number, other_separator
from consilium.protocol.tables.faults import BadTable, Hints
from consilium.protocol.tables.lines import Lines

if TYPE_CHECKING:
    import polars as pl

BLOCK = 10_000
"""Rows that are in memory as text."""


class TornRows(BadTable):
    """Rows of another length than the header. The others, at `lines`, were read."""

    def __init__(self, path: Path, fault: str, action: str, lines: Lines) -> None:
        self.lines = lines
        super().__init__(path, fault, action)


class CsvTable:
    """`names`: the header's, without spaces around; one may be there twice, or be empty.

    Raises
    ------
    BadTable : not text in the encoding of the rule, no header, or no CSV. OSError
    """

    def __init__(self, path: Path, rule: CsvRule, hints: Hints) -> None:
        self._path, self._rule, self._hints = path, rule, hints
        self.decimal_comma = rule.decimal_comma
        kind = foreign_kind(path)
        if kind is not None:
            action = "Export it as CSV in UTF-8" if kind else "Export the data again"
            raise BadTable(path, f"is {kind}, not CSV" if kind else "is empty", action)
        with self._lines() as lines:
            self.names = tuple(name.strip() for name in next(lines, (0, []))[1])
        self._check_header()

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """Nothing: every column is text."""
        return ""

    def read(self, places: Sequence[int], take: Callable[[int, pl.Series], None]) -> Lines:
        """Give the columns at `places` to `take`, with the column's index in `places`, block by block.

        Raises
        ------
        BadTable : no rows, or no CSV. TornRows : some have another length, after all others were given. OSError
        """
        import polars as pl

        width, torn = len(self.names), []
        numbers = [np.zeros(0, dtype=np.int64)]
        with self._lines() as lines:
            next(lines)
            while block := list(islice(lines, BLOCK)):
                whole = [line for line in block if len(line[1]) == width]
                torn += [number for number, line in block if line and len(line) != width]  # an empty line is no row
                numbers.append(np.array([number for number, _ in whole], dtype=np.int64))
                for index, place in enumerate(places):
                    take(index, pl.Series([line[place] for _, line in whole], dtype=pl.String))
        found = Lines(((self._path.name, "line", np.concatenate(numbers)),))
        total = len(found) + len(torn)
        if torn:
            what = f"{len(torn)} of {total} rows have more or fewer fields than the header's {width}"
            action = "Look for a decimal comma, or for separators in text that stands in no quotes"
            raise TornRows(self._path, f"{what} (first: line {torn[0]})", action, found)
        if not total:
            raise BadTable(self._path, "has a header and no rows", "Export the data again")
        return found

    @contextmanager
    def _lines(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """The fields of each line, and the number of the line of the file on which they end."""
        try:
            with open(self._path, encoding=self._rule.codec, newline="") as file:
                lines = csv.reader(file, delimiter=self._rule.separator, strict=True)
                yield ((lines.line_num, line) for line in lines)
        except UnicodeDecodeError:
            raise BadTable(self._path, f"is not {self._rule.encoding} text", self._hints.encoding) from None
        except csv.Error:
            action = 'Look for a " that is opened and not closed, or for text after a closing one'
            raise BadTable(self._path, "is not well-formed CSV: its quotes do not match", action) from None

    def _check_header(self) -> None:
        header = "The first line must name the columns"
        if not any(self.names):
            raise BadTable(self._path, "has an empty first line", header)
        if other := other_separator(self.names, self._rule):
            what = f"has one column only when split at {self._rule.separator!r}"
            raise BadTable(self._path, what, self._hints.other_separator(other))
        if all(is_number(name) for name in self.names):
            raise BadTable(self._path, "has nothing but numbers in its first line", header)
