"""The coordinator's console: one read-only page, the same as JSON, and its metrics; from the files of the kit.

Everything in it is public to the federation, or about this machine. How many questions were answered is left out, since
it depends on votes: a page and its metrics are seen and kept by more people than the ledger."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from consilium.coordinator.deploy.runs import current_run
from consilium.coordinator.deploy.start import listens
from consilium.coordinator.deploy.status import Status, look
from consilium.coordinator.privacy import most_so_far
from consilium.coordinator.run_state import AWAY, MOST_TROUBLES, STAGES, TROUBLES, PartyState, RunState, Trouble
from consilium.node.checks import SOON
from consilium.node.kit import Kit
from consilium.node.log import Heard
from consilium.node.metrics import MetricFamily, ages, one, processes_of
from consilium.node.monitor import HTML, NOTHING_LOADED, Answer, Lasting, Watched, as_json
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.versions import DISTRIBUTION
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, Words
from consilium.report.page import Page, as_html, style

RUN, AGAIN = "run", "; again in "
"""Under this name the node tells what is in the event log, and with these words that an attempt failed."""


@dataclass(frozen=True)
class PartyLine:
    """One party. state: a word or two of few; told: all that is known. connected: as the SuperLink sees it now."""

    name: str
    state: str
    told: str
    connected: bool = False


@dataclass(frozen=True)
class CertificateLine:
    """One certificate file of the kit. level: ok, soon or over."""

    name: str
    until: str
    age_days: int | None
    days_left: int | None
    level: str


@dataclass(frozen=True)
class ProcessLine:
    """One process with what it started. ended: times that it ended by itself."""

    name: str
    processes: int
    megabytes: float
    cpu_seconds: float
    open_files: int
    ended: int


@dataclass(frozen=True)
class ConsoleView:
    """At one moment, of the federation that runs. next: the other one that the kit holds, where an update made it one.

    aggregators: how the second aggregator stands, by its name, where votes are verified.
    epsilon_so_far: if every question so far had been answered, of epsilon_guaranteed; all epsilons at `delta`, see
    `status.Status`. rows_open: rows of the fixed
    pool that can still be asked, None without a pool.
    """

    at: str
    federation: str
    version: str
    flower_version: str
    run: str = ""
    next: str = ""
    running: bool = False
    stage: str = "not started"
    since: str = ""
    kind_of_stage: str = "not started"
    done: int = 0
    total: int = 0
    parties: list[PartyLine] = field(default_factory=list)
    aggregators: dict[str, str] = field(default_factory=dict)
    queries_asked: int = 0
    unanswered: int = 0
    not_answered: str = ""
    closed: bool = False
    queries_most: int = 0
    rows_open: int | None = None
    epsilon_so_far: float = 0.0
    epsilon_guaranteed: float = 0.0
    epsilon_student: float = 0.0
    epsilon_nodes: float | None = None
    towards_student: str = ""
    towards_nodes: str = ""
    delta: float = 0.0
    unit: str = ""
    troubles: list[Trouble] = field(default_factory=list)
    trouble_counts: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    certificates: list[CertificateLine] = field(default_factory=list)
    processes: list[ProcessLine] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @property
    def states(self) -> dict[str, int]:
        """How many parties are in each state, most first."""
        counts = Counter(party.state for party in self.parties)
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def party_lines(found: Status) -> list[PartyLine]:
    """Parties by name with their states: the one place where the console learns them."""
    return [
        PartyLine(name, entry["state"], entry["words"], entry["connected"])
        for name, entry in sorted(found.roll.items())
    ]


class ConsoleReader:
    """Reads the kit again each time it is asked. For one thread at a time."""

    def __init__(self, kit: Kit, heard: Heard) -> None:
        self._kit = kit
        self._heard = heard
        self._state = RunState()

    def view(self, now: datetime | None = None) -> ConsoleView:
        """What there is to see. A file that cannot be read is a trouble on the page."""
        now = now or datetime.now(UTC)
        common = {
            "at": now.isoformat(timespec="seconds"),
            "federation": self._kit.federation,
            "version": version(DISTRIBUTION),
            "flower_version": version("flwr"),
            "certificates": certificate_lines(self._kit, now),
            "processes": self._processes(),
        }
        try:
            return ConsoleView(**common, **self._of_run())
        except ConsiliumError as error:
            trouble = Trouble(common["at"], "failed", error.what, error.action)
            return ConsoleView(**common, troubles=[trouble, *self._own_troubles()][:MOST_TROUBLES])

    def ready(self) -> list[str]:
        """What is missing before parties can connect and students can be answered by what they bring."""
        place = self._kit.coordinator
        ports = (("SuperLink", "127.0.0.1", place.internal_port), ("gateway", self._host(), place.superlink_port))
        return [f"the {name} does not listen" for name, where, port in ports if not listens(port, where)]

    def serves_students(self) -> bool:
        """Whether the label service listens."""
        return listens(self._kit.coordinator.label_port, self._host())

    def _host(self) -> str:
        """Where this machine reaches the ports that others use."""
        listen = self._kit.coordinator.listen
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)

    def _of_run(self) -> dict[str, Any]:
        run = current_run(self._kit)
        found, state = look(self._kit, run)
        self._state, config, used = state, run.config, run.use()
        troubles = sorted([*state.troubles, *self._own_troubles()], key=lambda trouble: trouble.at, reverse=True)
        return {
            "run": found.run,
            "next": found.next,
            "running": found.running,
            "stage": found.stage,
            "since": found.since,
            "kind_of_stage": state.kind_of_stage,
            "done": state.done,
            "total": state.total,
            "parties": party_lines(found),
            "aggregators": found.aggregators,
            "queries_asked": found.queries_asked,
            "unanswered": found.unanswered,
            "not_answered": found.not_answered,
            "closed": found.closed,
            "queries_most": config.query_budget.queries,
            "rows_open": None if found.closed else found.rows_open,
            "epsilon_so_far": most_so_far(config, used.asked),
            "epsilon_guaranteed": found.epsilon_guaranteed,
            "epsilon_student": found.epsilon_student,
            "epsilon_nodes": found.epsilon_nodes,
            "towards_student": found.towards_student,
            "towards_nodes": found.towards_nodes,
            "delta": found.delta,
            "unit": config.privacy.unit.value,
            "troubles": troubles[:MOST_TROUBLES],
            "trouble_counts": dict(state.counts),
            "warnings": list(state.warnings.values()),
        }

    def _own_troubles(self) -> list[Trouble]:
        """What the node's own processes said that is no news of the run."""
        return [
            Trouble(
                datetime.fromtimestamp(said.at, UTC).isoformat(timespec="milliseconds"),
                said.level, f"{said.name}: {said.what}", "Run `consilium doctor .` in this kit; see state/logs.",
            )
            for said in self._heard.troubles
            if said.name != RUN or self._is_news(said.what)
        ]  # fmt: skip

    def _is_news(self, what: str) -> bool:
        """Whether a failed attempt is not in the event log, since its process died before it could write there."""
        return AGAIN in what and not any(trouble.what in what for trouble in self._state.troubles)

    def _processes(self) -> list[ProcessLine]:
        ended = self._heard.ended
        return [
            ProcessLine(
                name, use.processes, round(use.resident_bytes / 1e6, 1), round(use.cpu_seconds, 1), use.open_files,
                ended.get(name, 0),
            )
            for name, use in processes_of(self._kit).items()
        ]  # fmt: skip


def certificates_of(kit: Kit) -> tuple[Path, ...]:
    """The coordinator's own and the authority's."""
    return (kit.server_tls.certificate, kit.authority)


def certificate_lines(kit: Kit, now: datetime) -> list[CertificateLine]:
    """How old they are, and until when they are good."""
    return [
        CertificateLine(
            age.name,
            "cannot be read" if age.until is None else f"{age.until:%Y-%m-%d}",
            age.age_days(now),
            age.days_left(now),
            _level(age.days_left(now)),
        )
        for age in ages(certificates_of(kit))
    ]


def _level(days_left: int | None) -> str:
    if days_left is None or days_left < 0:
        return "over"
    return "soon" if days_left < SOON.days else "ok"


def coordinator_metrics(view: ConsoleView, serves_students: bool) -> Iterator[MetricFamily]:
    """Of one moment."""
    yield MetricFamily(
        "stage", "1 for the stage that the federation is in.",
        {(stage,): float(stage == view.kind_of_stage) for stage in STAGES}, ("stage",),
    )  # fmt: skip
    yield one("stage_done", "How far the stage is, of stage_total.", view.done)
    yield one("stage_total", "Length of the stage; 0 or 1 where nobody knows it.", view.total)
    yield MetricFamily(
        "party_state", "1 for the state that a party is in.",
        {(party.name, party.state): 1.0 for party in view.parties}, ("party", "state"),
    )  # fmt: skip
    yield MetricFamily(
        "party_connected", "1 while a party's node is connected.",
        {(party.name,): float(party.connected) for party in view.parties}, ("party",),
    )  # fmt: skip
    if view.aggregators:
        yield MetricFamily(
            "aggregator_connected", "1 while the second aggregator's node is connected.",
            {(name,): float(told != AWAY) for name, told in view.aggregators.items()}, ("aggregator",),
        )  # fmt: skip
    yield one("label_service_listens", "1 while students can connect.", serves_students)
    yield one("queries_asked", "Queries that students have asked, of queries_most.", view.queries_asked, counter=True)
    yield one("queries_unanswered", "Of queries_asked, those put to parties and not answered.", view.unanswered)
    yield one("queries_most", "Queries that may ever be asked.", view.queries_most)
    yield one("epsilon_so_far", "Epsilon if every query so far had been answered. No guarantee.", view.epsilon_so_far)
    yield one(
        "epsilon_promised",
        "Epsilon if the whole query budget is used up: the guarantee, at delta.",
        view.epsilon_guaranteed,
    )
    yield one("epsilon_student", "Of it, what holds towards the student and the public.", view.epsilon_student)
    if view.epsilon_nodes is not None:
        yield one("epsilon_nodes", "What holds towards whoever sees noisy sums of the votes.", view.epsilon_nodes)
    yield one("delta", "Of the guarantee.", view.delta)
    yield MetricFamily(
        "troubles", "What went wrong, by kind, as the event log of the run has it.",
        {(kind,): float(view.trouble_counts.get(kind, 0)) for kind in TROUBLES}, ("kind",), counter=True,
    )  # fmt: skip


def watched(kit: Kit, heard: Heard) -> Watched:
    """Health, metrics, the page and the same as JSON."""
    reader = ConsoleReader(kit, heard)
    view = Lasting(reader.view)
    return Watched(
        kit,
        heard,
        Lasting(reader.ready),
        certificates_of(kit),
        lambda: coordinator_metrics(view(), reader.serves_students()),
        {"/": lambda: page(view()), "/status.json": lambda: as_json(view().to_json())},
    )


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
    if view.closed:
        words.append("Closed: nothing can be asked")
    if view.not_answered:
        words.append(_LOOKED.format("warned", view.not_answered))
    if view.rows_open is not None:
        words.append(f"{view.rows_open} public rows can still be asked")
    guarantee = Markup("Epsilon so far at most {}, of <b>{} guaranteed</b>")
    words += [
        guarantee.format(epsilon_text(view.epsilon_so_far), epsilon_text(view.epsilon_guaranteed)),
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
