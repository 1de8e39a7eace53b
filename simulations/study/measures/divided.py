"""Who has which rows and labels, those held out at home among them: what a division is does not hang on these."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.simulations.study.case import Case
from consilium.simulations.study.measures.distances import hellinger, shares

MOST_IN_MATRIX = 60
"""Parties, the largest ones, in a matrix for pictures."""


@dataclass(frozen=True)
class Divided:
    """Rows int64 (n,) of all parties, party after party, and the index int64 (n,) of the party of each. Secret."""

    rows: np.ndarray = field(repr=False)
    party: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, case: Case) -> Divided:
        """Of each party the rows that it trains on, then those that it holds out."""
        none = np.zeros(0, dtype=np.int64)
        parts = [np.r_[case.partition.parties[party], case.home.get(party, none)] for party in case.parties]
        return cls(np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts]))


def counted(party: np.ndarray, y: np.ndarray, parties: int, classes: int) -> np.ndarray:
    """Rows by party and class, int64 (parties, classes), from each row's party and label, int64 (n,)."""
    return np.bincount(party * classes + y, minlength=parties * classes).reshape(parties, classes)


def label_counts(case: Case) -> np.ndarray:
    """Rows of each party and class, int64 (parties, classes)."""
    divided = Divided.of(case)
    return counted(divided.party, case.dataset.y[divided.rows], len(case.parties), len(case.classes))


def label_distances(counts: np.ndarray) -> np.ndarray:
    """Hellinger distance float64 (parties,) of the labels of each party to those of all together, from `counts`."""
    return hellinger(shares(counts), shares(counts.sum(axis=0)))


def largest(sizes: np.ndarray, most: int = MOST_IN_MATRIX) -> np.ndarray:
    """Positions int64 of the largest parties, at most so many, in the order of the parties; sizes int (parties,).

    >>> largest(np.array([3, 9, 1, 9]), 2).tolist()
    [1, 3]
    """
    return np.sort(np.argsort(-sizes, kind="stable")[:most])
