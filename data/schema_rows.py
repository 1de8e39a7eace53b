"""Rows of a file as the features of a schema: the pool of a student, an operator's public rows, rows to be judged.

A file has the schema's raw columns where it was made from some, or its features. Everything that is wrong is said at
once, by column, count and place; the value itself only of public rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.data.cells import ValueState, texts_of
from consilium.data.distances import FAR, SHIFTED, compared
from consilium.data.encoding import Doubt, encode
from consilium.data.files import BadTable, CsvRule, Hints, open_table
from consilium.data.table import RawTable, TableRule, read_raw
from consilium.protocol.files import unreadable
from consilium.protocol.rows.schema import ColumnEncoding, Schema

NO_LABEL = -1
_MOST_SHOWN = 5
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Reading:
    """How a file is read. `whose`: columns are asked for, in messages. public: whether its values may be quoted.

    missing: texts that mean "missing", besides empty ones. label: name of the column with the classes, if there is one.
    """

    csv: CsvRule
    hints: Hints
    whose: str
    public: bool = False
    missing: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True)
class SchemaRows:
    """`x` float32 (n, features), raw, in the schema's order, the public mean where a value is missing.

    y: int64 (n,) indices into the classes, NO_LABEL where a row has none; None where no label was asked for. ignored:
    columns that nobody asked for. told: what is odd, though the rows can be used. lines: where each row stands.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray | None = field(repr=False)
    ignored: tuple[str, ...]
    told: tuple[str, ...]


def read_schema_rows(path: Path, schema: Schema, how: Reading) -> SchemaRows:
    """Read and check a file. Its columns may come in any order.

    Raises
    ------
    BadTable : it cannot be read, lacks a column, or has values that are none: all of them, in one text. PathError
    """
    try:
        names = open_table(path, how.csv, how.hints).names
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None
    columns = _columns(schema, names)
    asked = [column.column for column in columns]
    _check_names(path, names, [*asked, *([how.label] if how.label else [])], how.whose)
    rule = TableRule(csv=how.csv, missing=how.missing, only=tuple(dict.fromkeys([*asked, *filter(None, [how.label])])))
    table = read_raw([path], rule, how.hints)
    x, doubts = encode(table.frame, columns)
    faults = [*_faults(table, doubts, how), *_missing(table, columns)]
    y = None
    if how.label is not None:
        y, wrong = _labels(table, how.label, schema, how.public)
        faults += wrong
    if faults:
        raise BadTable(path, _shown(faults), "")
    told = [*_unknown(table, columns, doubts, how), *_filled(table, columns), *_odd(table, columns, x, schema)]
    ignored = tuple(name for name in names if name not in (*asked, how.label) and name)
    return SchemaRows(schema.filled(x), y, ignored, tuple(told))


def _columns(schema: Schema, names: Sequence[str]) -> tuple[ColumnEncoding, ...]:
    """What is read: the schema's columns, or each feature as a number."""
    raw = {column.column for column in schema.columns}
    if raw and (raw <= set(names) or not set(schema.features) <= set(names)):
        return schema.columns
    return tuple(ColumnEncoding(column=name, kind="number") for name in schema.features)


def _check_names(path: Path, names: Sequence[str], asked: Sequence[str], whose: str) -> None:
    absent = [name for name in asked if name not in names]
    if absent:
        others, told = [name for name in names if name not in asked], []
        for name in absent:
            near = difflib.get_close_matches(name, others, 1, 0.7)
            told.append(f"{name!r}" + (f" (the file has {near[0]!r})" if near else ""))
        what = f"lacks {len(absent)} of {whose} {len(asked)} columns: {_shown(told, ', ')}"
        raise BadTable(path, what, "Rename or add them")
    double = [repr(name) for name in asked if names.count(name) > 1]
    if double:
        raise BadTable(path, f"has more than one column named {_shown(double, ', ')}", "Rename all but one")


def _faults(table: RawTable, doubts: Sequence[Doubt], how: Reading) -> Iterator[str]:
    """Values that are no numbers."""
    states = {
        ValueState.NOT_A_NUMBER: ("hold text that is no number", "numbers are asked for"),
        ValueState.DECIMAL_COMMA: ("have a decimal comma", how.hints.decimal_comma),
        ValueState.INFINITE: ("are infinite or beyond float32", "correct them"),
    }
    for doubt in doubts:
        if doubt.state in states:
            what, action = states[doubt.state]
            yield f"{_told(table, doubt.column, doubt.rows, what, how.public)}; {action}"


def _missing(table: RawTable, columns: Sequence[ColumnEncoding]) -> Iterator[str]:
    """Values that are missing where the public rows that made the schema had all of them."""
    for column in columns:
        rows = np.flatnonzero(_absent(table, column))
        if len(rows) and not column.missing:
            action = "fill them or leave these rows out: the schema has no feature for missing values here"
            yield f"{_told(table, column.column, rows, 'have no value')}; {action}"


def _absent(table: RawTable, column: ColumnEncoding) -> np.ndarray:
    series = table.frame[column.column]
    texts = texts_of(series)
    nothing = texts.is_null()
    if column.kind == "number":
        nothing |= texts.str.to_lowercase().is_in(["nan", "+nan", "-nan"]).fill_null(True)
    return nothing.to_numpy()


def _labels(table: RawTable, label: str, schema: Schema, public: bool) -> tuple[np.ndarray, list[str]]:
    """Indices of the classes, and what is wrong with them."""
    texts = texts_of(table.frame[label])
    index = {name: place for place, name in enumerate(schema.classes)}
    y = np.array([NO_LABEL if text is None else index.get(text, -2) for text in texts], dtype=np.int64)
    strange = np.flatnonzero(y < NO_LABEL)
    if not len(strange):
        return y, []
    classes = _shown([repr(name) for name in schema.classes], ", ")
    return y, [f"{_told(table, label, strange, 'have a label that is no class', public)}; the classes are {classes}"]


def _unknown(
    table: RawTable, columns: Sequence[ColumnEncoding], doubts: Sequence[Doubt], how: Reading
) -> Iterator[str]:
    known = {column.column: column.values for column in columns}
    for doubt in doubts:
        if doubt.state == ValueState.UNKNOWN_CATEGORY:
            what = f"hold a value that is none of {_shown([repr(name) for name in known[doubt.column]], ', ')}"
            yield _told(table, doubt.column, doubt.rows, what, how.public)


def _filled(table: RawTable, columns: Sequence[ColumnEncoding]) -> Iterator[str]:
    for column in columns:
        rows = np.flatnonzero(_absent(table, column)) if column.missing else ()
        if len(rows):
            yield _told(table, column.column, np.asarray(rows), f"have no value: {column.features[-1]!r} says so")


def _odd(table: RawTable, columns: Sequence[ColumnEncoding], x: np.ndarray, schema: Schema) -> Iterator[str]:
    """One line for each column whose values the schema can hardly have been made for: another unit, another code."""
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    for column in columns:
        if column.kind != "number":
            continue
        place = schema.features.index(column.column)
        there = np.flatnonzero(~np.isnan(x[:, place]))
        values, name = x[there, place], column.column
        allowed = ranges.get(name)
        if allowed is not None:
            wrong = (values < np.float32(allowed.low)) | (values > np.float32(allowed.high))
            if wrong.any():
                yield _told(table, name, there[wrong], f"are outside its range, {allowed.low:g} to {allowed.high:g}")
            fractions = ~wrong & (values != np.round(values)) if allowed.whole else wrong & False
            if fractions.any():
                yield _told(table, name, there[fractions], "are no whole numbers")
            if wrong.any():
                continue
        if not len(values):
            continue
        found = compared(values.astype(np.float64), schema.center[place], schema.scale[place])
        if found.far.any():
            what = f"are {FAR:g} standard deviations or more from the public rows' mean"
            yield _told(table, name, there[found.far], what)
        elif found.shift > SHIFTED:
            yield (
                f"{name}: its mean is {found.shift:.1f} standard deviations from that of the public rows:"
                " is it in the schema's unit, and not standardised already?"
            )


def _told(table: RawTable, name: str, rows: np.ndarray, what: str, quoted: bool = False) -> str:
    first = int(rows[0])
    value = f", {str(table.frame[name][first])[:_LONGEST_SHOWN]!r}" if quoted else ""
    return f"{name}: {len(rows)} of {table.frame.height} rows {what} (first: {table.lines.place(first)}{value})"


def _shown(items: Sequence[str], between: str = " | ") -> str:
    more = f"{between}and {len(items) - _MOST_SHOWN} more" if len(items) > _MOST_SHOWN else ""
    return between.join(items[:_MOST_SHOWN]) + more
