"""How each group of rows is served, such as women and men: what a private method costs it, and all methods' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from consilium.report.exhibits import Cell, Exhibit, PagePart
from consilium.report.words import many, range_text, signed_text, upper_first, value_text
from consilium.simulations.artifact import AGAINST_REST, SUBGROUP
from consilium.simulations.study.report.parts import ACROSS, About, as_part, as_table
from consilium.simulations.study.summaries.subgroups import COST, GroupCost, group_costs, held_against
from consilium.simulations.study.summaries.tidy import less_is_better, metric_words, noun, title
from consilium.simulations.study.summaries.view import StudyView, over_seeds

FIGURES = ("auc", "brier", "observed_less_predicted")
_OPEN_LINES = 24
FEW_ROWS = 30
"""Test rows of a group, in the mean over seeds, below which its figures say that they rest on few."""


def subgroups_part(view: StudyView) -> PagePart | None:
    """None where no subgroups are named."""
    frame = view.frame.filter(pl.col("scope") == SUBGROUP)
    if frame.is_empty():
        return None
    exhibits = [
        *_costs(view),
        *(_figures(view, frame, place + metric) for place in ("", "home_") for metric in FIGURES),
    ]
    return as_part(
        "subgroups",
        "Subgroups and classes",
        exhibits,
        "Each group is judged apart and held against all other rows. Numbers are cut where the scenario says, else at"
        " the thirds of the public rows. Intervals (95%) are over seeds and test rows together.",
    )


def _costs(view: StudyView) -> list[Exhibit]:
    """A table for each method that the reference is held against; the first is open."""
    method = view.reference
    exhibits: list[Exhibit] = []
    for other in held_against(view) if method is not None else ():
        costs = group_costs(view, method or "", other)
        if not costs:
            continue
        accuracy = {(cost.point, cost.name): cost for cost in group_costs(view, method or "", other, "accuracy")}
        rows = []
        for cost in costs:
            cells = [Cell(value_text(cost.share)), _rows_cell(cost.rows)]
            cells += [_step(accuracy.get((cost.point, cost.name))), _step(cost), _beside(cost)]
            rows.append((_label(view, cost), cells))
        words = metric_words(COST)
        about = About(
            f"group-costs-{other}".replace(" ", "-"),
            f"What {noun(method or '')} costs small groups, against {noun(other)}",
            f"Differences to {title(other)}; of the {words} more is worse. The smallest share of the training rows"
            " first. “Against the rest”: the difference in the group less that among all other rows; significant: p"
            " below 0.05 after Holm’s correction over all groups but the largest of each column.",
        )
        data = pl.DataFrame([_plain(view, cost) for cost in costs], infer_schema_length=None)
        columns = ("share of training rows", "test rows", "accuracy", words, f"{words} against the rest")
        exhibits.append(as_table(about, data, columns, rows, folded=bool(exhibits) or len(rows) > _OPEN_LINES))
    return exhibits


def _label(view: StudyView, cost: GroupCost) -> str:
    return ", ".join(part for part in (cost.name, view.label(cost.point) if view.axes else "") if part)


def _plain(view: StudyView, cost: GroupCost) -> dict[str, Any]:
    names = ("method", "against", "name", "share", "rows", "difference", "low", "high", "against_rest", "rest_low")
    names = (*names, "rest_high", "p", "p_holm")
    return {
        **dict(zip(view.axes, cost.point, strict=True)), "metric": COST,
        **{name: getattr(cost, name) for name in names},
    }  # fmt: skip


def _rows_cell(rows: float) -> Cell:
    return Cell(f"{rows:,.0f}", "few rows", look="faint") if rows < FEW_ROWS else Cell(f"{rows:,.0f}")


def _step(cost: GroupCost | None) -> Cell:
    if cost is None:
        return Cell("–")
    return Cell(signed_text(cost.difference), range_text(cost.low, cost.high))


def _beside(cost: GroupCost | None) -> Cell:
    if cost is None:
        return Cell("–")
    interval = range_text(cost.rest_low, cost.rest_high)
    if cost.p_holm is None:
        return Cell(
            signed_text(cost.against_rest), f"{interval}; the largest group" if cost.p is not None else interval
        )
    verdict = "significant" if cost.significant else "not significant"
    return Cell(signed_text(cost.against_rest), f"{interval}; {verdict}", look="" if cost.significant else "faint")


def _figures(view: StudyView, frame: pl.DataFrame, metric: str) -> Exhibit | None:
    """One metric of every method for every group, and below it how the group differs from the rest."""
    means = over_seeds(frame, (metric, metric + AGAINST_REST), SUBGROUP, view.row_scores)
    if means.is_empty():
        return None
    keyed = {
        (tuple(str(row[axis]) for axis in view.axes), row["name"], row["method"], row["metric"]): row
        for row in means.iter_rows(named=True)
    }
    methods = [name for name in view.methods if any(key[2] == name for key in keyed)]
    shown = methods[:ACROSS]
    if view.reference in methods and view.reference not in shown:
        shown[-1] = view.reference
    names = list(dict.fromkeys(frame["name"].to_list()))
    rows: list[tuple[str, Sequence[Cell]]] = []
    for point in view.points:
        for name in names:
            cells = [_figure(keyed.get((point, name, of, metric)), keyed.get((point, name, of, metric + AGAINST_REST)))
                     for of in shown]  # fmt: skip
            if any(cell.text != "–" for cell in cells):
                rows.append((", ".join(part for part in (name, view.label(point) if view.axes else "") if part), cells))
    left = f" {many(len(methods) - len(shown), 'further method')} in the download." if len(shown) < len(methods) else ""
    place = "On the rows that parties hold out." if metric.startswith("home_") else "On the public test rows."
    about = About(
        f"groups-{metric}",
        f"{upper_first(metric_words(metric))} by group",
        f"{place} Below each mean its interval, and what the group has more than all other rows."
        + (" Less is better." if less_is_better(metric.removeprefix("home_")) else "")
        + left,
    )
    return as_table(about, means, list(map(title, shown)), rows, folded=True)


def _figure(row: Mapping[str, Any] | None, rest: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return Cell("–")
    under = range_text(row["low"], row["high"])
    if rest is not None:
        under = f"{under}; {signed_text(rest['mean'])} ({range_text(rest['low'], rest['high'])}) beside the rest"
    return Cell(value_text(row["mean"]), under)
