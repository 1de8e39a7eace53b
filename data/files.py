"""Files of tables that strangers wrote, CSV, Parquet or .npz: names of the columns, and those that are asked for."""

from __future__ import annotations

import csv
import glob
import json
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from consilium.data.remedy import TableFault
from consilium.protocol.errors import PathError
from consilium.protocol.models import Frozen

if TYPE_CHECKING:
    import polars as pl

Separator = Literal[",", ";", "\t", "|"]
Encoding = Literal["utf-8", "latin-1", "cp1252"]
Role = Literal["[columns]", "[label]", "[patient]"]
"""What a column is to a party: the table of party.toml that names it."""
FOREIGN = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip or Excel file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
}
BLOCK = 10_000
"""Rows of a CSV file that are in memory as text."""
NPZ_FORM = "An .npz needs x (n, features), y (n,), and features and classes as text; save it without objects"


class CsvRule(Frozen):
    """The `[csv]` table. With `decimal_comma` a point in a number is an error: it might be a thousands separator."""

    separator: Separator = ","
    decimal_comma: bool = False
    encoding: Encoding = "utf-8"


class BadTable(TableFault):
    """A file that cannot be read as a table. `fault`: what is wrong with `path`; it quotes no private file."""

    def __init__(
        self, path: Path, fault: str, action: str, column: str = "", keys: Mapping[str, Any] | None = None
    ) -> None:
        self.path, self.fault = path, fault
        between = " " if fault.split()[0] in ("is", "are", "has", "lacks") else ": "
        super().__init__(f"{path}{between}{fault}", action, column, keys)


@dataclass(frozen=True)
class Lines:
    """Where rows stand. files: of each in turn its name, what its numbers count ("line" or "row"), and the numbers,
    int64 (rows,). rows: int64 (n,), of those that are left the position among all; None for all."""

    files: tuple[tuple[str, str, np.ndarray], ...] = field(repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def of_rows(cls, name: str, rows: int) -> Lines:
        """Of rows that are counted from 1, in a file or in none."""
        return cls(((name, "row", np.arange(1, rows + 1)),))

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        return cls(tuple(file for part in parts for file in part.files))

    def __len__(self) -> int:
        return sum(len(numbers) for _, _, numbers in self.files) if self.rows is None else len(self.rows)

    @property
    def whole(self) -> str:
        """All files in a few words."""
        first, *others = dict.fromkeys(name for name, _, _ in self.files)
        return f"{first} and {len(others)} more" if others else first

    def place(self, row: int) -> str:
        """Where row `row` stands, counted from 0; without the file if there is one only."""
        name, number = self._of(row)
        return number + (f" of {name}" if len(self.files) > 1 else "")

    def first(self, rows: np.ndarray) -> str:
        """File and place of the first of the rows at these indices, and how many there are.

        >>> Lines.joined([Lines.of_rows("a.csv", 2), Lines.of_rows("b.csv", 3)]).first(np.array([3, 4]))
        'b.csv, row 2 and 1 more'
        """
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        return f"{', '.join(self._of(int(rows[0])))}{more}"

    def left(self, mask: np.ndarray) -> Lines:
        """Of the rows that `mask` bool (n,) keeps, or of those at indices int (any,)."""
        return Lines(self.files, (np.arange(len(self)) if self.rows is None else self.rows)[mask])

    def _of(self, row: int) -> tuple[str, str]:
        row = row if self.rows is None else int(self.rows[row])
        for name, word, numbers in self.files:
            if row < len(numbers):
                return name, f"{word} {numbers[row]}"
            row -= len(numbers)
        raise IndexError(row)


class Read(NamedTuple):
    """Columns that were asked for, in that order, and where their rows stand. torn: rows that are none of them: of
    another length than the heading, or that are it again."""

    columns: list[pl.Series | np.ndarray]
    lines: Lines
    torn: BadTable | None = None

    def __repr__(self) -> str:
        return "Read(<private>)"


class TableFile(ABC):
    """An open file. `names` of its columns, in order; one may be there twice. path: what messages call it.
    decimal_comma: whether numbers in its text have one. form: what to do about a column that is unreadable."""

    path: Path
    names: tuple[str, ...]
    decimal_comma = False
    form = "Write it as numbers: one value in each row"

    def places(self, name: str, role: Role = "[columns]") -> Sequence[int]:
        return self._by_name.get(name, ())

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self.names):
            places[name].append(place)
        return places

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        """What is wrong with the column at `place`, or nothing. dates: whether they are taken, as text."""
        return ""

    @abstractmethod
    def read(self, places: Sequence[int]) -> Read:
        """The columns at `places`. Raises BadTable, OSError."""


def open_table(path: Path, rule: CsvRule) -> TableFile:
    """Open one: Parquet by its name, else as CSV. Raises BadTable: of another kind, or without columns. OSError."""
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else CsvTable(path, rule)


class CsvTable(TableFile):
    """A block of rows at a time; a field that nobody asks for is dropped as soon as it is parsed. The standard
    library's parser finds the fields, for it counts them: a line with one too many (a decimal comma) would otherwise
    shift its values under other names unseen. `names`: the header's, without spaces around; one may be empty. Raises
    BadTable: not text in the encoding of the rule, no header, or no CSV. OSError."""

    def __init__(self, path: Path, rule: CsvRule) -> None:
        self.path, self._rule = path, rule
        self.decimal_comma = rule.decimal_comma
        with open(path, "rb") as file:
            start = file.read(4096)
        if not start:
            raise BadTable(path, "is empty", "Export the data again")
        kinds = [kind for mark, kind in FOREIGN.items() if start.startswith(mark)]
        if kinds or 4 * start.count(0) > len(start):
            raise BadTable(path, f"is {[*kinds, 'binary, or UTF-16 text'][0]}, not CSV", "Export it as CSV in UTF-8")
        names = self.names = tuple(name.strip() for name in next(self._records(), Record(0, 0, [])).fields)
        header = "The first line must name the columns"
        if not any(names):
            raise BadTable(path, "has an empty first line", header)
        if any(sign < " " and sign not in "\n\r\t" for name in names for sign in name):
            raise BadTable(path, "has control characters in its first line, as what is no text has", header)
        marks = [mark for mark in get_args(Separator) if mark != rule.separator and mark in names[0]]
        if len(names) == 1 and marks:
            fault = f"has one column only when split at {rule.separator!r}"
            action = f"Set separator = {marks[0]!r} in its csv table, or use --separator"
            raise BadTable(path, fault, action, keys={"csv": {"separator": marks[0]}})
        if all(map(_is_number, names)):
            raise BadTable(path, "has nothing but numbers in its first line", header)

    def read(self, places: Sequence[int]) -> Read:
        import polars as pl

        width = len(self.names)
        parts: list[list[pl.Series]] = [[pl.Series([], dtype=pl.String)] for _ in places]
        torn: list[Record] = []
        numbers = [np.zeros(0, dtype=np.int64)]
        lines = self._records()
        heading = next(lines).fields
        while block := list(islice(lines, BLOCK)):
            whole = [record for record in block if len(record.fields) == width and record.fields != heading]
            if len(whole) < len(block):  # empty lines are neither
                others = (each for each in block if each.fields)
                torn += [each for each in others if len(each.fields) != width or each.fields == heading]
            numbers.append(np.array([record.last for record in whole], dtype=np.int64))
            columns = list(zip(*(record.fields for record in whole), strict=True)) or [()] * width
            for part, place in zip(parts, places, strict=True):
                part.append(pl.Series(columns[place], dtype=pl.String))
        rows = Lines(((self.path.name, "line", np.concatenate(numbers)),))
        fault = BadTable(self.path, *why_torn(self.names, torn, len(rows) + len(torn))) if torn else None
        if not len(rows):
            raise fault or BadTable(self.path, "has a header and no rows", "Export the data again")
        return Read([pl.concat(part) for part in parts], rows, fault)

    def _records(self) -> Iterator[Record]:
        """All of the file, of empty lines too. Raises BadTable."""
        rule, last = self._rule, 0
        encoding = "utf-8-sig" if rule.encoding == "utf-8" else rule.encoding  # whether or not it is marked
        try:
            with open(self.path, encoding=encoding, newline="") as file:
                reader = csv.reader(file, delimiter=rule.separator, strict=True)
                for fields in reader:
                    yield Record(last + 1, reader.line_num, fields)
                    last = reader.line_num
        except UnicodeDecodeError:
            keys = {"csv": {"encoding": "cp1252" if rule.encoding == "utf-8" else "latin-1"}}
            action = 'Save it as UTF-8, or set encoding = "cp1252" or "latin-1" in its csv table, or use --encoding'
            raise BadTable(self.path, f"is not {rule.encoding} text", action, keys=keys) from None
        except csv.Error as error:
            what = "is not well-formed CSV: its quotes do not match"
            if "limit" in str(error):
                what = f"has a field of more than {csv.field_size_limit():,} signs in line {last + 1}"
            action = f'Look in line {last + 1} for a " that is not closed, or for text behind a closing one'
            raise BadTable(self.path, what, action) from None


class Record(NamedTuple):
    """Fields of a CSV file, and the numbers of the lines on which they begin and end."""

    first: int
    last: int
    fields: list[str]


def why_torn(names: Sequence[str], torn: Sequence[Record], total: int) -> tuple[str, str]:
    """What is wrong with rows that have not as many fields as the heading, and what to do. No field is quoted."""
    first, width, count = torn[0], len(names), len(torn[0].fields)
    if all(len(record.fields) == width for record in torn):
        return f"{len(torn)} of {total} rows are the heading again (first: line {first.last})", "Leave these lines out"
    if len(torn) == total and all(len(record.fields) == count for record in torn):
        fault = f"all {total} rows have {count} fields, and the heading has {width}"
        if abs(count - width) > 1:
            return fault, f"If line {first.first} is the heading, remove what stands before it"
        if count < width:
            comma = "The heading ends with a separator: take it away" if not names[-1] else ""
            return fault, comma or "Look at the heading: it has one name too many, or a separator in a name"
        if not any(record.fields[-1].strip() for record in torn):
            return fault, "Each row ends with a separator: take it away, or give the last column a name"
        if len({record.fields[0] for record in torn}) == total:
            return fault, "The first column has no name, as of row names: name it in the heading, or leave it out"
        return fault, "Look at the heading: a name is missing in it, at its beginning or end"
    over = f"lines {first.first} to {first.last}, which a quote holds together, have"
    where = f"line {first.last} has" if first.first == first.last else over
    fault = f"{len(torn)} of {total} rows have more or fewer fields than the header's {width} (first: {where} {count})"
    return (
        fault,
        'Look for a decimal comma, for separators in text that stands in no quotes, or for a " that is not closed',
    )


class ParquetTable(TableFile):
    """The columns that are asked for and nothing else, one at a time. pandas notes which are categories: of numbers it
    writes plain numbers. Raises BadTable: no Parquet file. OSError."""

    def __init__(self, path: Path) -> None:
        import polars as pl

        self.path = path
        with open(path, "rb"):  # the system's own error: not there, a folder, no rights
            pass
        with self._whole():
            self._kinds = pl.read_parquet_schema(path)
            said = json.loads(pl.read_parquet_metadata(path).get("pandas", "{}")).get("columns", [])
        self.names = tuple(self._kinds)
        self._categories = {column["name"] for column in said if column.get("pandas_type") == "categorical"}

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        import polars as pl

        kind = self._kinds[self.names[place]]
        plain = kind.is_numeric() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null)
        if plain or (dates and kind in (pl.Date, pl.Datetime)):
            return ""
        return f"is of type {kind.base_type().__name__}, it must hold numbers or text"

    def read(self, places: Sequence[int]) -> Read:
        import polars as pl

        columns: list[pl.Series | np.ndarray] = []
        with self._whole():
            for name in [self.names[place] for place in places]:
                series = pl.read_parquet(self.path, columns=[name]).to_series()
                declared = name in self._categories and not isinstance(series.dtype, pl.Categorical)
                columns.append(series.cast(pl.String).cast(pl.Categorical) if declared else series)
            rows = pl.scan_parquet(self.path).select(pl.len()).collect().item()
        return Read(columns, Lines.of_rows(self.path.name, rows))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        import polars as pl

        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
            action = "Write it again, without encryption"
            raise BadTable(self.path, "is not a readable Parquet file", action) from None


class ArrayTable(TableFile):
    """x (n, features), y int (n,), features and classes as text; other arrays (n,) may say whose the rows are. `names`:
    of the features. The label is `y`, as texts of classes. path: what messages call it. Raises BadTable: its parts are
    not what they must be, or cannot be read. OSError."""

    form = NPZ_FORM

    def __init__(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        self.path, self._arrays, self._others = path, arrays, tuple(arrays)
        x, y = self._x, self._y = self._array("x"), self._array("y")
        self.names = tuple(map(str, self._array("features")))
        self._classes = tuple(map(str, self._array("classes")))
        if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != len(self.names):
            fault = f"x has shape {x.shape}, y {y.shape}, and there are {len(self.names)} features"
            raise BadTable(path, fault, NPZ_FORM)
        if y.dtype.kind not in "iu":
            raise BadTable(path, f"y is {y.dtype}, it must hold integers: indices into classes", NPZ_FORM)
        if x.dtype.kind not in "fiu":
            raise BadTable(path, f"x is {x.dtype}, it must hold numbers", NPZ_FORM)

    def places(self, name: str, role: Role = "[columns]") -> Sequence[int]:
        """Of features where `x` has them; behind them stand the label and the arrays of patients."""
        if role == "[label]":
            return [len(self.names)]
        if role == "[patient]":
            return [len(self.names) + 1 + self._others.index(name)] if name in self._others else []
        return super().places(name)

    def why_unreadable(self, place: int, dates: bool = False) -> str:
        if place == len(self.names):
            outside = int(np.count_nonzero((self._y < 0) | (self._y >= len(self._classes))))
            fault = f"{outside} of {len(self._y)} rows have an index outside the file's {len(self._classes)} classes"
            return fault if outside else ""
        if place < len(self.names):
            return ""
        ids = self._other(place)
        if ids.shape == self._y.shape and ids.dtype.kind in "iuU":
            return ""
        return f"is {ids.dtype} of shape {ids.shape}, it must hold an integer or a text for each row"

    def read(self, places: Sequence[int]) -> Read:
        import polars as pl

        def column(place: int) -> pl.Series | np.ndarray:
            if place == len(self.names):
                return pl.Series(np.array(self._classes)[self._y], dtype=pl.String)
            return self._x[:, place] if place < len(self.names) else self._other(place)

        return Read([column(place) for place in places], Lines.of_rows(self.path.name, len(self._y)))

    def _other(self, place: int) -> np.ndarray:
        return self._array(self._others[place - len(self.names) - 1])

    def _array(self, name: str) -> np.ndarray:
        try:
            return self._arrays[name]
        except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            # the text of the error may quote the file
            raise BadTable(self.path, f"is not a readable .npz ({type(error).__name__})", NPZ_FORM) from None


def open_arrays(path: Path) -> ArrayTable:
    """Open an .npz, whose arrays are read when they are asked for. Nothing is ever unpickled. Raises BadTable: it is
    none, see `ArrayTable`, too. OSError."""
    try:
        return ArrayTable(path, np.load(path, allow_pickle=False))
    except (ValueError, AttributeError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise BadTable(path, f"is not a readable .npz ({type(error).__name__})", NPZ_FORM) from None


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def files_of(name: str, folder: Path) -> tuple[Path, ...]:
    """A path, or all files that a pattern (`*`, `?`, `**`) has below `folder`, sorted. Raises PathError: none."""
    plain = folder / name
    if plain.exists():
        return (plain,)
    matches = [path for path in map(Path, sorted(glob.glob(str(plain), recursive=True))) if path.is_file()]
    if not matches:
        what = f"no file is like {plain}" if glob.has_magic(name) else f"{plain} is not there"
        raise PathError(what, "Correct it; in a file it is relative to that file")
    return tuple(matches)
