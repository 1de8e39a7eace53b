"""The console as one page without scripts: it loads nothing, and asks for itself anew every few seconds."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from functools import cache

from markupsafe import Markup

from consilium.coordinator.deploy.console.view import ConsoleView
from consilium.coordinator.run_state import PartyState
from consilium.node.monitor import HTML, NOTHING_LOADED, Answer
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, Words
from consilium.report.page import Page, as_html, style

REFRESH_SECONDS = 10
BAD_STATES = (PartyState.LEFT_OUT, PartyState.REFUSED)
"""States of parties that somebody has to look into."""
_MILD = ("left-out", "false-votes", "not-answered", "warning")
"""Kinds of troubles that a run goes on with."""
_CERTIFICATES = {"ok": "good", "soon": "warned", "over": "bad"}
_BIG = Markup('<span class="big">{}</span>')
_LOOKED = Markup('<span class="{}">{}</span>')
_SMALL = Markup('<span class="small">{}</span>')
_PROGRESS = Markup('<progress max="{}" value="{}" aria-label="{}"></progress>')


def page(view: ConsoleView) -> Answer:
    """As HTML. Every text in it is escaped, whoever wrote it."""
    html = as_html(console(view), policy())
    return Answer(200, HTML, html.encode(), policy())


@cache
def policy() -> str:
    """Its Content-Security-Policy: nothing is loaded or run, and the one style sheet is this very one."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"{NOTHING_LOADED}; style-src 'sha256-{digest}'"


def console(view: ConsoleView) -> Page:
    """All exhibits of the console."""
    run = f"; federation {view.run}" if view.run else ""
    when = Markup('Coordinator’s console, read-only{}. As of <time datetime="{}">{}</time>, anew every {} s.')
    other = f"The kit holds another federation by now, {view.next}: close this one before it is started."
    links = Markup(
        'Consilium {}, Flower {}. The same as JSON: <a href="/status.json">status.json</a>; <a href="/metrics">metrics'
        '</a>, <a href="/healthz">healthz</a>, <a href="/readyz">readyz</a>.'
    )
    return Page(
        "Consilium · console",
        view.federation,
        [_stage(view), _budget(view), _parties(view), _troubles(view), _certificates(view), _processes(view)],
        summary=(when.format(run, view.at, moment(view.at), REFRESH_SECONDS),),
        top=[Exhibit("next", words=(other,), look="warn")] if view.next else [],
        footer=(links.format(view.version, view.flower_version),),
        window=f"{view.federation}: {view.stage if view.running else 'not running'}",
        refresh=REFRESH_SECONDS,
        grid=True,
    )


def moment(text: str) -> str:
    """A time of day as people read it, UTC; any other text as it is.

    >>> moment("2026-11-23T01:47:39.123+00:00")
    '2026-11-23 01:47:39 UTC'
    """
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return text


def _stage(view: ConsoleView) -> PagePart:
    words: list[Words] = [_BIG.format(view.stage)]
    if view.total > 1:
        words.append(_PROGRESS.format(view.total, view.done, "How far the stage is"))
        words.append(_SMALL.format(f"{view.done} of {view.total}"))
    since = f"Since {moment(view.since)}. " if view.since else ""
    running = f"The coordinator is {'running' if view.running else 'not running'}."
    words.append(Markup("{}{}").format(since, _LOOKED.format("good" if view.running else "bad", running)))
    return PagePart("stage", "Stage", (Exhibit("stage-now", words=tuple(words)),), look="card")


def _budget(view: ConsoleView) -> PagePart:
    words: list[Words] = [
        _BIG.format(f"{view.queries_asked} of {view.queries_most} queries asked"),
        _PROGRESS.format(max(view.queries_most, 1), view.queries_asked, "Queries asked"),
    ]
    if view.rows_open is not None:
        words.append(f"{view.rows_open} public rows can still be asked")
    guarantee = Markup("Epsilon so far at most {}, of <b>{} guaranteed</b>")
    words += [
        guarantee.format(f"{view.epsilon_so_far:.3f}", f"{view.epsilon_guaranteed:.3f}"),
        f"Guaranteed: {view.towards_student}; {view.towards_nodes}.",
        _SMALL.format(
            f"At delta {view.delta:g}, for a {view.unit}. The guarantee holds whatever is asked. “So far” counts every"
            " question as answered, and is no guarantee."
        ),
    ]
    return PagePart("budget", "Budget", (Exhibit("budget-now", words=tuple(words)),), look="card")


def _parties(view: ConsoleView) -> PagePart:
    states = ", ".join(f"{state}: {count}" for state, count in view.states.items()) or "none"
    lines = tuple(
        TableLine(party.name, (Cell(party.told, look="bad" if party.state in BAD_STATES else ""),))
        for party in view.parties
    )
    exhibits = [Exhibit("roll", table=Table(("party", "state"), lines, look=""))] if lines else []
    aggregators = tuple(f"Second aggregator {name}: {state}" for name, state in view.aggregators.items())
    exhibits += [Exhibit("aggregators", words=aggregators)] if aggregators else []
    return PagePart("parties", f"Parties – {states}", tuple(exhibits), look="card broad")


def _troubles(view: ConsoleView) -> PagePart:
    """What went wrong, the last first, and the warnings from before the first question."""
    item = Markup("{}<br>{}<br>{}")
    items = [
        item.format(
            _SMALL.format(moment(trouble.at)),
            _LOOKED.format("warned" if trouble.kind in _MILD else "bad", trouble.what),
            trouble.cure,
        )
        for trouble in view.troubles
    ]
    items += [
        Markup("{}<br>{}").format(_SMALL.format("Before the first question"), _LOOKED.format("warned", warning))
        for warning in view.warnings
    ]
    exhibit = (
        Exhibit("last", items=tuple(items)) if items else Exhibit("last", words=(_LOOKED.format("good", "Nothing."),))
    )
    return PagePart("troubles", "What went wrong last, and what to do", (exhibit,), look="card broad")


def _certificates(view: ConsoleView) -> PagePart:
    lines = tuple(
        TableLine(
            certificate.name,
            (
                Cell(certificate.until, look=_CERTIFICATES[certificate.level]),
                Cell("–" if certificate.days_left is None else f"{certificate.days_left}"),
                Cell("–" if certificate.age_days is None else f"{certificate.age_days}"),
            ),
        )
        for certificate in view.certificates
    )
    table = Table(("file", "valid until", "days left", "age, days"), lines, frozenset((2, 3)))
    return PagePart("certificates", "Certificates", (Exhibit("ages", table=table),), look="card")


def _processes(view: ConsoleView) -> PagePart:
    lines = tuple(
        TableLine(
            process.name,
            (
                Cell(f"{process.megabytes:.0f}"),
                Cell(f"{process.cpu_seconds:.0f}"),
                Cell(f"{process.open_files}"),
                Cell(f"{process.ended}", look="warned" if process.ended else ""),
            ),
        )
        for process in view.processes
    )
    columns = ("program", "memory, MB", "processor, s", "open files", "ended")
    table = Table(columns, lines, frozenset((1, 2, 3, 4)))
    return PagePart("processes", "Processes", (Exhibit("use", table=table),), look="card")
