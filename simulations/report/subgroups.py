"""How the published student serves groups of the public test rows, such as women and men."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from consilium.report.exhibits import ALL_BUT_FIRST, Cell, Exhibit, Table, TableLine
from consilium.report.words import range_text, signed_text, value_text
from consilium.simulations.report.data import ReportData

FEW_ROWS = 30
"""Test rows of a group below which its figures say that they rest on few."""
_COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "observed_less_predicted": "observed less risk",
}
_REST = "_against_rest"


def subgroups_exhibit(data: ReportData) -> Exhibit | None:
    """None where the scenario names no subgroups, or there is no student to judge."""
    groups: Sequence[dict[str, Any]] = data.open_figures.get("subgroups") or []
    shown = [metric for metric in _COLUMNS if any(metric in group["figures"] for group in groups)]
    if not shown:
        return None
    lines = tuple(
        TableLine(group["name"], (_rows(group["rows"]), *(_figure(group["figures"], metric) for metric in shown)))
        for group in groups
    )
    return Exhibit(
        "subgroups",
        "The student by group",
        (
            "On the public test cases, with 95% intervals over them; below, what the group has more than all others."
            " “Rate less risk”: how often the second class is there, less how often the student expects it.",
        ),
        table=Table(("group", "test cases", *(_COLUMNS[metric] for metric in shown)), lines, ALL_BUT_FIRST,
                    look="cards span"),
    )  # fmt: skip


def _rows(rows: int) -> Cell:
    return Cell(f"{rows:,}", "few rows" if rows < FEW_ROWS else "")


def _figure(figures: dict[str, Any], metric: str) -> Cell:
    if metric not in figures:
        return Cell("–")
    value, low, high = figures[metric]
    rest = figures.get(metric + _REST)
    under = range_text(low, high)
    if rest is not None:
        under += f"; {signed_text(rest[0])} ({range_text(rest[1], rest[2])})"
    return Cell(value_text(value), under)
