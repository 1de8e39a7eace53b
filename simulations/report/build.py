"""The report of a run as one HTML file that needs no network, no scripts and no other file.

`public` draws the version that may be shown to anybody: it leaves out every function of private data that the
guarantee does not cover. What stays is the configuration, what the released labels determine, and public data.
"""

from __future__ import annotations

import hashlib
import math
import os
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, UndefinedError

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing, writing
from consilium.protocol.provenance import NOT_COVERED, NOT_STATED, uncovered, well_formed
from consilium.protocol.warnings import SECRET
from consilium.simulations.report import figures, plain, tables
from consilium.simulations.report.charts.bars import bars_chart
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import PROMISED, SPENT, disclosure_of, guarantee_rows
from consilium.simulations.report.models import ABSENT, STUDENT_LABEL, alone, lead, model_rows
from consilium.simulations.report.own_epsilon import own_epsilons
from consilium.simulations.report.phases import phase_rows
from consilium.simulations.report.tiles import tiles
from consilium.simulations.report.wording import many, plural, share_text
from consilium.simulations.report.worth import worth_explained, worth_sentence

TEMPLATE = "template.html.j2"
TOTAL = "total"


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
        return _render(data, public)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, UndefinedError) as error:
        raise DataError(
            f"the report's data are not those of a run ({type(error).__name__})", "Run: consilium audit"
        ) from error


@cache
def drawing() -> str:
    """What draws reports, as 16 hexadecimal digits: a page of another one may look otherwise and be sound."""
    sources = sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in (".py", ".j2"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _render(data: ReportData, public: bool) -> str:
    asked, answered = len(data.answered), int(np.count_nonzero(data.answered))
    _check_lengths(data, asked)
    _check_guarantees(data, asked)
    data = data.published() if public else data
    guarantees = guarantee_rows(data.guarantees, public)
    promised, models = guarantees[PROMISED], model_rows(data, public)
    chosen = well_formed(data.provenance)
    student = data.open_figures.get("student", {})
    return _template().render(
        data=data,
        warnings=data.warnings,
        secret_warnings=SECRET,
        drawing=drawing(),
        public=public,
        asked=asked,
        sentence=_sentence(data, asked, answered, public),
        box=plain.plain_box(data, guarantees),
        measured_on=plain.measured_on(data),
        labels_explained=plain.labels_explained(data),
        against_alone="" if public else plain.against_alone(data),
        tiles=tiles(data, asked, answered, guarantees, public),
        figures=figures.outcome_figures(data, promised, models, public),
        student_figures=figures.student_figures(data),
        party_figures=figures.party_figures(data),
        privacy_figure=None if public else figures.privacy_figure(data, promised),
        confusion=tables.matrix(student.get("confusion") or [], data.classes),
        labels=tables.matrix(data.open_figures.get("labels") or [], data.classes),
        votes=tables.matrix(data.secret_figures.get("votes") or [], data.classes),
        confused=tables.taken_for(student.get("confusion") or [], data.classes),
        mislabelled=tables.taken_for(data.open_figures.get("labels") or [], data.classes),
        disputed=tables.taken_for(data.secret_figures.get("votes") or [], data.classes),
        recall=tables.recall_table(data, models),
        not_shown=_not_shown(data, public),
        guarantees=list(guarantees.values()),
        promised=promised,
        promised_bounded=math.isfinite(promised.epsilon),
        disclosure=disclosure_of(data),
        own_epsilons=own_epsilons(data.by_party),
        phases=phase_rows(data.phases),
        chosen=chosen,
        uncovered=uncovered(chosen),
        not_covered=NOT_COVERED,
        not_stated=NOT_STATED,
        unbounded=any(math.isinf(row.epsilon) for row in guarantees.values()),
        one_teacher=promised.teachers_per_party == 1,
        models=models,
        worth=worth_sentence(data.worth, promised.epsilon_text, data.release.noun) if data.worth else "",
        worth_explained=worth_explained(data.worth) if data.worth else "",
        alone=alone(data.baselines),
        absent={name: item[ABSENT] for name, item in data.baselines.items() if ABSENT in item},
        student_label=STUDENT_LABEL,
        quality=sorted(data.quality, key=lambda item: (-item.rows, item.party)),
        seconds=data.seconds,
        time_chart=_time_chart(data),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(share=share_text, plural=plural)
    environment.globals.update(many=many, few=tables.FEW, most=tables.MOST)
    return environment.get_template(TEMPLATE)


def _time_chart(data: ReportData) -> str:
    """Seconds of each stage; with a total, these add up to it."""
    stages = {stage: value for stage, value in data.seconds.items() if stage != TOTAL}
    return bars_chart({stage: (max(value, 0.0), f"{value:,.2f} s") for stage, value in stages.items()})


def _not_shown(data: ReportData, public: bool) -> list[str]:
    """Why a figure is not there although the run is a simulation."""
    found = {"Learning curve": data.open_figures.get("by_labels", {})}
    if not public:
        found |= {
            "Curve by epsilon": data.secret_figures.get("by_epsilon", {}),
            f"What each {data.party_label} gains": data.secret_figures.get("at_home", {}),
        }
    return [f"{name}: {item[ABSENT]}." for name, item in found.items() if ABSENT in item]


def _check_lengths(data: ReportData, asked: int) -> None:
    """One value for each query; consensus and the secret curve may be absent where nobody can know them."""
    optional = {"consensus": data.consensus, "epsilon_data_dependent": data.epsilon_data_dependent}
    for name, values in {"epsilon_spent": data.epsilon_spent, **optional}.items():
        if len(values) != asked and (len(values) or name not in optional):
            raise DataError(f"{name} has {len(values)} values for {many(asked, 'query')}", "Run the scenario again")


def _check_guarantees(data: ReportData, asked: int) -> None:
    """The promise is there, and what was spent unless nothing was asked."""
    for name in (PROMISED, SPENT) if asked else (PROMISED,):
        if name not in data.guarantees:
            raise DataError(f"the run has no guarantee {name!r}", "Run the scenario again")


def _sentence(data: ReportData, asked: int, answered: int, public: bool) -> str:
    """What happened, in one or two sentences."""
    parties = f"{'Up to ' if public else ''}{many(data.parties, data.party_label)}"
    if not asked:
        return f"{parties} took part, but no public case was put to the vote, so nothing was released."
    voted = f"{parties} voted on {many(asked, 'public case')}"
    if not answered:
        return f"{voted}, but no {data.release.noun} was released: the student learnt nothing from them."
    happened = f"{voted}, and {many(answered, data.release.noun)} {'was' if answered == 1 else 'were'} released"
    student = data.student or {}
    metric = lead(data, student)
    if student.get(metric) is None:
        return f"{happened}. The student was not evaluated."
    name = "AUC" if metric == "auc" else metric
    reached = f"{happened}. The student that learnt from them reaches {name} {share_text(student[metric])}"
    pooled = None if public else data.baselines.get("pooled", {}).get(metric)
    if pooled is None:
        return f"{reached} on held-out public cases."
    against = f"a model without privacy, trained on all {plural(data.party_label)}’ rows pooled, reaches"
    return f"{reached} on held-out public cases; {against} {share_text(pooled)}."
