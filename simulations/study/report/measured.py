"""What the parties are, how unlike each other, who gains at home, what teachers voted, and what that cost."""

from __future__ import annotations

import polars as pl

from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import range_text, upper_first, value_text
from consilium.simulations.study.measures.between import SCALES, SHIFT_KINDS, ShiftKind
from consilium.simulations.study.report.parts import (
    ACROSS,
    About,
    as_part,
    as_table,
    chosen,
    figures_table,
    means_data,
    metric_tables,
)
from consilium.simulations.study.summaries.sentences import PointShift, shifts_at
from consilium.simulations.study.summaries.tidy import AS_RISKS, JUDGED, metric_words, noun, title
from consilium.simulations.study.summaries.view import StudyView, over_seeds

DIVISION, TEACHERS, INFLUENCE = "division", "teachers", "winners_flipped"
GAIN, HOME, FLOOR, SHIFT = "gain_", "home_", "_floor", "shift_"
_OF_DIVISION = (
    "parties",
    "rows",
    "rows_median",
    "rows_most",
    "gini",
    "hellinger_mean",
    "hellinger_mean_floor",
    "c2st_auc_mean",
)
_OF_GAIN = (
    "gain_accuracy",
    "gain_accuracy_better",
    "gain_accuracy_worse",
    "gain_accuracy_worst_decile",
    "gain_accuracy_worst_decile_floor",
    "gain_auc",
)
_OF_VOTES = ("consensus", "gap_p50", "ambiguity_10", "kappa", "plurality_right", "teacher_right_mean")
_OF_COST = (
    "epsilon",
    "delta",
    "epsilon_spent",
    "epsilon_data_dependent",
    "epsilon_sanitised",
    "asked",
    "answered",
    "labels_right",
)


def division_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of a division."""
    metrics = [name for name in chosen(view.run_metrics(DIVISION), _OF_DIVISION) if not name.startswith(SHIFT)]
    about = About(
        "division",
        "Sizes and distances",
        "Of the division alone, before anything is trained; below each mean its interval. Distances are of each party"
        " to all parties together, and the mean over parties. Floor: the same for parties of these sizes whose rows"
        " were dealt by lot; only what lies above it is a property of the division.",
    )
    tables = metric_tables(view, DIVISION, metrics, about)
    return as_part("division", "How unlike the parties are", [_shifts(view), *tables])


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
    columns = [(DIVISION, f"{SHIFT}{kind}{end}") for kind in kinds for end in ("", FLOOR, "_p", "_named")]
    return as_table(about, means_data(view, [shift.point for shift in shifts], columns), kinds, rows)


def _shift(view: StudyView, shift: PointShift, kind: ShiftKind) -> Cell:
    strength, floor = (view.mean(shift.point, DIVISION, f"{SHIFT}{kind}{end}") for end in ("", FLOOR))
    if kind not in shift.kinds or strength is None:
        return Cell("–", look="faint")
    seeds = int(view.means[shift.point, DIVISION, f"{SHIFT}{kind}_named"]["seeds"])
    under = f"named in {shift.kinds[kind] * seeds:.0f} of {seeds}; by chance {value_text(floor or 0.0)}"
    return Cell(value_text(strength), under, look="" if kind in shift.named else "faint")


def fairness_part(view: StudyView) -> PagePart | None:
    """None where nobody measured who gains."""
    method = view.reference
    if method is None:
        return None
    measured = chosen([name for name in view.run_metrics(method) if name.startswith(GAIN)], _OF_GAIN)
    if not measured:
        return None
    about = About(
        "gain",
        f"{title(method)} against {title('local')}",
        "Gain: how much better on the parties’ own held-out rows. Worst decile: the mean over the tenth of the parties"
        " that gains least; floor: the same if no party gained more than another.",
    )
    first, *further = metric_tables(view, method, measured, about)
    exhibits = [first, _by_quarter(view, method), *(_at_home(view, metric) for metric in ("auc", "accuracy")), *further]
    return as_part(
        "fairness",
        "Who gains, and who loses",
        exhibits,
        f"Each party’s own held-out rows judge {noun(method)} and the party’s own teachers alike.",
    )


def _by_quarter(view: StudyView, method: str) -> Exhibit | None:
    """Gains of parties by their rows and by the distance of their labels, from the least to the most."""
    gains = (view.frame["method"] == method) & (view.frame["metric"] == "gain_accuracy")
    about = About(
        "gain-quarters",
        "Gain in accuracy by size and distance of the party",
        "Quarters of the parties, from the fewest rows to the most, and from the labels nearest to all parties’ to the"
        " farthest.",
    )
    return _by_name(view, view.frame.filter(gains), "group", about)


def _by_name(view: StudyView, rows: pl.DataFrame, scope: str, about: About, folded: bool = False) -> Exhibit | None:
    """Means over seeds of one metric: points down, classes or groups across."""
    some = over_seeds(rows, scope=scope)
    names = list(dict.fromkeys(some["name"].to_list()))
    if not names or len(names) > 2 * ACROSS:
        return None
    cells = {
        (*(row[axis] for axis in view.axes), row["name"]): Cell(
            value_text(row["mean"]), range_text(row["low"], row["high"])
        )
        for row in some.iter_rows(named=True)
    }
    lines = [
        (view.label(point), [cells.get((*point, name), Cell("–")) for name in names])
        for point in view.points
        if any((*point, name) in cells for name in names)
    ]
    return as_table(about, some, names, lines, folded)


def _at_home(view: StudyView, metric: str) -> Exhibit | None:
    names = [name for name in view.methods if any((point, name, HOME + metric) in view.means for point in view.points)]
    about = About(
        f"home-{metric}",
        f"{upper_first(metric_words(HOME + metric))}, all parties’ held-out rows",
        "Each row is judged by what its own party would use: its own teachers, or the one model of the method.",
    )
    return figures_table(view, about, [(name, HOME + metric) for name in names], list(map(title, names)), folded=True)


def votes_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of votes."""
    metrics = [name for name in chosen(view.run_metrics(TEACHERS), _OF_VOTES) if not name.startswith(INFLUENCE)]
    about = About(
        "votes",
        "How far the teachers agree",
        "Votes without noise, which no party and no guarantee releases; below each mean its interval.",
    )
    by_class = _by_class(view, TEACHERS, "Of the votes without noise, by true class; mean over seeds.")
    return as_part("votes", "Votes", [*metric_tables(view, TEACHERS, metrics, about), *by_class])


def _by_class(view: StudyView, method: str, reading: str) -> list[Exhibit | None]:
    """Metrics by class of the teachers or of a method, a folded table for each metric."""
    frame = view.frame.filter((view.frame["method"] == method) & (view.frame["scope"] == "class"))
    exhibits: list[Exhibit | None] = []
    for metric in sorted(set(frame["metric"].to_list()) - {"rows"}):
        heading = f"By class: {metric_words(metric)}" + ("" if method == TEACHERS else f" ({title(method)})")
        about = About(f"class-{method}-{metric}".replace(" ", "-"), heading, reading)
        exhibits.append(_by_name(view, frame.filter(frame["metric"] == metric), "class", about, folded=True))
    return exhibits


def privacy_part(view: StudyView) -> PagePart | None:
    """None where no method has a guarantee."""
    exhibits: list[Exhibit | None] = []
    for method in view.private:
        # how models were judged stands with the methods; gain has a part of its own
        elsewhere = [name for name in view.run_metrics(method) if name.startswith((GAIN, HOME))]
        elsewhere += [*JUDGED, *AS_RISKS]
        metrics = chosen([name for name in view.run_metrics(method) if name not in elsewhere], _OF_COST)
        about = About(
            f"privacy-{method}".replace(" ", "-"),
            f"{title(method)}: what it promised and what it released",
            "epsilon is what is promised before the run, towards whoever gets what is released; worst case and data"
            " dependent are of what came out. A data-dependent epsilon may not be published.",
        )
        exhibits += metric_tables(view, method, metrics, about, open_first=method == view.private[0])
        exhibits += _by_class(view, method, "By true class; mean over seeds with its interval.")
    return as_part("privacy", "Privacy", exhibits)


def influence_part(view: StudyView) -> PagePart | None:
    """None where nothing was measured of single parties' influence."""
    metrics = [name for name in view.run_metrics(TEACHERS) if name.startswith(INFLUENCE)]
    about = About("influence", "Without one of the parties", "Rows whose winner is another, by the votes alone.")
    return as_part("influence", "What one party changes", metric_tables(view, TEACHERS, metrics, about))
