"""Tables of the report: class by class, what was called what, and the answers' votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import STUDENT_LABEL, ModelRow
from consilium.simulations.report.wording import share_text

SHADES = 5
"""Steps of the ground of a cell, from nothing to the whole of its row."""
_IN_RECALL = (STUDENT_LABEL, "by hand", "plurality", "pooled")


@dataclass(frozen=True)
class Cell:
    """Text on a ground of shade 0 to `SHADES`; diagonal: called what it is."""

    text: str
    shade: int
    diagonal: bool


@dataclass(frozen=True)
class Matrix:
    """True classes down, given classes across, by number: a name for each row, and its cells."""

    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class RecallTable:
    """Models across, classes down: the class, its test rows as text, and a text for each model."""

    models: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]


def matrix(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> Matrix | None:
    """Of counts, or of shares where these are no whole numbers; a row without any is left out. None without rows."""
    rows = []
    for index, row in enumerate(counts):
        total = sum(row) if row is not None else 0
        if row is None or not total:
            continue
        cells = tuple(
            Cell(_written(value), min(SHADES, round(SHADES * value / total)), at == index)
            for at, value in enumerate(row)
        )
        rows.append((names[index], cells))
    return Matrix(tuple(rows)) if rows else None


def _written(value: float) -> str:
    """
    >>> _written(1203), _written(0.516), _written(0.004)
    ('1,203', '52%', '0%')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:.0%}"


def recall_table(data: ReportData, models: Sequence[ModelRow]) -> RecallTable | None:
    """What share of each class is called right, for the models that say most; None where nobody knows."""
    shown = [row for row in models if any(word in row.label for word in _IN_RECALL) and _has_recall(row)][:5]
    if not shown:
        return None
    tested: dict[str, Any] = data.open_figures.get("test") or {}
    rows = tuple(
        (name, f"{tested[name]:,}" if name in tested else "–", tuple(row.recall(name) for row in shown))
        for name in data.classes
    )
    return RecallTable(tuple(row.label for row in shown), rows)


def _has_recall(row: ModelRow) -> bool:
    return any(value is not None for value in (row.metrics.get("recall_per_class") or {}).values())


def class_areas(data: ReportData) -> tuple[tuple[str, str], ...]:
    """AUC of each class against the rest, where there are more than two; with its interval."""
    curves = data.open_figures.get("student", {}).get("roc") or []
    if len(curves) < 2:
        return ()
    return tuple(
        (
            curve["name"],
            f"{share_text(curve['auc'])} ({share_text(curve['interval'][0])} to {share_text(curve['interval'][1])})",
        )
        for curve in curves
    )
