"""The console as one page without scripts: it loads nothing, and asks for itself anew every few seconds."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from consilium.coordinator.collection.roll import PartyState
from consilium.coordinator.deploy.console.view import ConsoleView
from consilium.node.monitor import HTML, NOTHING_LOADED, Answer

REFRESH_SECONDS = 10
BAD_STATES = (PartyState.LEFT_OUT, PartyState.REFUSED)
"""States of parties that somebody has to look into."""


def page(view: ConsoleView) -> Answer:
    """As HTML. Every text in it is escaped, whoever wrote it."""
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(view=view, style=_style(), policy=policy(), refresh=REFRESH_SECONDS, bad=BAD_STATES)
    )
    return Answer(200, HTML, html.encode(), policy())


@cache
def policy() -> str:
    """Its Content-Security-Policy: nothing is loaded or run, and the one style sheet is this very one."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"{NOTHING_LOADED}; style-src 'sha256-{digest}'"


def moment(text: str) -> str:
    """A time of day as people read it, UTC; any other text as it is.

    >>> moment("2026-11-23T01:47:39.123+00:00")
    '2026-11-23 01:47:39 UTC'
    """
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return text


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("consilium.coordinator.deploy.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["moment"] = moment
    return made


@cache
def _style() -> str:
    return _environment().get_template("style.css.j2").render()
