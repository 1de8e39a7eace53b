"""What each unit of test rows adds to a cell's figures, so that summaries know what cells have in common by their rows.

A unit is what is drawn from a population when test rows are: an owner where whole owners were held out, a patient where
patients are known, else a row. A figure that is a mean over test rows (accuracy, Brier score), or is one to first order
(AUC: DeLong, DeLong, Clarke-Pearson 1988; balanced accuracy), is kept as sums over the rows of each unit. They are no
part of `results.parquet`; a folder of a version before 0.10 has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing
from consilium.simulations.metrics.row_scores import auc_row_scores, balanced_row_scores, brier_row_scores
from consilium.simulations.study.artifact import Arrays

if TYPE_CHECKING:
    from consilium.simulations.study.case import Case  # whoever reads results needs none of its libraries

ROW_SCORES = "row_scores.parquet"
_PREFIX = "row_scores."
_METRICS = ("accuracy", "auc", "balanced_accuracy", "brier")
"""Figures of runs on test rows that are means over these, at least to first order."""
LEAST_OWNERS = 2
"""Of test rows; of fewer the rows are the units, and the population that is spoken of is these owners' rows."""


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
    def read(cls, folder: Path) -> RowScores | None:
        """Of a study's folder; None where a version before 0.10 wrote it.

        Raises
        ------
        DataError : the file is damaged.
        """
        path = folder / ROW_SCORES
        if not path.is_file():
            return None
        try:
            return cls(pl.read_parquet(path))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(
                f"{path} cannot be read: {type(error).__name__}", "Run the study again: it goes on"
            ) from None

    def of(self, cell: str, metric: str) -> UnitScores | None:
        """None where the figure is no mean over test rows, or the cell has none of it."""
        place = self._places.get(cell)
        if place is None or metric not in _METRICS or (scores := self._frame[metric][place]) is None:
            return None
        ids, rows = (self._frame[name][place].to_numpy().astype(np.int64) for name in ("ids", "rows"))
        space, unit = (str(self._frame[name][place]) for name in ("space", "unit"))
        return UnitScores(space, unit, ids, rows, scores.to_numpy().astype(np.float64))


def by_row(found: Sequence[np.ndarray], y: np.ndarray) -> dict[str, np.ndarray]:
    """Row scores float64 (test,) of each figure, whose mean it is.

    found: probabilities float64 (test, classes) of each draw of a method's luck. y: int64 (test,).
    """
    areas = [each for each in (auc_row_scores(each, y) for each in found) if each is not None]
    scores = {
        "accuracy": [(each.argmax(axis=1) == y).astype(np.float64) for each in found],
        "auc": areas,
        "balanced_accuracy": [balanced_row_scores(each, y) for each in found],
        "brier": [brier_row_scores(each, y) for each in found],
    }
    return {metric: np.mean(each, axis=0) for metric, each in scores.items() if each}


def unit_arrays(case: Case, scores: Mapping[str, np.ndarray]) -> Arrays:
    """For an artifact. scores: see `by_row`; there are test rows."""
    unit, which = _units(case)
    ids, place, rows = np.unique(which, return_inverse=True, return_counts=True)
    arrays: Arrays = {"unit": np.array(unit), "ids": ids, "rows": rows.astype(np.int32)}
    for metric, each in scores.items():
        off = np.bincount(place, weights=each - each.mean(), minlength=len(ids))
        arrays[metric] = (off / len(which)).astype(np.float32)
    return {_PREFIX + name: array for name, array in arrays.items()}


def _units(case: Case) -> tuple[str, np.ndarray]:
    """What the units are called, and the id int64 (test,) of each test row's."""
    data, test = case.dataset, case.partition.test
    held_out = data.owner[test]
    private = np.concatenate([rows for rows in (*case.partition.parties.values(), *case.home.values())])
    if len(np.unique(held_out)) >= LEAST_OWNERS and not np.isin(held_out, data.owner[private]).any():
        return data.owner_label, held_out
    return ("row", test) if data.patient is None else ("patient", data.patient[test])


def unit_arrays_in(matrices: Mapping[str, np.ndarray]) -> Arrays:
    """Those of `unit_arrays` among the matrices of an artifact."""
    return {name: array for name, array in matrices.items() if name.startswith(_PREFIX)}


def write_row_scores(folder: Path, cells: Mapping[str, tuple[str, Arrays]]) -> None:
    """Write row_scores.parquet. cells: of each the hash of its data, and its `unit_arrays`."""
    found = []
    for cell, (data, arrays) in sorted(cells.items()):
        own = {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
        unit = str(own["unit"])
        lists = {name: own[name].tolist() if name in own else None for name in ("ids", "rows", *_METRICS)}
        found.append({"cell": cell, "space": f"{data[:16]} {unit}", "unit": unit, **lists})
    with replacing(folder / ROW_SCORES, mode=0o600) as file:
        pl.DataFrame(found, schema=_SCHEMA).write_parquet(file, compression="zstd", statistics=True)


_SCHEMA = {
    **dict.fromkeys(("cell", "space", "unit"), pl.String),
    "ids": pl.List(pl.Int64),
    "rows": pl.List(pl.Int32),
    **dict.fromkeys(_METRICS, pl.List(pl.Float32)),
}
