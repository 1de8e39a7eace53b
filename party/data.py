"""A party's own rows, read from its data file and checked against the federation's schema."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from protocol.refusals import Refused, Rule
from protocol.schema import Schema


@dataclass(frozen=True)
class Rows:
    """Private rows: `x` float64 (n, features) standardised, `y` int64 (n,) indices into the federation's classes."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def load_rows(path: Path, schema: Schema) -> Rows:
    """Read a party's data file and standardise it with the schema's public statistics.

    Columns are matched by name and class labels by class name, so a file may hold more columns, in another order.

    Raises
    ------
    Refused : the file is missing or malformed (DATA), or has not the schema's columns or classes (SCHEMA). What is
        wrong in detail goes to the party's own log only.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
            features = [str(name) for name in file["features"]]
            classes = [str(name) for name in file["classes"]]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise Refused(Rule.DATA, detail=f"{path}: {type(error).__name__}: {error}") from None
    if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != len(features) or y.dtype.kind not in "iu":
        raise Refused(Rule.DATA, detail=f"{path}: x is {x.dtype}{x.shape}, y is {y.dtype}{y.shape}")
    if x.dtype.kind not in "fiu" or not np.isfinite(x).all():
        raise Refused(Rule.DATA, detail=f"{path}: x has values that are missing or no numbers")
    if len(x) == 0 or y.min() < 0 or y.max() >= len(classes):
        raise Refused(Rule.DATA, detail=f"{path}: no rows, or a label outside the file's {len(classes)} classes")
    missing = set(schema.features) - set(features)
    unknown = set(np.asarray(classes)[np.unique(y)]) - set(schema.classes)
    if missing or unknown:
        raise Refused(Rule.SCHEMA, detail=f"{path}: missing columns {sorted(missing)}, other classes {sorted(unknown)}")
    columns = [features.index(name) for name in schema.features]
    to_schema = np.array([schema.classes.index(name) if name in schema.classes else -1 for name in classes])
    return Rows(schema.standardise(x[:, columns]), to_schema[y].astype(np.int64))
