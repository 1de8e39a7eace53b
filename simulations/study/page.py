"""The page of a study as one HTML file that needs no network, no scripts and no other file.

Every exhibit is secret, as all figures of a study are. Tables have their numbers, unrounded, for the download."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from consilium.protocol.files import replacing, writing
from consilium.report.charts import MOST_LINES, Dot, Drawing, Line, dots, limits, lines
from consilium.report.disclosure import epsilon_text
from consilium.report.exhibits import METHOD, Cell, Chart, Exhibit, Page, PagePart, Table, TableLine, as_html, pairs
from consilium.report.words import delta_text, many, range_text, signed_text, upper_first, value_text
from consilium.simulations.study.measures.between import ERROR, SCALES, SHIFT_KINDS
from consilium.simulations.study.spec import FACTS
from consilium.simulations.study.summaries.questions import MeanContrast, answers_of, changed, contrast_frame, questions
from consilium.simulations.study.summaries.view import (
    JUDGED,
    MEASURED,
    Point,
    Scores,
    StudyView,
    as_number,
    figure_text,
    metric,
    metric_words,
    short,
    study_view,
    title,
)

LEAST_POINTS = 3  # numbers on an axis that lines are drawn over, in place of a chart of each point
MOST_PANELS = 12  # charts in one picture; of more points only these are drawn, and the table has all
_SECRET = (
    "Functions of private rows without noise: not for publication unless the data are public. That holds for every"
    " table, picture and download here but those of what a method with a guarantee released."
)
_IN_SHORT = (
    "Computed from the table of results by fixed rules. Significant: p below 0.05 after Holm’s correction over the"
    " comparisons of one question; the largest change, over all changes. Methods are tested against each other where"
    " their guarantees are equal."
)
_OVER = (
    "Each value is a mean over seeds. Its interval (95%) is over seeds (partition, lots, noise) and test rows together,"
    " or the owners that these came from. Of one seed it is over test rows alone; of two seeds there is none."
)
_OF_PRIVACY = "epsilon_spent epsilon_data_dependent epsilon_sanitised asked answered labels_right"
_PARTIES = (
    (
        "shifts", "Which kind of difference", MEASURED[0],
        " ".join(f"shift_{kind} shift_{kind}_named" for kind in SHIFT_KINDS),
        f"Strength of each kind, and the share of seeds in which it is more than rows dealt at random give (p below"
        f" {ERROR} over all kinds together). "
        + upper_first("; ".join(f"{kind}: {scale}" for kind, scale in SCALES.items())) + ".",
    ),
    (
        "division", "Sizes and distances", MEASURED[0],
        "parties rows rows_median rows_most gini hellinger_mean hellinger_mean_floor c2st_auc_mean",
        "Of the partition alone, before anything is trained; below each mean its interval. Distances are of each"
        " party to all parties together, and the mean over parties. Floor: the same for parties of these sizes"
        " whose rows were dealt at random; only what lies above it is a property of the partition.",
    ),
    (
        "gain", "Who gains, and who loses: {} against {}", "",
        "gain_accuracy gain_accuracy_better gain_accuracy_worse gain_accuracy_worst_decile"
        " gain_accuracy_worst_decile_floor gain_accuracy_by_size gain_accuracy_by_distance",
        "Each party’s own held-out rows judge the method and the party’s own teachers alike. Gain: how much"
        " better. Worst decile: the mean over the tenth of the parties that gains least; floor: the same if no"
        " party gained more than another. By size, by distance: how gain goes with it (Spearman’s correlation).",
    ),
    (
        "votes", "How far the teachers agree", MEASURED[1],
        "consensus gap_p50 ambiguity_10 kappa plurality_right teacher_right_mean winners_flipped_mean"
        " winners_flipped_most",
        "Votes without noise, which no party and no guarantee releases. Winners flipped: rows whose winner is"
        " another without one of the parties.",
    ),
)  # fmt: skip
"""Unlikeness, gains at home, votes: name, heading, method ("": the reference), metrics, words."""
Key = tuple[Point, str, str]  # of a figure: point, method, metric


def write_study_report(results: pl.DataFrame, facts: Mapping[str, Any], scores: Scores, out: Path) -> list[str]:
    """Draw the page of a study into the file `out`, for its owner alone; its first sentences. results: the table of
    results. facts: what study.json says. scores: see `study_view`. Raises PathError, StorageError: it cannot be
    written."""
    view = study_view(results, facts["axes"], scores)
    contrasts = questions(view)
    answers = answers_of(view, contrasts)
    rules = Exhibit("rules", words=(_IN_SHORT,), look="small")
    found = [Exhibit("answers", items=tuple(answers), look="numbered"), rules]
    parts = [
        PagePart("part-answers", "In short", (*(found if answers else []), *_left_out(facts))),
        PagePart("part-methods", "Methods", tuple(_methods(view, contrasts)), (_OVER,)),
        PagePart("part-parties", "Parties", tuple(_parties(view))),
        PagePart("part-privacy", "Privacy", tuple(_privacy(view))),
        PagePart("part-made", "How it was made", tuple(_made(facts, view))),
    ]
    owners = dict.fromkeys(entry["attribution"] for entry in facts["data"] if entry["attribution"])
    data = [Markup("<strong>Data.</strong> {}").format(" ".join(owners))] if owners else []
    axes = ", ".join(f"{axis} ({len(view.order[axis])} values)" for axis in view.axes)
    over = f" over {axes}" if axes else ""
    summary = f"{many(len(view.methods), 'method')}{over}, with {many(len(view.seeds), 'seed')} each."
    page = Page(
        "Consilium · a study", facts["title"], [part for part in parts if part.exhibits],
        summary=tuple(filter(None, (summary, facts["description"]))),
        top=(Exhibit("secret", words=(_SECRET,), look="secret"),), footer=(*data, METHOD),
    )  # fmt: skip
    with writing(out), replacing(out, mode=0o600, part=f".{out.name}.{os.getpid()}.part") as file:
        file.write(as_html(page).encode())
    return answers


def _left_out(facts: Mapping[str, Any]) -> Iterator[Exhibit]:
    failed = [f"{entry['place']}: {entry['why']}" for entry in facts["failed"]]
    absent = Counter((entry["method"], entry["why"]) for entry in facts["absent"])
    missing = [f"{title(of)} in {many(count, 'cell')}: {why}" for (of, why), count in absent.items()]
    for name, heading, look, items in (
        ("failed", f"{many(len(failed), 'cell')} could not be computed.", "warn", failed),
        ("left-out", "Not everybody takes part.", "warn", [entry["text"] for entry in facts["warnings"]]),
        ("absent", "Not there", "open", missing),
    ):
        if items:
            yield Exhibit(name, heading, items=tuple(items), look=look)


def _table(
    name: str, heading: str, words: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]],
    data: pl.DataFrame,
) -> Iterator[Exhibit]:  # fmt: skip
    shown = tuple(TableLine(label, tuple(cells)) for label, cells in rows)
    table = Table(("", *columns), shown, frozenset(range(1, len(columns) + 1)))
    if rows:
        yield Exhibit(name, heading, (words,), table, secret=True, data=data)


def _figures(
    view: StudyView, name: str, heading: str, words: str, columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Key]]],
) -> Iterator[Exhibit]:  # fmt: skip
    there = [place for place in range(len(columns)) if any(keys[place] in view.means for _, keys in rows)]
    kept = [(label, [keys[place] for place in there]) for label, keys in rows]
    kept = [(label, keys) for label, keys in kept if any(key in view.means for key in keys)]
    keyed = [(key, view.means[key]) for _, keys in kept for key in keys if key in view.means]
    named = (*view.axes, "method", "metric")
    whole = [dict(zip(named, (*key[0], *key[1:]), strict=True)) | mean._asdict() for key, mean in keyed]
    shown = [(label, [_cell(view, key) for key in keys]) for label, keys in kept]
    data = pl.DataFrame(whole, infer_schema_length=None)
    yield from _table(name, heading, words, [columns[place] for place in there], shown, data)


def _cell(view: StudyView, key: Key) -> Cell:
    known = view.means.get(key)
    return Cell("–") if known is None else Cell(*figure_text(key[2], known.mean, known.low, known.high))


def _methods(view: StudyView, contrasts: Sequence[MeanContrast]) -> list[Exhibit]:
    if view.metric is None:
        return []
    between, along = ([one for one in contrasts if bool(one.axis) == axis] for axis in (False, True))
    exhibits = list(_charts(view, view.metric))
    for name in sorted(JUDGED, key=lambda name: name != view.metric):
        methods = view.judged(name)
        rows = [(view.label(point), [(point, method, name) for method in methods]) for point in view.points]
        less = " Less is better." if name == "brier" else ""
        reading = f"On the public test rows; below each mean its interval.{less}"
        which = "methods" if name == view.metric else f"methods-{name}"
        exhibits += _figures(view, which, _heading(name), reading, list(map(title, methods)), rows)
    return [
        *exhibits,
        *_contrasts(
            view, "changes", "Other points of an axis in place of the natural one, or of the first", along,
            "Each line compares one method with itself. One family for each axis and method.",
        ),
        *_contrasts(
            view, "differences", f"Other methods in place of {title(view.reference or '')}", between,
            "Guarantees differ where epsilon, delta, unit or neighbouring relation does. One family.",
        ),
    ]  # fmt: skip


def _heading(lead: str) -> str:
    return f"{upper_first(metric_words(lead))} of each method"


def _charts(view: StudyView, lead: str) -> Iterator[Exhibit]:
    """Lines over each axis of numbers, the reference first, so that it has the same colour in all; without one all
    methods at each point."""
    numbers = {axis for axis, points in view.order.items() if None not in map(as_number, points)}
    numeric = [axis for axis in view.axes if axis in numbers and len(view.order[axis]) >= LEAST_POINTS]
    names = view.judged(lead)
    drawn = sorted(names, key=lambda name: name != view.reference)[:MOST_LINES] if numeric else names
    for axis in numeric or [""]:
        others, panels = [other for other in view.axes if other != axis and len(view.order[other]) > 1], {}
        for point in view.points:
            label = view.label(point, others) if others or not axis else ""
            keys = [(point, name, lead) for name in drawn if (point, name, lead) in view.means]
            panels.setdefault(label, []).extend(keys)
        shown = [(label, keys) for label, keys in panels.items() if keys][:MOST_PANELS]
        means = [view.means[key] for _, keys in shown for key in keys]
        if not means:
            return
        scale = limits([end for mean in means for end in (mean.mean, *(mean.ends or ()))], metric(lead).within)
        heading = f"{_heading(lead)} along {short(axis)}" if axis else _heading(lead)
        words = "Bars are 95% intervals." if axis else "Diamonds: methods with a guarantee. One axis for all panels."
        words += f" Of {len(names)} methods the first {len(drawn)}." if len(drawn) < len(names) else ""
        few = f" The first {len(shown)} of {len(panels)} panels; the table has all."
        words += few if len(shown) < len(panels) else ""
        chart = Chart(f"{heading}. {words}", tuple((label, _panel(view, keys, axis, scale)) for label, keys in shown))
        name = f"lines-{short(axis)}".replace(" ", "-") if axis else "chart"
        yield Exhibit(name, heading, (words,), chart=chart, secret=True, look="wide")


def _panel(view: StudyView, keys: Sequence[Key], axis: str, scale: tuple[float, float]) -> Drawing:
    lead = metric_words(keys[0][2])
    if not axis:
        rows = []
        for _, of, mean in ((*key[:2], view.means[key]) for key in keys):
            told = value_text(mean.mean) + (f" ({range_text(*mean.ends)})" if mean.ends else "")
            rows.append(Dot(title(of), mean.mean, mean.ends, told, of in view.private))
        return dots(rows, lead, scale)
    place, series = view.axes.index(axis), []
    for method in dict.fromkeys(key[1] for key in keys):
        mine = sorted((key for key in keys if key[1] == method), key=lambda key: float(key[0][place]))
        means = [view.means[key] for key in mine]
        across = [float(key[0][place]) for key in mine]
        series.append(Line(title(method), across, [mean.mean for mean in means], [mean.ends for mean in means]))
    return lines(series, (short(axis), lead), y=scale)


def _contrasts(
    view: StudyView, name: str, heading: str, contrasts: Sequence[MeanContrast], words: str
) -> Iterator[Exhibit]:
    rows = []
    for each in sorted(contrasts, key=lambda one: (one.p is None and not one.axis, -abs(one.difference))):
        why = "" if each.significant else "not significant" if each.p is not None else each.verdict
        under = "; ".join(filter(None, (range_text(each.low, each.high), why)))
        look = "faint" if why else ""
        p = Cell("–", look=look)
        if each.p is not None:
            p = Cell(f"{each.p:.2g}", f"corrected over {each.comparisons}: {each.p_holm:.2g}", look)
        label = changed(view, each) if each.axis else view.label(each.point)
        rows.append((f"{title(each.method)}: {label}", [Cell(signed_text(each.difference), under, look), p]))
    words = (
        f"Difference in {metric_words(view.metric or '')} at the same seeds, with its interval (95%). {words}"
        " Significant: p below 0.05 after Holm’s correction over the comparisons of its family; the rest is grey."
    )
    yield from _table(name, heading, words, ("difference", "p"), rows, contrast_frame(view, contrasts))


def _parties(view: StudyView) -> Iterator[Exhibit]:
    for name, heading, method, names, words in _PARTIES:
        method = method or view.reference or ""
        points, axes = view.distinct(method)
        same = [axis for axis in view.axes if axis not in axes and len(view.order[axis]) > 1]
        words += f" The same at all values of {' and '.join(same)}." if same else ""
        rows = [(view.label(point, axes), [(point, method, of) for of in names.split()]) for point in points]
        heading = heading.format(title(method), title("local"))
        yield from _figures(view, name, heading, words, list(map(metric_words, names.split())), rows)


def _privacy(view: StudyView) -> Iterator[Exhibit]:
    stated = view.frame.filter((pl.col("scope") == "run") & (pl.col(FACTS[2]) != "none"))
    terms = stated.group_by([*view.axes, "method"]).agg(pl.col(FACTS[0]).max(), pl.col(FACTS[1:4]).first())
    found = {(tuple(row[axis] for axis in view.axes), row["method"]): row for row in terms.iter_rows(named=True)}
    sides = [(point, method) for method in view.methods for point in view.points if (point, method) in found]
    names = [name for name in _OF_PRIVACY.split() if any((*side, name) in view.means for side in sides)]
    rows, data = [], []
    for side in sides:
        epsilon, delta, unit, relation = (found[side][fact] for fact in FACTS[:4])
        under = f"delta {delta_text(delta)}, a {unit}, {relation.replace('_', ' ')}"
        cells = [Cell(f"epsilon {epsilon_text(epsilon)}", under), *(_cell(view, (*side, name)) for name in names)]
        rows.append((f"{title(side[1])}, {view.label(side[0])}", cells))
        data.append(found[side] | {name: view.mean(*side, name) for name in names})
    words = (
        "The guarantee holds before anything is asked, towards whoever gets the result. Methods are tested against each"
        " other where all of it is equal, epsilon to one in a thousand; methods that are not here guarantee nothing."
        " Spent and data dependent are of what came out: a data-dependent epsilon may not be published."
    )
    columns, frame = ["guarantee", *map(metric_words, names)], pl.DataFrame(data, infer_schema_length=None)
    yield from _table("privacy", "What each method guarantees, and what it released", words, columns, rows, frame)


def _made(facts: Mapping[str, Any], view: StudyView) -> Iterator[Exhibit]:
    origin: dict[str, Any] = {
        **{axis: "; ".join(view.order[axis]) for axis in view.axes},
        "seeds": ", ".join(map(str, view.seeds)),
        "methods": "; ".join(map(title, view.methods)),
        "cells": f"{facts['cells']:,}; {many(len(facts['failed']), 'cell')} failed",
        "cells computed before": facts["found"],
        "study": facts["spec_digest"],
        "results of": facts["created"],
        "seconds": facts["seconds"],
        "processes": facts["workers"],
        **{f"digest of the rows of {entry['set']}": entry["digest"] for entry in facts["data"]},
        **facts["versions"],
    }
    if facts["command"]:
        yield Exhibit("command", words=(Markup("<code>{}</code>").format(facts["command"]),))
    rows = [(key, str(value)) for key, value in origin.items() if value]
    yield Exhibit("origin", "Axes, seeds, versions, seconds", table=pairs(rows), look="folded")
    yield Exhibit("files", words=("All figures: results.csv and results.parquet, one row for each.",), look="small")
