"""What a data set is to a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Public:
    """The data set's own test part as row indices int64: what the student asks, and what is held out to evaluate it."""

    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Dataset:
    """Rows with their natural owner.

    `x` float32 (rows, features), `y` int64 (rows,) indices into `classes`, `owner` int64 (rows,) id of the hospital
    (or writer, or site) the row came from; `owner_label` names one of them ("hospital"). `public` is None where the set
    has no test part of its own: then owners are held out.
    """

    name: str
    title: str
    attribution: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    owner_label: str
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)
    public: Public | None = None

    def private_rows(self) -> np.ndarray:
        """Indices of the rows that are not public by the data set's own division, ascending."""
        rows = np.arange(len(self.y))
        if self.public is None:
            return rows
        return np.setdiff1d(rows, np.concatenate([self.public.queries, self.public.test]))
