"""Tables of the report: class by class, what was called what, and the answers' votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from consilium.simulations.report.data import ReportData
from consilium.simulations.report.models import STUDENT_LABEL, ModelRow, with_interval

SHADES = 5
"""Steps of the ground of a cell, from nothing to the whole of its row."""
FEW = 4
"""Classes whose names stand above the columns of a matrix; of more, numbers do."""
MOST = 30
"""Classes that a matrix is drawn of: of more, nobody could read its cells, and pairs of classes are listed."""
LISTED = 20
"""Pairs, and classes of a table, where there are more than `MOST`."""
_IN_RECALL = (STUDENT_LABEL, "by hand", "plurality", "pooled")
_AREA = "student, AUC against the rest"


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
class TakenFor:
    """A true class, another that it is called, and how much of it is."""

    true: str
    called: str
    text: str


@dataclass(frozen=True)
class RecallTable:
    """Models across, classes down: the class, its test rows as text, and a text for each model.

    Of more than `MOST` classes there are the `LISTED` that the first model finds least.
    """

    models: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]


def matrix(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> Matrix | None:
    """Of counts, or of shares where these are no whole numbers; a row without any is left out. None without rows, or of
    more than `MOST` classes."""
    if len(names) > MOST:
        return None
    rows = []
    for index, row in enumerate(counts):
        total = sum(row) if row is not None else 0
        if row is None or not total:
            continue
        cells = tuple(
            Cell(_written(value, len(names) > FEW), min(SHADES, round(SHADES * value / total)), at == index)
            for at, value in enumerate(row)
        )
        rows.append((names[index], cells))
    return Matrix(tuple(rows)) if rows else None


def taken_for(counts: Sequence[Sequence[float] | None], names: Sequence[str]) -> tuple[TakenFor, ...]:
    """In place of a matrix of more than `MOST` classes: the `LISTED` pairs of which most is called another class.

    >>> names = [str(number) for number in range(31)]
    >>> taken_for([[6, 2, *[0] * 29], None, [0.0, 0.25, 0.75, *[0.0] * 28]], names)
    (TakenFor(true='0', called='1', text='2 of 8'), TakenFor(true='2', called='1', text='25%'))
    """
    if len(names) <= MOST:
        return ()
    pairs = [
        (value / sum(row), true, called)
        for true, row in enumerate(counts)
        for called, value in enumerate(row or ())
        if value and called != true and row
    ]
    found = []
    for share, true, called in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:]))[:LISTED]:
        row = counts[true] or ()
        whole = isinstance(row[called], int)
        found.append(
            TakenFor(names[true], names[called], f"{row[called]:,} of {sum(row):,}" if whole else f"{share:.0%}")
        )
    return tuple(found)


def _written(value: float, narrow: bool) -> str:
    """A count or a share; `narrow`: in four letters.

    >>> _written(1203, False), _written(1203, True), _written(41203, True), _written(0.516, True)
    ('1,203', '1203', '41k', '52%')
    """
    if not isinstance(value, int):
        return f"{value:.0%}"
    return f"{value:,}" if not narrow else f"{value}" if value < 10_000 else f"{value // 1000}k"


def recall_table(data: ReportData, models: Sequence[ModelRow]) -> RecallTable | None:
    """What share of each class is called right, for the models that say most; None where nobody knows."""
    found = [next((row for row in models if word in row.label and _has_recall(row)), None) for word in _IN_RECALL]
    shown = [row for row in found if row is not None]
    if not shown:
        return None
    areas = _areas(data)
    tested: dict[str, Any] = data.open_figures.get("test") or {}
    rows = tuple(
        (
            name,
            f"{tested[name]:,}" if name in tested else "–",
            (*(row.recall(name) for row in shown), *([areas.get(name, "–")] if areas else [])),
        )
        for name in _least_found(data.classes, shown[0])
    )
    return RecallTable((*(row.label for row in shown), *([_AREA] if areas else [])), rows)


def _least_found(classes: Sequence[str], row: ModelRow) -> Sequence[str]:
    """All classes, or of many those that the model of this row finds least, in their order."""
    if len(classes) <= MOST:
        return classes
    recall = row.metrics.get("recall_per_class") or {}
    tested = [name for name in classes if recall.get(name) is not None]
    least = set(sorted(tested, key=lambda name: recall[name])[:LISTED])
    return [name for name in classes if name in least]


def _has_recall(row: ModelRow) -> bool:
    return any(value is not None for value in (row.metrics.get("recall_per_class") or {}).values())


def _areas(data: ReportData) -> dict[str, str]:
    """AUC of each class against the rest with its interval, where there are more than two."""
    curves = data.open_figures.get("student", {}).get("roc") or []
    if len(data.classes) < 3:
        return {}
    return {curve["name"]: with_interval(curve["auc"], curve["interval"]) for curve in curves}
