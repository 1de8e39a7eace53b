"""Data sets of the user's own in .npz files: x, y, and what is there of owner, patient, time, features, classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.files import files_of
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.array_source import ArraySource
from consilium.simulations.datasets.arrays import read_arrays
from consilium.simulations.datasets.parts import JoinedRows, Part, Piece
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import SourceSpec

if TYPE_CHECKING:
    import polars as pl

OPTIONAL = ("owner", "patient", "time")
ADVICE = "Write it with numpy.savez(file, x=..., y=..., owner=..., features=..., classes=...)"


def open_arrays(spec: SourceSpec) -> ArraySource:
    """The arrays that `spec` names. `x` (rows, features) of numbers; `y`, `owner`, `patient` (rows,) of whole numbers
    or text; `time` (rows,) of dates or numbers. `features` name the columns of `x`; `classes` what whole numbers in `y`
    mean.

    Raises
    ------
    ConfigError : it names no file. PathError : there is none. DataError : an array is not there or not usable.
    """
    if not spec.path:
        raise ConfigError('data.set = "npz" needs data.path, a file or files', 'For example path = "rows.npz"')
    given = [(spec.path, Part.PRIVATE)]
    if spec.public is not None and spec.public.by == "file":
        given.append((spec.public.file, Part.QUERIES))
        given += [(spec.public.test, Part.TEST)] if spec.public.test else []
    files = [(path, part) for pattern, part in given for path in files_of(pattern, Path())]
    read = [_read(path) for path, _ in files]
    first = read[0]
    for (path, _), each in zip(files, read, strict=True):
        if (each.features, each.classes) != (first.features, first.classes):
            other = "features" if each.features != first.features else "classes"
            raise DataError(f"{path} has other {other} than {files[0][0]}", "Write all files alike")
    pieces = [
        Piece(each.roles, Places.of_rows(path.name, len(each.x)), part)
        for (path, part), each in zip(files, read, strict=True)
    ]
    columns = first.roles.columns
    roles = {"label": "y", **{role: role for role in OPTIONAL if role in columns}}
    own = {"classes": spec.classes or first.classes, "owner_label": spec.owner_label or "party"}
    known = spec.model_copy(update={**roles, **own})
    parts = JoinedRows.of(pieces, optional=OPTIONAL)
    return ArraySource.of_parts(np.concatenate([each.x for each in read]), first.features, parts, known)


class _File:
    """The arrays of one file, checked."""

    def __init__(self, path: Path, arrays: dict[str, np.ndarray]) -> None:
        for name in ("x", "y"):
            if name not in arrays:
                raise DataError(f"{path} has no array {name}", ADVICE)
        x = arrays["x"]
        if x.ndim < 2 or x.dtype.kind not in "fiub":
            raise DataError(f"{path}: x has {x.ndim} dimensions of {x.dtype}, rows of numbers are needed", ADVICE)
        with np.errstate(over="ignore"):
            self.x = x.reshape(len(x), -1).astype(np.float32)
        bad = np.argwhere(~np.isfinite(self.x))
        self.features = self._names(path, arrays, "features", self.x.shape[1]) or tuple(
            f"x{index:0{len(str(self.x.shape[1] - 1))}d}" for index in range(self.x.shape[1])
        )
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"{path}, row {row + 1}: {self.features[column]} is {self.x[row, column]}, as are"
                f" {len(bad)} numbers in all",
                'Fill them in with public means, or write a table (data.set = "table"), where they may be missing',
            )
        self.classes = self._names(path, arrays, "classes", None)
        self.roles = self._roles(path, arrays)

    def _names(self, path: Path, arrays: dict[str, np.ndarray], name: str, count: int | None) -> tuple[str, ...]:
        if name not in arrays:
            return ()
        names = tuple(str(each) for each in np.atleast_1d(arrays[name]))
        if len(set(names)) < len(names) or (count is not None and len(names) != count):
            wanted = "different names" if count is None else f"{count} different names, one for each column of x"
            raise DataError(f"{path}: {name} must be {wanted}, it has {len(names)}", ADVICE)
        return names

    def _roles(self, path: Path, arrays: dict[str, np.ndarray]) -> pl.DataFrame:
        import polars as pl

        columns: dict[str, pl.Series] = {}
        for name in ("y", *OPTIONAL):
            if name not in arrays:
                continue
            values = arrays[name]
            kinds, needed = ("iubUfM", "dates or numbers") if name == "time" else ("iubU", "whole numbers or texts")
            if values.shape != (len(self.x),) or values.dtype.kind not in kinds:
                what = f"{path}: {name} has shape {values.shape} of {values.dtype}"
                raise DataError(f"{what}, {len(self.x)} {needed} are needed", ADVICE)
            if values.dtype.kind == "M":
                values = np.where(np.isnat(values), "", np.datetime_as_string(values, unit="s"))
            if name == "y" and self.classes and values.dtype.kind != "U":
                outside = np.flatnonzero((values < 0) | (values >= len(self.classes)))
                if len(outside):
                    what = f"{path}, row {outside[0] + 1}: y is {values[outside[0]]}"
                    raise DataError(f"{what}, and there are {len(self.classes)} classes", "They count from 0")
                values = np.array(self.classes)[values]
            columns[name] = pl.Series(name, values.tolist())
        return pl.DataFrame(columns)


def _read(path: Path) -> _File:
    return _File(path, read_arrays(path, "where you wrote it"))
