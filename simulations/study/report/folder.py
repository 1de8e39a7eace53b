"""The folder of a study as the report reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from consilium.protocol.errors import DataError, PathError
from consilium.simulations.artifact import Arrays, from_bytes
from consilium.simulations.study.results import MATRICES, RESULTS, TOLD, read_results
from consilium.simulations.study.row_scores import RowScores

AGAIN = "Run: consilium study"


@dataclass(frozen=True)
class StudyFolder:
    """results: one row for each figure. told: what study.json says. matrices: files by the id of their case.

    row_scores: None where a version before 0.10 wrote the study.
    """

    results: pl.DataFrame = field(repr=False)
    told: Mapping[str, Any] = field(repr=False)
    matrices: Mapping[str, Path] = field(repr=False)
    row_scores: RowScores | None = field(repr=False, default=None)

    def arrays(self, case: str) -> Arrays:
        """Matrices of one case; none where the study kept none.

        Raises
        ------
        DataError : the file is damaged.
        """
        path = self.matrices.get(case)
        return from_bytes(path.read_bytes()) if path is not None else {}


def open_folder(folder: Path) -> StudyFolder:
    """
    Raises
    ------
    PathError : a file is missing. DataError : a file is none of a study.
    """
    for name in (RESULTS, TOLD):
        if not (folder / name).is_file():
            raise PathError(f"{folder} has no {name}, so it is not the folder of a study", AGAIN)
    try:
        told = json.loads((folder / TOLD).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{folder / TOLD} is no JSON ({type(error).__name__})", AGAIN) from None
    if not isinstance(told, dict):
        raise DataError(f"{folder / TOLD} is no object", AGAIN)
    try:
        results = read_results(folder / RESULTS)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{folder / RESULTS} cannot be read ({type(error).__name__})", AGAIN) from None
    found = {path.stem: path for path in sorted((folder / MATRICES).glob("*.npz"))}
    return StudyFolder(results, told, found, RowScores.read(folder))
