"""Methods beside each other and along axes: means over seeds, differences, gaps, and what another division changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from consilium.report.charts import LOOKS, ValueRow, rows_axis, rows_chart
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import range_text, signed_text, upper_first
from consilium.simulations.study.report.parts import (
    ACROSS,
    LEAST_POINTS,
    About,
    as_part,
    as_picture,
    as_table,
    figures_table,
    lines_picture,
    means_data,
    value_row,
)
from consilium.simulations.study.summaries.questions import (
    Family,
    Likeness,
    MeanContrast,
    Terms,
    compared,
    contrast_frame,
    questions,
    stated_terms,
)
from consilium.simulations.study.summaries.tidy import (
    AS_RISKS,
    JUDGED,
    as_number,
    less_is_better,
    metric_words,
    short,
    title,
)
from consilium.simulations.study.summaries.view import StudyView

MOST_PANELS = 12
"""Charts in one picture; of more points only these are drawn, and the table has all."""
WORTH, WORTH_ABOVE = "hand_labels", "hand_labels_above"
_OVER_SEEDS = (
    "Each value is a mean over seeds. Its interval (95%) is over seeds (division, lots, noise) and test rows together,"
    " or the owners that these came from; the download says what each is over."
)
_OF_ONE_SEED = (
    "Each value is of one seed. Its interval (95%) is over test rows alone, or the owners that these came from: another"
    " seed may lie outside it."
)
_OF_TWO_SEEDS = "Each value is a mean over two seeds, which are too few for an interval."


def methods_part(view: StudyView) -> PagePart | None:
    """None where no method was judged by AUC or accuracy."""
    if view.metric is None:
        return None
    metrics = [*sorted(JUDGED, key=lambda metric: metric != view.metric), *AS_RISKS]
    means = [_means(view, metric) for metric in metrics]
    exhibits = [exhibit for exhibit in means if exhibit is not None]
    exhibits[1:1] = [*_guarantees(view), *_differences(view), *_worth(view)]
    words = {1: _OF_ONE_SEED, 2: _OF_TWO_SEEDS}.get(len(view.seeds), _OVER_SEEDS)
    return as_part("methods", "Methods", exhibits, words)


def judged(view: StudyView, metric: str) -> list[str]:
    """Methods that have this metric anywhere."""
    return [name for name in view.methods if any((point, name, metric) in view.means for point in view.points)]


def _means(view: StudyView, metric: str) -> Exhibit | None:
    names = judged(view, metric)
    reading = "On the public test rows; below each mean its interval."
    about = About(
        f"methods-{metric}",
        f"{upper_first(metric_words(metric))} of each method",
        reading + (" Less is better." if less_is_better(metric) else ""),
    )
    columns = [(name, metric) for name in names]
    return figures_table(view, about, columns, list(map(title, names)), folded=metric != view.metric)


def _guarantees(view: StudyView) -> list[Exhibit]:
    """What methods guarantee, which decides what is compared; none where no method does."""
    stated = {key: [one for one in terms if one[2] not in (None, "none")] for key, terms in stated_terms(view).items()}
    names = [name for name in view.methods if any(stated.get((point, name)) for point in view.points)][:ACROSS]
    if not names:
        return []
    rows = [(view.label(point), [_guarantee(stated.get((point, name), [])) for name in names]) for point in view.points]
    columns = (*view.axes, "method", "epsilon", "delta", "unit", "neighbouring")
    keys = [(point, name) for point in view.points for name in names]
    data = [
        dict(zip(columns, (*point, name, *terms), strict=True))
        for point, name in keys
        for terms in stated.get((point, name), [])
    ]
    about = About(
        "guarantees",
        "What each method guarantees",
        "Before anything is asked, towards whoever gets the result. Methods are tested against each other where all of"
        " it is equal, epsilon to one in a thousand; all other methods guarantee nothing.",
    )
    return [as_table(about, pl.DataFrame(data, infer_schema_length=None), list(map(title, names)), rows, folded=True)]


def _guarantee(terms: Sequence[Terms]) -> Cell:
    if not terms:
        return Cell("nothing", look="faint")
    epsilon, delta, unit, neighbouring = terms[0]
    relation = (neighbouring or "").replace("_", " ")
    return Cell(
        f"epsilon {'unknown' if epsilon is None else epsilon_text(epsilon)}", f"delta {delta:g}, a {unit}, {relation}"
    )


def _worth(view: StudyView) -> list[Exhibit]:
    """How many labels by hand make as good a model."""
    columns = [(name, metric) for name in view.private for metric in (WORTH, WORTH_ABOVE)]
    there = [column for column in columns if any((point, *column) in view.means for point in view.points)]
    about = About(
        "worth",
        "What the models are worth in labels by hand",
        "So many true labels of public rows, drawn by lot, give the student’s own trainer a model as good. “More"
        " than”: not even so many do; mean over the seeds of each kind.",
    )
    headings = [title(name) + (", more than" if metric == WORTH_ABOVE else "") for name, metric in there]
    table = figures_table(view, about, there, headings)
    return [table] if table is not None else []


def methods_picture(view: StudyView) -> list[Exhibit]:
    """All methods at each point with their intervals; none where lines over an axis say it, or nothing was judged."""
    if view.metric is None or view.numeric_axes(LEAST_POINTS):
        return []
    metric = view.metric
    names, words = judged(view, metric), metric_words(metric)
    points = [point for point in view.points if any((point, name, metric) in view.means for name in view.methods)]
    shown = points[:MOST_PANELS]
    panels: list[tuple[str, list[ValueRow]]] = []
    for point in shown:
        means = {name: view.means.get((point, name, metric)) for name in names}
        rows = [
            value_row(title(name), row["mean"], row["low"], row["high"], marked=name in view.private)
            for name, row in means.items()
            if row is not None
        ]
        panels.append((view.label(point), rows))
    if not panels:
        return []
    axis = rows_axis([row for _, rows in panels for row in rows])
    more = f" The first {len(shown)} of {len(points)} points; the table has all." if len(shown) < len(points) else ""
    about = About(
        "methods-picture",
        f"{upper_first(words)} of each method, as a picture",
        f"Diamonds: methods with a guarantee. One axis for all charts.{more}",
    )
    data = means_data(view, shown, [(name, metric) for name in names])
    alt = f"{words} of {len(names)} methods at {len(shown)} points, as in the table."
    return [as_picture(about, data, alt, [(label, rows_chart(words, rows, axis)) for label, rows in panels])]


_ALIKE = (Likeness.TESTED, Likeness.TOO_LITTLE, Likeness.REPEATED)
TESTED = "Significant: p below 0.05 after Holm’s correction over the family."


def _differences(view: StudyView) -> list[Exhibit]:
    """Two tables, each in parts of so many methods as can be read: what is tested, and gaps."""
    if view.metric is None or view.reference is None:
        return []
    question = compared(view, view.metric, view.reference)
    exhibits = []
    for tested in (True, False):
        rows = [contrast for contrast in question.contrasts if (contrast.standing in _ALIKE) is tested]
        names = [name for name in view.methods if any(contrast.method == name for contrast in rows)]
        for part, start in enumerate(range(0, len(names), ACROSS)):
            exhibits.append(_difference_table(view, question, rows, names[start : start + ACROSS], part, tested))
    return exhibits


def _difference_table(
    view: StudyView, question: Family, rows: Sequence[MeanContrast], names: Sequence[str], part: int, tested: bool
) -> Exhibit:
    cells = {(contrast.point, contrast.method): contrast for contrast in rows}
    points = [point for point in view.points if any((point, name) in cells for name in names)]
    lines = [(view.label(point), [contrast_entry(cells.get((point, name))) for name in names]) for point in points]
    reference, words = title(question.method), metric_words(view.metric or "")
    over = "seeds and test rows together" if view.row_scores is not None else "seeds alone"
    reading = f"What each has more {words} than {reference}, at the same seed. Interval: 95%, over {over}. "
    if tested:
        name, heading = "differences", f"Differences from {reference}, {question.rivals}"
        reading += (
            f"{TESTED} One family: {question.family}. What is not significant is grey and says so. Intervals are not"
            " corrected."
        )
    else:
        name, heading = "gaps", f"Gaps to {reference}: not like with like"
        reading += (
            f"Not tested: they guarantee something else than {reference} (another epsilon, delta, unit or"
            " neighbouring relation), or nothing."
        )
    if part:
        heading, name = f"{heading}, continued ({part + 1})", f"{name}-{part + 1}"
    shown = replace(question, contrasts=tuple(contrast for contrast in rows if contrast.method in names))
    data = contrast_frame(view, [shown])
    return as_table(About(name, heading, reading), data, list(map(title, names)), lines)


def contrast_entry(contrast: MeanContrast | None) -> Cell:
    """The difference, below it its interval, and what may be made of it."""
    if contrast is None:
        return Cell("–")
    text, interval = signed_text(contrast.difference), range_text(contrast.low, contrast.high)
    if contrast.significant:
        return Cell(text, interval)
    verdict = {
        Likeness.TESTED: "not significant",
        Likeness.TOO_LITTLE: "fewer than 3 seeds: not tested"
        if contrast.seeds < 3
        else "the same at every seed: not tested",
        Likeness.REPEATED: "the same as above: counted once",
    }.get(contrast.standing, contrast.standing.value)
    return Cell(text, "; ".join(part for part in (interval, verdict) if part), look="faint")


def lines_part(view: StudyView) -> PagePart | None:
    """None without an axis of at least `LEAST_POINTS` numbers, or a metric."""
    metric = view.metric
    if metric is None:
        return None
    # the reference first: it has the same colour in every picture
    names = sorted(judged(view, metric), key=lambda name: name != view.reference)
    shown, words = names[: len(LOOKS)], metric_words(metric)
    more = f" Of {len(names)} methods the first {len(LOOKS)}." if len(names) > len(LOOKS) else ""
    columns = [(name, metric) for name in shown]
    axes = view.numeric_axes(LEAST_POINTS)
    pictures = [lines_picture(view, axis, columns, list(map(title, shown)), words, more) for axis in axes]
    return as_part("lines", "Along an axis", pictures)


def contrasts_part(view: StudyView) -> PagePart | None:
    """None where nothing varies but the data set."""
    families = [family for family in questions(view) if family.axis]
    return as_part(
        "contrasts",
        "What an axis changes",
        [_contrast_table(view, families)] if families else [],
        "Each line compares one method with itself, at the same seeds: the plurality without noise, and every method"
        " with a guarantee. Each method is a family of its own.",
    )


def _once(question: Family) -> list[MeanContrast]:
    return [contrast for contrast in question.contrasts if contrast.standing is not Likeness.REPEATED]


def _place(view: StudyView, question: Family, contrast: MeanContrast) -> str:
    """Which point stands in place of which, and at which points of the further axes along which anything changes."""
    point = contrast.point[view.axes.index(question.axis)]
    others = [axis for axis in view.telling(question.method) if axis != question.axis and len(view.order[axis]) > 1]
    changed = f"{point} in place of {question.against}"
    if as_number(point) is not None:
        changed = f"{short(question.axis)} {changed}"
    return ", ".join([changed, *([view.label(contrast.point, others)] if others else [])])


def _contrast_table(view: StudyView, families: Sequence[Family]) -> Exhibit:
    lines = [
        (f"{title(family.method)}: {_place(view, family, contrast)}", _entries(family, contrast))
        for family in families
        for contrast in _once(family)
    ]
    about = About(
        "changes",
        "Other points of an axis in place of the natural one, or of the first",
        f"Difference in {metric_words(view.metric or '')}, with its interval (95%), which is not corrected. {TESTED}"
        f" Families: {'; '.join(family.family for family in families)}.",
    )
    headings = ("difference", "p", "corrected p", "comparisons")
    return as_table(about, contrast_frame(view, families), headings, lines)


def _entries(question: Family, contrast: MeanContrast) -> tuple[Cell, ...]:
    faint = "" if contrast.significant else "faint"
    p = [Cell("–" if value is None else f"{value:.2g}", look=faint) for value in (contrast.p, contrast.p_holm)]
    return (contrast_entry(contrast), *p, Cell(f"{len(question.tested)}" if contrast.p is not None else "–"))
