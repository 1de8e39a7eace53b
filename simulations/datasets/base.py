"""What a data set is to a simulation: before it is divided, a source; then, in what public rows say, a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.schema import ColumnEncoding, Schema


@dataclass(frozen=True)
class Public:
    """The data set's own public part as row indices int64: what the student asks, and what is held out to evaluate it.
    Where `test` is empty, half of the rows are held out by lot."""

    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """Rows whose owners and labels are known, and whose features need not be numbers yet.

    Who has which rows is decided first; then `dataset` makes numbers of them by what public rows say. `y` int64 (rows,)
    is an index into `classes`; where these are empty, nobody has named the classes, the public rows will, and `y` tells
    labels apart and no more. `owner` int64 (rows,) is an index into `owner_names`, or where that is None a number that
    names the owner itself; `owner_label` names one of them ("hospital"). `patient` int64 (rows,) is whose each row is,
    and `time` float64 (rows,) when it was: days or any other number, NaN where missing. Both are None where nobody
    says. `public` is None where the set has no public part of its own: then owners are held out. `left_out`: rows that
    were there and are none of these, by why.
    """

    name: str
    title: str
    attribution: str
    classes: tuple[str, ...]
    owner_label: str
    y: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)
    owner_names: tuple[str, ...] | None = field(default=None, repr=False)
    patient: np.ndarray | None = field(default=None, repr=False)
    time: np.ndarray | None = field(default=None, repr=False)
    public: Public | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)

    @abstractmethod
    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """All rows as numbers: categories, and what stands for a missing value, are those of the rows at these indices.
        Raises DataError: labels or values that the public rows do not explain, with what to declare."""

    def as_numbers(
        self,
        features: tuple[str, ...],
        x: np.ndarray,
        classes: tuple[str, ...],
        y: np.ndarray,
        columns: tuple[ColumnEncoding, ...] = (),
    ) -> Dataset:
        """The rows as x float32 (rows, features), with what else is known of them."""
        known = {key: getattr(self, key) for key in Source.__dataclass_fields__}
        return Dataset(**{**known, "classes": classes, "y": y}, features=features, x=x, columns=columns)


@dataclass(frozen=True, kw_only=True)
class Dataset(Source):
    """Rows as numbers: `x` float32 (rows, features). It is a `Source` of itself: nothing of it depends on what is
    public. Of a table, `columns` say which raw columns `x` encodes, and `schema` what public rows say of them; before
    that is known, a missing value is NaN in `x`."""

    features: tuple[str, ...]
    x: np.ndarray = field(repr=False)
    columns: tuple[ColumnEncoding, ...] = ()
    schema: Schema | None = None

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """Itself."""
        return self

    @property
    def places(self) -> dict[str, list[int]]:
        """Positions of the features of each column, of arrays of each feature."""
        if not self.columns:
            return {name: [place] for place, name in enumerate(self.features)}
        ends = np.cumsum([len(column.features) for column in self.columns]).tolist()
        starts = [0, *ends[:-1]]
        names = [column.column for column in self.columns]
        return {name: list(range(start, end)) for name, start, end in zip(names, starts, ends, strict=True)}
