"""What teachers said to rows, kept so that the votes of any federation with these teachers follow from it exactly.

Under the relative ballot equal scores are decided by a lot of the federation's digest, so the teachers' word alone does
not fix the vote: which classes were equal is kept too (`party.teachers.ballot`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.party.teachers.ballot import Lot

_NONE = np.zeros(0, dtype=np.int32)
_AT_ONCE = 4_000_000
"""Votes that are counted in one go."""


class HeardLot:
    """In place of the lot: writes down which classes were equal, and gives the first.

    In flat arrays: a party of a single class has equal scores on every row, and there may be hundreds of them.
    """

    def __init__(self) -> None:
        self.teacher, self.row = array("i"), array("i")
        self.equal, self.counts = array("i"), array("i")
        """The classes that were equal, one tie behind the other, and how many they were in each."""

    def draw(self, teacher: int, query: int, equal: np.ndarray) -> int:
        """See `Lot.draw`."""
        self.teacher.append(teacher)
        self.row.append(query)
        self.equal.extend(equal.tolist())
        self.counts.append(len(equal))
        return int(equal[0])


@dataclass(frozen=True)
class Said:
    """said: uint8 (parties, teachers, rows), the class that each teacher is for. Secret.

    Of those that were equal: tied_party, tied_teacher, tied_row int32 (ties,), tied bool (ties, classes).
    """

    said: np.ndarray = field(repr=False)
    tied_party: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_teacher: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_row: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0), dtype=bool))

    def votes(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str], classes: int
    ) -> np.ndarray:
        """Votes int64 (parties, rows, classes) on the rows at these positions, as a run of this federation collects.

        `query_ids`: of these rows, in this order. `federation`: its digest.
        """
        said = self._decided(rows, parties, federation, query_ids)
        votes = np.zeros((*said.shape[::2], classes), dtype=np.int64)
        for label in range(classes):
            votes[:, :, label] = (said == label).sum(axis=1)
        return votes

    def totals(
        self,
        rows: np.ndarray,
        parties: Sequence[str],
        federation: str,
        query_ids: Sequence[str],
        classes: int,
        weights: Sequence[int] | None = None,
    ) -> np.ndarray:
        """The sum of `votes` over the parties, int64 (rows, classes), each party's counted `weights` times (once, if
        None). A few rows of all parties at a time: 5,000 parties' votes on 10,000 rows and 150 classes are 60 GB."""
        said = self._decided(rows, parties, federation, query_ids)
        found = np.zeros((len(rows), classes), dtype=np.int64)
        step = max(_AT_ONCE // max(said.shape[0] * said.shape[1], 1), 1)
        for start in range(0, len(rows), step):
            part = said[:, :, start : start + step]
            width = part.shape[2]
            cells = (part + classes * np.arange(width)).reshape(len(part), -1)
            times = None if weights is None else np.repeat(np.asarray(weights, dtype=np.float64), cells.shape[1])
            counts = np.bincount(cells.ravel(), times, minlength=width * classes)
            found[start : start + width] = counts.reshape(width, classes)  # whole numbers, far below 2^53
        return found

    def _decided(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str]
    ) -> np.ndarray:
        """`said` on these rows, in its own type, with lots drawn where classes were equal."""
        said = self.said[:, :, rows]
        place = {int(row): at for at, row in enumerate(rows)}
        if len(place) < len(rows):
            raise ValueError("a row is asked once")
        lots = [Lot(party, federation, query_ids) for party in parties]
        for index in np.flatnonzero(np.isin(self.tied_row, rows)):
            party, teacher = int(self.tied_party[index]), int(self.tied_teacher[index])
            at = place[int(self.tied_row[index])]
            said[party, teacher, at] = lots[party].draw(teacher, at, np.flatnonzero(self.tied[index]))
        return said

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """For an artifact, see `study.artifact`."""
        return {f"{name}.{key}": value for key, value in vars(self).items()}

    @classmethod
    def of_arrays(cls, name: str, arrays: dict[str, np.ndarray]) -> Said:
        """The inverse of `arrays`."""
        return cls(**{key: arrays[f"{name}.{key}"] for key in cls.__dataclass_fields__})

    @classmethod
    def of_parties(cls, said: Sequence[np.ndarray], lots: Sequence[HeardLot], classes: int) -> Said:
        """said: of each party int64 (teachers, rows)."""
        counts = _joined([lot.counts for lot in lots])
        tied = np.zeros((len(counts), classes), dtype=bool)
        tied[np.repeat(np.arange(len(counts)), counts), _joined([lot.equal for lot in lots])] = True
        return cls(
            np.stack(said).astype(np.uint8 if classes <= 256 else np.uint16),
            np.repeat(np.arange(len(lots)), [len(lot.row) for lot in lots]).astype(np.int32),
            _joined([lot.teacher for lot in lots]),
            _joined([lot.row for lot in lots]),
            tied,
        )


def _joined(parts: Sequence[array[int]]) -> np.ndarray:
    return np.concatenate([_NONE, *(np.asarray(part, dtype=np.int32) for part in parts)])
