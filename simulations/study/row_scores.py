"""What each unit of test rows adds to a cell's figures, so that summaries know what cells have in common by their rows.

A unit is what is drawn from a population when test rows are: an owner where whole owners were held out, a patient where
patients are known, else a row. A figure that is a mean over test rows (accuracy, Brier score), or is one to first order
(AUC: DeLong, DeLong, Clarke-Pearson 1988; balanced accuracy), is kept as sums over the rows of each unit. They are no
part of `results.parquet`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_private
from consilium.simulations.methods.base import Arrays

ROW_SCORES = "row_scores.parquet"
_METRICS = ("accuracy", "auc", "balanced_accuracy", "brier")
"""Figures of runs on test rows that are means over these, at least to first order."""


@dataclass(frozen=True)
class UnitScores:
    """Of one figure of one cell. space: which data and which kind of unit; ids of different spaces are unrelated.

    unit: "row", "patient", or what the data call an owner. ids, rows (how many): int64 (units,). scores: float64
    (units,), the sum of (row score - figure) over a unit's rows, divided by the number of all rows; they add up to 0.
    """

    space: str
    unit: str
    ids: np.ndarray = field(repr=False)
    rows: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)


class RowScores:
    """Of all cells of a study, by cell and metric. frame: as `write_row_scores` writes it."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._places = {cell: place for place, cell in enumerate(frame["cell"].to_list())}

    @classmethod
    def read(cls, folder: Path) -> RowScores:
        """Of a study's folder. Raises DataError: the file is missing or damaged."""
        path = folder / ROW_SCORES
        try:
            return cls(pl.read_parquet(path))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(
                f"{path} cannot be read: {type(error).__name__}", "Run the study again: it goes on"
            ) from None

    def of(self, cell: str, metric: str) -> UnitScores | None:
        """None where the figure is no mean over test rows, or the cell has none of it."""
        place = self._places.get(cell)
        if place is None or metric not in _METRICS or metric not in self._frame.columns:
            return None
        if (scores := self._frame[metric][place]) is None:
            return None
        ids, rows = (self._frame[name][place].to_numpy().astype(np.int64) for name in ("ids", "rows"))
        space, unit = (str(self._frame[name][place]) for name in ("space", "unit"))
        return UnitScores(space, unit, ids, rows, scores.to_numpy().astype(np.float64))


def write_row_scores(folder: Path, cells: Mapping[str, tuple[str, Arrays]]) -> None:
    """Write row_scores.parquet. cells: of each the hash of its data, and its `unit_arrays`."""
    entries = []
    for cell, (data, scores) in sorted(cells.items()):
        unit = str(scores["unit"])
        lists = {name: scores[name].tolist() if name in scores else None for name in ("ids", "rows", *_METRICS)}
        entries.append({"cell": cell, "space": f"{data[:16]} {unit}", "unit": unit, **lists})
    replace_private(folder / ROW_SCORES, parquet(pl.DataFrame(entries, schema=_SCHEMA)))


def parquet(table: pl.DataFrame) -> bytes:
    """The content of a file: polars' own errors of a full disk say neither which nor why."""
    content = io.BytesIO()
    table.write_parquet(content, compression="zstd", statistics=True)
    return content.getvalue()


_SCHEMA = {
    **dict.fromkeys(("cell", "space", "unit"), pl.String),
    "ids": pl.List(pl.Int64),
    "rows": pl.List(pl.Int32),
    **dict.fromkeys(_METRICS, pl.List(pl.Float32)),
}
