"""What a CSV file may look like, and what people often give instead of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from consilium.protocol.models import Frozen

Separator = Literal[",", ";", "\t", "|"]
Encoding = Literal["utf-8", "latin-1", "cp1252"]

FOREIGN = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PK\x03\x04": "a zip or Excel file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
}


class CsvRule(Frozen):
    """The `[csv]` table. With `decimal_comma` a point in a number is an error: it might be a thousands separator."""

    separator: Separator = ","
    decimal_comma: bool = False
    encoding: Encoding = "utf-8"

    @property
    def codec(self) -> str:
        """Python's name of the encoding: UTF-8 with or without a byte order mark."""
        return "utf-8-sig" if self.encoding == "utf-8" else self.encoding


def foreign_kind(path: Path) -> str | None:
    """What the file is by its first bytes where it is not text: empty text if it has none, None if it may be text.

    Raises
    ------
    OSError
    """
    with open(path, "rb") as file:
        start = file.read(4)
    return next((kind for mark, kind in FOREIGN.items() if start.startswith(mark)), None) if start else ""


def other_separator(names: Sequence[str], rule: CsvRule) -> str | None:
    """What the first line seems to be split at, where splitting it as `rule` says left one name."""
    found = [mark for mark in get_args(Separator) if mark != rule.separator and names and mark in names[0]]
    return found[0] if len(names) == 1 and found else None


def is_number(text: str) -> bool:
    """Whether it is a number, with a decimal point or a decimal comma.

    >>> is_number(" 1,5 "), is_number("age")
    (True, False)
    """
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True
