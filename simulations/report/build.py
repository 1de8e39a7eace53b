"""The report of a run as one HTML file that needs no network, no scripts and no other file.

The public version may be shown to anybody: it leaves out every function of private data that the guarantee does not
cover. What stays is the configuration, what the released labels determine, and public data.
"""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import UndefinedError
from markupsafe import Markup

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing, writing
from consilium.report.charts import bars_chart
from consilium.report.exhibits import NOT_COVERED as BADGE
from consilium.report.exhibits import (
    Cell,
    Chart,
    Exhibit,
    PagePart,
    Table,
    TableLine,
    Words,
    pairs,
    published,
    without_blanks,
)
from consilium.report.glossary import term, words_table
from consilium.report.page import METHOD, Page, as_html, sources_digest
from consilium.report.warnings import SECRET
from consilium.report.words import many, plural, share_text, upper_first
from consilium.simulations.report.class_by_class import MOST, classes_part
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.each_party import every_party, parties_part
from consilium.simulations.report.guarantees import GUARANTEE, SPENT, GuaranteeRow, guarantee_rows
from consilium.simulations.report.models import ABSENT, METRICS, lead
from consilium.simulations.report.privacy import accountant_part, plain_part, privacy_part
from consilium.simulations.report.results import results_part, tiles, worth_exhibits
from consilium.student.card import SECTIONS, sentences

TOTAL = "total"
_WORDS = ("party", "teacher", "student", "mechanism", "epsilon", "unit", "guarantee", "spent", "query budget", "pooled")
"""That are explained where they first stand."""
CARD_KEYS = {"classes", "spec", "release", "parties", "mechanism", "privacy", "metrics", "test", "model"}
"""What a section of the page takes from the student's card."""


def write_report(data: ReportData, path: Path, public: bool = False) -> None:
    """Draw the report into `path`; a reader sees the old file or the whole new one.

    Raises
    ------
    DataError : the data are not those of a run. PathError, StorageError : the file cannot be written.
    """
    content = render(data, public).encode()
    mode = 0o666 if public else 0o600
    with writing(path), replacing(path, mode, part=f".{path.name}.{os.getpid()}.part") as file:
        file.write(content)


def render(data: ReportData, public: bool = False) -> str:
    """The report as HTML.

    Raises
    ------
    DataError : a guarantee is missing or malformed, or a value is none that a run has.
    """
    try:
        _check(data)
        return as_html(report_page(data.published() if public else data))
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, UndefinedError) as error:
        raise DataError(
            f"the report's data are not those of a run ({type(error).__name__})", "Run: consilium audit"
        ) from error


@cache
def drawing() -> str:
    """What draws reports, as 16 hexadecimal digits: a page of another one may look otherwise and be sound."""
    return sources_digest(Path(__file__).parent)


def report_page(data: ReportData) -> Page:
    """All exhibits of a run. Of published data those that anybody may see."""
    guarantees = guarantee_rows(data.guarantees)
    parts: tuple[PagePart, ...] = (
        plain_part(data, guarantees, worth_exhibits(data)),
        PagePart("overview", "At a glance", without_blanks([_warnings(data), tiles(data), _kind(data)])),
        results_part(data),
        classes_part(data),
        parties_part(data),
        privacy_part(data, guarantees),
        _model_card(data),
        _left_out(data),
        _missing(data),
        _how(data),
        accountant_part(guarantees),
        PagePart("words", "Appendix: words of this page", (Exhibit("glossary", table=words_table(_WORDS)),)),
        every_party(data),
    )
    if data.public:
        parts = published(parts)
    return Page(
        f"Consilium · report of a run{' · public version' if data.public else ''}",
        data.title,
        [part for part in parts if part.exhibits or part.words],
        summary=(_sentence(data), *([data.description] if data.description else [])),
        top=without_blanks([_unfinished(data), _unbounded(data, guarantees)]),
        footer=(*([Markup("<strong>Data.</strong> {}").format(data.attribution)] if data.attribution else []), METHOD),
        contents=True,
        window=f"{data.title} – Consilium{' (public version)' if data.public else ''}",
        generator=f"Consilium, drawing {drawing()}",
    )


def _check(data: ReportData) -> None:
    """One consensus for each query, or none where nobody can know it. The guarantee is there, and what was spent unless
    nothing was asked."""
    queries, known = len(data.answered), len(data.consensus)
    if known not in (0, queries):
        raise DataError(f"consensus has {known} values for {many(queries, 'query')}", "Run the scenario again")
    for name in (GUARANTEE, SPENT) if queries else (GUARANTEE,):
        if name not in data.guarantees:
            raise DataError(f"the run has no guarantee {name!r}", "Run the scenario again")
    guarantee_rows(data.guarantees)


def _sentence(data: ReportData) -> Words:
    """What happened, in one or two sentences."""
    queries, answers = len(data.answered), int(np.count_nonzero(data.answered))
    parties = f"{'Up to ' if data.public else ''}{many(data.parties, data.party_label)}"
    if not queries:
        return f"{parties} took part, but no public case was put to the vote, so nothing was released."
    voted = f"{parties} voted on {many(queries, 'public case')}"
    if not answers:
        return f"{voted}, but no {data.release.noun} was released: the student learnt nothing from them."
    happened = f"{voted}, and {many(answers, data.release.noun)} {'was' if answers == 1 else 'were'} released"
    student = data.student or {}
    metric = lead(data, student)
    if student.get(metric) is None:
        return f"{happened}. The student was not evaluated."
    reached = Markup("{}. The {} that learnt from them reaches {} {} on held-out public cases").format(
        happened, term("student"), METRICS[metric], share_text(student[metric])
    )
    pooled = data.baselines.get("pooled", {}).get(metric)
    if pooled is None:
        return reached + "."
    against = Markup("; a model without privacy, trained on all {}’ rows {}, reaches {}.")
    return reached + against.format(plural(data.party_label), term("pooled"), share_text(pooled))


def _unfinished(data: ReportData) -> Exhibit | None:
    if not data.unfinished:
        return None
    words = ("What follows is what its ledger holds so far.", data.unfinished)
    return Exhibit("unfinished", "This run is not finished.", words, look="warn")


def _unbounded(data: ReportData, guarantees: dict[str, GuaranteeRow]) -> Exhibit | None:
    if not any(math.isinf(row.epsilon) for row in guarantees.values()):
        return None
    words: list[Words] = ["This mechanism protects nobody. Never do this with data that are not public already."]
    if data.claimed_epsilon is not None:
        claim = Markup("Its paper claims epsilon <del>{}</del> for this run; the real one is unbounded.")
        words.insert(0, claim.format(f"{data.claimed_epsilon:.4g}"))
    return Exhibit("unbounded", "No privacy guarantee: the worst case is unbounded.", tuple(words), look="warn")


def _warnings(data: ReportData) -> Exhibit | None:
    """Warnings, those that count votes with their badge; of published data these are not there."""
    items = []
    for warning in data.warnings:
        badge = Markup(' <span class="badge">{}</span>').format(BADGE) if warning["code"] in SECRET else ""
        text = Markup('{} <span class="small">({})</span>{}')
        items.append(text.format(upper_first(warning["text"]), warning["code"], badge))
    title = many(len(items), "warning")
    return Exhibit("warnings", title, items=tuple(items), look="warn") if items else None


def _kind(data: ReportData) -> Exhibit:
    """Which of both versions it is, and what that means for who may see it."""
    if not data.public:
        words = Markup(
            "Keep this version inside the project: what is marked <span class='badge'>not covered</span> or"
            " <span class='badge'>secret</span> is computed from private data and has no noise on it."
            " <code>consilium report RUN --public</code> draws the version without it."
        )
        return Exhibit("version", words=(words,), look="secret")
    parties = plural(data.party_label)
    left_out = (
        "the data-dependent epsilon and its curve,",
        "the epsilon spent at the released counts, which is chosen after the fact: the guarantee covers it,",
        f"how far the {parties} agreed and how they voted (consensus of the votes),",
        "all models to compare with that use private rows: one party alone, noisy average, private gradient"
        " descent, plurality, pooled; the yardsticks that stay are public,",
        f"what each {data.party_label} gains, and what another epsilon would give,",
        f"the {parties} by name, size and quality, how many were left out and why, and how long each stage took.",
    )
    words = (
        "This is the version for everybody. It shows the configuration, what was released and what follows from that,"
        " and public data. Left out:"
    )
    return Exhibit("version", words=(words,), look="open", items=left_out)


def _model_card(data: ReportData) -> PagePart:
    """The student's model card in the sections of the field, with links to what stands on this page already."""
    card = data.card
    if not card.keys() >= CARD_KEYS:  # no student, or one of another version
        return PagePart("model-card", "Model card", ())
    # by how many there might have been: how many there were may follow from what their rows are
    words = sentences({**card, "parties": data.invited} if data.public else card)
    links = {
        "Model details": Markup("SHA-256 of its file: <code>{}</code>").format(card["model"]["sha256"]),
        "Quantitative analyses": Markup("{}; {}").format(
            _see("results", "What came out"), _see("classes", "Class by class")
        ),
        "Ethical considerations": Markup("{}; {}").format(
            _see("plain", "Whom the guarantee protects, and whom not"), _see("chosen", "what no guarantee covers")
        ),
    }
    texts = {**words, "Caveats and recommendations": tuple(card["limits"])}
    lines = tuple(
        TableLine(title, (Cell(Markup(" ").join(filter(None, (*texts.get(title, ()), links.get(title, ""))))),))
        for title in SECTIONS
    )
    why = Markup("Of the student that is published, in the sections of Mitchell et al. 2019. Beside it lies the whole")
    return PagePart(
        "model-card",
        "Model card",
        (Exhibit("card", words=(why + Markup(" card, <code>MODEL_CARD.md</code>."),), table=Table((), lines)),),
    )


def _see(name: str, title: str) -> Markup:
    return Markup('<a href="#{}">{}</a>').format(name, title)


def _left_out(data: ReportData) -> PagePart:
    word = data.party_label
    exhibit = Exhibit("left-out", words=(f"Nobody: every {word} took part in every stage.",), secret=True)
    if data.public:
        words = (
            f"Not shown, nor how many: that may follow from what the rows of a {word} are, and no guarantee covers it."
            f" {many(data.invited, word)} might have taken part."
        )
        exhibit = Exhibit("left-out", words=(words,))
    elif data.left_out:
        lines = tuple(TableLine(item.party, (Cell(item.stage), Cell(item.reason))) for item in data.left_out)
        exhibit = Exhibit("left-out", table=Table((word, "stage", "reason"), lines), secret=True)
    return PagePart("who-was-left-out", "Who was left out", (exhibit,))


def _missing(data: ReportData) -> PagePart:
    """What nobody can show of this run, and why a figure is not there although the run is a simulation."""
    figures = {
        "Learning curve": data.open_figures.get("by_labels", {}),
        "Curve by epsilon": data.secret_figures.get("by_epsilon", {}),
        f"What each {data.party_label} gains": data.secret_figures.get("at_home", {}),
    }
    items = (*data.missing, *(f"{name}: {item[ABSENT]}." for name, item in figures.items() if ABSENT in item))
    exhibits = (Exhibit("not-shown", items=items),) if items else ()
    return PagePart("missing", "What this report cannot show", exhibits)


def _how(data: ReportData) -> PagePart:
    classes = f"{len(data.classes)}, from {data.classes[0]} to {data.classes[-1]}"
    configuration = [
        ("scenario", data.scenario),
        ("engine", data.engine),
        ("mechanism", data.mechanism),
        ("query budget", f"{many(data.most_queries, 'query')}, {many(data.most_answers, 'answer')}"),
        ("noise", "seeded" if data.seeded_noise else "operating system entropy"),
        ("seed", "–" if data.seed is None else data.seed),
        ("classes", ", ".join(data.classes) if len(data.classes) <= MOST else classes),
        ("started", data.created),
    ]
    exhibits = [
        Exhibit("configuration", table=pairs(configuration)),
        Exhibit("software", table=Table(("software", "version"), pairs(list(data.versions.items())).lines, look=""))
        if data.versions
        else None,
        _seconds(data),
    ]
    return PagePart("how", "How it was run", without_blanks(exhibits), look="columns")


def _seconds(data: ReportData) -> Exhibit | None:
    """Seconds of each stage; with a total, these add up to it. Secret: they follow from rows as votes do."""
    if not data.seconds:
        return None
    words = "Stages as the coordinator timed them; what lies between them is in none."
    if TOTAL in data.seconds:
        words = f"Stages follow each other and add up to {data.seconds[TOTAL]:.1f} s, until this report was drawn."
    bars = {name: (max(took, 0.0), f"{took:,.2f} s") for name, took in data.seconds.items() if name != TOTAL}
    texts = ", ".join(f"{name} {took:.1f}" for name, took in data.seconds.items())
    return Exhibit(
        "seconds",
        "Time",
        (f"{words} Bytes that travelled are recorded by no node, so no traffic is shown.",),
        chart=Chart(f"Seconds of each stage: {texts}", (("", bars_chart(bars)),)),
        secret=True,
    )
