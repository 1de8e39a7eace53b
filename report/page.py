"""One page for all that is shown: a list of exhibits as HTML that needs no network, no scripts and no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from consilium.report.exhibits import NOT_COVERED, Exhibit, PagePart, Words

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of a page in a file: it may load and run nothing."""
METHOD = "Method: private aggregation of teacher ensembles (PATE), Papernot et al. 2017 and 2018."
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Page:
    """brand: what kind of page it is. summary: what it says in a sentence or two, and further lines in small letters.
    top: exhibits before the first part.
    """

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
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")
