"""Tables and pictures of the report, each with its numbers to take along."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from consilium.simulations.study.report.charts.drawing import Drawing, file

MOST_ROWS = 120
"""Rows of a table on the page; the download has all."""


@dataclass(frozen=True)
class Entry:
    """Text of a table's cell, with a second line in small letters; faint: greyed, such as what is not significant."""

    text: str
    under: str = ""
    faint: bool = False


@dataclass(frozen=True)
class Exhibit:
    """What both have. name: of the downloads and of the place on the page; data: the numbers shown, unrounded."""

    name: str
    title: str
    reading: str
    data: pl.DataFrame = field(repr=False)

    @property
    def csv(self) -> str:
        """A data: address of the numbers as CSV."""
        return _address("text/csv;charset=utf-8", self.data.write_csv().encode())


@dataclass(frozen=True)
class TableExhibit(Exhibit):
    """columns: headings, the first of the rows' names; rows: a name and an entry for each further column.

    folded: shown once somebody asks for it.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    folded: bool = False

    @property
    def shown(self) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
        """The rows on the page."""
        return self.rows[:MOST_ROWS]


@dataclass(frozen=True)
class PictureExhibit(Exhibit):
    """alt: what it shows, in words. parts: charts below or beside each other, each with its title."""

    alt: str
    parts: tuple[tuple[str, Drawing], ...] = field(repr=False)

    @property
    def svg(self) -> str:
        """A data: address of the picture as an SVG file."""
        return _address("image/svg+xml", file(self.title, self.parts).encode())


@dataclass(frozen=True)
class Section:
    """A part of the report; sentences stand before its exhibits."""

    name: str
    title: str
    sentences: Sequence[str]
    exhibits: Sequence[TableExhibit | PictureExhibit]


def _address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
