"""Figures of many parties' held-out rows at a time: means over each party's own rows, and areas under their curves.

What comes out is, to the last digit, what `metrics` gives for the rows of one party after the other. With hundreds of
parties of a few rows, one after the other takes longer than all else that is computed of a method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from consilium.models.evaluation import outranked


@dataclass(frozen=True)
class PartyRows:
    """Rows that lie party after party. party: int64 (groups,), the parties that have any; first, count: int64
    (groups,), of their rows. group: int64 (rows,), to which of them each row belongs."""

    party: np.ndarray
    first: np.ndarray
    count: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, whose: np.ndarray) -> PartyRows:
        """From the party of each row, int64 (rows,), in ascending order."""
        party, first, group, count = np.unique(whose, return_index=True, return_inverse=True, return_counts=True)
        return cls(party, first, count, group)

    def counts(self, labels: np.ndarray, classes: int) -> np.ndarray:
        """int64 (groups, classes): rows of each party by their labels int64 (rows,)."""
        cells = np.bincount(self.group * classes + labels, minlength=len(self.party) * classes)
        return cells.reshape(len(self.party), classes)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Of float64 (rows,): float64 (groups,)."""
        return self._reduced(values, lambda block: block.mean(axis=1))

    def deviations(self, values: np.ndarray) -> np.ndarray:
        """Their standard deviations, likewise."""
        return self._reduced(values, lambda block: block.std(axis=1))

    def _reduced(self, values: np.ndarray, reduced: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        result = np.empty(len(self.party))
        for which, rows in self._equal:
            result[which] = reduced(values[rows])
        return result

    @cached_property
    def _equal(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Parties with equally many rows are a matrix, whose rows numpy adds up as it adds up the rows of one: of each
        number of rows the parties, int64 (some,), and their rows, int64 (some, number)."""
        groups = [(np.flatnonzero(self.count == count), count) for count in np.unique(self.count).tolist()]
        return [(which, self.first[which, None] + np.arange(count)) for which, count in groups]


def area_scores(rows: PartyRows, probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`metrics.auc_row_scores` of each party's rows: float64 (rows,), NaN for parties with rows of one class only.

    probabilities: float64 (rows, classes). y: int64 (rows,).
    """
    classes = probabilities.shape[1]
    total, number = np.zeros(len(y)), np.zeros(len(rows.party))
    for index in [1] if classes == 2 else range(classes):
        positive = y == index
        count = rows.counts(positive, 2)[:, 1]
        both = (count > 0) & (count < rows.count)
        total += np.where(both[rows.group], _one_against_rest(rows, probabilities[:, index], positive), 0.0)
        number += both
    with np.errstate(invalid="ignore"):
        return total / number[rows.group]


def _one_against_rest(rows: PartyRows, scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """`metrics.one_against_rest` of each party's rows; whatever it is for parties that have only one of both kinds."""
    others, positives = rows.counts(positive, 2).T
    # rows of earlier parties come first, and are none that a row is compared with
    earlier = np.where(
        positive, (np.cumsum(others) - others)[rows.group], (np.cumsum(positives) - positives)[rows.group]
    )
    lower = outranked(_places(rows.group, scores), positive) - earlier
    lower[np.isnan(scores)] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        placements = np.where(positive, lower / others[rows.group], 1 - lower / positives[rows.group])
        area, share = np.zeros(len(rows.party)), (positives / rows.count)[rows.group]
        among = PartyRows.of(rows.group[positive])
        area[among.party] = among.means(placements[positive])
        middle = area[rows.group]
        return middle + (placements - middle) / np.where(positive, share, 1 - share)


def _places(group: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Numbers in the order of the parties, and of the scores within one: float64 (rows,), equal where both are."""
    order = np.lexsort((scores, group))
    ordered, party = scores[order], group[order]
    steps = np.concatenate([[0], (ordered[1:] != ordered[:-1]) | (party[1:] != party[:-1])])
    places = np.empty(len(scores))
    places[order] = np.cumsum(steps)
    return places
