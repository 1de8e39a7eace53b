"""A column of times as numbers: ISO dates as days, numbers as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def times_of(series: pl.Series) -> np.ndarray:
    """float64 (rows,), NaN where missing: days since 1970-01-01 of dates (with or without a time), else the numbers.

    >>> import polars as pl
    >>> times_of(pl.Series("year", ["2020", "2021.5"])).tolist()
    [2020.0, 2021.5]
    >>> times_of(pl.Series("day", ["1970-01-02", "1970-01-02T12:00:00"])).tolist()
    [1.0, 1.5]

    Raises
    ------
    DataError : a value is neither; which one is not said.
    """
    import polars as pl

    if series.dtype.is_numeric():
        return series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    texts = series.cast(pl.String).str.strip_chars().replace("", None)
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() == texts.null_count():
        return numbers.fill_null(np.nan).to_numpy()
    plain = texts.str.replace("T", " ", literal=True)
    length = plain.str.len_chars()
    rest = pl.when(length == 10).then(pl.lit(" 00:00:00")).when(length == 16).then(pl.lit(":00")).otherwise(pl.lit(""))
    whole = pl.select(plain + rest).to_series()
    found = whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    if found.null_count() > texts.null_count():
        row = int(np.flatnonzero((found.is_null() & texts.is_not_null()).to_numpy())[0])
        raise DataError(
            f"column {series.name!r}, row {row + 1}: the value is neither an ISO date (2024-12-31) nor a number",
            "Export times as ISO dates, all in one form, or as numbers",
        )
    return (found.dt.epoch("us").cast(pl.Float64) / 86_400e6).fill_null(np.nan).to_numpy()
