"""What a page shows: exhibits, in parts. Whether one may be shown to anybody is its own property. A page and a terminal
are lists of the same exhibits: `as_html` draws a page that needs no network, script or other file, `as_text` lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from consilium.report.charts import Drawing

NOT_COVERED = "not covered by the guarantee"
"""The badge of what is secret."""
MOST_ROWS = 120
"""Lines of a table on the page; the download has all."""
Words = str | Markup
"""A sentence: plain text, which is escaped, or markup of the program's own."""


@dataclass(frozen=True)
class Cell:
    """Text of a table's cell, and under it a second line in small letters. look: "faint" or nothing."""

    text: Words
    under: str = ""
    look: str = ""


@dataclass(frozen=True)
class TableLine:
    """A line of a table: its name, and a cell for each further column. look: "student" or "secret"."""

    name: Words
    cells: tuple[Cell, ...]
    look: str = ""


ALL_BUT_FIRST = frozenset(range(1, 99))
"""Columns of a table whose every cell but the lines' names is a number."""


@dataclass(frozen=True)
class Table:
    """columns: headings, the first of the lines' names; () for a list of names and values. numbers: of the columns
    those whose cells are numbers, the first being 0. look: "cards" for telephones, "" is narrow."""

    columns: tuple[str, ...]
    lines: tuple[TableLine, ...]
    numbers: frozenset[int] = frozenset()
    look: str = "cards"

    @property
    def shown(self) -> tuple[TableLine, ...]:
        return self.lines[:MOST_ROWS]


@dataclass(frozen=True)
class Chart:
    """words: what it shows, for who cannot see it. parts: drawings below or beside each other, each with its title."""

    words: str
    parts: tuple[tuple[str, Drawing], ...] = field(repr=False)


@dataclass(frozen=True)
class Exhibit:
    """One thing that is shown: words, and a table or a chart or both. name: its place on the page, and the name of its
    downloads. secret: a function of private data that no guarantee covers: never in a published version. items: a list
    below the words. data: a frame of the numbers shown, unrounded, for the download. look: "warn", "secret" or "open"
    (banners), "folded", "numbered" (items), "small" (words)."""

    name: str
    title: Words = ""
    words: tuple[Words, ...] = ()
    table: Table | None = None
    chart: Chart | None = None
    secret: bool = False
    look: str = ""
    items: tuple[Words, ...] = ()
    data: Any = field(repr=False, default=None)

    @property
    def csv(self) -> str:
        return f"data:text/csv;charset=utf-8,{quote(self.data.write_csv(), ',:;=()|!*@/?')}"


@dataclass(frozen=True)
class PagePart:
    """A chapter; words stand before its exhibits. look: "card", and its level of protection, where it is one."""

    name: str
    title: str
    exhibits: tuple[Exhibit, ...]
    words: tuple[Words, ...] = ()
    look: str = ""


def published(parts: Sequence[PagePart]) -> tuple[PagePart, ...]:
    """What anybody may see: no secret exhibit is in it. The one place where these are left out. A part that held secret
    exhibits alone goes with them."""
    shown = [replace(part, exhibits=tuple(item for item in part.exhibits if not item.secret)) for part in parts]
    return tuple(new for new, old in zip(shown, parts, strict=True) if new.exhibits or new.words or not old.exhibits)


def without_blanks(exhibits: Sequence[Exhibit | None]) -> tuple[Exhibit, ...]:
    """Those that are there."""
    return tuple(item for item in exhibits if item is not None)


def pairs(rows: Sequence[tuple[str, object]]) -> Table:
    """A list of names and values."""
    return Table((), tuple(TableLine(name, (Cell(str(value)),)) for name, value in rows), look="")


def as_text(parts: Sequence[PagePart], width: int = 0) -> str:
    """The same for a terminal: titles, sentences and tables as lines; charts by their words.

    width: in columns, to which sentences are wrapped; 0: a line each.

    >>> print(as_text([PagePart("a", "Queries", (Exhibit("b", "Asked", ("All of them.",), pairs([("rows", 3)])),))]))
    Queries
      Asked
        All of them.
        rows  3
    """
    lines = list[str]()

    def write(indent: int, *said: Words) -> None:
        wrapper = textwrap.TextWrapper(width or 10**6, break_long_words=False, break_on_hyphens=False)
        wrapper.initial_indent = wrapper.subsequent_indent = " " * indent
        lines.extend(wrapper.fill(_plain(words)) for words in said if words)

    for part in parts:
        write(0, part.title)
        write(2, *part.words)
        for item in part.exhibits:
            write(2, f"{_plain(item.title)} [{NOT_COVERED}]" if item.secret and item.title else item.title)
            write(4, *item.words, *item.items)
            if item.table:
                rows = _rows(item.table)
                widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
                lines += ["    " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
            lines += [f"    {item.chart.words}"] if item.chart else []
    return "\n".join(lines)


def _rows(table: Table) -> list[list[str]]:
    rows = [list(table.columns)] if table.columns else []
    for line in table.lines:
        cells = (" ".join(filter(None, (_plain(cell.text), cell.under))) for cell in line.cells)
        rows.append([_plain(line.name), *cells])
    return rows


def _plain(words: Words) -> str:
    return words.striptags() if isinstance(words, Markup) else words


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of a page in a file: it may load and run nothing."""
METHOD = "Method: private aggregation of teacher ensembles (PATE), Papernot et al. 2017 and 2018."
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Page:
    """brand: what kind of page it is. summary: what it says in a sentence or two, and further lines in small letters.
    top: exhibits before the first part."""

    brand: str
    title: str
    parts: Sequence[PagePart] = field(repr=False)
    summary: tuple[Words, ...] = ()
    top: Sequence[Exhibit] = field(repr=False, default=())
    footer: tuple[Words, ...] = ()


def as_html(page: Page) -> str:
    """The page. Every text in it is escaped, whoever wrote it."""
    return _template().render(page=page, policy=Markup(POLICY), style=style(), not_covered=NOT_COVERED).lstrip()


@cache
def style() -> Markup:
    """The one style sheet, for screens, in the dark, on telephones and paper."""
    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # a terminal needs none of it

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")
