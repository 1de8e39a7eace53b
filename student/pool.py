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
    """`queries` (n, features); `test_x` (m, features) and `test_y` int64 (m,) class indices, or None.

    labels: int64 (n,), classes of the queries that everybody knows, NO_LABEL of the others; None where none is known.
    """

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
    """Where a student's rows are: an .npz as `load_pool` takes it, or a CSV or Parquet file of raw rows.

    label: column with the classes. In the pool itself, rows with a label are test rows and are not asked; in `test`, a
    file of its own, all rows have one. missing: texts that mean "missing", besides empty ones. known: column with
    classes of rows that are asked all the same, empty where nobody knows it; then test rows have a file of their own.
    """

    path: Path
    csv: CsvRule = field(default_factory=CsvRule)
    label: str | None = None
    test: Path | None = None
    missing: tuple[str, ...] = ()
    known: str | None = None

    def check(self) -> None:
        """Look at what can be seen without a schema. Raises ConfigError, DataError."""
        if self.test is not None and self.label is None:
            raise ConfigError(f"{self.test} needs labels, and nothing says in which column", "Give --label COLUMN")
        if self.test is None and self.label is not None and _is_npz(self.path):
            raise ConfigError(f"--label is of a table, and {self.path} is an .npz", "Put its labels into test_y")
        if self.known is not None and _is_npz(self.path):
            raise ConfigError(f"--public-label is of a table, and {self.path} is an .npz", "Put its labels into y")
        if self.known is not None and self.label is not None and self.test is None:
            raise ConfigError(
                "--label and --public-label are both of the public rows",
                "Give test rows as a file of their own: --test",
            )
        for path in filter(None, (self.path, self.test)):
            if path == self.path and _is_npz(path):
                load_pool(path)
                continue
            try:
                open(path, "rb").close()
            except OSError as error:
                raise unreadable(path, error, "Give a .csv, .parquet or .npz of public rows") from None

    def load(self, schema: Schema, tell: Callable[[str], None] = lambda remark: None) -> Pool:
        """The rows as the schema's features. `tell` gets what is odd about them.

        Raises
        ------
        DataError : they do not fit. PathError
        """
        self.check()
        pool = load_pool(self.path) if _is_npz(self.path) else self._from_table(schema, tell)
        if self.test is None:
            return pool
        rows = self._read(self.test, schema, self.label, tell)
        if (rows.y == NO_LABEL).any():
            first = int(np.flatnonzero(rows.y == NO_LABEL)[0])
            raise DataError(f"{self.test}: test row {first + 1} has no label", "Leave it out, or label it")
        return replace(pool, test_x=rows.x, test_y=rows.y)

    def _from_table(self, schema: Schema, tell: Callable[[str], None]) -> Pool:
        label = self.label if self.test is None else None
        rows = self._read(self.path, schema, self.known or label, tell)
        if rows.y is None or self.known is not None:
            return Pool(schema.features, rows.x, labels=rows.y)
        tested = rows.y != NO_LABEL
        if tested.all():
            raise DataError(
                f"every row of {self.path} has a label, so that none is left to ask",
                f"Empty {label!r} of the rows that are to be asked, or give the labelled ones as --test",
            )
        if not tested.any():
            return Pool(schema.features, rows.x)
        return Pool(schema.features, rows.x[~tested], rows.x[tested], rows.y[tested])

    def _read(self, path: Path, schema: Schema, label: str | None, tell: Callable[[str], None]) -> SchemaRows:
        how = Reading(self.csv, public=True, missing=self.missing, label=label)
        rows = read_schema_rows(path, schema, how)
        for remark in rows.remarks:
            tell(f"{path.name}: {remark}")
        return rows


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def load_pool(path: Path) -> Pool:
    """Read an .npz of encoded rows with `features` and `queries`, and optionally `test_x` and `test_y`, and `y`: the
    classes of the queries, -1 where nobody knows it.

    Raises
    ------
    PathError : no such file. DataError : it holds no pool.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            has_test = "test_x" in file.files and "test_y" in file.files
            pool = Pool(
                features=tuple(str(name) for name in file["features"]),
                queries=file["queries"],
                test_x=file["test_x"] if has_test else None,
                test_y=file["test_y"].astype(np.int64) if has_test else None,
                labels=file["y"].astype(np.int64) if "y" in file.files else None,
            )
    except FileNotFoundError as error:
        raise unreadable(path, error, "Give an .npz with `features` and `queries`") from None
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"cannot read public rows {path}: {error}", "Give an .npz with `features` and `queries`"
        ) from None
    if pool.queries.ndim != 2 or pool.queries.shape[1] != len(pool.features):
        raise DataError(f"pool {path}: queries have shape {pool.queries.shape} for {len(pool.features)} features")
    if pool.labels is not None and pool.labels.shape != (len(pool.queries),):
        raise DataError(
            f"pool {path}: y has shape {pool.labels.shape} for {len(pool.queries)} queries",
            "Give one each, -1 for none",
        )
    missing = ~np.isfinite(pool.queries) if pool.queries.dtype.kind == "f" else np.zeros((0, 0), dtype=bool)
    bad = np.argwhere(missing)
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"pool {path}: {len(bad)} values are missing or infinite (first: row {row + 1}, {pool.features[column]!r})",
            "Fill them, or leave these rows out",
        )
    return pool


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
