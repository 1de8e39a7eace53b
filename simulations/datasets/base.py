"""What a data set is to a simulation: before it is divided, a source; then, in what public rows say, a data set.

Of published ones: what `named.toml` says of them, and the folder of those that are not in the package."""

from __future__ import annotations

import os
import tomllib
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
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
    were there and are none of these, by why."""

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
        self, features: tuple[str, ...], x: np.ndarray, classes: tuple[str, ...], y: np.ndarray,
        columns: tuple[ColumnEncoding, ...] = (),
    ) -> Dataset:  # fmt: skip
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


VARIABLE = "CONSILIUM_DATA"
SHIPPED = files("consilium.simulations.datasets")


@cache
def named(name: str) -> dict[str, Any]:
    """Its table in `named.toml`, over that of the set that it is `like`."""
    tables = tomllib.loads((SHIPPED / "named.toml").read_text(encoding="utf-8"))
    return {**tables.get(tables[name].get("like"), {}), **tables[name]}


def dataset_of(name: str, public: tuple[int, int] | None = None, **known: Any) -> Dataset:
    """The named set with these fields; without `owner`, every row's owner is 0. public: the first row of those to ask,
    and of those held out, which are the last."""
    table, rows = named(name), len(known["y"])
    told = {key: table[key] for key in ("title", "attribution")} | {"classes": tuple(table["classes"])}
    told |= {"owner_label": "party", "owner": np.zeros(rows, dtype=np.int64)}
    if public is not None:
        told["public"] = Public(np.arange(*public), np.arange(public[1], rows))
    return Dataset(name=name, **{**told, **known})


def data_folder(path: str = "") -> Path:
    """The folder of the data sets: `path`, else $CONSILIUM_DATA. There is no other default: nobody else knows where a
    user keeps them. Raises DataError: none is named, or it is no folder."""
    folder = path or os.environ.get(VARIABLE, "")
    action = (
        f"Name it with data.path (--set data.path=FOLDER) or the variable {VARIABLE}; docs/scenarios.md says what lies"
        " in it"
    )
    if not folder:
        raise DataError("this data set is not in the package, and no folder of data sets is named", action)
    if not Path(folder).is_dir():
        where = "data.path" if path else VARIABLE
        raise DataError(f"no folder of data sets: {where} is {folder}, which is no folder", action)
    return Path(folder)


def data_file(folder: Path, name: str, source: str) -> Path:
    """The file of that name in `folder`; DataError that says where to get it (`source`) if it is not there."""
    path = folder / name
    if not path.is_file():
        raise DataError(f"{path} is not there", f"Get it from {source}, or set data.path or {VARIABLE}")
    return path


def read_arrays(path: Path, source: str) -> dict[str, np.ndarray]:
    """All arrays of an .npz file. Raises DataError: it is no such file, or damaged; says where to get it (`source`)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {path}: {error}", f"Get it anew from {source}") from None


def shipped_arrays(name: str) -> dict[str, np.ndarray]:
    """Those of a set that is in the package."""
    return read_arrays(Path(str(SHIPPED / f"{name}.npz")), "the package")
