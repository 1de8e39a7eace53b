"""Files of tables that strangers wrote, CSV or Parquet: names of the columns, and those that are asked for."""

from __future__ import annotations

import csv
import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import numpy as np

from consilium.protocol.errors import DataError, PathError
from consilium.protocol.models import Frozen

if TYPE_CHECKING:
    import polars as pl

Separator = Literal[",", ";", "\t", "|"]
Encoding = Literal["utf-8", "latin-1", "cp1252"]

FOREIGN = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip or Excel file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
}


class CsvRule(Frozen):
    """The `[csv]` table. With `decimal_comma` a point in a number is an error: it might be a thousands separator."""

    separator: Separator = ","
    decimal_comma: bool = False
    encoding: Encoding = "utf-8"

    @property
    def codec(self) -> str:
        """Python's name of the encoding: UTF-8 with or without a byte order mark."""
        return "utf-8-sig" if self.encoding == "utf-8" else self.encoding


def foreign_kind(path: Path) -> str | None:
    """What the file is by its first bytes where it is not text: empty text if it has none, None if it may be text.

    Raises
    ------
    OSError
    """
    with open(path, "rb") as file:
        start = file.read(4)
    return next((kind for mark, kind in FOREIGN.items() if start.startswith(mark)), None) if start else ""


def other_separator(names: Sequence[str], rule: CsvRule) -> str | None:
    """What the first line seems to be split at, where splitting it as `rule` says left one name."""
    found = [mark for mark in get_args(Separator) if mark != rule.separator and names and mark in names[0]]
    return found[0] if len(names) == 1 and found else None


def is_number(text: str) -> bool:
    """Whether it is a number, with a decimal point or a decimal comma.

    >>> is_number(" 1,5 "), is_number("age")
    (True, False)
    """
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


class BadTable(DataError):
    """A file that cannot be read as a table. `fault` is what is wrong with `path`, and quotes nothing of a private
    file."""

    def __init__(self, path: Path, fault: str, action: str) -> None:
        self.path, self.fault = path, fault
        between = " " if fault.split()[0] in ("is", "has", "lacks") else ": "
        super().__init__(f"{path}{between}{fault}", action)


@dataclass(frozen=True)
class Hints:
    """What to do about a file that is written in another way. `separator` holds {mark!r} or {mark}."""

    separator: str
    encoding: str
    decimal_comma: str
    no_decimal_comma: str

    def other_separator(self, mark: str) -> str:
        """The advice for a file that is split at `mark`."""
        return self.separator.format(mark=mark, option="tab" if mark == "\t" else f'"{mark}"')


def in_file(table: str) -> Hints:
    """Options that stand in a table of a TOML file.

    >>> in_file("csv").other_separator(";")
    "Set separator = ';' under [csv]"
    """
    return Hints(
        separator=f"Set separator = {{mark!r}} under [{table}]",
        encoding=f'Save it as UTF-8, or set encoding under [{table}] to "cp1252" or "latin-1"',
        decimal_comma=f"Export with a decimal point, or set decimal_comma = true in [{table}]",
        no_decimal_comma="Export without thousands separators",
    )


ON_COMMAND_LINE = Hints(
    separator="Use --separator {option}",
    encoding="Save it as UTF-8, or use --encoding cp1252",
    decimal_comma="use --decimal-comma",
    no_decimal_comma="leave --decimal-comma away",
)


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


class ParquetTable:
    """`names`: of the columns.

    Raises
    ------
    BadTable : no Parquet file. OSError
    """

    decimal_comma = False

    def __init__(self, path: Path) -> None:
        import polars as pl

        self._path = path
        with open(path, "rb"):  # the system's own error: not there, a folder, no rights
            pass
        try:
            self._kinds = pl.read_parquet_schema(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise self._broken() from None
        self.names = tuple(self._kinds)

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """What is wrong with the type of a column, or nothing. dates: whether they are taken, as text."""
        import polars as pl

        kind = self._kinds[self.names[place]]
        plain = kind.is_numeric() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null)
        if plain or (dates and kind in (pl.Date, pl.Datetime)):
            return ""
        return f"is of type {kind.base_type().__name__}, it must hold numbers or text"

    def read(self, places: Sequence[int], take: Callable[[int, pl.Series], None]) -> Lines:
        """Give the columns at `places` to `take`, with the column's index in `places`.

        Raises
        ------
        BadTable : the file is damaged. OSError
        """
        import polars as pl

        try:
            for index, place in enumerate(places):
                take(index, pl.read_parquet(self._path, columns=[self.names[place]]).to_series())
            rows = pl.scan_parquet(self._path).select(pl.len()).collect().item()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
            raise self._broken() from None
        return Lines(((self._path.name, "row", np.arange(1, rows + 1)),))

    def _broken(self) -> BadTable:
        return BadTable(self._path, "is not a readable Parquet file", "Write it again, without encryption")


class TableFile(Protocol):
    """An open file. `names` of its columns, in order; one may be there twice.

    decimal_comma: whether numbers in its text have one.
    """

    names: tuple[str, ...]
    decimal_comma: bool

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """What is wrong with the type of the column at `place`, or nothing."""
        ...

    def read(self, places: Sequence[int], take: Callable[[int, pl.Series], None]) -> Lines:
        """Give each column at `places` to `take`, in one or more parts, with its index in `places`. Raises BadTable."""
        ...


def open_table(path: Path, rule: CsvRule, hints: Hints) -> TableFile:
    """Open one: Parquet by its name's end, every other one as CSV.

    Raises
    ------
    BadTable : it is of another kind, or has no columns. OSError
    """
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else CsvTable(path, rule, hints)


def is_pattern(given: str) -> bool:
    """Whether it may stand for several files.

    >>> is_pattern("2024-*.csv"), is_pattern("a.csv")
    (True, False)
    """
    return glob.has_magic(given)


def files_of(given: str, folder: Path) -> tuple[Path, ...]:
    """A path, or all files that a pattern (`*`, `?`, `**`) has below `folder`, sorted by name.

    Raises
    ------
    PathError : there is none.
    """
    plain = folder / given
    if plain.exists() or not is_pattern(given):
        if not plain.exists():
            raise PathError(f"{plain} is not there", "Correct the path: it is relative to the file that names it")
        return (plain,)
    found = sorted(Path(name) for name in glob.glob(str(plain), recursive=True))
    found = [path for path in found if path.is_file()]
    if not found:
        raise PathError(f"no file is like {plain}", "Correct the pattern: it is relative to the file that names it")
    return tuple(found)
