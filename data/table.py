"""A whole table of raw values, from one file or several that have the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from pydantic import Field

from consilium.data.cells import COMMA, FAULTS, CellRule, ValueState, Wanted, cell_faults, counted, read_cells, renamed
from consilium.data.files import BadTable, CsvRule, Lines, TableFile, open_table
from consilium.data.remedy import Faults
from consilium.data.texts import texts_of, written
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen

if TYPE_CHECKING:
    import polars as pl

_POINT = r"^[+-]?\d*\.\d[\d.]*([eE][+-]?\d+)?$"
_DAY = r"^\d{1,2}\.\d{1,2}\.(\d{4}|\d{2})$"
"""31.12.2024: no number, and so none with a point."""


class TableRule(Frozen):
    """How a whole table is read. `columns`: rules of some; all others are taken as they stand.

    only: columns to read; all where there are none. drop: columns that nobody needs, left out where they cannot be
    read, or have no name (""). missing: texts that mean "missing".
    """

    csv: CsvRule = CsvRule()
    columns: dict[str, CellRule] = Field(default_factory=dict)
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawTable:
    """`frame`: text, numbers and truth values, null where one is missing. `lines`: where each row stands. unread:
    columns of the first file that were dropped unread."""

    frame: pl.DataFrame = field(repr=False)
    lines: Lines
    unread: tuple[str, ...] = ()


def read_raw(paths: Sequence[Path], rule: TableRule, faults: Faults | None = None) -> RawTable:
    """Files as one table of raw values, for `encoding.infer` and `encoding.encode`.

    CSV gives text, even of numbers, so that no row decides what the others are; of `decimal_comma` with points instead.
    Parquet gives numbers, truth values and categories as they are, and dates as text. Text has no spaces around; empty
    text, NaN among numbers and `missing` are null. Columns without a name must be empty. No error quotes a cell.
    faults: notes there what is wrong with lines and cells, and gives the rest.

    Raises
    ------
    DataError : a file cannot be read, lacks a column that another one has, or has a cell that its rule does not allow.
    PathError, StorageError : it is not there.
    """
    noted = Faults() if faults is None else faults
    parts: list[RawTable] = []
    for path in paths:
        try:
            part = _read(path, rule, noted)
        except OSError as error:
            raise unreadable(path, error, "Check the path and its rights") from None
        if parts:
            _check_same(path, part.frame.columns, paths[0], parts[0].frame.columns)
        parts.append(part)
    if faults is None:
        noted.check(str(paths[0]))
    frames = [part.frame.select(parts[0].frame.columns) for part in parts]
    return RawTable(below(frames), Lines.joined([part.lines for part in parts]), parts[0].unread)


def below(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Frames of the same columns as one. A column that is a category in one of them is one; of other types it becomes
    text, with all digits."""
    import polars as pl

    columns = []
    for name in frames[0].columns:
        parts = [frame[name] for frame in frames]
        kinds = {part.dtype for part in parts} - {pl.Null}
        if any(isinstance(kind, pl.Categorical | pl.Enum) for kind in kinds) and len(kinds) > 1:
            parts = [written(part).cast(pl.Categorical) for part in parts]
        elif kinds and all(kind.is_integer() for kind in kinds) and len(kinds) > 1:
            parts = [part.cast(pl.Int128) for part in parts]
        else:
            parts = [texts_of(part) if len(kinds) > 1 else part.cast(*kinds) if kinds else part for part in parts]
        columns.append(pl.concat(parts).rename(name))
    return pl.DataFrame(columns)


def _places(path: Path, file: TableFile, rule: TableRule) -> list[int]:
    """Where the columns stand that are to be read. Raises DataError for what is not there once, or unreadable."""
    faults, names = Faults(), file.names
    wanted = rule.only or tuple(filter(None, names))
    shown = ", ".join(repr(name) for name in names[:10]) + (" ..." if len(names) > 10 else "")
    places = []
    for name in dict.fromkeys([*rule.columns, *rule.drop, *wanted]):
        count = names.count(name)
        unreadable = file.why_unreadable(names.index(name), dates=True) if count == 1 else ""
        if name in rule.drop and (count != 1 or unreadable):
            continue
        if not count:
            faults.append(BadTable(path, f"has no column {name!r}", f"It has {shown}", name))
        elif count > 1:
            what, action = f"has {count} columns named {name!r}", "Rename all but one"
            faults.append(BadTable(path, what, action, name, {"drop": [name]}))
        elif unreadable:
            what, action = f"column {name!r} {unreadable}", "Write it as numbers or text, or drop it"
            faults.append(BadTable(path, what, action, name, {"drop": [name]}))
        elif name in wanted:
            places.append(names.index(name))
    faults.check(str(path))
    return sorted(places, key=places.index if rule.only else int)


def _read(path: Path, rule: TableRule, faults: Faults) -> RawTable:
    import polars as pl

    file = open_table(path, rule.csv)
    places = _places(path, file, rule)
    named = len(places)
    if not rule.only and "" not in rule.drop:
        places += [place for place, name in enumerate(file.names) if not name]
    read = file.read(places)
    if read.torn is not None:
        faults.append(read.torn)
    series = [
        cast("pl.Series", column).rename(file.names[place]) for place, column in zip(places, read.columns, strict=True)
    ]
    if any((column.cast(pl.String).str.strip_chars().fill_null("") != "").any() for column in series[named:]):
        action = 'Name it in the heading, or leave it out: drop = [""]'
        faults.append(BadTable(path, "has values in a column without a name", action, keys={"drop": [""]}))
    columns = [_ruled(each, rule, file.decimal_comma, path, read.lines, faults) for each in series[:named]]
    names = [column.name for column in columns]
    unread = tuple(name for name in rule.drop if name in (*file.names, "") and name not in names)
    return RawTable(pl.DataFrame(columns), read.lines, unread)


def ruled(frame: pl.DataFrame, rule: TableRule, lines: Lines) -> pl.DataFrame:
    """A table that is in memory as `read_raw` gives that of a file.

    Raises
    ------
    DataError : `rule` names a column that is not there, or a cell is none that it allows.
    """
    import polars as pl

    faults, path = Faults(), Path(lines.whole)
    for name in rule.columns:
        if name not in frame.columns:
            action = f"It has {', '.join(map(repr, frame.columns[:10]))}"
            faults.append(BadTable(path, f"has no column {name!r}", action))
    columns = [_ruled(column, rule, rule.csv.decimal_comma, path, lines, faults) for column in frame]
    faults.check(lines.whole)
    return pl.DataFrame(columns)


def _ruled(
    series: pl.Series, rule: TableRule, decimal_comma: bool, path: Path, lines: Lines, faults: Faults
) -> pl.Series:
    """One column by its rule; what is wrong with it is noted."""
    import polars as pl

    name = series.name
    cells = rule.columns.get(name, CellRule())
    wanted = Wanted(name, name, cells, rule.missing)
    if cells.of_numbers:
        column = read_cells(series, wanted, decimal_comma)
        for fault, action in cell_faults(column.rows, lines):
            faults.append(BadTable(path, f"column {name!r}: {fault}", action, name))
        return pl.Series(name, column.values).fill_nan(None)
    declared = isinstance(series.dtype, pl.Categorical | pl.Enum)
    series = _without_missing(series, wanted)
    if decimal_comma and series.dtype == pl.String:
        series = _with_points(series, path, lines, faults)
    if cells.values:
        series = renamed(series, wanted)
        return series.cast(pl.Categorical) if declared else series
    return series


def _without_missing(series: pl.Series, wanted: Wanted) -> pl.Series:
    """The column with null where a value is missing; text without spaces around."""
    import polars as pl

    if series.dtype == pl.Boolean or (series.dtype.is_numeric() and wanted.rule.values):
        return series  # `renamed` looks for what is missing among texts
    names = pl.Series(wanted.absent, dtype=pl.String).str.strip_chars()
    if series.dtype.is_numeric():
        values = series.fill_nan(None) if series.dtype.is_float() else series
        texts, names = texts_of(values), texts_of(names)
    else:
        texts = (written(series) if series.dtype.is_temporal() else series.cast(pl.String)).str.strip_chars()
        values = series if isinstance(series.dtype, pl.Categorical | pl.Enum) else texts
    absent = texts.is_in(["", *names])
    return pl.select(pl.when(absent).then(None).otherwise(values)).to_series().rename(series.name)


def _with_points(texts: pl.Series, path: Path, lines: Lines, faults: Faults) -> pl.Series:
    """Numbers with a decimal comma as numbers with a point. A column of numbers with points is a fault."""
    commas, points = texts.str.contains(COMMA).fill_null(False), texts.str.contains(_POINT).fill_null(False)
    points &= ~texts.str.contains(_DAY).fill_null(False)
    whole = texts.str.contains(r"^[+-]?\d+$").fill_null(True)
    if points.any() and (commas.any() or (points | whole).all()):
        fault, action = FAULTS[ValueState.DECIMAL_POINT]
        fault = counted(lines, np.flatnonzero(points.to_numpy()), fault)
        faults.append(BadTable(path, f"column {texts.name!r}: {fault}", action, texts.name))
    import polars as pl

    return pl.select(pl.when(commas).then(texts.str.replace(",", ".", literal=True)).otherwise(texts)).to_series()


def _check_same(path: Path, names: Sequence[str], first: Path, others: Sequence[str]) -> None:
    for lacking, having, columns, wanted in ((path, first, names, others), (first, path, others, names)):
        absent = [name for name in wanted if name not in columns]
        if absent:
            action = "Give all files the same columns, or leave it out"
            raise BadTable(lacking, f"has no column {absent[0]!r}, which {having.name} has", action)
