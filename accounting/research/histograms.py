"""Votes as researchers hold them: counts, every teacher's class, or a file of either."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from consilium.accounting.errors import VotesError
from consilium.accounting.histogram import check_same_total
from consilium.accounting.planning.vote_files import load_votes, votes_of_teachers


def as_histograms(votes: object, classes: int | None = None, teachers: int | None = None) -> tuple[np.ndarray, int]:
    """(votes int64 (queries, classes), teachers).

    Parameters
    ----------
    votes : signed integers (queries, classes), the count of each class; with ``classes``, integers (teachers, queries),
        the class for which each teacher votes; or the path of a .npy or .npz file of either.
    teachers : what every row must sum to, where it is known.

    Raises
    ------
    VotesError : anything else. The message never shows a count. VotesPathError : no such file.

    >>> as_histograms([[0, 1], [0, 2], [1, 2]], classes=3)[0].tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    if isinstance(votes, str | os.PathLike):
        histograms, _, _ = load_votes(Path(votes), classes=classes)
    else:
        array = np.asarray(votes)
        histograms = array if classes is None else votes_of_teachers(array, classes)
    found = check_same_total(histograms, teachers)
    if not len(histograms) or not found:
        raise VotesError("there are no votes to account for. Pass at least one query with at least one vote.")
    return histograms.astype(np.int64, copy=False), found
