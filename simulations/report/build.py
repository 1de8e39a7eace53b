"""The report of a run as one HTML file of five chapters, which needs no network, no scripts and no other file.

The public version may be shown to anybody: it leaves out every function of private data that the guarantee does not
cover. What stays is the configuration, what the released labels determine, and public data.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from jinja2 import UndefinedError
from markupsafe import Markup

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing, writing
from consilium.report.exhibits import METHOD, NOT_COVERED, Exhibit, Page, as_html, published, without_blanks
from consilium.report.warnings import SECRET
from consilium.report.words import many, plural, upper_first
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import finding
from consilium.simulations.report.privacy import GUARANTEE, SPENT, guarantees_of, plain_part, privacy_part
from consilium.simulations.report.result import classes_part, parties_part, result_part

_UNFINISHED = "This run is not finished.", ("What follows is what its ledger holds so far.",)
_UNBOUNDED = Exhibit(
    "unbounded",
    "No privacy guarantee: the worst case is unbounded.",
    ("This mechanism protects nobody. Never do this with data that are not public already.",),
    look="warn",
)


def write_report(data: ReportData, path: Path, public: bool = False) -> None:
    """Draw the report into `path`; a reader sees the old file or the whole new one. Raises DataError: the data are not
    those of a run. PathError, StorageError: the file cannot be written."""
    content = render(data, public).encode()
    mode = 0o666 if public else 0o600
    with writing(path), replacing(path, mode, part=f".{path.name}.{os.getpid()}.part") as file:
        file.write(content)


def render(data: ReportData, public: bool = False) -> str:
    """The report as HTML. Raises DataError: a guarantee is missing or malformed, or a value is none that a run has."""
    try:
        return as_html(report_page(data.published() if public else data))
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, UndefinedError) as error:
        raise DataError(
            f"the report's data are not those of a run ({type(error).__name__})", "Run: consilium audit"
        ) from error


def report_page(data: ReportData) -> Page:
    """All exhibits of a run. Of published data those that anybody may see."""
    guarantees, found = guarantees_of(data.guarantees), ()
    if any(data.answered) and data.student is not None:
        found = finding(data.student, data.baselines, data.worth, data.labels_alone, data.warnings, len(data.classes))
    for name in (GUARANTEE, SPENT) if data.answered and not data.public else (GUARANTEE,):
        if name not in guarantees:
            raise DataError(f"the run has no guarantee {name!r}", "Run the scenario again")
    first, third = plain_part(data, guarantees), privacy_part(data, guarantees)
    parts = (first, result_part(data), third, parties_part(data), classes_part(data))
    top = [
        Exhibit("unfinished", *_UNFINISHED, items=(data.unfinished,), look="warn") if data.unfinished else None,
        _UNBOUNDED if any(math.isinf(item.epsilon) for item in guarantees.values()) else None,
        _warnings(data) if data.warnings else None,
        _version(data),
    ]
    seed = "" if data.seed is None else f"seed {data.seed}, "
    noise = "of the seed" if data.seeded_noise else "of the operating system"
    made = ", ".join(f"{name} {version}" for name, version in data.versions.items())
    footer = (
        *([Markup("<strong>Data.</strong> {}").format(data.attribution)] if data.attribution else []),
        f"{data.scenario} on {data.engine}, {seed}noise {noise}, {many(data.teachers, 'teacher')}, begun"
        f" {data.created}. {made}",
        METHOD,
    )
    return Page(
        f"Consilium · report of a run{' · public version' * data.public}",
        data.title,
        [part for part in (published(parts) if data.public else parts) if part.exhibits],
        summary=(*filter(None, [" ".join(found), _happened(data), data.description]),),
        top=without_blanks(top),
        footer=footer,
    )


def _happened(data: ReportData) -> str:
    queries, answers = len(data.answered), sum(data.answered)
    parties = f"{'Up to ' * data.public}{many(data.parties, data.party_label)}"
    if not queries:
        return f"{parties} took part, but no public case was put to the vote, so nothing was released."
    voted = f"{parties} voted on {many(queries, 'public case')}"
    if not answers:
        return f"{voted}, but no {data.release.noun} was released: the student learnt nothing from them."
    unknown = " The student was not evaluated." * (data.student is None)
    return f"{voted}; {many(answers, data.release.noun)} {'was' if answers == 1 else 'were'} released.{unknown}"


def _warnings(data: ReportData) -> Exhibit:
    text, badge = Markup('{} <span class="small">({})</span>{}'), Markup(f' <span class="badge">{NOT_COVERED}</span>')
    items = [
        text.format(upper_first(warning["text"]), warning["code"], badge if warning["code"] in SECRET else "")
        for warning in data.warnings
    ]
    return Exhibit("warnings", many(len(items), "warning"), items=tuple(items), look="warn")


def _version(data: ReportData) -> Exhibit:
    if not data.public:
        words = Markup(
            "Keep this version inside the project: what is marked <span class='badge'>{}</span> is computed from"
            " private data and has no noise on it. <code>consilium report RUN --public</code> draws it without that."
        )
        return Exhibit("version", words=(words.format(NOT_COVERED),), look="secret")
    words = (
        "This version is for everybody. Left out are the epsilon that was spent; all models to compare with that use"
        f" private rows; what each {data.party_label} gains; all {plural(data.party_label)} by name, who was left out"
        " and why."
    )
    return Exhibit("version", words=(words,), look="open")
