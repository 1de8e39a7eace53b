"""What a student has decided to ask, on its own disk before it asks: after a crash it asks the same again, for free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_text

GIVEN = "given"


class AskingPlan:
    """Rows of the pool by round. `federation` is the hash of the federation that they were chosen for."""

    def __init__(self, path: Path, federation: str, total: int) -> None:
        """Read the plan at `path`, or begin one of `total` queries.

        Raises
        ------
        DataError : the file is damaged or belongs to another federation.
        """
        self._path = path
        self._content: dict[str, Any] = {"federation": federation, "total": total, "rounds": []}
        if path.exists():
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
                if content["federation"] != federation:
                    raise DataError(f"{path} was made for another federation", "Use another output folder")
                self._content = {key: content[key] for key in self._content}
                self._content |= {GIVEN: content[GIVEN]} if GIVEN in content else {}
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{path} is damaged", "Use another output folder") from None

    @property
    def total(self) -> int:
        """Number of queries in all rounds together."""
        return self._content["total"]

    @property
    def chosen(self) -> np.ndarray:
        """All rows that were decided in rounds, int64."""
        return np.array([row for rows in self._content["rounds"] for row in rows], dtype=np.int64)

    @property
    def given(self) -> np.ndarray:
        """Rows, int64, that others had asked before the first round: their labels cost nothing."""
        return np.array(self._content.get(GIVEN, []), dtype=np.int64)

    @property
    def begun(self) -> bool:
        """Whether anything is on disk."""
        return self._path.exists()

    def take(self, rows: np.ndarray) -> None:
        """Decide to begin with rows that others asked; on disk when this returns."""
        self._content[GIVEN] = [int(row) for row in rows]
        self._save()

    def rows(self, number: int) -> np.ndarray | None:
        """Rows of round `number`, None if it was not decided yet."""
        rounds = self._content["rounds"]
        return np.array(rounds[number], dtype=np.int64) if number < len(rounds) else None

    def add(self, rows: np.ndarray) -> None:
        """Decide the next round; on disk when this returns."""
        self._content["rounds"].append([int(row) for row in rows])
        self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._path, json.dumps(self._content))
