"""What the parties are, how unlike each other, and who gains at home against being alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from consilium.report.charts import (
    LOOKS,
    Drawing,
    Key,
    RuleAcross,
    Series,
    ValueRow,
    cloud_chart,
    heat_chart,
    lines_chart,
    rows_chart,
    values_axis,
)
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import upper_first, value_text
from consilium.simulations.artifact import Arrays
from consilium.simulations.study.report.methods import (
    as_part,
    as_picture,
    as_table,
    chosen,
    figures_table,
    means_data,
    metric_tables,
)
from consilium.simulations.study.summaries.sentences import ALONE, AT_HOME, party_gains, worst_decile
from consilium.simulations.study.summaries.tidy import metric_words, title
from consilium.simulations.study.summaries.view import Point, StudyView

METHOD = "division"
GAIN, HOME = "gain_", "home_"
FLOOR = "_floor"
MOST_PANELS = 8
MOST_PARTIES = 120
"""In the picture of parties by classes; of more, as many evenly over all sizes."""
_FIRST = (
    "parties",
    "rows",
    "rows_median",
    "rows_most",
    "gini",
    "effective_parties",
    "hellinger_mean",
    "hellinger_mean_floor",
    "js_mean",
    "tv_mean",
    "mmd2_mean",
    "mmd2_mean_floor",
    "c2st_auc_mean",
)
_WITH_FLOOR = ("hellinger_mean", "hellinger_weighted", "js_mean", "tv_mean", "hellinger_pairwise", "mmd2_mean")
Matrices = Mapping[Point, Arrays]
"""Of the first seed of each point that has any."""


def division_part(view: StudyView, matrices: Matrices) -> PagePart | None:
    """None where nothing was measured of a division."""
    metrics = chosen(view.run_metrics(METHOD), _FIRST)
    about = (
        "division",
        "Sizes and distances",
        "Of the division alone, before anything is trained; below each mean its interval. Distances of labels and"
        " features are of each party to all parties together, and the mean over parties.",
    )
    found: list[Exhibit] = [*metric_tables(view, METHOD, metrics, about)]
    pictures = [_floors(view, metrics), _sizes(view), _classes(view, matrices), _distances(view, matrices)]
    found[1:1] = [picture for picture in pictures if picture is not None]
    return as_part("division", "How unlike the parties are", [], found) if found else None


def _floors(view: StudyView, metrics: Sequence[str]) -> Exhibit | None:
    """Distances with the floor that parties of these sizes would have by chance."""
    having = [metric for metric in _WITH_FLOOR if metric in metrics and metric + FLOOR in metrics]
    points, axes = view.distinct(METHOD)
    parts, columns = [], []
    for metric in having:
        rows = [row for at in points if (row := _with_floor(view, at, axes, metric)) is not None]
        if rows:
            keys = [Key("fill blue", "measured", "dot"), Key("ring blue", "floor: by chance", "dot")]
            parts.append((metric_words(metric), rows_chart("", rows, keys=keys)))
            columns += [(METHOD, metric), (METHOD, metric + FLOOR)]
    if not parts:
        return None
    return as_picture(
        "floors",
        "Distances, and what of them is chance",
        "Small parties differ by chance however rows are divided. Ring: the same for parties of these sizes whose"
        " rows were dealt by lot. Only what lies to the right of its ring is a property of the division. Bars: 95%,"
        " over seeds.",
        means_data(view, view.points, columns),
        f"Distances with their floors: {', '.join(metric_words(metric) for metric in having)}.",
        tuple(parts),
    )


def _with_floor(view: StudyView, at: Point, axes: Sequence[str], metric: str) -> ValueRow | None:
    found, floor = view.means.get((at, METHOD, metric)), view.mean(at, METHOD, metric + FLOOR)
    if found is None or floor is None:
        return None
    ends = None if found["low"] is None else (found["low"], found["high"])
    return ValueRow(
        view.label(at, axes),
        found["mean"],
        ends,
        f"{value_text(found['mean'])}, floor {value_text(floor)}",
        other=floor,
    )


def _sizes(view: StudyView) -> Exhibit | None:
    """Rows of the parties, from the largest to the smallest, one line for each division."""
    rows = view.frame.filter(
        (pl.col("method") == METHOD)
        & (pl.col("scope") == "party")
        & (pl.col("metric") == "rows")
        & (pl.col("value") > 0)
    )
    first = rows.filter(pl.col("seed") == pl.col("seed").min().over(view.axes) if view.axes else pl.lit(True))
    series, seen = [], set()
    points, axes = view.distinct(METHOD)
    for at in points:
        sizes = sorted(view.at(first, at)["value"].to_list(), reverse=True)
        if not sizes or tuple(sizes) in seen or len(series) == len(LOOKS):
            continue
        seen.add(tuple(sizes))
        places = np.unique(np.linspace(0, len(sizes) - 1, min(len(sizes), 60)).round().astype(int)).tolist()
        x, y = [place + 1.0 for place in places], [sizes[place] for place in places]
        series.append(Series(view.label(at, axes), LOOKS[len(series)], x, y))
    if not series:
        return None
    titles = ("party, the largest first", "rows (logarithmic)")
    data = first.select(*view.axes, "seed", "name", "value").rename({"name": "party", "value": "rows"})
    return as_picture(
        "sizes",
        "Parties by size",
        "Rows of each party, the largest first, of one seed. Divisions with the very same sizes share a line, under"
        " the first one’s name.",
        data,
        f"Sizes of parties in {len(series)} divisions.",
        (("", lines_chart(series, titles, y=values_axis(series, titles[1], log=True))),),
    )


def _classes(view: StudyView, matrices: Matrices) -> Exhibit | None:
    """Parties by classes: which share of a party's rows each class has."""
    return _panels(
        view,
        matrices,
        "counts",
        _class_shares,
        (
            "classes",
            "Parties by classes",
            f"Each line is a party, the largest above; its shade is the share of its rows that are of the class."
            f" At most {MOST_PARTIES} parties, evenly over all sizes; one seed.",
        ),
        lambda found: [str(name) for name in found.get("classes", [])],
        ("class", "parties, the largest above"),
        lambda found: _named(found["counts"], found.get("parties"), found.get("classes")),
        (0.0, 1.0),
    )


def _distances(view: StudyView, matrices: Matrices) -> Exhibit | None:
    """Label distances between each two parties."""
    return _panels(
        view,
        matrices,
        "label_distance",
        lambda found: found["label_distance"],
        (
            "distances",
            "How far apart each two parties are",
            "Hellinger distance of the labels of each two of the largest parties, in the same order down and across.",
        ),
        lambda _: [],
        ("party", "party"),
        lambda found: _named(found["label_distance"], found.get("distance_parties"), found.get("distance_parties")),
        None,
    )


def _class_shares(found: Arrays) -> np.ndarray:
    counts = np.asarray(found["counts"], dtype=np.float64)
    by_size = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
    places = np.unique(np.linspace(0, len(by_size) - 1, min(len(by_size), MOST_PARTIES)).round().astype(int))
    kept = by_size[places]
    return kept / np.maximum(kept.sum(axis=1, keepdims=True), 1)


def _named(values: np.ndarray, down: np.ndarray | None, across: np.ndarray | None) -> pl.DataFrame:
    """A matrix with names, for the download."""
    columns = range(values.shape[1]) if across is None else across.tolist()
    body = pl.DataFrame({f"{name}": values[:, index] for index, name in enumerate(columns)})
    names = [str(index) for index in range(len(values))] if down is None else down.tolist()
    return body.select(pl.Series("row", names), pl.all())


def _panels(
    view: StudyView,
    matrices: Matrices,
    key: str,
    drawn: Callable[[Arrays], np.ndarray],
    about: tuple[str, str, str],
    columns: Callable[[Arrays], Sequence[str]],
    titles: tuple[str, str],
    data: Callable[[Arrays], pl.DataFrame],
    limits: tuple[float, float] | None,
) -> Exhibit | None:
    """One matrix for each point that has it, all in the same shades; equal ones once."""
    values: dict[Point, np.ndarray] = {}
    for at, found in matrices.items():
        if key in found and found[key].ndim == 2 and found[key].size:
            one = np.asarray(drawn(found), dtype=np.float64)
            if not any(
                one.shape == other.shape and np.array_equal(one, other, equal_nan=True) for other in values.values()
            ):
                values[at] = one
    shown = list(values)[:MOST_PANELS]
    finite = np.concatenate([values[at][np.isfinite(values[at])] for at in shown]) if shown else np.zeros(0)
    if not finite.size:
        return None
    shades = limits or (float(finite.min()), float(finite.max()))
    axes = view.telling(METHOD)
    parts: list[tuple[str, Drawing]] = [
        (view.label(at, axes), heat_chart(values[at], columns(matrices[at]), titles, shades)) for at in shown
    ]
    left = f" The first {len(shown)} of {len(values)} that differ." if len(shown) < len(values) else ""
    told = pl.concat(
        [data(matrices[at]).select(pl.lit(view.label(at, axes)).alias("point"), pl.all()) for at in shown],
        how="diagonal_relaxed",
    )
    name, title, reading = about
    return as_picture(name, title, reading + left, told, f"{title}: {len(shown)} matrices as shades.", tuple(parts))


def cross_site(view: StudyView, matrices: Matrices) -> Exhibit | None:
    """Teachers of one party on the held-out rows of another."""
    key = next(
        (
            name
            for name in ("cross_site_auc", "cross_site_accuracy")
            if any(name in found for found in matrices.values())
        ),
        "",
    )
    return _panels(
        view,
        matrices,
        key,
        lambda found: found[key],
        (
            "cross-site",
            "Teachers of one party on the rows of another",
            "Down: whose teachers; across: whose held-out rows. A diagonal that stands out says that parties differ"
            " in more than size: their own teachers know what others’ do not.",
        ),
        lambda _: [],
        ("rows of party", "teachers of party"),
        lambda found: _named(found[key], found.get("cross_site_parties"), found.get("cross_site_parties")),
        None,
    )


DISTANCE, ROWS = "hellinger", "rows"
MOST_CLOUDS = 6
_FIRST_GAINS = (
    "gain_accuracy",
    "gain_accuracy_better",
    "gain_accuracy_worse",
    "gain_accuracy_worst_decile",
    "gain_accuracy_worst_decile_floor",
    "gain_accuracy_gini",
    "gain_accuracy_gini_floor",
    "gain_auc",
)


def fairness_part(view: StudyView) -> PagePart | None:
    """None where parties were not judged at home, or not alone."""
    found: list[Exhibit] = []
    method = view.reference
    if method is None or method == ALONE:
        return None
    metric = next((each for each in AT_HOME if party_gains(view.frame, method, each).height), None)
    if metric is None:
        return None
    gains = party_gains(view.frame, method, metric)
    for against, axis in ((DISTANCE, "Hellinger distance of its labels from all"), (ROWS, "rows of the party")):
        if gains[against].is_not_null().any():
            found.append(_cloud(view, gains.filter(pl.col(against).is_not_null()), (against, axis, metric)))
    found.append(_losers(view, method))
    for of in ("auc", "accuracy", "brier"):
        names = [name for name in view.methods if any((at, name, HOME + of) in view.means for at in view.points)]
        told = f"{upper_first(metric_words(HOME + of))}, all parties’ held-out rows"
        reading = (
            "Each row is judged by what its own party would use: its own teachers, or the one model of the method."
        )
        columns, headings = [(name, HOME + of) for name in names], [title(name) for name in names]
        table = figures_table(view, columns, (f"home-{of}", told, reading), headings, folded=True)
        found += [table] if table is not None else []
    gained = chosen([name for name in view.run_metrics(method) if name.startswith(GAIN)], _FIRST_GAINS)
    about = (
        "gain",
        f"{title(method)} against local only, as measured in each cell",
        "Mean over seeds of what each cell measured.",
    )
    found += metric_tables(view, method, gained, about, open_first=False)
    sentence = (
        f"Each party’s own held-out rows judge {title(method)} and the party’s own teachers alike. Gain: how much"
        f" better {title(method)} is there, so that a party below the line would do better alone. A party’s value is"
        " its mean over the seeds in which it was a party."
    )
    return as_part("fairness", "Who gains, and who loses", [sentence], found)


def _cloud(view: StudyView, gains: pl.DataFrame, about: tuple[str, str, str]) -> Exhibit:
    against, axis, metric = about
    parts = []
    for at in view.points:
        some = view.at(gains, at)
        if some.height and len(parts) < MOST_CLOUDS:
            pairs = list(zip(some[against].to_list(), some["gain"].to_list(), strict=True))
            titles = (axis, f"gain ({metric_words(metric)})")
            parts.append(
                (view.label(at), cloud_chart(pairs, titles, against == ROWS, [RuleAcross(0.0, key="no gain")]))
            )
    words = "distance" if against == DISTANCE else "size"
    judged = sum(bool(view.at(gains, at).height) for at in view.points)
    left = f" The first {len(parts)} of {judged} points." if judged > len(parts) else ""
    return as_picture(
        f"gain-{words}",
        f"Gain by {words}",
        f"Each point is one party. Parties with few held-out rows scatter for that reason alone.{left}",
        gains,
        f"Scatter of parties’ gain in {metric_words(metric)} by {words}, {len(parts)} panels.",
        tuple(parts),
    )


def _losers(view: StudyView, method: str) -> Exhibit:
    """By how many parties lose, and how much the worst tenth does."""
    rows, data = [], []
    for metric in AT_HOME:
        gains = party_gains(view.frame, method, metric)
        for at in view.points:
            found = np.array(view.at(gains, at)["gain"].to_list())
            if not len(found):
                continue
            label = view.label(at) + f", {metric_words(metric)}"
            lose, equal = int((found < -1e-12).sum()), int((np.abs(found) <= 1e-12).sum())
            figures = (len(found), lose, equal, float(found.mean()), float(np.median(found)), worst_decile(found))
            rows.append((label, (*(Cell(f"{count:,}") for count in figures[:3]), *_entries(figures[3:]))))
            data.append(dict(zip((*view.axes, "metric", *_COLUMNS), (*at, metric, *figures), strict=True)))
    return as_table(
        "losers",
        "How many lose",
        f"Parties that {title(method)} serves worse than they serve themselves. Worst tenth: the mean gain of the"
        " tenth of the parties that gains least.",
        pl.DataFrame(data),
        ("", "parties judged", "lose", "no change", "mean gain", "median gain", "worst tenth"),
        tuple(rows),
    )


_COLUMNS = ("parties", "lose", "equal", "mean", "median", "worst_tenth")


def _entries(values: Sequence[float]) -> tuple[Cell, ...]:
    return tuple(Cell(value_text(value)) for value in values)
