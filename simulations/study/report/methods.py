"""Methods beside each other and along axes: means over seeds, differences, gaps, and what another division changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from consilium.report.charts import (
    LOOKS,
    Drawing,
    Series,
    ValueRow,
    axis_over,
    lines_chart,
    rows_axis,
    rows_chart,
    values_axis,
)
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine
from consilium.report.words import range_text, signed_text, upper_first, value_text
from consilium.simulations.study.summaries.questions import (
    Family,
    Kind,
    Likeness,
    MeanContrast,
    Terms,
    compared,
    contrast_frame,
    questions,
    stated_terms,
)
from consilium.simulations.study.summaries.tidy import (
    METRICS,
    ends_text,
    figure_text,
    metric_words,
    short,
    title,
)
from consilium.simulations.study.summaries.view import Point, StudyView

ACROSS = 8
"""Columns of a table that can still be read."""

Column = tuple[str, str]
"""Method and metric."""


def as_part(name: str, heading: str, sentences: Sequence[str], exhibits: Sequence[Exhibit]) -> PagePart:
    """A part of the page."""
    return PagePart(f"part-{name}", heading, tuple(exhibits), tuple(sentences))


def as_table(
    name: str,
    heading: str,
    reading: str,
    data: pl.DataFrame,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Cell]]],
    folded: bool = False,
) -> Exhibit:
    """Rows with a name each; data: the numbers shown, unrounded. Secret, as all figures of a study are."""
    numbers = frozenset(range(1, len(columns)))
    lines = tuple(TableLine(label, tuple(cells)) for label, cells in rows)
    shown = Table(tuple(columns), lines, numbers, look="cards study")
    return Exhibit(name, heading, (reading,), table=shown, secret=True, look="folded" if folded else "", data=data)


def as_picture(
    name: str, heading: str, reading: str, data: pl.DataFrame, words: str, parts: Sequence[tuple[str, Drawing]]
) -> Exhibit:
    """Charts with the numbers shown, unrounded; words: what they show. Secret, as all figures of a study are."""
    return Exhibit(name, heading, (reading,), chart=Chart(words, tuple(parts)), secret=True, look="wide", data=data)


def figures_table(
    view: StudyView,
    columns: Sequence[Column],
    about: tuple[str, str, str],
    headings: Sequence[str],
    folded: bool = False,
) -> Exhibit | None:
    """Means over seeds with intervals: points that have any of it down, `columns` across.

    about: name, title, how to read it. None where no point has any of it.
    """
    points = [at for at in view.points if any((at, *column) in view.means for column in columns)]
    if not points:
        return None
    rows = tuple((view.label(at), tuple(entry(view, at, *column) for column in columns)) for at in points)
    return as_table(*about, means_data(view, points, columns), ("", *headings), rows, folded)


def alike(view: StudyView, axes: Sequence[str]) -> str:
    """What is said where a table or picture leaves axes out, since nothing in it changes along them."""
    left = [axis for axis in view.axes if axis not in axes and len(view.order[axis]) > 1]
    return f" The same at all values of {' and '.join(left)}." if left else ""


def means_data(view: StudyView, points: Sequence[Point], columns: Sequence[Column]) -> pl.DataFrame:
    """What such a table shows, one row for each figure."""
    rows = [
        view.means[at, method, metric]
        for at in points
        for method, metric in columns
        if (at, method, metric) in view.means
    ]
    shown = [*view.axes, "method", "metric", "mean", "low", "high", "seeds", "over"]
    return pl.DataFrame([{name: row[name] for name in shown} for row in rows], infer_schema_length=None)


def metric_tables(
    view: StudyView, method: str, metrics: Sequence[str], about: tuple[str, str, str], open_first: bool = True
) -> list[Exhibit]:
    """Metrics of one method: the first ones across, and all others, folded, down, with points across.

    Points between which nothing of the method changes are one line.
    """
    there = [metric for metric in metrics if any((at, method, metric) in view.means for at in view.points)]
    points, axes = view.distinct(method)
    name, title, reading = about[0], about[1], about[2] + alike(view, axes)
    first, further = there[:ACROSS], there[ACROSS:]
    if not first:
        return []
    rows = tuple((view.label(at, axes), tuple(entry(view, at, method, metric) for metric in first)) for at in points)
    headings = ("", *(metric_words(metric) for metric in first))
    data = means_data(view, view.points, [(method, metric) for metric in first])
    found = [as_table(name, title, reading, data, headings, rows, folded=not open_first)]
    for index in range(0, len(points), ACROSS) if further else ():
        some, part = points[index : index + ACROSS], f" ({index // ACROSS + 1})" if len(points) > ACROSS else ""
        down = tuple(
            (metric_words(metric), tuple(entry(view, at, method, metric) for at in some)) for metric in further
        )
        found.append(
            as_table(
                f"{name}-more-{index // ACROSS + 1}",
                f"{title}: all further figures{part}",
                reading,
                means_data(view, some, [(method, metric) for metric in further]),
                ("", *(view.label(at, axes) for at in some)),
                down,
                folded=True,
            )
        )
    return found


def chosen(names: Sequence[str], first: Sequence[str], unwanted: Callable[[str], bool] = lambda _: False) -> list[str]:
    """Those of `first` that are there, then the others in their order, without what is unwanted."""
    kept = [name for name in names if not unwanted(name)]
    return [name for name in first if name in kept] + [name for name in kept if name not in first]


def entry(view: StudyView, at: Point, method: str, metric: str) -> Cell:
    """The mean over seeds with its interval, for a cell."""
    row = view.means.get((at, method, metric))
    if row is None:
        return Cell("–")
    return Cell(figure_text(metric, row["mean"]), ends_text(metric, row["low"], row["high"]))


LEAST_POINTS = 3
"""Numbers on an axis that lines are drawn over, in place of the picture of all points."""
MOST_PANELS = 12
"""Charts in one picture; of more points only these are drawn, and the table has all."""
WORTH, WORTH_ABOVE = "hand_labels", "hand_labels_above"


def methods_part(view: StudyView) -> PagePart | None:
    """None where no method was judged by AUC or accuracy."""
    if view.metric is None:
        return None
    found: list[Exhibit] = []
    for metric in METRICS:
        table = _means(view, metric)
        found += [table] if table is not None else []
    found.sort(key=lambda table: table.name != f"methods-{view.metric}")
    picture = _forest(view)
    found[1:1] = [*picture, *_guarantees(view), *_differences(view), *_worth(view)]
    return as_part(
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


def _means(view: StudyView, metric: str) -> Exhibit | None:
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


def _guarantees(view: StudyView) -> list[Exhibit]:
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
    return [as_table("guarantees", "What each method guarantees", reading, data, headings, rows, folded=True)]


def _guarantee(terms: Sequence[Terms]) -> Cell:
    if not terms:
        return Cell("nothing", look="faint")
    epsilon, delta, unit, neighbouring = terms[0]
    relation = (neighbouring or "").replace("_", " ")
    return Cell(f"epsilon {value_text(epsilon)}", f"delta {delta:g}, a {unit}, {relation}")


def _worth(view: StudyView) -> list[Exhibit]:
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


def _forest(view: StudyView) -> list[Exhibit]:
    if view.numeric_axes(LEAST_POINTS):
        return []
    metric = view.metric or ""
    points = [at for at in view.points if any((at, name, metric) in view.means for name in view.methods)]
    shown = points[:MOST_PANELS]
    drawn = [(view.label(at), [_row(view, at, name, metric) for name in judged(view, metric)]) for at in shown]
    panels = [(label, [row for row in rows if row is not None]) for label, rows in drawn]
    if not panels:
        return []
    axis = rows_axis([row for _, rows in panels for row in rows])
    told = f" The first {len(shown)} of {len(points)} points; the table has all." if len(shown) < len(points) else ""
    data = means_data(view, shown, [(name, metric) for name in judged(view, metric)])
    parts = tuple((label, rows_chart(metric_words(metric), rows, axis)) for label, rows in panels)
    alt = f"{metric_words(metric)} of {len(judged(view, metric))} methods at {len(shown)} points, as in the table."
    reading = f"Diamonds: methods with a guarantee. One axis for all charts.{told}"
    return [
        as_picture(
            "methods-picture",
            f"{upper_first(metric_words(metric))} of each method, as a picture",
            reading,
            data,
            alt,
            parts,
        )
    ]


def _row(view: StudyView, at: Point, name: str, metric: str) -> ValueRow | None:
    found = view.means.get((at, name, metric))
    if found is None:
        return None
    ends = None if found["low"] is None else (found["low"], found["high"])
    text = value_text(found["mean"]) + (f" ({range_text(*ends)})" if ends else "")
    return ValueRow(title(name), found["mean"], ends, text, marked=name in view.private)


def _differences(view: StudyView) -> list[Exhibit]:
    """Two tables, each in parts of so many methods as can be read: what is tested, and gaps."""
    if view.metric is None or view.reference is None:
        return []
    question = compared(view, view.metric, view.reference)
    alike = [each for each in question.contrasts if each.standing in _ALIKE]
    gaps = [each for each in question.contrasts if each.standing not in _ALIKE]
    return [*_tables(view, question, alike, tested=True), *_tables(view, question, gaps, tested=False)]


_ALIKE = (Likeness.TESTED, Likeness.TOO_LITTLE, Likeness.REPEATED)


def _tables(view: StudyView, question: Family, rows: Sequence[MeanContrast], tested: bool) -> list[Exhibit]:
    names = [name for name in view.methods if any(each.method == name for each in rows)]
    parts = [names[at : at + ACROSS] for at in range(0, len(names), ACROSS)]
    return [_difference_table(view, question, rows, some, part, tested) for part, some in enumerate(parts)]


def _difference_table(
    view: StudyView, question: Family, rows: Sequence[MeanContrast], names: Sequence[str], part: int, tested: bool
) -> Exhibit:
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
    return as_table(name, heading, reading, contrast_frame(view, [shown]), headings, lines)


TESTED = "Significant: p below 0.05 after Holm’s correction over the family."


def contrast_entry(contrast: MeanContrast | None) -> Cell:
    """The difference, below it its interval, and what may be made of it."""
    if contrast is None:
        return Cell("–")
    text, under = signed_text(contrast.difference), range_text(contrast.low, contrast.high)
    if contrast.significant:
        return Cell(text, under)
    standing = contrast.standing
    said = "not significant" if standing is Likeness.TESTED else standing.value
    if standing is Likeness.TOO_LITTLE:
        said = "one seed: not tested" if contrast.seeds < 2 else "the same at every seed: not tested"
    if standing is Likeness.REPEATED:
        said = "the same as above: counted once"
    return Cell(text, "; ".join(part for part in (under, said) if part), look="faint")


MOST_LINE_PANELS = 9


def lines_part(view: StudyView) -> PagePart | None:
    """None without an axis of at least `LEAST_POINTS` numbers, or a metric."""
    metric = view.metric
    if metric is None:
        return None
    # the reference first: it has the same colour in every picture
    names = sorted(judged(view, metric), key=lambda name: name != view.reference)
    found = []
    for axis in view.numeric_axes(LEAST_POINTS):
        columns = [(name, metric) for name in names[: len(LOOKS)]]
        more = f" Of {len(names)} methods the first {len(LOOKS)}." if len(names) > len(LOOKS) else ""
        picture = lines_picture(view, axis, columns, [title(name) for name, _ in columns], metric_words(metric), more)
        found += [picture] if picture is not None else []
    return as_part("lines", "Along an axis", [], found) if found else None


def lines_picture(
    view: StudyView, axis: str, columns: Sequence[Column], names: Sequence[str], words: str, more: str = ""
) -> Exhibit | None:
    """One line for each column (method, metric) over this axis; words: what is drawn upwards."""
    others = [other for other in view.axes if other != axis and len(view.order[other]) > 1]
    place = view.axes.index(axis)
    groups: dict[Point, list[Point]] = {}
    for at in view.points:
        groups.setdefault((*at[:place], "", *at[place + 1 :]), []).append(at)
    panels = {}
    for group, points in list(groups.items())[:MOST_LINE_PANELS]:
        series = [
            _series(view, place, points, column, name, index)
            for index, (column, name) in enumerate(zip(columns, names, strict=True))
        ]
        there = [each for each in series if each.x]
        if there:
            panels[group] = there
    if not panels:
        return None
    log = True if axis in view.logarithmic else None
    over = {
        group: axis_over([value for one in series for value in one.x], short(axis), log)
        for group, series in panels.items()
    }
    up = values_axis([each for series in panels.values() for each in series], words)
    parts = tuple(
        (view.label(group, others) if others else "", lines_chart(series, (short(axis), words), over[group], up))
        for group, series in panels.items()
    )
    left = f" The first {MOST_LINE_PANELS} of {len(groups)} panels." if len(groups) > MOST_LINE_PANELS else ""
    shown = [at for group in panels for at in groups[group]]
    return as_picture(
        f"lines-{short(axis)}-{words}".replace(" ", "-"),
        f"{upper_first(words)} along {short(axis)}",
        "Bars are 95% intervals over seeds and test rows together; lines stand a little beside each"
        f" other so that bars can be told apart.{left}{more}",
        means_data(view, shown, columns),
        f"Lines of {words} over {short(axis)}: {', '.join(names)}; the download has the numbers.",
        parts,
    )


def _series(view: StudyView, place: int, points: Sequence[Point], column: Column, name: str, index: int) -> Series:
    rows = [(float(at[place]), view.means[at, *column]) for at in points if (at, *column) in view.means]
    rows.sort(key=lambda row: row[0])
    return Series(
        name,
        LOOKS[index % len(LOOKS)],
        [x for x, _ in rows],
        [row["mean"] for _, row in rows],
        [None if row["low"] is None else (row["low"], row["high"]) for _, row in rows],
    )


_ABOUT: dict[Kind, tuple[str, str]] = {
    "divisions": ("divisions", "Other divisions in place of the natural one"),
    "ends": ("ends", "From one end of an axis to the other"),
}


def contrasts_part(view: StudyView) -> PagePart | None:
    """None without an axis that has the natural division, or numbers."""
    asked = questions(view)
    found: list[Exhibit] = []
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
    return as_part("contrasts", "What a division changes", [sentence], found)


def _told_once(question: Family) -> list[MeanContrast]:
    return [each for each in question.contrasts if each.standing is not Likeness.REPEATED]


def _place(view: StudyView, question: Family, contrast: MeanContrast) -> str:
    """Which point stands in place of which, and at which points of the further axes along which anything changes."""
    point = contrast.at[view.axes.index(question.axis)]
    others = [axis for axis in view.telling(question.method) if axis != question.axis and len(view.order[axis]) > 1]
    changed = f"{point} in place of {question.against}"
    if question.kind == "ends":
        changed = f"{short(question.axis)} {point} in place of {question.against}"
    return ", ".join([changed, *([view.label(contrast.at, others)] if others else [])])


def _table(view: StudyView, kind: Kind, asked: Sequence[Family]) -> Exhibit:
    lines = tuple(
        (f"{title(question.method)}: {_place(view, question, each)}", _entries(question, each))
        for question in asked
        for each in _told_once(question)
    )
    name, heading = _ABOUT[kind]
    reading = (
        f"Difference in {metric_words(view.metric or '')}, with its interval (95%), which is not corrected. {TESTED}"
        f" Families: {'; '.join(question.family for question in asked)}."
    )
    headings = ("", "difference", "p", "corrected p", "comparisons")
    return as_table(name, heading, reading, contrast_frame(view, asked), headings, lines)


def _entries(question: Family, contrast: MeanContrast) -> tuple[Cell, ...]:
    faint = not contrast.significant
    p = [
        Cell("–" if value is None else f"{value:.2g}", look="faint" * faint) for value in (contrast.p, contrast.p_holm)
    ]
    return (contrast_entry(contrast), *p, Cell(f"{len(question.tested)}" if contrast.p is not None else "–"))


def _picture(view: StudyView, kind: Kind, asked: Sequence[Family]) -> Exhibit:
    panels = [
        (title(question.method), [_drawn(view, question, each) for each in _told_once(question)]) for question in asked
    ][:MOST_PANELS]
    axis = rows_axis([row for _, rows in panels for row in rows], zero=True)
    name, heading = _ABOUT[kind]
    words = metric_words(view.metric or "")
    left = f" The first {len(panels)} of {len(asked)} methods." if len(panels) < len(asked) else ""
    return as_picture(
        f"{name}-picture",
        f"{heading}, as a picture",
        f"Right of the line: more {words} than {asked[0].against}. Diamonds: methods with a guarantee. Grey: not"
        f" significant, or not tested. One axis for all charts.{left}",
        contrast_frame(view, asked[: len(panels)]),
        f"Differences in {words} with their intervals, {sum(len(rows) for _, rows in panels)} lines.",
        tuple((method, rows_chart(f"difference in {words}", rows, axis, zero=True)) for method, rows in panels),
    )


def _drawn(view: StudyView, question: Family, contrast: MeanContrast) -> ValueRow:
    ends = None if contrast.low is None or contrast.high is None else (contrast.low, contrast.high)
    text = signed_text(contrast.difference) + (f" ({range_text(*ends)})" if ends else "")
    label = _place(view, question, contrast).replace(f" in place of {question.against}", "")
    return ValueRow(label, contrast.difference, ends, text, marked=question.private, faint=not contrast.significant)
