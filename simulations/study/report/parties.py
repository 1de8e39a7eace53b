"""What the parties are, how unlike each other, and who gains at home against being alone."""

from __future__ import annotations

from collections.abc import Sequence

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
    lines_chart,
    rows_chart,
    values_axis,
)
from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import upper_first, value_text
from consilium.simulations.study.measures.between import SCALES, SHIFT_KINDS, ShiftKind
from consilium.simulations.study.report.parts import (
    About,
    as_part,
    as_picture,
    as_table,
    chosen,
    figures_table,
    means_data,
    metric_tables,
)
from consilium.simulations.study.summaries.sentences import (
    ALONE,
    AT_HOME,
    PointShift,
    party_gains,
    shifts_at,
    worst_decile,
)
from consilium.simulations.study.summaries.tidy import metric_words, noun, title
from consilium.simulations.study.summaries.view import Point, StudyView

METHOD = "division"
GAIN, HOME = "gain_", "home_"
FLOOR, SHIFT = "_floor", "shift_"
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
    "mmd2_mean",
    "mmd2_mean_floor",
    "c2st_auc_mean",
)
_WITH_FLOOR = ("hellinger_mean", "hellinger_weighted", "js_mean", "hellinger_pairwise", "mmd2_mean")


def division_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of a division."""
    metrics = [name for name in chosen(view.run_metrics(METHOD), _FIRST) if not name.startswith(SHIFT)]
    about = About(
        "division",
        "Sizes and distances",
        "Of the division alone, before anything is trained; below each mean its interval. Distances of labels and"
        " features are of each party to all parties together, and the mean over parties.",
    )
    first, *further = metric_tables(view, METHOD, metrics, about) or [None]
    exhibits = [_shifts(view), first, _floors(view, metrics), _sizes(view), *further]
    return as_part("division", "How unlike the parties are", exhibits)


def _shifts(view: StudyView) -> Exhibit | None:
    """Which kind of difference each division has."""
    shifts = shifts_at(view)
    kinds: list[ShiftKind] = [kind for kind in SHIFT_KINDS if any(kind in shift.kinds for shift in shifts)]
    if not kinds:
        return None
    rows = [(shift.label, [_shift(view, shift, kind) for kind in kinds]) for shift in shifts]
    scales = "; ".join(f"{kind}: {SCALES[kind]}" for kind in kinds)
    about = About(
        "shifts",
        "Which kind of difference",
        "Strength of each kind, in how many seeds it was named, and what rows dealt by lot give; faint: not named in"
        f" most seeds. In 40 divisions by lot at most one has any kind named. {upper_first(scales)}.",
    )
    columns = [(METHOD, f"{SHIFT}{kind}{end}") for kind in kinds for end in ("", FLOOR, "_p", "_named")]
    return as_table(about, means_data(view, [shift.point for shift in shifts], columns), kinds, rows)


def _shift(view: StudyView, shift: PointShift, kind: ShiftKind) -> Cell:
    strength, floor = (view.mean(shift.point, METHOD, f"{SHIFT}{kind}{end}") for end in ("", FLOOR))
    if kind not in shift.kinds or strength is None:
        return Cell("–", look="faint")
    seeds = int(view.means[shift.point, METHOD, f"{SHIFT}{kind}_named"]["seeds"])
    under = f"named in {shift.kinds[kind] * seeds:.0f} of {seeds}; by chance {value_text(floor or 0.0)}"
    return Cell(value_text(strength), under, look="" if kind in shift.named else "faint")


def _floors(view: StudyView, metrics: Sequence[str]) -> Exhibit | None:
    """Distances with the floor that parties of these sizes would have by chance."""
    having = [metric for metric in _WITH_FLOOR if metric in metrics and metric + FLOOR in metrics]
    points, axes = view.distinct(METHOD)
    keys = [Key("fill blue", "measured", "dot"), Key("ring blue", "floor: by chance", "dot")]
    charts: list[tuple[str, Drawing]] = []
    columns = []
    for metric in having:
        rows = [row for point in points if (row := _with_floor(view, point, axes, metric)) is not None]
        if rows:
            charts.append((metric_words(metric), rows_chart("", rows, keys=keys)))
            columns += [(METHOD, metric), (METHOD, metric + FLOOR)]
    if not charts:
        return None
    about = About(
        "floors",
        "Distances, and what of them is chance",
        "Small parties differ by chance however rows are divided. Ring: the same for parties of these sizes whose"
        " rows were dealt by lot. Only what lies to the right of its ring is a property of the division. Bars: 95%,"
        " over seeds.",
    )
    alt = f"Distances with their floors: {', '.join(map(metric_words, having))}."
    return as_picture(about, means_data(view, view.points, columns), alt, charts)


def _with_floor(view: StudyView, point: Point, axes: Sequence[str], metric: str) -> ValueRow | None:
    row, floor = view.means.get((point, METHOD, metric)), view.mean(point, METHOD, metric + FLOOR)
    if row is None or floor is None:
        return None
    ends = None if row["low"] is None else (row["low"], row["high"])
    text = f"{value_text(row['mean'])}, floor {value_text(floor)}"
    return ValueRow(view.label(point, axes), row["mean"], ends, text, other=floor)


def _sizes(view: StudyView) -> Exhibit | None:
    """Rows of the parties, from the largest to the smallest, one line for each division."""
    rows = view.frame.filter(
        (pl.col("method") == METHOD)
        & (pl.col("scope") == "party")
        & (pl.col("metric") == "rows")
        & (pl.col("value") > 0)
    )
    first = rows.filter(pl.col("seed") == pl.col("seed").min().over(view.axes) if view.axes else pl.lit(True))
    lines: dict[tuple[float, ...], Series] = {}
    points, axes = view.distinct(METHOD)
    for point in points:
        sizes = tuple(sorted(view.of_point(first, point)["value"].to_list(), reverse=True))
        if sizes and sizes not in lines and len(lines) < len(LOOKS):
            places = _evenly(len(sizes), 60).tolist()
            x, y = [place + 1.0 for place in places], [sizes[place] for place in places]
            lines[sizes] = Series(view.label(point, axes), LOOKS[len(lines)], x, y)
    if not lines:
        return None
    series, titles = list(lines.values()), ("party, the largest first", "rows (logarithmic)")
    about = About(
        "sizes",
        "Parties by size",
        "Rows of each party, the largest first, of one seed. Divisions with the very same sizes share a line, under"
        " the first one’s name.",
    )
    data = first.select(*view.axes, "seed", "name", "value").rename({"name": "party", "value": "rows"})
    chart = lines_chart(series, titles, y=values_axis(series, titles[1], log=True))
    return as_picture(about, data, f"Sizes of parties in {len(series)} divisions.", [("", chart)])


def _evenly(count: int, most: int) -> np.ndarray:
    """Of so many places at most `most`, int64, evenly from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


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
    method = view.reference
    if method is None or method == ALONE:
        return None
    metric = next((metric for metric in AT_HOME if party_gains(view.frame, method, metric).height), None)
    if metric is None:
        return None
    gains = party_gains(view.frame, method, metric)
    exhibits: list[Exhibit | None] = []
    for against, axis in ((DISTANCE, "Hellinger distance of its labels from all"), (ROWS, "rows of the party")):
        known = gains.filter(pl.col(against).is_not_null())
        exhibits += [_cloud(view, known, against, axis, metric)] if known.height else []
    exhibits += [_losers(view, method), *(_at_home(view, metric) for metric in ("auc", "accuracy", "brier"))]
    measured = chosen([name for name in view.run_metrics(method) if name.startswith(GAIN)], _FIRST_GAINS)
    about = About(
        "gain",
        f"{title(method)} against {title('local')}, as measured in each cell",
        "Mean over seeds of what each cell measured.",
    )
    exhibits += metric_tables(view, method, measured, about, open_first=False)
    return as_part(
        "fairness",
        "Who gains, and who loses",
        exhibits,
        f"Each party’s own held-out rows judge {noun(method)} and the party’s own teachers alike. Gain: how much"
        f" better {noun(method)} is there, so that a party below the line would do better alone. A party’s value is"
        " its mean over the seeds in which it was a party.",
    )


def _at_home(view: StudyView, metric: str) -> Exhibit | None:
    names = [name for name in view.methods if any((point, name, HOME + metric) in view.means for point in view.points)]
    about = About(
        f"home-{metric}",
        f"{upper_first(metric_words(HOME + metric))}, all parties’ held-out rows",
        "Each row is judged by what its own party would use: its own teachers, or the one model of the method.",
    )
    return figures_table(view, about, [(name, HOME + metric) for name in names], list(map(title, names)), folded=True)


def _cloud(view: StudyView, gains: pl.DataFrame, against: str, axis: str, metric: str) -> Exhibit:
    words = "distance" if against == DISTANCE else "size"
    judged = [point for point in view.points if view.of_point(gains, point).height]
    charts: list[tuple[str, Drawing]] = []
    for point in judged[:MOST_CLOUDS]:
        pairs = list(view.of_point(gains, point).select(against, "gain").iter_rows())
        titles = (axis, f"gain ({metric_words(metric)})")
        chart = cloud_chart(pairs, titles, against == ROWS, [RuleAcross(0.0, key="no gain")])
        charts.append((view.label(point), chart))
    left = f" The first {len(charts)} of {len(judged)} points." if len(judged) > len(charts) else ""
    about = About(
        f"gain-{words}",
        f"Gain by {words}",
        f"Each point is one party. Parties with few held-out rows scatter for that reason alone.{left}",
    )
    alt = f"Scatter of parties’ gain in {metric_words(metric)} by {words}, {len(charts)} panels."
    return as_picture(about, gains, alt, charts)


def _losers(view: StudyView, method: str) -> Exhibit:
    """By how many parties lose, and how much the worst tenth does."""
    rows, data = [], []
    for metric in AT_HOME:
        gains = party_gains(view.frame, method, metric)
        for point in view.points:
            gained = np.array(view.of_point(gains, point)["gain"].to_list())
            if not len(gained):
                continue
            counts = len(gained), int((gained < -1e-12).sum()), int((np.abs(gained) <= 1e-12).sum())
            figures = float(gained.mean()), float(np.median(gained)), worst_decile(gained)
            cells = [*(Cell(f"{count:,}") for count in counts), *(Cell(value_text(value)) for value in figures)]
            rows.append((view.label(point) + f", {metric_words(metric)}", cells))
            data.append(dict(zip((*view.axes, "metric", *_COLUMNS), (*point, metric, *counts, *figures), strict=True)))
    about = About(
        "losers",
        "How many lose",
        f"Parties that {noun(method)} serves worse than they serve themselves. Worst tenth: the mean gain of the"
        " tenth of the parties that gains least.",
    )
    headings = ("parties judged", "lose", "no change", "mean gain", "median gain", "worst tenth")
    return as_table(about, pl.DataFrame(data), headings, rows)


_COLUMNS = ("parties", "lose", "equal", "mean", "median", "worst_tenth")
