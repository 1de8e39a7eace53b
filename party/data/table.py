"""What a reader of a party's file found."""

from __future__ import annotations

from typing import NamedTuple

from consilium.party.data.problems import Problem
from consilium.protocol.rows.columns import Column
from consilium.protocol.tables.lines import Lines


class FileColumns(NamedTuple):
    """What a reader found: the wanted columns, None where one cannot be read, what is wrong with the file's form,
    whose the rows are, "" where that is missing, if a column for it was asked for and is there, and where they stand.
    """

    columns: list[Column | None]
    problems: list[Problem]
    patients: list[str] | None
    lines: Lines

    def __repr__(self) -> str:
        return "FileColumns(<private>)"
