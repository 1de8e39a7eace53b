"""The report of a study as one HTML file that needs no network, no scripts and no other file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from consilium.protocol.files import replacing, writing
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import Cell, Exhibit, PagePart, pairs, without_blanks
from consilium.report.page import METHOD, Page, as_html
from consilium.report.words import many, upper_first, value_text
from consilium.simulations.study.measures.between import SCALES, SHIFT_KINDS, ShiftKind
from consilium.simulations.study.report.parts import (
    LEAST_POINTS,
    TESTED,
    as_table,
    changes_table,
    differences_table,
    figures_table,
    judged,
    lines_picture,
    means_data,
    methods_picture,
    metric_table,
)
from consilium.simulations.study.results import open_study
from consilium.simulations.study.summaries.questions import Likeness, Terms, compared, questions, stated_terms
from consilium.simulations.study.summaries.sentences import PointShift, answers_of, shifts_at
from consilium.simulations.study.summaries.tidy import (
    AS_RISKS,
    JUDGED,
    LESS_IS_BETTER,
    MEASURED,
    axis_names,
    metric_words,
    noun,
    title,
)
from consilium.simulations.study.summaries.view import StudyView, study_view

DIVISION, TEACHERS, FLIPPED, GAIN = "division", "teachers", "winners_flipped", "gain_accuracy"
_OF_DIVISION = (
    "parties", "rows", "rows_median", "rows_most", "gini", "hellinger_mean", "hellinger_mean_floor", "c2st_auc_mean",
)  # fmt: skip
_OF_GAIN = (GAIN, *(f"{GAIN}_{end}" for end in ("better", "worse", "worst_decile", "worst_decile_floor")), "gain_auc")
_OF_VOTES = ("consensus", "gap_p50", "ambiguity_10", "kappa", "plurality_right", "teacher_right_mean")
_OF_INFLUENCE = tuple(f"{FLIPPED}_{end}" for end in ("mean", "p10", "p50", "p90", "most"))
_OF_COST = (
    "epsilon", "delta", "epsilon_spent", "epsilon_data_dependent", "epsilon_sanitised", "asked", "answered",
    "labels_right", "units", "rounds", "clip", "shrinkage",
)  # fmt: skip
_SECRET = (
    "Functions of private rows without noise: not for publication unless the data are public. That holds for every"
    " table, picture and download here but those of what a method with a guarantee released."
)
_IN_SHORT = (
    "Computed from the table of results by fixed rules. Significant: p below 0.05 after Holm’s correction over the"
    " comparisons of one question. Methods are tested against each other where their guarantees are equal."
)
_INTERVALS = {
    1: "Each value is of one seed. Its interval (95%) is over test rows alone, or the owners that these came from:"
    " another seed may lie outside it.",
    2: "Each value is a mean over two seeds, which are too few for an interval.",
}
_OVER_SEEDS = (
    "Each value is a mean over seeds. Its interval (95%) is over seeds (division, lots, noise) and test rows together,"
    " or the owners that these came from; the download says what each is over."
)


def write_study_report(folder: Path, out: Path) -> list[str]:
    """Draw the report of the study in `folder` (results.parquet, study.json) into the file `out`; the
    sentences that it begins with.

    A reader sees the old file or the whole new one. It holds functions of private rows without any noise, so that its
    owner alone may read it.

    Raises
    ------
    PathError, StorageError : a file is missing, or `out` cannot be written. DataError : a file is none of a study.
    """
    files = open_study(folder)
    view = study_view(files.results, files.facts["axes"], row_scores=files.row_scores)
    answers = answers_of(view)
    content = _rendered(files.facts, files.results, view, answers).encode()
    with writing(out), replacing(out, mode=0o600, part=f".{out.name}.{os.getpid()}.part") as file:
        file.write(content)
    return answers


def _rendered(facts: Mapping[str, Any], results: pl.DataFrame, view: StudyView, answers: list[str]) -> str:
    first = Exhibit("answers", items=tuple(answers), look="numbered") if answers else None
    parts = (
        _part("answers", "In short", [first, methods_picture(view)], *([_IN_SHORT] if answers else [])),
        _part("methods", "Methods", _methods(view), _INTERVALS.get(len(view.seeds), _OVER_SEEDS)),
        _part("parties", "Parties", _parties(view)),
        _part("privacy", "Privacy", _privacy(view)),
        _part("made", "How it was made", _made(facts, results, view)),
    )
    owners = dict.fromkeys(entry["attribution"] for entry in facts["data"] if entry["attribution"])
    data = [Markup("<strong>Data.</strong> {}").format(" ".join(owners))] if owners else []
    axes = ", ".join(f"{axis} ({len(view.order[axis])} values)" for axis in view.axes)
    summary = f"{many(len(view.methods), 'method')}{f' over {axes}' if axes else ''}, with"
    summary += f" {many(len(view.seeds), 'seed')} each."
    return as_html(
        Page(
            "Consilium · a study",
            facts["title"],
            [part for part in parts if part is not None],
            summary=tuple(filter(None, (summary, facts["description"]))),
            top=_top(facts),
            footer=(*data, METHOD),
            window=f"{facts['title']} – Consilium, a study",
        )
    )


def _part(name: str, heading: str, exhibits: Iterable[Exhibit | None], *sentences: str) -> PagePart | None:
    """Without exhibits that are None; None where there is none at all."""
    shown = without_blanks(list(exhibits))
    return PagePart(f"part-{name}", heading, shown, sentences) if shown else None


def _top(facts: Mapping[str, Any]) -> tuple[Exhibit, ...]:
    """What has to be known before anything else: who may see it, what failed, what is not there."""
    failed = tuple(f"{entry['place']}: {entry['why']}" for entry in facts["failed"])
    counts = Counter((entry["method"], entry["why"]) for entry in facts["absent"])
    absent = tuple(f"{title(method)} in {many(count, 'cell')}: {why}" for (method, why), count in counts.items())
    warnings = tuple(entry["text"] for entry in facts["warnings"])
    heading = f"{many(len(failed), 'cell')} could not be computed."
    return without_blanks(
        [
            Exhibit("secret", words=(_SECRET,), look="secret"),
            Exhibit("failed", heading, items=failed, look="warn") if failed else None,
            Exhibit("left-out", "Not everybody takes part.", items=warnings, look="warn") if warnings else None,
            Exhibit("absent", "Not there", items=absent, look="open") if absent else None,
        ]
    )


def _methods(view: StudyView) -> list[Exhibit | None]:
    """Nothing where no method was judged by AUC or accuracy."""
    if view.metric is None or view.reference is None:
        return []
    lead, reference = view.metric, title(view.reference)
    family, along = compared(view, lead, view.reference), [each for each in questions(view) if each.axis]
    over = "seeds and test rows together" if view.row_scores is not None else "seeds alone"
    reading = (
        f"What each has more {metric_words(lead)} than {reference}, at the same seed. Interval: 95%, over {over}. "
    )
    further = [metric for metric in (*JUDGED, *AS_RISKS) if metric != lead]
    return [
        _means(view, lead, folded=False),
        _guarantees(view),
        differences_table(
            view,
            "differences",
            f"Differences from {reference}, {family.rivals}",
            f"{reading} {TESTED} One family: {family.family}. What is not significant is grey and says so.",
            family,
            lambda contrast: contrast.standing is not Likeness.NOT_ALIKE,
        ),
        differences_table(
            view,
            "gaps",
            f"Gaps to {reference}: not like with like",
            f"{reading} Not tested: they guarantee something else than {reference} (another epsilon, delta, unit or"
            " neighbouring relation), or nothing.",
            family,
            lambda contrast: contrast.standing is Likeness.NOT_ALIKE,
        ),
        figures_table(
            view,
            "worth",
            "What the models are worth in labels by hand",
            "So many true labels of public rows, drawn by lot, give the student’s own trainer a model as good. “More"
            " than”: not even so many do; mean over the seeds of each kind.",
            [(name, metric) for name in view.private for metric in ("hand_labels", "hand_labels_above")],
        ),
        *(lines_picture(view, axis) for axis in view.numeric_axes(LEAST_POINTS)),
        changes_table(view, along) if along else None,
        *(_means(view, metric, folded=True) for metric in further),
    ]


def _means(view: StudyView, metric: str, folded: bool) -> Exhibit | None:
    heading = f"{upper_first(metric_words(metric))} of each method"
    less = " Less is better." if metric in LESS_IS_BETTER else ""
    reading = f"On the public test rows; below each mean its interval.{less}"
    columns = [(name, metric) for name in judged(view, metric)]
    return figures_table(view, f"methods-{metric}", heading, reading, columns, folded)


def _guarantees(view: StudyView) -> Exhibit | None:
    """What methods guarantee, which decides what is compared; None where no method does."""
    stated = {key: [one for one in terms if one[2] not in (None, "none")] for key, terms in stated_terms(view).items()}
    names = [name for name in view.methods if any(stated.get((point, name)) for point in view.points)]
    if not names:
        return None
    rows = [(view.label(point), [_guarantee(stated.get((point, name), [])) for name in names]) for point in view.points]
    columns = (*view.axes, "method", "epsilon", "delta", "unit", "neighbouring")
    data = [
        dict(zip(columns, (*point, name, *terms), strict=True))
        for point in view.points
        for name in names
        for terms in stated.get((point, name), [])
    ]
    return as_table(
        "guarantees",
        "What each method guarantees",
        "Before anything is asked, towards whoever gets the result. Methods are tested against each other where all of"
        " it is equal, epsilon to one in a thousand; all other methods guarantee nothing.",
        pl.DataFrame(data, infer_schema_length=None),
        list(map(title, names)),
        rows,
        folded=True,
    )


def _guarantee(terms: list[Terms]) -> Cell:
    if not terms:
        return Cell("nothing", look="faint")
    epsilon, delta, unit, neighbouring = terms[0]
    relation = (neighbouring or "").replace("_", " ")
    return Cell(f"epsilon {epsilon_text(epsilon or 0.0)}", f"delta {delta:g}, a {unit}, {relation}")


def _parties(view: StudyView) -> list[Exhibit | None]:
    """How unlike they are, who gains at home, what their teachers voted, and what one of them changes."""
    method = view.reference or ""
    return [
        _shifts(view),
        metric_table(
            view,
            "division",
            "Sizes and distances",
            "Of the division alone, before anything is trained; below each mean its interval. Distances are of each"
            " party to all parties together, and the mean over parties. Floor: the same for parties of these sizes"
            " whose rows were dealt by lot; only what lies above it is a property of the division.",
            DIVISION,
            _OF_DIVISION,
        ),
        metric_table(
            view,
            "gain",
            f"Who gains, and who loses: {title(method)} against {title('local')}",
            f"Each party’s own held-out rows judge {noun(method)} and the party’s own teachers alike. Gain: how much"
            " better. Worst decile: the mean over the tenth of the parties that gains least; floor: the same if no"
            " party gained more than another.",
            method,
            _OF_GAIN,
        ),
        metric_table(
            view,
            "votes",
            "How far the teachers agree",
            "Votes without noise, which no party and no guarantee releases; below each mean its interval.",
            TEACHERS,
            _OF_VOTES,
        ),
        metric_table(
            view,
            "influence",
            "Without one of the parties",
            "Rows whose winner is another, by the votes alone.",
            TEACHERS,
            _OF_INFLUENCE,
        ),
    ]


def _shifts(view: StudyView) -> Exhibit | None:
    """Which kind of difference each division has."""
    shifts = shifts_at(view)
    kinds: list[ShiftKind] = [kind for kind in SHIFT_KINDS if any(kind in shift.kinds for shift in shifts)]
    if not kinds:
        return None
    scales = "; ".join(f"{kind}: {SCALES[kind]}" for kind in kinds)
    columns = [(DIVISION, f"shift_{kind}{end}") for kind in kinds for end in ("", "_floor", "_p", "_named")]
    return as_table(
        "shifts",
        "Which kind of difference",
        "Strength of each kind, in how many seeds it was named, and what rows dealt by lot give; faint: not named in"
        f" most seeds. In 40 divisions by lot at most one has any kind named. {upper_first(scales)}.",
        means_data(view, [shift.point for shift in shifts], columns),
        kinds,
        [(shift.label, [_shift(view, shift, kind) for kind in kinds]) for shift in shifts],
    )


def _shift(view: StudyView, shift: PointShift, kind: ShiftKind) -> Cell:
    strength, floor = (view.mean(shift.point, DIVISION, f"shift_{kind}{end}") for end in ("", "_floor"))
    if kind not in shift.kinds or strength is None:
        return Cell("–", look="faint")
    seeds = int(view.means[shift.point, DIVISION, f"shift_{kind}_named"]["seeds"])
    under = f"named in {shift.kinds[kind] * seeds:.0f} of {seeds}; by chance {value_text(floor or 0.0)}"
    return Cell(value_text(strength), under, look="" if kind in shift.named else "faint")


def _privacy(view: StudyView) -> list[Exhibit | None]:
    """Nothing where no method has a guarantee."""
    reading = (
        "epsilon is what is promised before the run, towards whoever gets what is released; spent and data dependent"
        " are of what came out. A data-dependent epsilon may not be published."
    )
    return [
        metric_table(
            view,
            f"privacy-{method}".replace(" ", "-"),
            f"{title(method)}: what it promised and what it released",
            reading,
            method,
            _OF_COST,
            folded=method != view.private[0],
        )
        for method in view.private
    ]


def _made(facts: Mapping[str, Any], results: pl.DataFrame, view: StudyView) -> list[Exhibit | None]:
    """What was asked, by which command, of which rows, by which versions."""
    has_figures = results.filter(~pl.col("method").is_in(MEASURED)).select([*axis_names(results), "seed", "method"])
    failed = f"; {many(len(facts['failed']), 'cell')} failed" if facts["failed"] else ""
    origin: dict[str, Any] = {
        **{axis: "; ".join(view.order[axis]) for axis in view.axes},
        "seeds": ", ".join(map(str, view.seeds)),
        "methods": "; ".join(map(title, view.methods)),
        "cells with results": f"{has_figures.n_unique():,} of {facts['cells']:,}{failed}",
        "cells computed before": facts["found"],
        "study": facts["spec_digest"],
        "results of": facts["created"],
        "seconds": facts["seconds"],
        "processes": facts["workers"],
        **{f"digest of the rows of {entry['set']}": entry["digest"] for entry in facts["data"]},
        **facts["versions"],
    }
    command = Markup("<code>{}</code>").format(facts["command"])
    return [
        Exhibit("command", words=(command,)) if facts["command"] else None,
        Exhibit("origin", table=pairs([(key, str(value)) for key, value in origin.items() if value])),
        Exhibit("files", words=("All figures: results.parquet, one row for each.",), look="small"),
    ]
