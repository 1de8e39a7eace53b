"""The student's public rows: unlabelled queries, and test rows if there are any."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import unreadable
from consilium.protocol.rows.schema import Schema


@dataclass(frozen=True)
class Pool:
    """`queries` (n, features) unlabelled; `test_x` (m, features) and `test_y` int64 (m,) class indices, or None."""

    features: tuple[str, ...]
    queries: np.ndarray = field(repr=False)
    test_x: np.ndarray | None = field(default=None, repr=False)
    test_y: np.ndarray | None = field(default=None, repr=False)


def load_pool(path: Path) -> Pool:
    """Read an .npz with `features` and `queries`, and optionally `test_x` and `test_y`.

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
            )
    except FileNotFoundError as error:
        raise unreadable(path, error, "Give an .npz with `features` and `queries`") from None
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read pool {path}: {error}", "Give an .npz with `features` and `queries`") from None
    if pool.queries.ndim != 2 or pool.queries.shape[1] != len(pool.features):
        raise DataError(f"pool {path}: queries have shape {pool.queries.shape} for {len(pool.features)} features")
    return pool


def check_fits(pool: Pool, schema: Schema) -> None:
    """Raise DataError unless the pool's columns are the federation's, in its order."""
    if pool.features != schema.features:
        missing = sorted(set(schema.features) - set(pool.features))
        extra = sorted(set(pool.features) - set(schema.features))
        raise DataError(
            f"the pool's columns are not the federation's: missing {missing[:5]}, too many {extra[:5]}"
            if missing or extra
            else "the pool's columns are the federation's in another order"
        )
