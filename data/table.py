"""A whole table of raw values, from one file or several that have the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from consilium.data.cells import CellRule, Column, ValueState, read_cells, renamed
from consilium.data.files import BadTable, CsvRule, Hints, Lines, TableFile, in_file, open_table
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen

if TYPE_CHECKING:
    import polars as pl

FAULTS = {
    ValueState.NOT_A_NUMBER: ("is no number", "Say what it means under codes, or name it as missing"),
    ValueState.DECIMAL_COMMA: ("has a decimal comma", ""),
    ValueState.DECIMAL_POINT: ("has a decimal point although decimal_comma is set", ""),
    ValueState.UNKNOWN_CODE: ("is not among codes", "Add it to codes, or name it as missing"),
    ValueState.NUMBER_BESIDE_CODES: (
        "is a number, and not among codes",
        'Set other = "number" if codes stand beside numbers; else add it to codes',
    ),
    ValueState.INFINITE: ("is infinite", "Correct it, or empty it"),
}
"""What a cell is in each state that no number is made of, and what to do where every file has the same answer."""
_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
_POINT = r"^[+-]?\d*\.\d[\d.]*([eE][+-]?\d+)?$"


class TableRule(Frozen):
    """How a whole table is read. `columns`: rules of some; all others are taken as they stand.

    only: columns to read; all where there are none. drop: columns to leave out. missing: texts that mean "missing".
    """

    csv: CsvRule = CsvRule()
    columns: dict[str, CellRule] = Field(default_factory=dict)
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawTable:
    """`frame`: text, numbers and truth values, null where one is missing. `lines`: where each row stands."""

    frame: pl.DataFrame = field(repr=False)
    lines: Lines


def read_table(paths: Sequence[Path], rule: TableRule, hints: Hints | None = None) -> pl.DataFrame:
    """Files as one table of raw values, for `encoding.infer` and `encoding.encode`.

    CSV gives text, even of numbers, so that no row decides what the others are; of `decimal_comma` with points instead.
    Parquet gives numbers and truth values as they are, and dates as text. Text has no spaces around; empty text, NaN
    among numbers and `missing` are null. Columns without a name are left out. No text of an error quotes a cell.

    Raises
    ------
    BadTable : a file cannot be read, lacks a column that another one has, or has a cell that its rule does not allow.
    PathError, StorageError : it is not there.
    """
    return read_raw(paths, rule, hints).frame


def read_raw(paths: Sequence[Path], rule: TableRule, hints: Hints | None = None) -> RawTable:
    """The same, with where its rows stand."""
    import polars as pl

    parts: list[RawTable] = []
    for path in paths:
        try:
            part = _read(path, rule, hints or in_file("csv"))
        except OSError as error:
            raise unreadable(path, error, "Check the path and its rights") from None
        if parts:
            _check_same(path, part.frame.columns, paths[0], parts[0].frame.columns)
        parts.append(part)
    frames = [part.frame.select(parts[0].frame.columns) for part in parts]
    kinds = [{frame[name].dtype for frame in frames} for name in frames[0].columns]
    for name, of_column in zip(frames[0].columns, kinds, strict=True):
        if len(of_column) > 1:  # text in one file, numbers in another
            frames = [frame.with_columns(pl.col(name).cast(pl.String)) for frame in frames]
    return RawTable(pl.concat(frames), Lines.joined([part.lines for part in parts]))


def place_of(path: Path, names: Sequence[str], column: str) -> int:
    """Where a column stands. Raises BadTable where it is not there once."""
    count = names.count(column)
    if count > 1:
        raise BadTable(path, f"has {count} columns named {column!r}", "Rename all but one")
    if not count:
        shown = ", ".join(repr(name) for name in names[:10]) + (" ..." if len(names) > 10 else "")
        raise BadTable(path, f"has no column {column!r}", f"It has {shown}")
    return names.index(column)


def check_cells(path: Path, name: str, column: Column, lines: Lines, hints: Hints) -> None:
    """Raise BadTable for the first cell of a column that is no number."""
    told = {ValueState.DECIMAL_COMMA: hints.decimal_comma, ValueState.DECIMAL_POINT: hints.no_decimal_comma}
    for state, (what, action) in FAULTS.items():
        rows = column.rows(state)
        if len(rows):
            others = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            where = f"{lines.place(int(rows[0]))}, column {name!r}"
            raise BadTable(path, f"{where}: the value {what}{others}", told.get(state, action))


def _read(path: Path, rule: TableRule, hints: Hints) -> RawTable:
    import polars as pl

    file = open_table(path, rule.csv, hints)
    asked = rule.only or tuple(name for name in file.names if name)
    for name in rule.columns:
        place_of(path, file.names, name)
    places = [place_of(path, file.names, name) for name in asked if name not in rule.drop]
    for place in places:
        if fault := file.why_unreadable(place, dates=True):
            raise BadTable(path, f"column {file.names[place]!r} {fault}", "Write it as numbers or text, or drop it")
    if not places:
        raise BadTable(path, "has no column that is to be read", "Correct which columns are left out")
    parts: list[list[pl.Series]] = [[] for _ in places]
    lines = file.read(places, lambda index, part: parts[index].append(part))
    columns = []
    for place, of_column in zip(places, parts, strict=True):
        name = file.names[place]
        series = pl.concat(of_column).rename(name)
        of_column.clear()
        columns.append(_column(path, series, rule.columns.get(name), rule.missing, file, lines, hints))
    return RawTable(pl.DataFrame(columns), lines)


def _column(
    path: Path,
    series: pl.Series,
    rule: CellRule | None,
    missing: Sequence[str],
    file: TableFile,
    lines: Lines,
    hints: Hints,
) -> pl.Series:
    """One column by its rule, if it has one."""
    import polars as pl

    wanted = (rule or CellRule()).wanted(series.name, series.name, missing)
    if rule is not None and (rule.codes is not None or rule.changes_unit):
        column = read_cells(series, wanted, file.decimal_comma)
        check_cells(path, series.name, column, lines, hints)
        return pl.Series(series.name, column.values).fill_nan(None)
    if series.dtype.is_numeric():
        values = series.fill_nan(None) if series.dtype.is_float() else series
        numbers = [number for number in map(_number, wanted.missing) if number is not None]
        if wanted.renamed:
            return renamed(series, wanted)
        kept = pl.when(values.is_in(numbers)).then(None).otherwise(values) if numbers else pl.lit(values)
        return pl.select(kept).to_series().rename(series.name)
    if series.dtype == pl.Boolean and not wanted.renamed:
        return series
    texts = series.cast(pl.String).str.strip_chars()
    gone = texts.is_in(["", *(text.strip() for text in wanted.missing)])
    texts = pl.select(pl.when(gone).then(None).otherwise(texts)).to_series().rename(series.name)
    if file.decimal_comma:
        texts = _with_points(path, texts, lines, hints)
    return renamed(texts, wanted) if wanted.renamed else texts


def _with_points(path: Path, texts: pl.Series, lines: Lines, hints: Hints) -> pl.Series:
    """Numbers with a decimal comma as numbers with a point. Raises BadTable where a column of numbers has points."""
    commas, points = texts.str.contains(_COMMA).fill_null(False), texts.str.contains(_POINT).fill_null(False)
    whole = texts.str.contains(r"^[+-]?\d+$").fill_null(True)
    if points.any() and (commas.any() or (points | whole).all()):
        where = f"{lines.place(int(np.flatnonzero(points.to_numpy())[0]))}, column {texts.name!r}"
        what = f"{where}: the value {FAULTS[ValueState.DECIMAL_POINT][0]}"
        raise BadTable(path, what, hints.no_decimal_comma)
    import polars as pl

    return pl.select(pl.when(commas).then(texts.str.replace(",", ".", literal=True)).otherwise(texts)).to_series()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _check_same(path: Path, names: Sequence[str], first: Path, others: Sequence[str]) -> None:
    for lacking, having, columns, wanted in ((path, first, names, others), (first, path, others, names)):
        absent = [name for name in wanted if name not in columns]
        if absent:
            action = "Give all files the same columns, or leave it out"
            raise BadTable(lacking, f"has no column {absent[0]!r}, which {having.name} has", action)
