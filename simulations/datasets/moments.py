"""When rows were, and which of them are public by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from consilium.data.cells import texts_of
from consilium.data.encoding import times_of
from consilium.protocol.errors import ConfigError, DataError
from consilium.simulations.datasets.places import Places
from consilium.simulations.datasets.spec import PublicSpec

if TYPE_CHECKING:
    import polars as pl


def moments_of(series: pl.Series, places: Places) -> np.ndarray:
    """float64 (rows,), NaN where missing: of ISO dates the days since 1970-01-01, else the numbers.

    Raises
    ------
    DataError : a value is neither; says in which row.
    """
    try:
        return times_of(texts_of(series))
    except DataError as error:
        raise DataError(f"{places.whole}: {error.what}", error.action) from None


def public_by_time(series: pl.Series, rule: PublicSpec, places: Places) -> np.ndarray:
    """Rows at or after `rule.after`, or before `rule.before`, bool (rows,). series: ISO dates, or numbers.

    Raises
    ------
    ConfigError : the bound is neither, or is a number where the column has dates. DataError : a row has no time, or
        what is none; or all rows would be public, or none.
    """
    import polars as pl

    column = series.name
    key, bound = ("after", rule.after) if rule.after is not None else ("before", rule.before)
    texts = texts_of(series)
    empty = np.flatnonzero(texts.is_null().to_numpy())
    if len(empty):
        raise DataError(
            f"{places.told(empty)}: {column} has no value, and data.time is that column", "Complete the rows"
        )
    asked = pl.Series(f"data.public.{key}", [bound])
    try:
        limit = times_of(asked)[0]
    except DataError:
        raise ConfigError(
            f"data.public.{key} is {bound!r}: neither a date nor a number", "Write it as 2024-12-31"
        ) from None
    moments = moments_of(texts, places)
    if _numbers(texts) != _numbers(asked):
        kind, other = ("numbers", "a date") if _numbers(texts) else ("dates", "a number")
        raise ConfigError(f"data.public.{key} is {bound!r}, {other}, and {column} has {kind}", "Write it as they are")
    rows = moments >= limit if key == "after" else moments < limit
    if rows.all() or not rows.any():
        what = "every row is" if rows.all() else "no row is"
        raise DataError(f"{places.whole}: {what} public with data.public.{key} {bound!r}", "Choose another moment")
    return rows


def _numbers(texts: pl.Series) -> bool:
    return not texts.cast(float, strict=False).null_count()
