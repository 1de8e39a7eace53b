"""A table as it stands, whatever is wrong with its form: letters, separators, torn lines, names of columns."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from consilium.data.files import (
    BadTable,
    Encoding,
    Lines,
    OpenQuote,
    Record,
    Separator,
    foreign_kind,
    is_number,
    records,
    why_torn,
)
from consilium.data.remedy import SHOWN, Grade, TableFinding
from consilium.data.table import TableRule, below, read_raw
from consilium.protocol.files import unreadable

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class LooseTable:
    """frame: text without spaces around, null where empty; of Parquet as `read_raw` gives it. Rows of another length
    are left out, and counted among findings. csv: keys of `CsvRule` that read the file."""

    frame: pl.DataFrame = field(repr=False)
    lines: Lines = field(repr=False)
    csv: dict[str, Any]
    findings: tuple[TableFinding, ...]


def read_loosely(paths: Sequence[Path]) -> LooseTable:
    """Files one below the other, with all that is wrong with their form. A column that one lacks is empty there.

    Raises
    ------
    BadTable : a file is empty, binary, names no columns, or no row has as many fields as these. PathError : it cannot
        be read.
    """
    import polars as pl

    parts = [_read(path) for path in paths]
    names = list(dict.fromkeys(name for part in parts for name in part.frame.columns))
    frames = [
        part.frame.with_columns(pl.lit(None).alias(name) for name in names if name not in part.frame.columns)
        for part in parts
    ]
    findings = [finding for part in parts for finding in part.findings]
    if any(part.csv != parts[0].csv for part in parts):
        fault = "the files differ in separator or encoding"
        findings.append(TableFinding("files-differ", Grade.FILE, "", fault, "Export all files in one way"))
    frame = below([frame.select(names) for frame in frames])
    return LooseTable(frame, Lines.joined([part.lines for part in parts]), parts[0].csv, tuple(findings))


def _read(path: Path) -> LooseTable:
    if path.suffix.lower() == ".parquet":
        table = read_raw([path], TableRule())
        return LooseTable(table.frame, table.lines, {}, ())
    try:
        kind, raw = foreign_kind(path), path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None
    if kind or b"\0" in raw[:10_000]:
        raise BadTable(path, f"is {kind or 'binary'}, not CSV", "Export it as CSV in UTF-8")
    if not raw.strip():
        raise BadTable(path, "is empty", "Export the data again")
    findings: list[TableFinding] = []
    text, encoding = _decoded(raw, findings)
    mark = _separator(text)
    try:
        heading, *rows = [record for record in records(io.StringIO(text, newline=""), mark) if record.fields]
    except OpenQuote as error:
        raise BadTable(path, str(error.what), error.action) from None
    names = [name.strip() for name in heading.fields]
    if all(map(is_number, names)):
        raise BadTable(path, "has nothing but numbers in its first line", "The first line must name the columns")
    whole = _whole_rows(path, rows, names, findings)
    frame = _frame(heading, names, whole, findings)
    lines = Lines(((path.name, "line", np.array([record.last for record in whole], dtype=np.int64)),))
    keys: dict[str, Any] = {} if encoding == "utf-8" else {"encoding": encoding}
    return LooseTable(frame, lines, keys | ({} if mark == "," else {"separator": mark}), tuple(findings))


def heading_below(path: Path, names: set[str]) -> int:
    """The line of a later heading that has these names, where all lines below it have as many fields; 0 for none."""
    if path.suffix.lower() == ".parquet" or foreign_kind(path) is not None:
        return 0
    text, _ = _decoded(path.read_bytes(), [])
    for mark in get_args(Separator):
        with suppress(OpenQuote):
            first = list(islice(records(io.StringIO(text, newline=""), mark), _LINES))
            for place, record in enumerate(first):
                if names <= {name.strip() for name in record.fields}:
                    widths = {len(below.fields) for below in first[place + 1 :] if below.fields}
                    return record.first if place and widths == {len(record.fields)} else 0
    return 0


_LINES = 50
"""Among which a heading is looked for."""


def _decoded(raw: bytes, findings: list[TableFinding]) -> tuple[str, Encoding]:
    """The text, and in which encoding the reader takes it."""
    try:
        return raw.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        pass
    strange = [number for number, line in enumerate(raw.split(b"\n"), 1) if not _is_utf8(line)]
    fault, action = "letters are Windows ones, not UTF-8", 'Save it as UTF-8, or read it with encoding = "cp1252"'
    findings.append(TableFinding("encoding", Grade.LOOK, "", fault, action, **_numbered(strange)))
    try:
        return raw.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbered(numbers: Sequence[int]) -> dict[str, Any]:
    return {"count": len(numbers), "places": tuple(f"line {number}" for number in numbers[:SHOWN])}


def _separator(text: str) -> Separator:
    """At which most of the first lines have as many fields as the header."""
    start = "\n".join(text.splitlines()[:200])
    best: tuple[tuple[bool, float, int], Separator] = ((False, 0.0, 0), ",")
    for mark in get_args(Separator):
        widths = [len(line) for line in csv.reader(io.StringIO(start, newline=""), delimiter=mark) if line]
        score = (widths[0] > 1, widths.count(widths[0]) / len(widths), widths[0])
        best = max(best, (score, mark), key=lambda entry: entry[0])
    return best[1]


def _whole_rows(path: Path, rows: list[Record], names: list[str], findings: list[TableFinding]) -> list[Record]:
    """Those with a field for each name. Raises BadTable where there are none."""
    again = [record.last for record in rows if [text.strip() for text in record.fields] == names]
    torn = [record for record in rows if len(record.fields) != len(names)]
    whole = [record for record in rows if len(record.fields) == len(names) and record.last not in set(again)]
    if not whole:
        no_rows = ("has a header and no rows", "Export the data again")
        raise BadTable(path, *(why_torn(names, torn, len(rows)) if torn else no_rows))
    if torn:
        fault, action = why_torn(names, torn, len(rows))
        numbers = _numbered([record.last for record in torn])
        findings.append(TableFinding("lines-torn", Grade.FILE, "", fault, action, **numbers))
    if again:
        fault, action = "the header stands there again", "Leave these lines out"
        findings.append(TableFinding("lines-header", Grade.FILE, "", fault, action, **_numbered(again)))
    return whole


def _frame(heading: Record, names: list[str], rows: list[Record], findings: list[TableFinding]) -> pl.DataFrame:
    import polars as pl

    def note(code: str, grade: Grade, name: str, fault: str, action: str, count: int) -> None:
        findings.append(TableFinding(code, grade, name, fault, action, count, (f"line {heading.last}",)))

    columns, seen = {}, Counter[str]()
    for place, name in enumerate(names):
        if not name:
            continue
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name} ({seen[name]})"
        texts = pl.Series(unique, [record.fields[place] for record in rows], dtype=pl.String).str.strip_chars()
        columns[unique] = texts.replace("", None)
    for name, count in seen.items():
        if count > 1:
            note("name-twice", Grade.FILE, name, f"{count} columns have this name", "Rename all but one", count)
        if not name.isprintable():
            where = f"the heading, lines {heading.first} to {heading.last}, has a line break or control character in it"
            note("name-broken", Grade.FILE, name, where, "Rename the column", 1)
    if unnamed := names.count(""):
        note("no-name", Grade.LOOK, "", f"{unnamed} without a name", "Left out: name what is needed", unnamed)
    return pl.DataFrame(columns)
