"""The rows that somebody wants predictions for: a CSV file in raw units, matched by the columns' names.

Everything that is wrong is said at once, by column, count and line, and no value of a row is ever quoted.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import unreadable
from consilium.protocol.rows.columns import Column, ValueState, Wanted, from_text
from consilium.protocol.rows.csv_files import CsvRule, foreign_kind, is_number, other_separator
from consilium.protocol.rows.schema import Schema

_MOST_SHOWN = 5
_FAR = 10.0
_SHIFTED = 3.0
_LEAST_FOR_A_MEAN = 20
_FAULTS = {
    ValueState.MISSING: ("have no value", "fill them or leave these rows out: the student takes no missing values"),
    ValueState.NOT_A_NUMBER: ("hold text that is no number", "the student takes numbers, coded as its card says"),
    ValueState.DECIMAL_COMMA: ("have a decimal comma", "use --decimal-comma"),
    ValueState.DECIMAL_POINT: ("have a decimal point in spite of --decimal-comma", "leave --decimal-comma away"),
    ValueState.INFINITE: ("are infinite or beyond float32", "correct them"),
}


class BadRows(DataError):
    """A file of rows that cannot be judged."""


@dataclass(frozen=True)
class RawRows:
    """`x` float64 (n, features) in the schema's order and units. `ignored`: columns that the student does not use.
    `told`: what is odd about values, though they can be judged."""

    x: np.ndarray = field(repr=False)
    ignored: tuple[str, ...]
    told: tuple[str, ...]


def read_rows(path: Path, schema: Schema, rule: CsvRule) -> RawRows:
    """Read and check the file. Columns may come in any order; those that the schema does not have are ignored.

    Raises
    ------
    BadRows : all that is wrong, in one text.
    """
    try:
        kind = foreign_kind(path)
        if kind is not None:
            raise BadRows(f"{path} is {kind}, not CSV" if kind else f"{path} is empty", "Export it as CSV in UTF-8")
        with open(path, encoding=rule.codec, newline="") as file:
            lines = csv.reader(file, delimiter=rule.separator, strict=True)
            names = [name.strip() for name in next(lines, [])]
            _check_header(path, names, schema, rule)
            cells, numbers = _cells(path, lines, len(names))
    except UnicodeDecodeError:
        raise BadRows(f"{path} is not {rule.encoding} text", "Save it as UTF-8, or use --encoding cp1252") from None
    except csv.Error:
        action = 'Look for a " that is opened and not closed'
        raise BadRows(f"{path} is not well-formed CSV: its quotes do not match", action) from None
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None
    columns = [_column(cells, names.index(name), name, rule) for name in schema.features]
    faults = [
        f"{name}: {len(lines)} of {len(numbers)} rows {what} (first: line {numbers[lines[0]]}); {action}"
        for name, column in zip(schema.features, columns, strict=True)
        for state, (what, action) in _FAULTS.items()
        if len(lines := np.flatnonzero(column.states == state))
    ]
    if faults:
        raise BadRows(f"{path}: {_shown(faults)}")
    x = np.stack([column.values for column in columns], axis=1)
    ignored = tuple(name for name in names if name not in schema.features)
    return RawRows(x, ignored, tuple(_odd(x, schema, numbers)))


def _check_header(path: Path, names: Sequence[str], schema: Schema, rule: CsvRule) -> None:
    absent = [name for name in schema.features if name not in names]
    if not absent and not (double := [name for name in schema.features if names.count(name) > 1]):
        return
    if not any(names):
        raise BadRows(f"{path} has an empty first line", "The first line must name the columns")
    if other := other_separator(names, rule):
        mark = "tab" if other == "\t" else f'"{other}"'
        raise BadRows(f"{path} has one column only when split at {rule.separator!r}", f"Use --separator {mark}")
    if absent and all(is_number(name) for name in names):
        raise BadRows(f"{path} has nothing but numbers in its first line", "The first line must name the columns")
    if absent:
        told = []
        for name in absent:
            near = difflib.get_close_matches(name, [other for other in names if other not in schema.features], 1, 0.7)
            told.append(f"{name!r}" + (f" (the file has {near[0]!r})" if near else ""))
        what = f"{path} lacks {len(absent)} of the student's {len(schema.features)} columns: {_shown(told, ', ')}"
        raise BadRows(what, "Rename or add them; the student's card lists all")
    raise BadRows(f"{path} has more than one column named {_shown([repr(name) for name in double], ', ')}",
                  "Rename all but one")  # fmt: skip


def _cells(path: Path, lines: Iterator[list[str]], width: int) -> tuple[list[list[str]], list[int]]:
    """The fields of each row, and the line of the file on which it ends."""
    cells, numbers, torn = [], [], []
    for line in lines:
        if not line:
            continue  # an empty line is no row
        cells.append(line)
        numbers.append(lines.line_num)  # pyright: ignore[reportAttributeAccessIssue]  # a csv.reader
        if len(line) != width:
            torn.append(numbers[-1])
    if torn:
        what = f"{len(torn)} of {len(cells)} rows have more or fewer fields than the header's {width}"
        action = "Look for a decimal comma, or for separators in text that stands in no quotes"
        raise BadRows(f"{path}: {what} (first: line {torn[0]})", action)
    if not cells:
        raise BadRows(f"{path} has a header and no rows", "Export the data again")
    return cells, numbers


def _column(cells: list[list[str]], place: int, name: str, rule: CsvRule) -> Column:
    import polars as pl

    column = from_text(
        pl.Series("text", [line[place] for line in cells], dtype=pl.String), Wanted(name, name), rule.decimal_comma
    )
    states = column.states.copy()
    states[np.abs(column.values) > np.finfo(np.float32).max] = ValueState.INFINITE
    return Column(column.values, states)


def _odd(x: np.ndarray, schema: Schema, numbers: list[int]) -> Iterator[str]:
    """One line for each column whose values the student can hardly have been made for: another unit, another code."""
    ranges = {allowed.feature: allowed for allowed in schema.ranges}
    for name, values, center, scale in zip(schema.features, x.T, schema.center, schema.scale, strict=True):
        allowed = ranges.get(name)
        if allowed is not None:
            wrong = (values < allowed.low) | (values > allowed.high)
            if wrong.any():
                yield _told(name, wrong, numbers, f"are outside its range, {allowed.low:g} to {allowed.high:g}")
            fractions = ~wrong & (values != np.round(values)) if allowed.whole else np.zeros(len(x), dtype=bool)
            if fractions.any():
                yield _told(name, fractions, numbers, "are no whole numbers")
            if wrong.any():
                continue
        with np.errstate(over="ignore"):
            far = np.abs(values - center) > _FAR * scale
        far &= (values != 0) & (values != 1)  # a rare category, as a column of its own
        shift = abs(float(values.mean()) - center) / scale
        if far.any():
            yield _told(name, far, numbers, f"are {_FAR:g} standard deviations or more from the public rows' mean")
        elif len(x) >= _LEAST_FOR_A_MEAN and shift > _SHIFTED:
            yield (
                f"{name}: its mean is {shift:.1f} standard deviations from that of the public rows:"
                " is it in the card's unit, and not standardised already?"
            )


def _told(name: str, rows: np.ndarray, numbers: list[int], what: str) -> str:
    found = np.flatnonzero(rows)
    return f"{name}: {len(found)} of {len(rows)} rows {what} (first: line {numbers[found[0]]})"


def _shown(items: Sequence[str], between: str = " | ") -> str:
    more = f"{between}and {len(items) - _MOST_SHOWN} more" if len(items) > _MOST_SHOWN else ""
    return between.join(items[:_MOST_SHOWN]) + more
