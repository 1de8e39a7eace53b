"""The student's public rows: unlabelled queries, and test rows if there are any."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.data.files import CsvRule
from consilium.data.table import NO_LABEL, Reading, SchemaRows, read_schema_rows
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.files import unreadable
from consilium.protocol.schema import Schema


@dataclass(frozen=True)
class Pool:
    """`queries` (n, features); `test_x` (m, features) and `test_y` int64 (m,) class indices, or None. labels: int64
    (n,), classes of the queries that everybody knows, NO_LABEL of the others; None where none is known."""

    features: tuple[str, ...]
    queries: np.ndarray = field(repr=False)
    test_x: np.ndarray | None = field(default=None, repr=False)
    test_y: np.ndarray | None = field(default=None, repr=False)
    labels: np.ndarray | None = field(default=None, repr=False)

    @property
    def labelled(self) -> np.ndarray:
        """Queries, int64, whose class is known."""
        return np.zeros(0, dtype=np.int64) if self.labels is None else np.flatnonzero(self.labels != NO_LABEL)


@dataclass(frozen=True)
class PoolFile:
    """Where a student's rows are: an .npz as `load_pool` takes it, or a CSV or Parquet file of raw rows. test, label: a
    table of test rows, and its column of classes. missing: texts that mean "missing", besides empty ones. known: column
    of the table of rows that are asked with the classes that everybody knows, empty elsewhere."""

    path: Path
    csv: CsvRule = field(default_factory=CsvRule)
    label: str | None = None
    test: Path | None = None
    missing: tuple[str, ...] = ()
    known: str | None = None

    @property
    def _is_npz(self) -> bool:
        return self.path.suffix.lower() == ".npz"

    def check(self) -> None:
        """Look at what can be seen without a schema. Raises ConfigError, DataError."""
        if self.test is not None and self.label is None:
            raise ConfigError(f"{self.test} needs labels, and nothing says in which column", "Give --label COLUMN")
        if self.test is None and self.label is not None:
            raise ConfigError("--label is the column of test rows, and there are none", "Give --test FILE")
        if self.known is not None and self._is_npz:
            raise ConfigError(f"--public-label is of a table, and {self.path} is an .npz", "Put its labels into y")
        for path in filter(None, (self.path, self.test)):
            try:
                open(path, "rb").close()
            except OSError as error:
                raise unreadable(path, error, "Give a .csv, .parquet or .npz of public rows") from None
        if self._is_npz:
            load_pool(self.path)

    def load(self, schema: Schema, tell: Callable[[str], None] = lambda remark: None) -> Pool:
        """The rows as the schema's features. `tell` gets what is odd about them. Raises DataError: they do not fit."""
        self.check()
        if self._is_npz:
            pool = load_pool(self.path)
        else:
            rows = self._read(self.path, schema, self.known, tell)
            pool = Pool(schema.features, rows.x, labels=rows.y)
        if self.test is None:
            return pool
        rows = self._read(self.test, schema, self.label, tell)
        if (rows.y == NO_LABEL).any():
            first = int(np.flatnonzero(rows.y == NO_LABEL)[0])
            raise DataError(f"{self.test}: test row {first + 1} has no label", "Leave it out, or label it")
        return replace(pool, test_x=rows.x, test_y=rows.y)

    def _read(self, path: Path, schema: Schema, label: str | None, tell: Callable[[str], None]) -> SchemaRows:
        how = Reading(self.csv, public=True, missing=self.missing, label=label)
        rows = read_schema_rows(path, schema, how)
        for remark in rows.remarks:
            tell(f"{path.name}: {remark}")
        return rows


def load_pool(path: Path) -> Pool:
    """Read an .npz of encoded rows with `features` and `queries`, and optionally `test_x` and `test_y`, and `y`: the
    classes of the queries, -1 where nobody knows it. Raises PathError: no such file. DataError: it holds no pool."""
    action = "Give an .npz with `features` and `queries`"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("queries", "test_x", "test_y", "y") if name in file.files}
            features = tuple(str(name) for name in file["features"])
            queries, test_x = arrays["queries"], arrays.get("test_x")
            labels, test_y = (arrays[name].astype(np.int64) if name in arrays else None for name in ("y", "test_y"))
    except FileNotFoundError as error:
        raise unreadable(path, error, action) from None
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read public rows {path}: {error}", action) from None
    if queries.ndim != 2 or queries.shape[1] != len(features):
        raise DataError(f"pool {path}: queries have shape {queries.shape} for {len(features)} features")
    if labels is not None and labels.shape != (len(queries),):
        raise DataError(
            f"pool {path}: y has shape {labels.shape} for {len(queries)} queries", "Give one each, -1 for none"
        )
    bad = np.argwhere(~np.isfinite(queries) if queries.dtype.kind == "f" else np.zeros((0, 0), dtype=bool))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"pool {path}: {len(bad)} values are missing or infinite (first: row {row + 1}, {features[column]!r})",
            "Fill them, or leave these rows out",
        )
    tested = test_x is not None and test_y is not None
    return Pool(features, queries, test_x if tested else None, test_y if tested else None, labels)


def check_fits(pool: Pool, schema: Schema) -> None:
    """Raise DataError unless the pool's columns are the federation's, in its order, and its labels are classes."""
    known = pool.labels if pool.labels is not None else np.zeros(0, dtype=np.int64)
    if ((known < NO_LABEL) | (known >= len(schema.classes))).any():
        raise DataError(
            f"the pool has labels from {known.min()} to {known.max()} for {len(schema.classes)} classes",
            f"Give them as 0 to {len(schema.classes) - 1}, and {NO_LABEL} where there is none",
        )
    if pool.features != schema.features:
        missing = sorted(set(schema.features) - set(pool.features))
        extra = sorted(set(pool.features) - set(schema.features))
        raise DataError(
            f"the pool's columns are not the federation's: missing {missing[:5]}, too many {extra[:5]}"
            if missing or extra
            else "the pool's columns are the federation's in another order"
        )
