"""What another division, or the other end of an axis, changes for one method: a table and a picture of contrasts."""

from __future__ import annotations

from collections.abc import Sequence

from consilium.simulations.study.report.charts.forest import ForestRow, forest_axis, forest_chart
from consilium.simulations.study.report.exhibits import Entry, PictureExhibit, Section, TableExhibit
from consilium.simulations.study.report.sections.methods import MOST_PANELS, TESTED, contrast_entry
from consilium.simulations.study.summaries.questions import (
    Family,
    Kind,
    Likeness,
    MeanContrast,
    contrast_frame,
    questions,
)
from consilium.simulations.study.summaries.tidy import metric_words, range_text, short, signed_text, title
from consilium.simulations.study.summaries.view import StudyView

_ABOUT: dict[Kind, tuple[str, str]] = {
    "divisions": ("divisions", "Other divisions in place of the natural one"),
    "ends": ("ends", "From one end of an axis to the other"),
}


def contrasts_section(view: StudyView) -> Section | None:
    """None without an axis that has the natural division, or numbers."""
    asked = questions(view)
    found: list[TableExhibit | PictureExhibit] = []
    for kind in _ABOUT:
        some = [question for question in asked if question.kind == kind]
        if some:
            found += [_table(view, kind, some), _picture(view, kind, some)]
    if not found:
        return None
    sentence = (
        "Each line compares one method with itself, at the same seeds: the plurality without noise, and every method"
        " with a guarantee, under every mechanism. Each method is a family of its own."
    )
    return Section("contrasts", "What a division changes", [sentence], found)


def _rows(question: Family) -> list[MeanContrast]:
    return [each for each in question.contrasts if each.standing is not Likeness.REPEATED]


def _place(view: StudyView, question: Family, contrast: MeanContrast) -> str:
    """Which point stands in place of which, and at which points of the further axes along which anything changes."""
    point = contrast.at[view.axes.index(question.axis)]
    others = [axis for axis in view.telling(question.method) if axis != question.axis and len(view.order[axis]) > 1]
    changed = f"{point} in place of {question.against}"
    if question.kind == "ends":
        changed = f"{short(question.axis)} {point} in place of {question.against}"
    return ", ".join([changed, *([view.label(contrast.at, others)] if others else [])])


def _table(view: StudyView, kind: Kind, asked: Sequence[Family]) -> TableExhibit:
    lines = tuple(
        (f"{title(question.method)}: {_place(view, question, each)}", _entries(question, each))
        for question in asked
        for each in _rows(question)
    )
    name, heading = _ABOUT[kind]
    reading = (
        f"Difference in {metric_words(view.metric or '')}, with its interval (95%), which is not corrected. {TESTED}"
        f" Families: {'; '.join(question.family for question in asked)}."
    )
    headings = ("", "difference", "p", "corrected p", "comparisons")
    return TableExhibit(name, heading, reading, contrast_frame(view, asked), headings, lines)


def _entries(question: Family, contrast: MeanContrast) -> tuple[Entry, ...]:
    faint = not contrast.significant
    p = [Entry("–" if value is None else f"{value:.2g}", faint=faint) for value in (contrast.p, contrast.p_holm)]
    return (contrast_entry(contrast), *p, Entry(f"{len(question.tested)}" if contrast.p is not None else "–"))


def _picture(view: StudyView, kind: Kind, asked: Sequence[Family]) -> PictureExhibit:
    panels = [
        (title(question.method), [_drawn(view, question, each) for each in _rows(question)]) for question in asked
    ][:MOST_PANELS]
    axis = forest_axis([row for _, rows in panels for row in rows], zero=True)
    name, heading = _ABOUT[kind]
    words = metric_words(view.metric or "")
    left = f" The first {len(panels)} of {len(asked)} methods." if len(panels) < len(asked) else ""
    return PictureExhibit(
        f"{name}-picture",
        f"{heading}, as a picture",
        f"Right of the line: more {words} than {asked[0].against}. Diamonds: methods with a guarantee. Grey: not"
        f" significant, or not tested. One axis for all charts.{left}",
        contrast_frame(view, asked[: len(panels)]),
        f"Differences in {words} with their intervals, {sum(len(rows) for _, rows in panels)} lines.",
        tuple((method, forest_chart(f"difference in {words}", rows, axis, zero=True)) for method, rows in panels),
    )


def _drawn(view: StudyView, question: Family, contrast: MeanContrast) -> ForestRow:
    ends = None if contrast.low is None or contrast.high is None else (contrast.low, contrast.high)
    text = signed_text(contrast.difference) + (f" ({range_text(*ends)})" if ends else "")
    label = _place(view, question, contrast).replace(f" in place of {question.against}", "")
    return ForestRow(label, contrast.difference, ends, text, marked=question.private, faint=not contrast.significant)
