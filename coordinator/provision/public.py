"""The operator's files of public rows: what they make of the schema, and the rows as its features."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from consilium.data.encoding import DeclaredColumns, encode, infer
from consilium.data.files import CsvRule, open_table
from consilium.data.table import Reading, SchemaRows, TableRule, read_raw, read_schema_rows
from consilium.protocol.errors import ConfigError, DataError
from consilium.protocol.files import unreadable
from consilium.protocol.schema import ColumnEncoding, Schema

LEAST_ROWS = 2


def table_schema(
    path: Path,
    chosen: tuple[str, ...],
    classes: tuple[str, ...],
    declared: DeclaredColumns,
    csv: CsvRule,
    missing: tuple[str, ...],
) -> Schema:
    """The schema of a CSV or Parquet file: of numbers alone as they stand, else of raw columns (`rows.encoding`).

    chosen: its columns, all where there are none. missing: texts that mean "missing".

    Raises
    ------
    DataError : it cannot be read, or a column is neither numbers nor a category. ConfigError : one is the label, or is
        not there. PathError
    """
    try:
        names = open_table(path, csv).names
    except OSError as error:
        raise unreadable(path, error, "Correct rows.public in federation.toml") from None
    absent = sorted(set(chosen) - set(names))
    if absent:
        raise ConfigError(f"rows.features: {path.name} has no column {absent[0]!r}", f"It has {list(names)}")
    table = read_raw([path], TableRule(csv=csv, only=chosen, missing=missing))
    if table.frame.height < LEAST_ROWS:
        raise DataError(f"rows.public: {path} has {table.frame.height} rows", f"Give at least {LEAST_ROWS}")
    try:
        columns = infer(table.frame, declared, table.lines)
    except DataError as error:
        raise DataError(f"rows.public: {error.what}", f"{error.action} (rows.columns, rows.features)") from None
    for column in columns:
        if len(column.values) > 1 and set(column.values) <= set(classes):
            raise ConfigError(
                f"rows.public: column {column.column!r} of {path} has the classes as its values: it is the label",
                "Name the columns that are features in rows.features",
            )
    import polars as pl

    if not declared and all(column == ColumnEncoding(column=column.column, kind="number") for column in columns):
        return Schema.from_public_rows(tuple(table.frame.columns), classes, table.frame.cast(pl.Float64).to_numpy())
    return Schema.of_table(columns, classes, encode(table.frame, columns)[0])


def table_rows(path: Path, schema: Schema, csv: CsvRule, missing: tuple[str, ...]) -> SchemaRows:
    """Rows of a CSV or Parquet file as the schema's features. Raises DataError, PathError."""
    return read_schema_rows(path, schema, Reading(csv, public=True, missing=missing))


def array_rows(path: Path, key: str, chosen: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray]:
    """Features and rows float64 (n, features) of an .npz that `key` of federation.toml names: the chosen ones, all
    where there are none. Raises ConfigError: one is not there. DataError, PathError : it is of no use."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = tuple(str(name) for name in file["features"])
            rows = file["queries" if "queries" in file.files else "x"].astype(np.float64)
    except OSError as error:
        raise unreadable(path, error, f"Correct {key} in federation.toml") from None
    except (KeyError, IndexError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        raise DataError(
            f"{key}: {path} is no table of numbers",
            "Give .npz with features and queries (docs/data.md), or .csv, or .parquet",
        ) from None
    if rows.ndim != 2 or rows.shape[1] != len(names) or len(rows) < LEAST_ROWS:
        raise DataError(
            f"{key}: {path} has shape {rows.shape} for {len(names)} columns", "Give at least two complete rows"
        )
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{key}: {path}: {len(bad)} values are missing or infinite (first: row {row + 1}, {names[column]!r})",
            "Give complete rows, or a .csv or .parquet of raw columns",
        )
    chosen = chosen or names
    if absent := sorted(set(chosen) - set(names)):
        raise ConfigError(f"{key}: {path.name} has no column {absent[0]!r}", f"It has {list(names)}")
    return chosen, rows[:, [names.index(name) for name in chosen]]
