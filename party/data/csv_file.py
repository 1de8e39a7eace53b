"""Reader of .csv: one pass, a block of rows at a time; a field that is not mapped is dropped as soon as it is parsed.

The standard library's parser finds the fields, for it counts them: a line with one too many (a decimal comma) would
otherwise shift its values under other names unseen. Polars turns the text of mapped columns into numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path

from consilium.party.data.npz import absent_or_double, patient_of
from consilium.party.data.problems import Problem, Unreadable
from consilium.party.data.table import FileColumns
from consilium.protocol.rows.columns import Column, Wanted, from_text
from consilium.protocol.rows.csv_files import CsvRule, foreign_kind, is_number, other_separator

BLOCK = 10_000


def read(path: Path, wanted: Sequence[Wanted], rule: CsvRule, patient: str | None = None) -> FileColumns:
    """The columns that are wanted, and the texts of column `patient`.

    Raises
    ------
    Unreadable : not text in the encoding that `[csv]` names, no header, or no CSV. OSError
    """
    check_kind(path)
    try:
        with open(path, encoding=rule.codec, newline="") as file:
            lines = csv.reader(file, delimiter=rule.separator, strict=True)
            names = next(lines, [])
            _check_header(path, names, rule)
            return _columns(path, names, lines, wanted, rule, patient)
    except UnicodeDecodeError:
        action = 'Save it as UTF-8, or set encoding under [csv] to "cp1252" or "latin-1"'
        raise Unreadable(Problem(str(path), f"is not {rule.encoding} text", action)) from None
    except csv.Error:
        action = 'Look for a " that is opened and not closed, or for text after a closing one'
        raise Unreadable(Problem(str(path), "is not well-formed CSV: its quotes do not match", action)) from None


def check_kind(path: Path) -> None:
    """Raise Unreadable for files that carry the mark of another format, and for empty ones."""
    kind = foreign_kind(path)
    if kind == "":
        raise Unreadable(Problem(str(path), "is empty", "Export the data again"))
    if kind is not None:
        raise Unreadable(Problem(str(path), f"is {kind}, not CSV", "Export it as CSV in UTF-8"))


def _check_header(path: Path, names: Sequence[str], rule: CsvRule) -> None:
    if not any(name.strip() for name in names):
        raise Unreadable(Problem(str(path), "has an empty first line", "The first line must name the columns"))
    if other := other_separator(names, rule):
        what = f"has one column only when split at {rule.separator!r}"
        raise Unreadable(Problem(str(path), what, f"Set separator = {other!r} under [csv]"))
    if all(is_number(name) for name in names):
        what = "has nothing but numbers in its first line"
        raise Unreadable(Problem(str(path), what, "The first line must name the columns"))


def _columns(
    path: Path,
    names: list[str],
    lines: Iterator[list[str]],
    wanted: Sequence[Wanted],
    rule: CsvRule,
    patient: str | None,
) -> FileColumns:
    import polars as pl

    problems = [absent_or_double(column, names) for column in wanted if names.count(column.column) != 1]
    picked = [names.index(column.column) if names.count(column.column) == 1 else None for column in wanted]
    whose = names.index(patient) if patient is not None and names.count(patient) == 1 else None
    if patient is not None and whose is None:
        problems.append(absent_or_double(patient_of(patient), names))
    patients: list[str] = []
    parts: list[list[Column]] = [[] for _ in wanted]
    width, total, torn = len(names), 0, 0
    while block := list(islice(lines, BLOCK)):
        block = [line for line in block if line]  # an empty line is no row
        total += len(block)
        whole = [line for line in block if len(line) == width]
        torn += len(block) - len(whole)
        for position, column, part in zip(picked, wanted, parts, strict=True):
            if position is None:
                continue
            texts = pl.Series("text", list(map(itemgetter(position), whole)), dtype=pl.String)
            part.append(from_text(texts, column, rule.decimal_comma))
        if whose is not None:
            patients.extend(line[whose].strip() for line in whole)
    if torn:
        what = f"{torn} of {total} rows have more or fewer fields than the header's {width}"
        action = "Look for a decimal comma, or for separators in text that stands in no quotes"
        problems.append(Problem(str(path), what, action))
    if total == 0:
        raise Unreadable(Problem(str(path), "has a header and no rows", "Export the data again"))
    columns: list[Column | None] = []
    for part in parts:
        columns.append(Column.joined(part) if part else None)
        part.clear()  # half of the memory, where files are large
    return FileColumns(columns, problems, None if whose is None else patients)
