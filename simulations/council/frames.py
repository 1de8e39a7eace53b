"""What people hold in memory, as a polars frame: pandas, polars, Arrow, numpy, nested lists.

pandas is never imported: its frames are recognised by their methods, and read column by column.
"""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from sklearn.exceptions import DataConversionWarning

from consilium.simulations.council.errors import BadInput, WrongType

Frame = Any
"""A pandas or polars frame, anything that Arrow's C stream gives, a 2-D numpy array, or what numpy makes one of."""
Values = Any
"""A pandas or polars column, a 1-D numpy array, or a list."""

_NUMBERS = (bool, int, float, np.number, np.bool_)
_DATES = (datetime.date, datetime.datetime, datetime.time)


def has_names(rows: Frame) -> bool:
    """Whether the columns have names of their own, as a frame's have."""
    return isinstance(rows, pl.DataFrame | pl.LazyFrame) or _of_pandas(rows) or hasattr(rows, "__arrow_c_stream__")


def frame_of(rows: Frame) -> pl.DataFrame:
    """The rows (rows, columns), with numbers, texts, booleans and dates, null where missing.

    Columns without names are called x0, x1 and so on.

    Raises
    ------
    WrongType : it is sparse, or no table. BadInput : no rows, no columns, two columns of one name, or a column that
        holds something else than numbers, texts, booleans and dates, or numbers that are infinite.
    """
    if _sparse(rows):
        raise WrongType(
            "the rows are a sparse matrix, and sparse data was passed where only dense rows can be put to the parties",
            "Give a frame, or rows.toarray()",
        )
    frame = _named(rows) if has_names(rows) else _unnamed(rows)
    for name in frame.columns:
        _check_finite(frame[name])
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def values_of(values: Values, what: str, length: int) -> list[Any]:
    """A column (rows,) as Python values, None where missing. `what` it is, for messages.

    Raises
    ------
    BadInput : it has another length, or more than one column. WrongType : it is no column.
    """
    if _sparse(values):
        raise WrongType(f"{what} is a sparse matrix", "Give a column of a frame, an array or a list")
    if isinstance(values, pl.Series):
        found = values.to_list()
    elif _of_pandas(values) and hasattr(values, "notna"):
        found = _pandas_values(values)
    else:
        found = _array_values(values, what)
    if len(found) != length:
        raise BadInput(
            f"{what} has {len(found)} values for {length} rows: inconsistent numbers of samples",
            "Give one for each row",
        )
    return [None if _missing(value) else value for value in found]


def _array_values(values: Values, what: str) -> list[Any]:
    array = np.asarray(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 0:
        raise WrongType(f"{what} is no column but a {type(values).__name__}", "Give an array or a list")
    if array.ndim == 2 and array.shape[1] == 1:
        told = f"A column-vector {what} was passed when a 1d array was expected"
        warnings.warn(told, DataConversionWarning, stacklevel=4)
        array = array[:, 0]
    if array.ndim != 1:
        raise BadInput(f"{what} has shape {array.shape}: it should be a 1d array", "Give one value for each row")
    return array.tolist()


def _named(rows: Frame) -> pl.DataFrame:
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if _of_pandas(rows):
        names = [str(name) for name in rows.columns]
        _check_names(names)
        rows = pl.DataFrame([_column(name, rows.iloc[:, at]) for at, name in enumerate(names)])
    elif not isinstance(rows, pl.DataFrame):
        rows = pl.DataFrame(rows)
    return _filled(rows, rows.height, rows.width)


def _check_names(names: Sequence[str]) -> None:
    if double := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"two columns are called {double[0]!r}", "Rename one of them")


def _column(name: str, column: Any) -> pl.Series:
    """A column of pandas."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return pl.Series(name, column.to_numpy())
    return series_of(name, _pandas_values(column))


def _pandas_values(column: Any) -> list[Any]:
    return column.astype(object).where(column.notna(), None).tolist()


def _unnamed(rows: Frame) -> pl.DataFrame:
    try:
        array = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    except ValueError as error:
        raise BadInput(f"the rows are no table: {error}", "Give a frame, or as many values in each row") from None
    if array.dtype.kind == "c":
        raise BadInput("Complex data not supported: the rows have complex numbers", "Give their parts as two columns")
    if array.dtype.names:
        raise WrongType("the rows are a structured array", "Give a frame made of it")
    if array.ndim != 2:
        raise BadInput(
            f"the rows have {array.ndim} dimensions, expected 2D array",
            "Reshape your data: rows.reshape(1, -1) is one row, rows.reshape(-1, 1) one column",
        )
    names = [f"x{at}" for at in range(array.shape[1])]
    if array.dtype.kind in "biuf":
        columns = [pl.Series(name, np.ascontiguousarray(array[:, at])) for at, name in enumerate(names)]
    else:
        columns = [series_of(name, array[:, at].tolist()) for at, name in enumerate(names)]
    return _filled(pl.DataFrame(columns), *array.shape)


def _filled(frame: pl.DataFrame, height: int, width: int) -> pl.DataFrame:
    """The frame, if it has rows and columns."""
    if width == 0:
        raise BadInput(f"0 feature(s) (shape=({height}, 0)) while a minimum of 1 is required", "Give rows with columns")
    if height == 0:
        raise BadInput("0 sample(s): the frame has no rows, at least 1 is required", "Give rows")
    return frame


def series_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Python values of one kind, None where missing, as a column; numbers among texts become texts.

    Raises
    ------
    WrongType : they are neither numbers, texts, booleans nor dates.
    """
    known = [value for value in values if not _missing(value)]
    told = [None if _missing(value) else value for value in values]
    if all(isinstance(value, bool | np.bool_) for value in known):
        return pl.Series(name, told, dtype=pl.Boolean if known else pl.String)
    if all(isinstance(value, _NUMBERS) for value in known):
        return pl.Series(name, [None if value is None else float(value) for value in told], dtype=pl.Float64)
    if all(isinstance(value, _DATES) for value in known):
        return pl.Series(name, [None if value is None else value.isoformat() for value in told], dtype=pl.String)
    odd = next((value for value in known if not isinstance(value, (str, *_NUMBERS, *_DATES))), None)
    if odd is not None:
        raise WrongType(
            f"column {name!r} holds a {type(odd).__name__}: argument must be a string or a number, or a date",
            "Give numbers, texts, booleans or dates",
        )
    return pl.Series(name, [None if value is None else str(value) for value in told], dtype=pl.String)


def _check_finite(column: pl.Series) -> None:
    if column.dtype.is_float() and (count := int(column.is_infinite().sum())):
        raise BadInput(
            f"column {column.name!r} contains infinity in {count} rows", "Leave it empty where it is unknown"
        )


def _missing(value: Any) -> bool:
    # NA and NaT of pandas are not equal to themselves, or do not say whether they are
    if value is None or isinstance(value, str):
        return value is None
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def _of_pandas(rows: Any) -> bool:
    return type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "iloc")


def _sparse(rows: Any) -> bool:
    return hasattr(rows, "tocsr") or type(rows).__module__.partition(".")[0] == "scipy"
