"""The report of a run as one HTML file that needs no network, no scripts and no other file.

`public` draws the version that may be shown to anybody: it leaves out every function of private data that the
guarantee does not cover. What stays is the configuration, what the released labels determine, and public data.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing, writing
from consilium.protocol.warnings.kinds import SECRET, publishable
from consilium.simulations.report import charts
from consilium.simulations.report.data import PartyQuality, ReportData
from consilium.simulations.report.guarantees import PROMISED, WORST_CASE, GuaranteeRow, guarantee_rows
from consilium.simulations.report.own_epsilon import own_epsilons
from consilium.simulations.report.wording import WHO_SEES, many, plural, share_text
from consilium.simulations.report.worth import alone, hand_label_rows, worth_explained, worth_sentence

TEMPLATE = "template.html.j2"
STUDENT, SPREAD, ABSENT = "student", "local_only", "absent"
_MODELS = {
    "majority": "majority class",
    "mean_teacher": "mean teacher",
    "noisy_average": "noisy average of weights",
    "plurality": "plurality, no noise",
    STUDENT: "student",
    "pooled": "pooled rows, not private",
}


@dataclass(frozen=True)
class Tile:
    """A key figure of the first screen."""

    label: str
    value: str
    note: str
    accent: bool = False


@dataclass(frozen=True)
class Figure:
    """`svg` was made by `charts`; `alt` says what it shows, `reading` how to read it."""

    name: str
    title: str
    reading: str
    alt: str
    svg: Markup
    secret: bool = False


def write_report(data: ReportData, path: Path, public: bool = False) -> None:
    """Draw the report into `path`; a reader sees the old file or the whole new one.

    Raises
    ------
    DataError : the data are not those of a run. PathError, StorageError : the file cannot be written.
    """
    content = render(data, public).encode()
    with writing(path), replacing(path, part=f".{path.name}.{os.getpid()}.part") as file:
        file.write(content)


def render(data: ReportData, public: bool = False) -> str:
    """The report as HTML.

    Raises
    ------
    DataError : a guarantee is missing or malformed, or a value is none that a run has.
    """
    try:
        return _render(data, public)
    except (TypeError, ValueError, AttributeError, KeyError, UndefinedError) as error:
        raise DataError(
            f"the report's data are not those of a run ({type(error).__name__})", "Run: consilium audit"
        ) from error


@cache
def drawing() -> str:
    """What draws reports, as 16 hexadecimal digits: a page of another one may look otherwise and be sound."""
    sources = sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".py", ".j2"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _render(data: ReportData, public: bool) -> str:
    asked, answered = len(data.answered), int(np.count_nonzero(data.answered))
    _check_lengths(data, asked)
    guarantees = guarantee_rows(data.guarantees, asked, public)
    models = _models(data, public)
    # all that the public version says: names are not covered by the guarantee, and a reason may tell about data
    left_out = {stage: sum(item.stage == stage for item in data.left_out) for stage in _stages(data)}
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(share=share_text, plural=plural)
    environment.globals.update(many=many)
    return environment.get_template(TEMPLATE).render(
        data=data,
        warnings=publishable(data.warnings) if public else data.warnings,
        secret_warnings=SECRET,
        drawing=drawing(),
        public=public,
        asked=asked,
        answered=answered,
        sentence=_sentence(data, asked, answered, public),
        tiles=_tiles(data, asked, answered, guarantees),
        figures=_figures(data, asked, answered, guarantees[PROMISED], models, public),
        guarantees=list(guarantees.values()),
        who_sees=WHO_SEES[data.votes],
        own_epsilons=own_epsilons(data.by_party, public),
        unbounded=any(math.isinf(row.epsilon) for row in guarantees.values()),
        one_teacher=guarantees[PROMISED].teachers_per_party == 1,
        models=models,
        worth=worth_sentence(data.worth, guarantees[PROMISED].epsilon_text, data.release) if data.worth else "",
        worth_explained=worth_explained(data.worth) if data.worth else "",
        alone={} if public else alone(data.baselines),
        absent={} if public else {name: item[ABSENT] for name, item in data.baselines.items() if ABSENT in item},
        student_label=_MODELS[STUDENT],
        left_out_by_stage=left_out,
        quality=[] if public else sorted(data.quality, key=lambda item: (-item.rows, item.party)),
        seconds={} if public else data.seconds,
    )


def _check_lengths(data: ReportData, asked: int) -> None:
    """One value for each query; consensus and the secret curve may be absent where nobody can know them."""
    optional = {"consensus": data.consensus, "epsilon_data_dependent": data.epsilon_data_dependent}
    for name, values in {"epsilon_worst_case": data.epsilon_worst_case, **optional}.items():
        if len(values) != asked and (len(values) or name not in optional):
            raise DataError(f"{name} has {len(values)} values for {many(asked, 'query')}", "Run the scenario again")


def _stages(data: ReportData) -> list[str]:
    return list(dict.fromkeys(item.stage for item in data.left_out))


def _models(data: ReportData, public: bool) -> list[tuple[str, dict[str, Any]]]:
    """Labels and metrics in the order of the figure. All baselines are computed from private rows."""
    shown = {name: metrics for name, metrics in data.baselines.items() if name != SPREAD and ABSENT not in metrics}
    metrics = {} if public else shown
    if data.student is not None:
        metrics[STUDENT] = data.student
    order = [*_MODELS, *(name for name in metrics if name not in _MODELS)]
    models = [(_MODELS.get(name, name), metrics[name]) for name in order if name in metrics]
    before = next((at for at, (label, _) in enumerate(models) if label == _MODELS[STUDENT]), len(models))
    return [*models[:before], *hand_label_rows(data.worth), *models[before:]]


def _sentence(data: ReportData, asked: int, answered: int, public: bool) -> str:
    """What happened, in one or two sentences."""
    parties = many(data.parties, data.party_label)
    if not asked:
        return f"{parties} took part, but no public case was put to the vote, so nothing was released."
    voted = f"{parties} voted on {many(asked, 'public case')}"
    if not answered:
        return f"{voted}, but no {data.release} was released: the student learnt nothing from them."
    happened = f"{voted}, and {many(answered, data.release)} {'was' if answered == 1 else 'were'} released"
    student = data.student or {}
    metric = _lead(data, student)
    if student.get(metric) is None:
        return f"{happened}. The student was not evaluated."
    name = "AUC" if metric == "auc" else metric
    reached = f"{happened}. The student that learnt from them reaches {name} {share_text(student[metric])}"
    pooled = None if public else data.baselines.get("pooled", {}).get(metric)
    if pooled is None:
        return f"{reached} on held-out public cases."
    against = f"a model without privacy, trained on all {plural(data.party_label)}’ rows pooled, reaches"
    return f"{reached} on held-out public cases; {against} {share_text(pooled)}."


def _lead(data: ReportData, metrics: dict[str, Any]) -> Literal["auc", "accuracy"]:
    """The number that is shown first: AUC says most about two classes, and next to nothing where there are many."""
    return "auc" if metrics.get("auc") is not None and len(data.classes) == 2 else "accuracy"


def _tiles(data: ReportData, asked: int, answered: int, guarantees: dict[str, GuaranteeRow]) -> list[Tile]:
    promised, spent = guarantees[PROMISED], guarantees.get(WORST_CASE)
    student = data.student or {}
    auc, accuracy, lead = student.get("auc"), student.get("accuracy"), _lead(data, student)
    right = data.released_label_accuracy
    used = f", {spent.epsilon_text} spent" if spent else "" if asked else ", nothing spent"
    return [
        Tile(plural(data.party_label), f"{data.parties:,}", many(data.teachers, "teacher")),
        Tile(
            f"{data.release}s released",
            f"{answered:,}",
            f"of {asked:,} asked; at most {data.most_answers:,} of {data.most_queries:,} allowed",
        ),
        Tile(
            "epsilon, worst case",
            promised.epsilon_text,
            f"at delta {promised.delta_text} for each {promised.unit}; promised before the run{used}",
        ),
        Tile(
            "student AUC" if lead == "auc" or accuracy is None else "student accuracy",
            share_text(student.get(lead)),
            "not evaluated"
            if data.student is None
            else "no AUC: one class only among the test cases"
            if auc is None
            else f"accuracy {share_text(accuracy)}"
            if lead == "auc"
            else f"AUC {share_text(auc)}",
            accent=True,
        ),
        Tile(
            "released labels right" if data.release == "label" else "largest noisy counts right",
            "–" if right is None else f"{right:.1%}",
            "against the public truth"
            if right is not None
            else "nobody knows the truth"
            if answered
            else f"no {data.release} to compare",
        ),
    ]


def _figures(
    data: ReportData,
    asked: int,
    answered: int,
    promised: GuaranteeRow,
    models: list[tuple[str, dict[str, Any]]],
    public: bool,
) -> list[Figure]:
    """Those for which there is something to draw, in the order of the page."""
    figures = []
    abstained = asked - answered - data.reinforced
    scored = any(metrics.get(name) is not None for _, metrics in models for name in ("accuracy", "auc"))
    if scored and (data.worth is not None or not (public or (data.missing and not data.baselines))):
        figures.append(_models_figure(data, models, public))
    if asked and not public:
        figures.append(_privacy_figure(data, promised))
    figures.append(
        Figure(
            "outcome",
            "Answered or abstained",
            f"The mechanism ({data.mechanism}) {_what_it_does(data)}",
            f"Bars: {answered} answered, {data.reinforced} predictions of the student confirmed, {abstained} abstained,"
            f" {data.most_queries - asked} never asked.",
            Markup(charts.outcome_chart(answered, abstained, max(data.most_queries - asked, 0), data.reinforced)),
        )
    )
    if not public and len(data.consensus):
        figures.append(_consensus_figure(data))
    if not public and data.quality:
        figures.append(_parties_figure(data))
    return figures


def _what_it_does(data: ReportData) -> str:
    """Those that answer every query have as many labels to release as queries to be asked."""
    if data.most_answers == data.most_queries:
        return f"may release a {data.release} for each of {many(data.most_queries, 'query')}."
    return (
        f"releases a label or abstains. The run ends when {many(data.most_queries, 'query')} are asked or"
        f" {many(data.most_answers, 'label')} are released."
    )


def _models_figure(data: ReportData, models: list[tuple[str, dict[str, Any]]], public: bool) -> Figure:
    told = "; ".join(
        f"{label}: accuracy {share_text(metrics.get('accuracy'))}, AUC {share_text(metrics.get('auc'))}"
        for label, metrics in models
    )
    parties = plural(data.party_label)
    private = (
        f"Only the student (diamond) learnt from released {data.release}s alone. "
        if data.student is not None
        else "There is no student. "
    )
    by_hand = "" if data.worth is None else "By hand: trained on true labels of public cases. "
    yardsticks = (
        f"Mean teacher: what one of the {parties} has by itself. Plurality: all {parties} vote without noise."
        " Pooled: one model on all rows together. "
    )
    if "noisy_average" in dict(data.baselines) and ABSENT not in data.baselines["noisy_average"]:
        yardsticks += (
            f"Noisy average: the {parties}’ weights, averaged once with noise at the same epsilon, clipped as does best"
            " on the test cases. "
        )
    return Figure(
        "models",
        "The student against what it could have been",
        f"Further right is better. {private}{by_hand}{'' if public else yardsticks}The axes do not start at zero.",
        f"Dots: {told}.",
        Markup(charts.models_chart(models, _MODELS[STUDENT])),
        secret=not public,
    )


def _privacy_figure(data: ReportData, promised: GuaranteeRow) -> Figure:
    reading = "How the privacy cost grows with each query. " + (
        "There is no ceiling: the worst case is unbounded."
        if math.isinf(promised.epsilon)
        else "The line across is the ceiling that was fixed before anything was asked; the worst case stays below it"
        " whatever the votes are."
    )
    secret = data.epsilon_data_dependent if len(data.epsilon_data_dependent) else None
    if secret is not None:
        reading += (
            " The dashed curve depends on the votes themselves and may not be published; where it lies on the worst"
            " case, the votes gave nothing to save."
        )
    bound = "unbounded" if math.isinf(promised.epsilon) else f"at most {promised.epsilon_text}"
    return Figure(
        "privacy",
        "Privacy cost, query by query",
        reading,
        f"Lines: epsilon at delta {promised.delta_text} after each of {len(data.answered)} queries; promised: {bound}.",
        Markup(
            charts.privacy_chart(
                data.epsilon_worst_case, secret, promised.epsilon, promised.epsilon_text, promised.delta_text
            )
        ),
        secret=secret is not None,
    )


def _consensus_figure(data: ReportData) -> Figure:
    middle = f"{np.median(data.consensus):.0%}"
    return Figure(
        "consensus",
        f"How far the {plural(data.party_label)} agreed",
        "Each query stands at the share of the votes that its most voted class got: on the left the votes are split,"
        f" on the right they are unanimous. Half of the queries lie at {middle} or above. A mechanism that answers"
        " where there is agreement shows a rising share in the lower panel; large noise flattens it.",
        f"Histogram of consensus over {len(data.consensus)} queries, median {middle}, and the share answered.",
        Markup(charts.consensus_chart(data.consensus, data.answered)),
        secret=True,
    )


def _parties_figure(data: ReportData) -> Figure:
    with_auc = [item for item in data.quality if item.auc is not None] if len(data.classes) == 2 else []
    shown: list[PartyQuality] = with_auc or data.quality
    metric = "AUC" if with_auc else "accuracy"
    values = [item.auc if with_auc and item.auc is not None else item.accuracy for item in shown]
    student = (data.student or {}).get(metric.lower())
    word = data.party_label
    better = "" if student is None else f" The line is the student: it beats {sum(v < student for v in values)}"
    return Figure(
        "parties",
        f"{plural(word).capitalize()} by size and quality",
        f"Each point is one {word}: how many rows it has, and how good its teachers are on the public test cases."
        + (better and f"{better} of the {len(values)} {plural(word)} shown.")
        + " Only a simulation can know this.",
        f"Scatter of {len(shown)} {plural(word)}: {min(i.rows for i in shown)} to {max(i.rows for i in shown)} rows,"
        f" {metric} {min(values):.3f} to {max(values):.3f}.",
        Markup(charts.parties_chart([item.rows for item in shown], values, metric, student, word)),
        secret=True,
    )
