"""A table as it stands, whatever is wrong with its form: letters, separators, quotes, torn lines, names of columns."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from consilium.data.files import BadTable, Encoding, Lines, Separator, foreign_kind
from consilium.data.table import TableRule, read_raw
from consilium.protocol.files import unreadable

if TYPE_CHECKING:
    import polars as pl

SHOWN = 3
"""Lines, and values, that a finding names."""


class Grade(StrEnum):
    """How bad it is, and who mends it: whoever has the file, or keys of the scenario."""

    FILE = "in the file first"
    MEND = "the scenario mends it"
    LOOK = "look at it"


@dataclass(frozen=True)
class TableFinding:
    """One fault or doubt. code: for programs. column: its name, or none of the whole table. count: cells, rows or
    owners concerned; places: where the first of them stand. values: the first few, quoted; none where rows are private.
    """

    code: str
    grade: Grade
    column: str
    fault: str
    action: str
    count: int = 0
    places: tuple[str, ...] = ()
    values: tuple[str, ...] = field(default=(), repr=False)

    @property
    def where(self) -> str:
        """Lines or rows in a few words.

        >>> TableFinding("", Grade.LOOK, "", "", "", 5, ("line 2", "line 9")).where
        'lines 2, 9 and 3 more'
        """
        if not self.places:
            return ""
        word, plain = self.places[0].split()[0], all(len(place.split()) == 2 for place in self.places)
        shown = ", ".join(place.split()[1] if plain else place for place in self.places)
        more = f" and {self.count - len(self.places)} more" if self.count > len(self.places) else ""
        return f"{word}{'s' if len(self.places) > 1 else ''} {shown}{more}" if plain else shown + more

    @property
    def text(self) -> str:
        """Where, and what is wrong."""
        where = ", ".join(filter(None, (f"column {self.column!r}" if self.column else "", self.where)))
        such = f" ({', '.join(map(repr, self.values))})" if self.values else ""
        return f"{where}{': ' if where else ''}{self.fault}{such}"

    def __str__(self) -> str:
        return f"{self.text}. {self.action}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "code": self.code, "grade": self.grade.value, "column": self.column or None, "fault": self.fault,
            "action": self.action, "count": self.count, "places": list(self.places), "values": list(self.values),
        }  # fmt: skip


@dataclass(frozen=True)
class LooseTable:
    """frame: text without spaces around, null where empty; of Parquet numbers and truth values as they are. Rows of
    another length are left out. csv: keys of `CsvRule` that read the file."""

    frame: pl.DataFrame = field(repr=False)
    lines: Lines = field(repr=False)
    csv: dict[str, Any]
    findings: tuple[TableFinding, ...]


def read_loosely(paths: Sequence[Path]) -> LooseTable:
    """Files one below the other, with all that is wrong with their form. A column that one lacks is
    empty there.

    Raises
    ------
    BadTable : a file is empty, binary, or names no columns. PathError : it cannot be read.
    """
    import polars as pl

    parts = [_read(path) for path in paths]
    joined = parts[0].frame if len(parts) == 1 else pl.concat([part.frame for part in parts], how="diagonal_relaxed")
    rules = {tuple(sorted(part.csv.items())) for part in parts}
    findings = [finding for part in parts for finding in part.findings]
    if len(rules) > 1:
        action = "Export all files in one way"
        findings.append(
            TableFinding("files-differ", Grade.FILE, "", "the files differ in separator or encoding", action)
        )
    return LooseTable(joined, Lines.joined([part.lines for part in parts]), parts[0].csv, tuple(findings))


def _read(path: Path) -> LooseTable:
    if path.suffix.lower() == ".parquet":
        table = read_raw([path], TableRule())
        return LooseTable(table.frame, table.lines, {}, ())
    try:
        kind = foreign_kind(path)
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, "Check the path and its rights") from None
    if kind or b"\0" in raw[:10_000]:
        raise BadTable(path, f"is {kind or 'binary'}, not CSV", "Export it as CSV in UTF-8")
    if not raw.strip():
        raise BadTable(path, "is empty", "Export the data again")
    findings: list[TableFinding] = []
    text, encoding = _decoded(raw, findings)
    mark = _separator(text)
    records = _records(path, text, mark, findings)
    names = [name.strip() for name in records[0][1]]
    if all(re.fullmatch(r"[+-]?\d+([.,]\d+)?", name) for name in names):
        raise BadTable(path, "has nothing but numbers in its first line", "The first line must name the columns")
    whole = _whole_rows(records, names, mark, findings)
    if not whole:
        raise BadTable(path, "has a header and no rows", "Export the data again")
    frame = _frame(names, whole, findings)
    lines = Lines(((path.name, "line", np.array([number for number, _ in whole], dtype=np.int64)),))
    keys = {"encoding": encoding, "separator": mark}
    standard = {"encoding": get_args(Encoding)[0], "separator": get_args(Separator)[0]}
    return LooseTable(frame, lines, {key: keys[key] for key in keys if keys[key] != standard[key]}, tuple(findings))


_TWICE = re.compile("Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|Â[°µ²³]|â€")
"""UTF-8 that was read as Windows letters, and written again."""


def _numbered(numbers: Sequence[int]) -> dict[str, Any]:
    return {"count": len(numbers), "places": tuple(f"line {number}" for number in numbers[:SHOWN])}


def _decoded(raw: bytes, findings: list[TableFinding]) -> tuple[str, Encoding]:
    """The text, and in which encoding the reader takes it."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    else:
        twice = [number for number, line in enumerate(text.splitlines(), 1) if _TWICE.search(line)]
        if twice:
            fault = "letters are garbled, as of UTF-8 that was read as Windows letters"
            findings.append(
                TableFinding("garbled", Grade.LOOK, "", fault, "Export it again, as UTF-8", **_numbered(twice))
            )
        return text, "utf-8"
    parts, utf8, other = [], [], []
    for number, line in enumerate(raw.split(b"\n"), 1):
        try:
            parts.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            utf8 += [] if line.isascii() else [number]
        except UnicodeDecodeError:
            parts.append(line.decode("cp1252", errors="replace"))
            other.append(number)
    if utf8:
        fault = f"most letters are UTF-8 in {len(utf8)} lines and Windows letters in {len(other)}"
        fewer = other if len(other) <= len(utf8) else utf8
        action = "Export it again, as UTF-8: as it is, some letters are read wrongly"
        findings.append(TableFinding("mixed-encodings", Grade.FILE, "", fault, action, **_numbered(fewer)))
    else:
        action = 'Save it as UTF-8, or read it with encoding = "cp1252"'
        findings.append(
            TableFinding("encoding", Grade.LOOK, "", "letters are Windows ones, not UTF-8", action, **_numbered(other))
        )
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        return "\n".join(parts), "latin-1"
    return "\n".join(parts), "cp1252"


def _separator(text: str) -> Separator:
    """At which most of the first lines have as many fields as the header."""
    start = "\n".join(text.splitlines()[:200])
    best: tuple[tuple[bool, float, int], Separator] = ((False, 0.0, 0), ",")
    for mark in get_args(Separator):
        try:
            widths = [len(line) for line in csv.reader(io.StringIO(start, newline=""), delimiter=mark) if line]
        except csv.Error:
            continue
        score = (widths[0] > 1, widths.count(widths[0]) / len(widths), widths[0])
        best = max(best, (score, mark), key=lambda entry: entry[0])
    return best[1]


def _records(path: Path, text: str, mark: str, findings: list[TableFinding]) -> list[tuple[int, list[str]]]:
    """Fields of each line that has some, and the number of the line on which they end."""
    for strict in (True, False):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=strict)
        try:
            return [(reader.line_num, fields) for fields in reader if fields]
        except csv.Error:
            action = 'Look for a " that is opened and not closed, or for text after a closing one'
            fault = "quotes do not match"
            findings.append(TableFinding("quotes", Grade.FILE, "", fault, action, 1, (f"line {reader.line_num}",)))
    raise BadTable(path, "is not well-formed CSV: its quotes do not match", findings[-1].action)


def _whole_rows(
    records: list[tuple[int, list[str]]], names: list[str], mark: str, findings: list[TableFinding]
) -> list[tuple[int, list[str]]]:
    width, whole = len(names), []
    torn: dict[str, list[int]] = {"torn": [], "separator": [], "header": []}
    for number, fields in records[1:]:
        others = [other for other in get_args(Separator) if other != mark]
        if len(fields) == width:
            repeated = [field.strip() for field in fields] == names
            torn["header"].append(number) if repeated else whole.append((number, fields))
        elif any(len(next(csv.reader([mark.join(fields)], delimiter=other))) == width for other in others):
            torn["separator"].append(number)
        else:
            torn["torn"].append(number)
    texts = {
        "torn": (
            f"lines have more or fewer fields than the header's {width}",
            "Look for a decimal comma, for separators in text without quotes, or for a line that was cut off",
        ),
        "separator": (
            f"lines are separated otherwise than the header, by {mark!r}",
            "Write all lines with one separator",
        ),
        "header": ("the header stands there again", "Leave these lines out"),
    }
    for code, numbers in torn.items():
        if numbers:
            fault, action = texts[code]
            findings.append(TableFinding(f"lines-{code}", Grade.FILE, "", fault, action, **_numbered(numbers)))
    return whole


def _frame(names: list[str], rows: list[tuple[int, list[str]]], findings: list[TableFinding]) -> pl.DataFrame:
    import polars as pl

    counts, columns, seen = Counter(names), {}, Counter[str]()
    for place, name in enumerate(names):
        if not name:
            continue
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name} ({seen[name]})"
        texts = pl.Series(unique, [fields[place] for _, fields in rows], dtype=pl.String).str.strip_chars()
        columns[unique] = texts.replace("", None)
    for name, count in counts.items():
        if name and count > 1:
            fault = f"{count} columns have this name"
            findings.append(
                TableFinding("name-twice", Grade.FILE, name, fault, "Rename all but one", count, ("line 1",))
            )
    if counts[""]:
        fault, action = f"{counts['']} without a name", "Left out: name what is needed"
        findings.append(TableFinding("no-name", Grade.LOOK, "", fault, action, counts[""], ("line 1",)))
    return pl.DataFrame(columns)
