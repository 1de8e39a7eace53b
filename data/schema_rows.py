"""Rows of a file as the features of a schema: the pool of a student, an operator's public rows, rows to be judged.

A file has the schema's raw columns where it was made from some, else its features. Everything that is wrong is said at
once, by column, count and place; the value itself only of public rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.data.cells import FAULTS, ValueState, counted, far_from_public, outside
from consilium.data.encoding import Doubt, encode
from consilium.data.files import BadTable, CsvRule, open_table
from consilium.data.remedy import quoted
from consilium.data.table import TableRule, read_raw
from consilium.data.texts import texts_of
from consilium.protocol.files import unreadable
from consilium.protocol.schema import ColumnEncoding, Schema

NO_LABEL = -1
_MOST_SHOWN = 5
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Reading:
    """How a file is read. `whose`: columns are asked for, in messages. public: whether its values may be quoted.

    missing: texts that mean "missing", besides empty ones. label: name of the column with the classes, if any.
    """

    csv: CsvRule
    whose: str
    public: bool = False
    missing: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True)
class SchemaRows:
    """`x` float32 (n, features), raw, in the schema's order, the public mean where a value is missing.

    y: int64 (n,) indices into the classes, NO_LABEL where a row has none; None where no label was asked for. ignored:
    columns that nobody asked for. remarks: what is odd, though the rows can be used. strange: bool (n,), rows with a
    category that the schema does not have: all zeros, which of two values means the first.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray | None = field(repr=False)
    ignored: tuple[str, ...]
    remarks: tuple[str, ...]
    strange: np.ndarray = field(repr=False)


def read_schema_rows(path: Path, schema: Schema, how: Reading) -> SchemaRows:
    """Read and check a file. Its columns may come in any order.

    Raises
    ------
    BadTable : it cannot be read, lacks a column, or has values that are none: all of them, in one text. PathError
    """
    try:
        names = open_table(path, how.csv).names
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None
    return _SchemaFile(path, schema, how, names).rows()


class _SchemaFile:
    """A file whose columns are there."""

    def __init__(self, path: Path, schema: Schema, how: Reading, names: Sequence[str]) -> None:
        self.path, self.schema, self.how = path, schema, how
        numbers = (ColumnEncoding(column=name, kind="number") for name in schema.features)
        self.columns = schema.columns or tuple(numbers)
        label = [how.label] if how.label else []
        wanted = tuple(dict.fromkeys([*(column.column for column in self.columns), *label]))
        self._check_names(names, wanted)
        self.ignored = tuple(name for name in names if name and name not in wanted)
        rule = TableRule(csv=how.csv, missing=how.missing, only=wanted)
        self.table = read_raw([path], rule)

    def rows(self) -> SchemaRows:
        """See `read_schema_rows`."""
        x, doubts = encode(self.table.frame, self.columns)
        faults = [*self._no_numbers(doubts), *self._missing()]
        y = None
        if self.how.label is not None:
            y, wrong = self._labels(self.how.label)
            faults += wrong
        if faults:
            raise BadTable(self.path, _shown(faults), "")
        remarks = (*self._unknown(doubts), *self._filled(), *self._odd(x))
        strange = np.zeros(len(x), dtype=bool)
        for doubt in doubts:
            strange[doubt.rows] |= doubt.state == ValueState.UNKNOWN_CATEGORY
        return SchemaRows(self.schema.filled(x), y, self.ignored, remarks, strange)

    def _check_names(self, names: Sequence[str], wanted: Sequence[str]) -> None:
        if absent := [name for name in wanted if name not in names]:
            others = [name for name in names if name not in wanted]
            near = {name: difflib.get_close_matches(name, others, 1, 0.7) for name in absent}
            shown = [f"{name!r}" + (f" (the file has {near[name][0]!r})" if near[name] else "") for name in absent]
            fault = f"lacks {len(absent)} of {self.how.whose} {len(wanted)} columns: {_shown(shown, ', ')}"
            raise BadTable(self.path, fault, "Rename or add them")
        if double := [repr(name) for name in wanted if names.count(name) > 1]:
            raise BadTable(self.path, f"has more than one column named {_shown(double, ', ')}", "Rename all but one")

    def _no_numbers(self, doubts: Sequence[Doubt]) -> Iterator[str]:
        for doubt in doubts:
            if doubt.state in FAULTS:
                fault, action = FAULTS[doubt.state]
                if doubt.state != ValueState.DECIMAL_COMMA:
                    action = "numbers are asked for"
                yield f"{self._counted(doubt.column, doubt.rows, fault, self.how.public)}; {action}"

    def _missing(self) -> Iterator[str]:
        """Values that are missing where the public rows that made the schema had all of them."""
        for column in self.columns:
            if len(rows := self._absent(column)) and not column.missing:
                action = "fill them or leave these rows out: the schema has no feature for missing values here"
                yield f"{self._counted(column.column, rows, 'have no value')}; {action}"

    def _filled(self) -> Iterator[str]:
        for column in self.columns:
            if column.missing and len(rows := self._absent(column)):
                yield self._counted(column.column, rows, f"have no value: {column.features[-1]!r} says so")

    def _absent(self, column: ColumnEncoding) -> np.ndarray:
        texts = texts_of(self.table.frame[column.column])
        absent = texts.is_null()
        if column.kind == "number":
            absent |= texts.str.to_lowercase().is_in(["nan", "+nan", "-nan"]).fill_null(True)
        return np.flatnonzero(absent.to_numpy())

    def _labels(self, label: str) -> tuple[np.ndarray, list[str]]:
        """Indices of the classes, and what is wrong with them."""
        index = {name: place for place, name in enumerate(self.schema.classes)}
        texts = texts_of(self.table.frame[label])
        y = np.array([NO_LABEL if text is None else index.get(text, -2) for text in texts], dtype=np.int64)
        strange = np.flatnonzero(y < NO_LABEL)
        if not len(strange):
            return y, []
        classes = quoted(self.schema.classes, _MOST_SHOWN)
        fault = self._counted(label, strange, "have a label that is no class", self.how.public)
        return y, [f"{fault}; the classes are {classes}"]

    def _unknown(self, doubts: Sequence[Doubt]) -> Iterator[str]:
        known = {column.column: column.values for column in self.columns}
        for doubt in doubts:
            if doubt.state == ValueState.UNKNOWN_CATEGORY:
                values = quoted(known[doubt.column], _MOST_SHOWN)
                remark = f"hold a value that is none of {values}"
                yield self._counted(doubt.column, doubt.rows, remark, self.how.public)

    def _odd(self, x: np.ndarray) -> Iterator[str]:
        """Each column whose values the schema can hardly have been made for: another unit, or code."""
        schema, ranges = self.schema, {allowed.feature: allowed for allowed in self.schema.ranges}
        for name in [column.column for column in self.columns if column.kind == "number"]:
            place = schema.features.index(name)
            values = x[:, place].astype(np.float64)
            wrong = [*outside(values, ranges[name])] if name in ranges else []
            if not any(len(rows) for rows, _ in wrong):
                wrong = [*far_from_public(values, schema.center[place], schema.scale[place])]
            yield from (self._counted(name, rows, fault) for rows, fault in wrong if len(rows))

    def _counted(self, name: str, rows: np.ndarray, fault: str, quoted: bool = False) -> str:
        cell = f", {str(self.table.frame[name][int(rows[0])])[:_LONGEST_SHOWN]!r}" if quoted else ""
        return f"{name}: {counted(self.table.lines, rows, fault, cell)}"


def _shown(items: Sequence[str], between: str = " | ") -> str:
    more = f"{between}and {len(items) - _MOST_SHOWN} more" if len(items) > _MOST_SHOWN else ""
    return between.join(items[:_MOST_SHOWN]) + more
