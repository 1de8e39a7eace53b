"""Published data sets: what `named.toml` says of them, and the folder of those that are not in the package."""

from __future__ import annotations

import os
import tomllib
import zipfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.base import Dataset, Public

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
