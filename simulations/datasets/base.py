"""What a data set is to a simulation: before it is divided, a source; then, in what public rows say, a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from consilium.protocol.schema import ColumnEncoding, Schema


@dataclass(frozen=True)
class Public:
    """The data set's own public part as row indices int64: what the student asks, and what is held out to evaluate it.

    Where `test` is empty, half of the rows are held out by lot.
    """

    queries: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)


class Source(Protocol):
    """Rows whose owners and labels are known, and whose features are not numbers yet.

    Who has which rows is decided first; then `dataset` makes numbers of them by what public rows say. `y` int64 (rows,)
    is an index into `classes`; where these are empty, nobody has named the classes, the public rows will, and `y` tells
    labels apart and no more. `owner` int64 (rows,) is an index into `owner_names`, or where that is None a number that
    names the owner itself. `patient` int64 (rows,) is whose each row is, and `time` float64 (rows,) when it was: days
    or any other number, NaN where missing. Both are None where nobody says.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def attribution(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def owner_label(self) -> str: ...
    @property
    def y(self) -> np.ndarray: ...
    @property
    def owner(self) -> np.ndarray: ...
    @property
    def owner_names(self) -> tuple[str, ...] | None: ...
    @property
    def patient(self) -> np.ndarray | None: ...
    @property
    def time(self) -> np.ndarray | None: ...
    @property
    def public(self) -> Public | None: ...

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """All rows as numbers: categories, and what stands for a missing value, are those of the rows at these indices.

        Raises
        ------
        DataError : labels or values that the public rows do not explain, with what to declare.
        """
        ...


@dataclass(frozen=True)
class Dataset:
    """Rows with their natural owner, as numbers. It is a `Source` of itself: nothing of it depends on what is public.

    `x` float32 (rows, features), `y` int64 (rows,) indices into `classes`, `owner` int64 (rows,) id of the hospital
    (or writer, or site) the row came from; `owner_label` names one of them ("hospital"), `owner_names` all, if there
    are names. `patient` int64 (rows,): whose each row is; `time` float64 (rows,): when it was, NaN where missing. They
    are None where the set does not say. `public` is None where the set has no public part of its own: then owners are
    held out. Of a table, `columns` say which raw columns `x` encodes, and `schema` what public rows say of them; before
    that is known, a missing value is NaN in `x`. `left_out`: rows that were there and are none of these, by why.
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
    owner_names: tuple[str, ...] | None = None
    columns: tuple[ColumnEncoding, ...] = ()
    schema: Schema | None = None
    patient: np.ndarray | None = field(default=None, repr=False)
    time: np.ndarray | None = field(default=None, repr=False)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def dataset(self, public_rows: np.ndarray) -> Dataset:
        """Itself."""
        return self
