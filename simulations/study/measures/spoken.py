"""The teachers' votes before any federation counts them: where scores are equal, a vote is shared among these classes.

A federation decides by a lot of its own digest (`party.teachers.ballot`), so a measure of whole votes would change with
the mechanism and the caps. Shared votes are the mean over all such lots.
"""

from __future__ import annotations

import numpy as np

from consilium.simulations.study.said import Said

DIGITS = 6
"""Of sums of shares: what differs in later ones is equal."""


def shares_for(said: Said, label: int) -> np.ndarray:
    """Share of each teacher's vote that is for this class, float32 (parties, teachers, rows)."""
    found = (said.said == label).astype(np.float32)
    if len(said.tied_row):
        part = said.tied[:, label] / said.tied.sum(axis=1)
        found[said.tied_party, said.tied_teacher, said.tied_row] = part
    return found


def total_votes(said: Said, classes: int) -> np.ndarray:
    """Votes of all teachers float64 (rows, classes); each row sums to their number."""
    votes = [shares_for(said, label).sum(axis=(0, 1), dtype=np.float64) for label in range(classes)]
    return np.stack(votes, axis=1).round(DIGITS)


def shares_right(said: Said, y: np.ndarray, classes: int) -> np.ndarray:
    """Share of each party's votes for the true class `y` int64 (rows,) of each row, float32 (parties, rows)."""
    right = np.zeros((said.said.shape[0], len(y)), dtype=np.float32)
    for label in range(classes):
        right[:, y == label] = shares_for(said, label)[:, :, y == label].mean(axis=1)
    return right
