"""A whole table of raw values, from one file or several that have the same columns; and its rows as the features of a
schema: the pool of a student, an operator's public rows, rows to be judged. Everything that is wrong is said at once,
by column, count and place; the value itself only of public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from pydantic import Field

from consilium.data.cells import (
    COMMA,
    FAULTS,
    CellRule,
    ValueState,
    Wanted,
    cell_faults,
    counted,
    far_from_public,
    outside,
    read_cells,
    renamed,
)
from consilium.data.encoding import cells_of, features_from
from consilium.data.files import BadTable, CsvRule, Lines, open_table
from consilium.data.remedy import Faults, quoted
from consilium.data.texts import texts_of, written
from consilium.protocol.files import unreadable
from consilium.protocol.models import Frozen
from consilium.protocol.schema import ColumnEncoding, Schema

if TYPE_CHECKING:
    import polars as pl

_POINT = r"^[+-]?\d*\.\d[\d.]*([eE][+-]?\d+)?$"
_DAY = r"^\d{1,2}\.\d{1,2}\.(\d{4}|\d{2})$"
"""31.12.2024: no number, and so none with a point."""


class TableRule(Frozen):
    """How a whole table is read. `columns`: rules of some; all others are taken as they stand. only: columns to read;
    all where there are none. drop: columns that nobody needs, left out where they cannot be read, or have no name ("").
    missing: texts that mean "missing"."""

    csv: CsvRule = CsvRule()
    columns: dict[str, CellRule] = Field(default_factory=dict)
    only: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawTable:
    """`frame`: text, numbers and truth values, null where one is missing. `lines`: where each row stands. names: of
    all columns of the first file."""

    frame: pl.DataFrame = field(repr=False)
    lines: Lines
    names: tuple[str, ...]


def read_raw(paths: Sequence[Path], rule: TableRule, faults: Faults | None = None) -> RawTable:
    """Files as one table of raw values, for `encoding.infer` and `encoding.encode`. CSV gives text, even of numbers, so
    that no row decides what the others are; of `decimal_comma` with points instead. Parquet gives numbers, truth values
    and categories as they are, and dates as text. Text has no spaces around; empty text, NaN among numbers and
    `missing` are null. Columns without a name must be empty. No error quotes a cell. faults: notes there what is wrong
    with lines and cells, and gives the rest. Raises DataError: a file cannot be read, lacks a column that another one
    has, or has a cell that its rule does not allow. PathError, StorageError: it is not there."""
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
    return RawTable(below(frames), Lines.joined([part.lines for part in parts]), parts[0].names)


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


def _read(path: Path, rule: TableRule, noted: Faults) -> RawTable:
    """One file. Raises DataError for columns that are not there once, or unreadable."""
    import polars as pl

    file, faults = open_table(path, rule.csv), Faults()
    names, places = file.names, list[int]()
    wanted = rule.only or tuple(filter(None, names))
    asked = dict.fromkeys([*rule.columns, *wanted, *rule.drop])
    if absent := [name for name in asked if name not in names and name not in rule.drop]:
        shown = quoted(names, 10)
        faults.append(BadTable(path, f"has no column {quoted(absent, 10)}", f"It has {shown}", absent[0]))
    for name in [name for name in asked if name in names]:
        count, unreadable = names.count(name), file.why_unreadable(names.index(name), dates=True)
        if count == 1 and not unreadable:
            places += [names.index(name)] * (name in wanted)
        elif name not in rule.drop:
            what = f"has {count} columns named {name!r}" if count > 1 else f"column {name!r} {unreadable}"
            action = "Rename all but one" if count > 1 else "Write it as numbers or text, or drop it"
            faults.append(BadTable(path, what, action, name, {"drop": [name]}))
    faults.check(str(path))
    places, unnamed = places if rule.only else sorted(places), list[int]()
    if not rule.only and "" not in rule.drop:
        unnamed = [place for place, name in enumerate(names) if not name]
    read = file.read([*places, *unnamed])
    if read.torn is not None:
        noted.append(read.torn)
    series = [cast("pl.Series", column) for column in read.columns]
    if any((column.cast(pl.String).str.strip_chars().fill_null("") != "").any() for column in series[len(places) :]):
        action = 'Name it in the heading, or leave it out: drop = [""]'
        noted.append(BadTable(path, "has values in a column without a name", action, keys={"drop": [""]}))
    named = [column.rename(names[place]) for column, place in zip(series, places, strict=False)]
    columns = [_ruled(column, rule, file.decimal_comma, path, read.lines, noted) for column in named]
    return RawTable(pl.DataFrame(columns), read.lines, names)


def ruled(frame: pl.DataFrame, rule: TableRule, lines: Lines) -> pl.DataFrame:
    """A table that is in memory as `read_raw` gives that of a file. Raises DataError: `rule` names a column that is not
    there, or a cell is none that it allows."""
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
    if not cells.values:
        return series
    series = renamed(series, wanted)
    return series.cast(pl.Categorical) if declared else series


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


NO_LABEL = -1
_MOST_SHOWN = 5
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Reading:
    """How a file is read. public: whether its values may be quoted. missing: texts that mean "missing", besides empty
    ones. label: name of the column with the classes, if any."""

    csv: CsvRule
    public: bool = False
    missing: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True)
class SchemaRows:
    """`x` float32 (n, features), raw, in the schema's order, the public mean where a value is missing. y: int64 (n,)
    indices into the classes, NO_LABEL where a row has none; None where no label was asked for. ignored: columns that
    nobody asked for. remarks: what is odd, though the rows can be used. strange: bool (n,), rows with a category that
    the schema does not have: all zeros, which of two values means the first."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray | None = field(repr=False)
    ignored: tuple[str, ...]
    remarks: tuple[str, ...]
    strange: np.ndarray = field(repr=False)


def read_schema_rows(path: Path, schema: Schema, how: Reading) -> SchemaRows:
    """Read and check a file. Its columns may come in any order. Raises BadTable: it cannot be read, lacks a column, or
    has values that are none: all of them, in one text. PathError."""
    columns = schema.columns or tuple(ColumnEncoding(column=name, kind="number") for name in schema.features)
    wanted = dict.fromkeys([*(column.column for column in columns), *filter(None, [how.label])])
    table = read_raw([path], TableRule(csv=how.csv, missing=how.missing, only=tuple(wanted)))
    frame, faults, remarks = table.frame, list[str](), list[str]()
    strange, y = np.zeros(frame.height, dtype=bool), None

    def note(notes: list[str], name: str, rows: np.ndarray, what: str, action: str = "", shown: bool = False) -> None:
        if len(rows):
            cell = f", {str(frame[name][int(rows[0])])[:_LONGEST_SHOWN]!r}" if shown else ""
            notes.append(f"{name}: {counted(table.lines, rows, what, cell)}" + (f"; {action}" if action else ""))

    parts = []
    for column in columns:
        name, read = column.column, cells_of(frame, column)
        parts.append(features_from(read, column))
        for state, (fault, cure) in FAULTS.items():
            action = cure if state == ValueState.DECIMAL_COMMA else "numbers are asked for"
            note(faults, name, read.rows(state), fault, action, how.public)
        absent, unknown = read.rows(ValueState.MISSING), read.rows(ValueState.UNKNOWN_CATEGORY)
        if column.missing:
            note(remarks, name, absent, f"have no value: {column.features[-1]!r} says so")
        else:
            action = "fill them or leave these rows out: the schema has no feature for missing values here"
            note(faults, name, absent, "have no value", action)
        strange[unknown] = True
        note(
            remarks,
            name,
            unknown,
            f"hold a value that is none of {quoted(column.values, _MOST_SHOWN)}",
            shown=how.public,
        )
        if column.kind == "number":
            for rows, fault in _odd(schema, name, read.values):
                note(remarks, name, rows, fault)
    if how.label is not None:
        index = {name: place for place, name in enumerate(schema.classes)}
        texts = texts_of(frame[how.label])
        y = np.array([NO_LABEL if text is None else index.get(text, -2) for text in texts], dtype=np.int64)
        action = f"the classes are {quoted(schema.classes, _MOST_SHOWN)}"
        note(faults, how.label, np.flatnonzero(y < NO_LABEL), "have a label that is no class", action, how.public)
    if faults:
        more = [f"and {len(faults) - _MOST_SHOWN} more"] if len(faults) > _MOST_SHOWN else []
        raise BadTable(path, " | ".join([*faults[:_MOST_SHOWN], *more]), "")
    ignored = tuple(name for name in table.names if name and name not in wanted)
    return SchemaRows(schema.filled(np.concatenate(parts, axis=1)), y, ignored, tuple(remarks), strange)


def _odd(schema: Schema, name: str, values: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Where values are those that the schema can hardly have been made for: another unit, or code."""
    place = schema.features.index(name)
    allowed = [each for each in schema.ranges if each.feature == name]
    wrong = [each for limits in allowed for each in outside(values, limits) if len(each[0])]
    return wrong or list(far_from_public(values, schema.center[place], schema.scale[place]))
