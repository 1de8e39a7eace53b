"""Each hospital left out in turn, as a forest: one interval each, their mean, and what a further one may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from consilium.report.charts import Drawing, ValueRow, rows_axis, rows_chart
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import range_text, signed_text, upper_first, value_text
from consilium.simulations.study.report.parts import About, as_part, as_picture, as_table, value_row
from consilium.simulations.study.summaries.left_out import ForestPlot, forests
from consilium.simulations.study.summaries.tidy import metric_words, noun, title
from consilium.simulations.study.summaries.view import StudyView

MOST_PANELS = 6
_FIRST = ("pooled", "plurality", "local")
_METRICS = ("auc", "accuracy", "brier")


def left_out_part(view: StudyView) -> PagePart | None:
    """None where nothing is left out in turn."""
    if view.metric is None or not view.left_out:
        return None
    methods = _methods(view)
    tables = [_table(view, [forest for method in methods for forest in forests(view, metric, method)], metric)
              for metric in sorted(_METRICS, key=lambda metric: metric != view.metric)]  # fmt: skip
    return as_part(
        "left-out",
        "Each place left out in turn",
        [tables[0], _differences(view, methods), *tables[1:]],
        f"Internal-external validation along {view.left_out}: a place is public, so that no method has trained on its"
        " labels. Half of its rows are the test rows. The student and methods that ask for labels see the"
        " other half without them. Intervals of places (95%) are over seeds and test rows.",
    )


def _methods(view: StudyView) -> list[str]:
    order = [name for name in (view.reference, *_FIRST, *view.methods) if name in view.methods]
    return list(dict.fromkeys(order))


def left_out_picture(view: StudyView) -> list[Exhibit]:
    """The forest of the first methods, in place of the picture of all methods; none where nothing is left out."""
    metric = view.metric
    if metric is None or not view.left_out:
        return []
    every = [forest for method in _methods(view) for forest in forests(view, metric, method)]
    shown = every[:MOST_PANELS]
    if not shown:
        return []
    panels = [(_name(view, forest), [*_lines(forest)]) for forest in shown]
    axis = rows_axis([row for _, rows in panels for row in rows])
    words = metric_words(shown[0].metric)
    left = f" The first {len(shown)} of {len(every)}; the table has all." if len(shown) < len(every) else ""
    about = About(
        "forest",
        f"{upper_first(words)} at each place, as a forest",
        f"Diamond: the mean over places, by random effects. Grey: where a further place is expected (95%).{left}",
    )
    charts: list[tuple[str, Drawing]] = [(label, rows_chart(words, rows, axis)) for label, rows in panels]
    alt = f"{words} at each place of {len(shown)} methods, with means over places."
    return [as_picture(about, _data(view, shown), alt, charts)]


def _lines(forest: ForestPlot) -> list[ValueRow]:
    rows = [value_row(place.place, place.value, *(place.ends or (None, None))) for place in forest.places]
    rows.append(value_row("mean over places", forest.mean, *forest.ends, marked=True))
    if forest.further is not None:
        text = f"{range_text(*forest.further)}"
        rows.append(ValueRow("a further place", forest.mean, forest.further, text, faint=True))
    return rows


def _name(view: StudyView, forest: ForestPlot) -> str:
    others = [axis for axis in view.axes if axis != view.left_out and len(view.order[axis]) > 1]
    label = view.label(forest.point, others) if others else ""
    return ", ".join(part for part in (title(forest.method), label) if part)


_COLUMNS = ("mean over places", "a further place", "least", "most", "tau", "I²", "places")


def _table(view: StudyView, every: Sequence[ForestPlot], metric: str) -> Exhibit | None:
    if not every:
        return None
    about = About(
        f"left-out-{metric}",
        f"{upper_first(metric_words(metric))} over places",
        "Random effects; below the mean its interval. Tau of AUC and accuracy is on the logit scale.",
    )
    rows = [(_name(view, forest), _cells(forest, signed=False)) for forest in every]
    return as_table(about, _data(view, every), _COLUMNS, rows, folded=metric != view.metric)


def _differences(view: StudyView, methods: Sequence[str]) -> Exhibit | None:
    if view.reference is None or view.metric is None:
        return None
    others = [method for method in methods if method != view.reference]
    every = [forest for other in others for forest in forests(view, view.metric, view.reference, other)]
    if not every:
        return None
    words = metric_words(view.metric)
    about = About(
        "left-out-differences",
        f"What {noun(view.reference)} has more {words} than others, over places",
        "The difference at each place at the same seeds, and its mean over places by random effects. Not tested:"
        " guarantees may differ.",
    )
    rows = []
    for forest in every:
        label = _name(view, forest).removeprefix(title(forest.method)).removeprefix(", ")
        named = ", ".join(part for part in (f"less {title(forest.against)}", label) if part)
        rows.append((named, _cells(forest, signed=True)))
    return as_table(about, _data(view, every), _COLUMNS, rows)


def _cells(forest: ForestPlot, signed: bool) -> list[Cell]:
    text = signed_text if signed else value_text
    least, most = (choose(forest.places, key=lambda place: place.value) for choose in (min, max))
    return [
        Cell(text(forest.mean), range_text(*forest.ends)),
        Cell("–" if forest.further is None else range_text(*forest.further)),
        Cell(text(least.value), least.place),
        Cell(text(most.value), most.place),
        Cell(value_text(forest.tau)),
        Cell(f"{forest.i2:.0%}"),
        Cell(f"{forest.pooled}", "" if forest.pooled == len(forest.places) else f"of {len(forest.places)}"),
    ]


def _data(view: StudyView, every: Sequence[ForestPlot]) -> pl.DataFrame:
    """A row for each place, with what is over all of them beside it."""
    rows: list[dict[str, Any]] = []
    for forest in every:
        whole = {
            **{axis: value for axis, value in zip(view.axes, forest.point, strict=True) if axis != view.left_out},
            "method": forest.method, "against": forest.against, "metric": forest.metric,
        }  # fmt: skip
        over = {
            "mean": forest.mean, "mean_low": forest.ends[0], "mean_high": forest.ends[1],
            "further_low": forest.further[0] if forest.further else None,
            "further_high": forest.further[1] if forest.further else None,
            "tau": forest.tau, "i2": forest.i2,
        }  # fmt: skip
        for place in forest.places:
            low, high = place.ends or (None, None)
            rows.append({**whole, view.left_out: place.place, "value": place.value, "low": low, "high": high} | over)
    return pl.DataFrame(rows, infer_schema_length=None)
