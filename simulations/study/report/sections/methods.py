"""Methods beside each other: means over seeds, differences between those with the same guarantee, gaps to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from consilium.simulations.study.report.charts.forest import ForestRow, forest_axis, forest_chart
from consilium.simulations.study.report.exhibits import Entry, PictureExhibit, Section, TableExhibit
from consilium.simulations.study.report.sections.tables import ACROSS, figures_table, means_data
from consilium.simulations.study.summaries.questions import (
    Family,
    Likeness,
    MeanContrast,
    Terms,
    compared,
    contrast_frame,
    stated_terms,
)
from consilium.simulations.study.summaries.tidy import (
    METRICS,
    metric_words,
    range_text,
    signed_text,
    title,
    upper_first,
    value_text,
)
from consilium.simulations.study.summaries.view import Point, StudyView

LEAST_POINTS = 3
"""Numbers on an axis that lines are drawn over, in place of the picture of all points."""
MOST_PANELS = 12
"""Charts in one picture; of more points only these are drawn, and the table has all."""
WORTH, WORTH_ABOVE = "hand_labels", "hand_labels_above"


def methods_section(view: StudyView) -> Section | None:
    """None where no method was judged by AUC or accuracy."""
    if view.metric is None:
        return None
    found: list[TableExhibit | PictureExhibit] = []
    for metric in METRICS:
        table = _means(view, metric)
        found += [table] if table is not None else []
    found.sort(key=lambda table: table.name != f"methods-{view.metric}")
    picture = _forest(view)
    found[1:1] = [*picture, *_guarantees(view), *_differences(view), *_worth(view)]
    return Section(
        "methods",
        "Methods",
        [
            "Each value is a mean over seeds. Its interval (95%) is over seeds (division, lots, noise) and test rows"
            " together, or the owners that these came from; the download says what each is over.",
            *([] if view.row_scores is not None else [_NO_ROW_SCORES]),
        ],
        found,
    )


_NO_ROW_SCORES = (
    "This folder was written by a version before 0.10, which kept nothing of single test rows: differences are tested"
    " over seeds alone, as if every seed had test rows of its own, and are less certain than they look. Run the study"
    " again to mend it."
)


def judged(view: StudyView, metric: str) -> list[str]:
    """Methods that have this metric anywhere."""
    return [name for name in view.methods if any((at, name, metric) in view.means for at in view.points)]


def _means(view: StudyView, metric: str) -> TableExhibit | None:
    names = judged(view, metric)
    return figures_table(
        view,
        [(name, metric) for name in names],
        (
            f"methods-{metric}",
            f"{upper_first(metric_words(metric))} of each method",
            "On the public test rows; below each mean its interval."
            + (" Less is better." if metric in ("brier", "ece") else ""),
        ),
        [title(name) for name in names],
        folded=metric != view.metric,
    )


def _guarantees(view: StudyView) -> list[TableExhibit]:
    """What methods guarantee, which decides what is compared; none where no method does."""
    stated = {
        key: [each for each in terms if each[2] not in (None, "none")] for key, terms in stated_terms(view).items()
    }
    names = [name for name in view.methods if any(stated.get((at, name)) for at in view.points)][:ACROSS]
    if not names:
        return []
    rows = tuple(
        (view.label(at), tuple(_guarantee(stated.get((at, name), [])) for name in names)) for at in view.points
    )
    data = pl.DataFrame(
        [
            dict(
                zip((*view.axes, "method", "epsilon", "delta", "unit", "neighbouring"), (*at, name, *each), strict=True)
            )
            for at in view.points
            for name in names
            for each in stated.get((at, name), [])
        ],
        infer_schema_length=None,
    )
    reading = (
        "Before anything is asked, towards whoever gets the result. Methods are tested against each other where all of"
        " it is equal, epsilon to one in a thousand; all other methods guarantee nothing."
    )
    headings = ("", *(title(name) for name in names))
    return [TableExhibit("guarantees", "What each method guarantees", reading, data, headings, rows, folded=True)]


def _guarantee(terms: Sequence[Terms]) -> Entry:
    if not terms:
        return Entry("nothing", faint=True)
    epsilon, delta, unit, neighbouring = terms[0]
    relation = (neighbouring or "").replace("_", " ")
    return Entry(f"epsilon {value_text(epsilon)}", f"delta {delta:g}, a {unit}, {relation}")


def _worth(view: StudyView) -> list[TableExhibit]:
    """How many labels by hand make as good a model."""
    columns = [(name, metric) for name in view.private for metric in (WORTH, WORTH_ABOVE)]
    there = [column for column in columns if any((at, *column) in view.means for at in view.points)]
    told = (
        "worth",
        "What the models are worth in labels by hand",
        "So many true labels of public rows, drawn by lot, give the student’s own trainer a model as good. “More"
        " than”: not even so many do; mean over the seeds of each kind.",
    )
    headings = [title(name) + (", more than" if metric == WORTH_ABOVE else "") for name, metric in there]
    table = figures_table(view, there, told, headings)
    return [table] if table is not None else []


def _forest(view: StudyView) -> list[PictureExhibit]:
    if view.numeric_axes(LEAST_POINTS):
        return []
    metric = view.metric or ""
    points = [at for at in view.points if any((at, name, metric) in view.means for name in view.methods)]
    shown = points[:MOST_PANELS]
    drawn = [(view.label(at), [_row(view, at, name, metric) for name in judged(view, metric)]) for at in shown]
    panels = [(label, [row for row in rows if row is not None]) for label, rows in drawn]
    if not panels:
        return []
    axis = forest_axis([row for _, rows in panels for row in rows])
    told = f" The first {len(shown)} of {len(points)} points; the table has all." if len(shown) < len(points) else ""
    data = means_data(view, shown, [(name, metric) for name in judged(view, metric)])
    parts = tuple((label, forest_chart(metric_words(metric), rows, axis)) for label, rows in panels)
    alt = f"{metric_words(metric)} of {len(judged(view, metric))} methods at {len(shown)} points, as in the table."
    reading = f"Diamonds: methods with a guarantee. One axis for all charts.{told}"
    return [
        PictureExhibit(
            "methods-picture",
            f"{upper_first(metric_words(metric))} of each method, as a picture",
            reading,
            data,
            alt,
            parts,
        )
    ]


def _row(view: StudyView, at: Point, name: str, metric: str) -> ForestRow | None:
    found = view.means.get((at, name, metric))
    if found is None:
        return None
    ends = None if found["low"] is None else (found["low"], found["high"])
    text = value_text(found["mean"]) + (f" ({range_text(*ends)})" if ends else "")
    return ForestRow(title(name), found["mean"], ends, text, marked=name in view.private)


def _differences(view: StudyView) -> list[TableExhibit]:
    """Two tables, each in parts of so many methods as can be read: what is tested, and gaps."""
    if view.metric is None or view.reference is None:
        return []
    question = compared(view, view.metric, view.reference)
    alike = [each for each in question.contrasts if each.standing in _ALIKE]
    gaps = [each for each in question.contrasts if each.standing not in _ALIKE]
    return [*_tables(view, question, alike, tested=True), *_tables(view, question, gaps, tested=False)]


_ALIKE = (Likeness.TESTED, Likeness.TOO_LITTLE, Likeness.REPEATED)


def _tables(view: StudyView, question: Family, rows: Sequence[MeanContrast], tested: bool) -> list[TableExhibit]:
    names = [name for name in view.methods if any(each.method == name for each in rows)]
    parts = [names[at : at + ACROSS] for at in range(0, len(names), ACROSS)]
    return [_difference_table(view, question, rows, some, part, tested) for part, some in enumerate(parts)]


def _difference_table(
    view: StudyView, question: Family, rows: Sequence[MeanContrast], names: Sequence[str], part: int, tested: bool
) -> TableExhibit:
    cells = {(each.at, each.method): each for each in rows}
    points = [at for at in view.points if any((at, name) in cells for name in names)]
    lines = tuple((view.label(at), tuple(contrast_entry(cells.get((at, name))) for name in names)) for at in points)
    reference, words = title(question.method), metric_words(view.metric or "")
    over = "seeds and test rows together" if view.row_scores is not None else "seeds alone"
    reading = f"What each has more {words} than {reference}, at the same seed. Interval: 95%, over {over}. "
    heading, name = f"Differences from {reference}, {question.rivals}", "differences"
    if tested:
        reading += (
            f"{TESTED} One family: {question.family}. What is not significant is grey and says so. Intervals are not"
            " corrected."
        )
    else:
        unknown = any(each.standing is Likeness.UNKNOWN for each in rows)
        heading, name = f"Gaps to {reference}: not like with like", "gaps"
        reading += (
            "These results do not say what methods guarantee, so nothing is tested: run the study again."
            if unknown
            else f"Not tested: they guarantee something else than {reference} (another epsilon, delta, unit or"
            " neighbouring relation), or nothing."
        )
    if part:
        heading, name = f"{heading}, continued ({part + 1})", f"{name}-{part + 1}"
    shown = replace(question, contrasts=tuple(each for each in rows if each.method in names))
    headings = ("", *(title(each) for each in names))
    return TableExhibit(name, heading, reading, contrast_frame(view, [shown]), headings, lines)


TESTED = "Significant: p below 0.05 after Holm’s correction over the family."


def contrast_entry(contrast: MeanContrast | None) -> Entry:
    """The difference, below it its interval, and what may be made of it."""
    if contrast is None:
        return Entry("–")
    text, under = signed_text(contrast.difference), range_text(contrast.low, contrast.high)
    if contrast.significant:
        return Entry(text, under)
    standing = contrast.standing
    said = "not significant" if standing is Likeness.TESTED else standing.value
    if standing is Likeness.TOO_LITTLE:
        said = "one seed: not tested" if contrast.seeds < 2 else "the same at every seed: not tested"
    if standing is Likeness.REPEATED:
        said = "the same as above: counted once"
    return Entry(text, "; ".join(part for part in (under, said) if part), faint=True)
