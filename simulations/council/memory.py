"""Rows in memory as a source of a simulation."""

from __future__ import annotations

import numpy as np
import polars as pl

from consilium.protocol.errors import DataError
from consilium.protocol.rows.encoding import DeclaredColumns, encode, features_of, infer, texts_of
from consilium.simulations.council.given import Given
from consilium.simulations.datasets.base import Dataset, Public


class MemorySource:
    """A `Source` whose rows somebody holds in memory. Its columns are encoded by what its public rows say."""

    name = "memory"
    title = "Rows in memory"
    attribution = "Rows that were in the memory of the program that ran this; they are not kept with the run."

    def __init__(self, rows: Given, columns: DeclaredColumns) -> None:
        own = rows.frame.height
        frame = rows.frame if rows.public is None else pl.concat([rows.frame, rows.public], how="vertical_relaxed")
        self._features, self._declared = frame.select(rows.features), columns
        at = np.arange(own, frame.height)
        self.public: Public | None = None if rows.public is None else Public(at, at[:0])
        self._labels = texts_of(frame[rows.label]).to_numpy()
        self._classes = rows.classes
        self.classes = rows.classes
        names = list(rows.meant)
        self.y = np.array([names.index(value) for value in self._labels])
        self.owner_label = rows.owner or "owner"
        self.owner_names, self.owner = _numbered(None if rows.owner is None else frame[rows.owner], frame.height)
        self.patient = None if rows.patient is None else _numbered(frame[rows.patient], frame.height)[1]

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """See `Source.dataset`."""
        columns = infer(self._features[public_rows], self._declared)
        x, _ = encode(self._features, columns)
        means = np.nanmean(x[public_rows].astype(np.float64), axis=0)
        x = np.where(np.isnan(x), means.astype(np.float32), x)
        classes = self._classes or tuple(sorted(set(self._labels[public_rows])))
        if not set(self._labels) <= set(classes):
            raise DataError("y has a class that no public row has", "Declare classes")
        return Dataset(
            name=self.name,
            title=self.title,
            attribution=self.attribution,
            features=features_of(columns),
            classes=classes,
            owner_label=self.owner_label,
            x=x,
            y=np.array([classes.index(value) for value in self._labels]),
            owner=self.owner,
            public=self.public,
            owner_names=self.owner_names,
            patient=self.patient,
        )


def _numbered(column: pl.Series | None, rows: int) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """Names, and the place of each row's name among them, int64 (rows,)."""
    if column is None:
        return None, np.zeros(rows, dtype=np.int64)
    names, places = np.unique(texts_of(column).to_numpy().astype(str), return_inverse=True)
    return tuple(names.tolist()), places.astype(np.int64)
