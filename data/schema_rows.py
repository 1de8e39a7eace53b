"""Rows of a file as the features of a schema: the pool of a student, an operator's public rows, rows to be judged.

A file has the schema's raw columns where it was made from some, else its features. Everything that is wrong is said at
once, by column, count and place; the value itself only of public rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.data.cells import FAULTS, ValueState, counted, far_from_public, outside
from consilium.data.encoding import cells_of, features_from
from consilium.data.files import BadTable, CsvRule
from consilium.data.remedy import quoted
from consilium.data.table import TableRule, read_raw
from consilium.data.texts import texts_of
from consilium.protocol.schema import ColumnEncoding, Schema

NO_LABEL = -1
_MOST_SHOWN = 5
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Reading:
    """How a file is read. public: whether its values may be quoted.

    missing: texts that mean "missing", besides empty ones. label: name of the column with the classes, if any.
    """

    csv: CsvRule
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
        note(remarks, name, unknown, f"hold a value that is none of {_names(column.values)}", shown=how.public)
        if column.kind == "number":
            for rows, fault in _odd(schema, name, read.values):
                note(remarks, name, rows, fault)
    if how.label is not None:
        index = {name: place for place, name in enumerate(schema.classes)}
        texts = texts_of(frame[how.label])
        y = np.array([NO_LABEL if text is None else index.get(text, -2) for text in texts], dtype=np.int64)
        action = f"the classes are {_names(schema.classes)}"
        note(faults, how.label, np.flatnonzero(y < NO_LABEL), "have a label that is no class", action, how.public)
    if faults:
        more = [f"and {len(faults) - _MOST_SHOWN} more"] if len(faults) > _MOST_SHOWN else []
        raise BadTable(path, " | ".join([*faults[:_MOST_SHOWN], *more]), "")
    ignored = tuple(name for name in table.names if name and name not in wanted)
    return SchemaRows(schema.filled(np.concatenate(parts, axis=1)), y, ignored, tuple(remarks), strange)


def _names(names: Sequence[str]) -> str:
    return quoted(names, _MOST_SHOWN)


def _odd(schema: Schema, name: str, values: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Where values are those that the schema can hardly have been made for: another unit, or code."""
    place = schema.features.index(name)
    allowed = [each for each in schema.ranges if each.feature == name]
    wrong = [each for limits in allowed for each in outside(values, limits) if len(each[0])]
    return wrong or list(far_from_public(values, schema.center[place], schema.scale[place]))
