"""What `Council.fit` is given, as tables with named columns: features, label, owner, patient, and what is public."""

from __future__ import annotations

import datetime
import decimal
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from sklearn.exceptions import DataConversionWarning

from consilium.data.texts import texts_of, written
from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties


class BadInput(DataError, ValueError):
    """Rows, labels or owners that cannot be used; no value of a private row is told."""


class WrongType(DataError, TypeError):
    """Rows, labels or owners of a type that is not taken."""


class BadSetting(ConfigError, ValueError):
    """A parameter that says something it may not say."""


class TooFewOwners(NotEnoughParties, ValueError):
    """Too few owners of rows are left as parties."""


@contextmanager
def value_errors(reworded: Callable[[str], str] = str) -> Iterator[None]:
    """Raise data, settings and owners that are wrong as ValueError too, with the same exit code. reworded : brings
    messages into the caller's words."""
    try:
        yield
    except (ValueError, TypeError):
        raise  # it is one already
    except NotEnoughParties as error:
        raise TooFewOwners(reworded(error.what), reworded(error.action)) from error
    except DataError as error:
        raise BadInput(reworded(error.what), reworded(error.action)) from error
    except ConfigError as error:
        raise BadSetting(reworded(error.what), reworded(error.action)) from error


def keys_of(settings: Any) -> Mapping[str, Any]:
    """`settings` as keys of a scenario with their values; None: none. Raises BadSetting: they are something else."""
    if settings is not None and not isinstance(settings, Mapping):
        action = 'Give keys of a scenario with their values, such as {"student.rounds": 2}'
        raise BadSetting(f"settings is a {type(settings).__name__}", action)
    return settings or {}


Frame = Any
"""A pandas or polars frame, anything that Arrow's C stream gives, a 2-D numpy array, or what numpy makes one of."""
Values = Any  # a pandas or polars column, a 1-D numpy array, or a list

_NUMBERS = (bool, int, float, np.number, np.bool_)
_DATES = (datetime.date, datetime.datetime, datetime.time)


def has_names(rows: Frame) -> bool:
    """Whether the columns have names of their own, as a frame's have."""
    if _is_pandas(rows):
        return hasattr(rows, "columns")
    column = isinstance(rows, pl.Series) or type(rows).__name__ == "ChunkedArray"
    return isinstance(rows, pl.LazyFrame) or (hasattr(rows, "__arrow_c_stream__") and not column)


def frame_of(rows: Frame) -> pl.DataFrame:
    """The rows (rows, columns), with numbers, texts, booleans, categories and dates, null where missing.

    Columns without names are called x0, x1 and so on. Whole numbers keep all digits; a type that declares a category
    stays one, with its values where it names them (an Enum). Raises WrongType: it is sparse, or no table. BadInput: no
    rows, no columns, two columns of one name, or a column that holds something else than numbers, texts, booleans and
    dates, or numbers that are infinite.
    """
    if _sparse(rows):
        what = "the rows are a sparse matrix: sparse data was passed where only dense rows can be put to the parties"
        raise WrongType(what, "Give a frame, or rows.toarray()")
    frame = _named(rows) if has_names(rows) else _unnamed(rows)
    if not frame.width:
        what = f"0 feature(s) (shape=({len(rows)}, 0)) while a minimum of 1 is required"
        raise BadInput(what, "Give rows with columns")
    if not frame.height:
        raise BadInput("0 sample(s): the frame has no rows, at least 1 is required", "Give rows")
    for column in frame:
        if column.dtype.is_float() and (count := int(column.is_infinite().sum())):
            action = "Leave it empty where it is unknown"
            raise BadInput(f"column {column.name!r} contains infinity in {count} rows", action)
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def values_of(values: Values, label: str, length: int) -> pl.Series:
    """A column (rows,), null where missing, called `label`: what it is, for messages. Raises BadInput: it has another
    length, or more than one column. WrongType: it is no column."""
    if _sparse(values):
        raise WrongType(f"{label} is a sparse matrix", "Give a column of a frame, an array or a list")
    if has_names(values):
        held: Any = values if _is_pandas(values) else _named(values)
        if held.shape[1] != 1:
            raise BadInput(f"{label} is a frame of {held.shape[1]} columns", "Give one of them: frame[NAME]")
        values = held.iloc[:, 0] if _is_pandas(held) else held.to_series()
    if _is_pandas(values):
        series = _pandas_column(label, values, declared=False)
    elif isinstance(values, pl.Series) or hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        with _of_arrow(label):
            series = pl.Series(label, values)
    else:
        array = np.asarray(values, dtype=object) if isinstance(values, list | tuple) else np.ma.asanyarray(values)
        if array.ndim == 0:
            raise WrongType(f"{label} is no column but a {type(values).__name__}", "Give an array or a list")
        if array.ndim == 2 and array.shape[1] == 1:
            message = f"A column-vector {label} was passed when a 1d array was expected"
            warnings.warn(message, DataConversionWarning, stacklevel=3)
            array = array[:, 0].ravel() if not isinstance(array, np.matrix) else array.A1
        if array.ndim != 1:
            raise BadInput(f"{label} has shape {array.shape}: it should be a 1d array", "Give one value for each row")
        series = _numpy_column(label, array)
    if len(series) != length:
        what = f"{label} has {len(series)} values for {length} rows: inconsistent numbers of samples"
        raise BadInput(what, "Give one for each row")
    return series.fill_nan(None) if series.dtype.is_float() else series


def _named(rows: Frame) -> pl.DataFrame:
    if _is_pandas(rows):
        names = [str(name) for name in rows.columns]
        _check_names(names)
        return pl.DataFrame([_pandas_column(name, rows.iloc[:, position]) for position, name in enumerate(names)])
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if isinstance(rows, pl.DataFrame):
        _check_names(rows.columns)
        return rows
    fields = list(getattr(rows, "schema", ()))
    _check_names([field.name for field in fields])
    with _of_arrow("the rows"):
        frame = pl.DataFrame(rows)
    declared = [field.name for field in fields if "dictionary" in str(field.type)]
    return frame.with_columns(written(frame[name]).cast(pl.Categorical) for name in declared)


@contextmanager
def _of_arrow(what: str) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        message = f"{what} hold a type of Arrow that is not read: {str(error).splitlines()[0]}"
        raise WrongType(message, "Cast it to numbers, texts, booleans or dates") from None


def _check_names(names: Sequence[str]) -> None:
    if "" in names:
        raise BadInput(f"column {names.index('') + 1} has no name", "Name it, or leave it out")
    if double := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"two columns are called {double[0]!r}", "Rename one of them")


def _pandas_column(name: str, column: Any, declared: bool = True) -> pl.Series:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufmM":
        return _numpy_column(name, column.to_numpy())
    series = series_of(name, np.asarray(column, dtype=object).tolist())
    is_category = hasattr(dtype, "categories") or "dictionary" in str(dtype)
    return written(series).cast(pl.Categorical) if declared and is_category else series


def _numpy_column(name: str, array: np.ndarray) -> pl.Series:
    """An array (rows,); what it masks is missing."""
    mask = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.ascontiguousarray(np.asarray(array))
    if plain.dtype.kind == "f" and plain.dtype.itemsize > np.dtype(np.float64).itemsize:
        exact, plain = plain, plain.astype(np.float64)
        if (lost := np.flatnonzero((plain != exact) & (np.abs(exact) > 2**53))).size:
            what = f"column {name!r} has numbers of more digits than float64 holds (first: row {lost[0] + 1})"
            raise BadInput(what, "Give whole numbers, or numbers that float64 holds")
    if plain.dtype.kind in "mM" and not plain.dtype.str.endswith(("[ns]", "[us]", "[ms]")):
        plain = plain.astype(f"{plain.dtype.kind}8[ms]")
    series = pl.Series(name, plain) if plain.dtype.kind in "biufmM" else series_of(name, plain.tolist())
    return series if mask is None else series.set(pl.Series(mask), None)


def _unnamed(rows: Frame) -> pl.DataFrame:
    try:
        array = np.ma.asarray(rows) if isinstance(rows, np.ma.MaskedArray) else np.asarray(rows)
    except ValueError as error:
        raise BadInput(f"the rows are no table: {error}", "Give a frame, or as many values in each row") from None
    if array.dtype.kind == "c":
        raise BadInput("Complex data not supported: the rows have complex numbers", "Give their parts as two columns")
    if array.dtype.names:
        raise WrongType("the rows are a structured array", "Give a frame made of it")
    if array.ndim != 2:
        action = "Reshape your data: rows.reshape(1, -1) is one row, rows.reshape(-1, 1) one column"
        raise BadInput(f"the rows have {array.ndim} dimensions, expected 2D array", action)
    columns = [_numpy_column(f"x{position}", array[:, position]) for position in range(array.shape[1])]
    return pl.DataFrame(columns)


def series_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Python values of one kind, None where missing, as a column; numbers among texts become texts. Whole numbers keep
    all digits. Raises WrongType: they are neither numbers, texts, booleans nor dates."""
    present = [None if _missing(value) else value for value in values]
    for place, value in enumerate(present):
        if isinstance(value, decimal.Decimal):
            whole = value.is_finite() and value == value.to_integral_value()
            present[place] = int(value) if whole else float(value)
    known = [value for value in present if value is not None]

    def column(convert: Callable[[Any], Any], dtype: Any) -> pl.Series:
        return pl.Series(name, [None if value is None else convert(value) for value in present], dtype=dtype)

    if all(isinstance(value, bool | np.bool_) for value in known):
        return column(bool, pl.Boolean if known else pl.String)
    if all(isinstance(value, int | np.integer) for value in known):
        largest = max(abs(int(value)) for value in known)
        return column(str, pl.String) if largest >= 2**127 else column(int, pl.Int64 if largest < 2**63 else pl.Int128)
    small = (isinstance(value, _NUMBERS) and abs(value) <= 2**53 for value in known)
    if all(fits or isinstance(value, float | np.floating) for fits, value in zip(small, known, strict=True)):
        return column(float, pl.Float64)
    if all(isinstance(value, _DATES) for value in known):
        return column(lambda value: value.isoformat(), pl.String)
    for odd in known:
        if not isinstance(odd, (str, *_NUMBERS, *_DATES)):
            what = f"column {name!r} holds a {type(odd).__name__}: argument must be a string or a number, or a date"
            raise WrongType(what, "Give numbers, texts, booleans or dates")
    return column(str, pl.String)


def _missing(value: Any) -> bool:
    # NA and NaT of pandas are not equal to themselves, or do not say whether they are
    if value is None or isinstance(value, str):
        return value is None
    if isinstance(value, float | np.floating | decimal.Decimal):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def _is_pandas(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "pandas"


def _sparse(rows: Any) -> bool:
    return hasattr(rows, "tocsr") or type(rows).__module__.partition(".")[0] == "scipy"


PublicRows = Frame | Values | None  # names of owners, or a frame of rows

LEAST_ROWS = 4  # two public rows, one to ask and one to judge the student, and one of each of two parties
LEAST_OWNERS = 3  # two parties, and one that is public where no public rows are given


@dataclass(frozen=True)
class GivenRows:
    """frame: the rows, features first. public: public rows that belong to nobody, with the same columns, or None.
    label, owner, patient: names of columns; None where nobody said. features: the others. named: whether the rows came
    with names. classes: declared ones as text, none where the public rows decide. meant: text of a label -> the label
    as the caller wrote it. public_owners: names of owners who are public, none where a lot decides."""

    frame: pl.DataFrame = field(repr=False)
    public: pl.DataFrame | None = field(repr=False)
    label: str
    owner: str | None
    patient: str | None
    features: tuple[str, ...]
    named: bool
    classes: tuple[str, ...]
    meant: dict[str, Any] = field(repr=False)
    public_owners: tuple[str, ...]

    @classmethod
    def of(
        cls,
        rows: Frame,
        y: str | Values,
        owners: str | Values | None,
        patients: str | Values | None,
        public: PublicRows,
        classes: Sequence[Any] | None,
    ) -> GivenRows:
        """All arguments, brought together. Raises BadInput, WrongType: what is wrong with which of them."""
        if y is None:
            raise BadInput("Council requires y to be passed, but the target y is None", "Give labels, or their column")
        named, frame = has_names(rows), frame_of(rows)
        if frame.height < LEAST_ROWS:
            message = f"Council needs at least {LEAST_ROWS} rows, public and private ones, and n_samples={frame.height}"
            raise BadInput(message, "Give more rows")
        is_frame = has_names(public) or (isinstance(public, np.ndarray) and public.ndim == 2)
        more = frame_of(public) if is_frame else None
        whole, names = frame, dict[str, str]()
        for key, wanted, given in (("y", "y", y), ("owners", "owner", owners), ("patients", "patient", patients)):
            if isinstance(given, str):
                if given not in frame.columns or not named:
                    few, rest = ", ".join(frame.columns[:10]), len(frame.columns) - 10
                    few += f" and {rest} more" if rest > 0 else ""
                    raise BadInput(f"{key}: the rows have no column {given!r}", f"They have {few}")
                names[key] = given
            elif given is not None and more is not None:
                what = f"{key} is an array, and the public rows are a frame of their own, whose {key} nobody knows"
                raise BadInput(what, f"Make {key} a column of both frames, and give its name")
            elif given is not None:  # a column beside those that are there
                while wanted in whole.columns:
                    wanted += "_"
                names[key] = wanted
                whole = whole.with_columns(values_of(given, key, whole.height).alias(wanted))
        label, owner, patient = names["y"], names.get("owners"), names.get("patients")
        others = list(names.values())
        if len(set(others)) < len(others):
            raise BadInput("y, owners and patients name the same column twice", "Give different columns")
        features = [name for name in frame.columns if name not in others]
        if not features:
            raise BadInput("0 feature(s) (no column is left) while a minimum of 1 is required", "Give more columns")
        if more is not None and (missing := [name for name in (*features, label) if name not in more.columns]):
            action = "They need the same features, and the label: half of them judge the student"
            raise BadInput(f"the public rows have no column {missing[0]!r}", action)
        for message, name in (("owners", owner), ("patients", patient)):
            if name is not None and (count := texts_of(whole[name]).null_count()):
                raise BadInput(f"{message}: {count} rows have none", "Leave those rows out, or name them")
        if owner is not None and (count := whole[owner].n_unique()) < (few := LEAST_OWNERS - (more is not None)):
            and_one = "" if more is not None else ", and one that is public"
            message = f"owners: {count} different ones, at least {few} are needed: two that vote{and_one}"
            raise BadInput(message, "Give rows of more owners")
        public_owners: tuple[str, ...] = ()
        if isinstance(public, str | bool | int | float | np.number):
            action = "Give a list of owners, or a frame of public rows; a share is the parameter public_share"
            raise WrongType(f"public is {public!r}", action)
        if public is not None and more is None:
            public_owners = tuple(_texts(values_of(public, "public", len(public))))
        targets = [whole[label], *([] if more is None else [more[label]])]
        typed = _written(rows, whole, y) if isinstance(y, str) else _typed(y)
        if more is not None:
            typed += _written(public, more, label)
        return cls(
            frame=whole.select(*features, *others),
            public=None if more is None else more.select(name for name in whole.columns if name in more.columns),
            label=label,
            owner=owner,
            patient=patient,
            features=tuple(features),
            named=named,
            meant=_meant(targets, typed, classes),
            classes=() if classes is None else tuple(_texts(values_of(list(classes), "classes", len(classes)))),
            public_owners=public_owners,
        )


def _texts(values: pl.Series) -> list[str]:
    texts, label = texts_of(values), values.name
    if texts.null_count() or texts.n_unique() < len(texts):
        raise BadInput(f"{label} has the same name twice, or none", "Name each once")
    return texts.to_list()


def _meant(targets: Sequence[pl.Series], typed: Sequence[Any], classes: Sequence[Any] | None) -> dict[str, Any]:
    from sklearn.utils.multiclass import check_classification_targets

    if count := sum(texts_of(target).null_count() for target in targets):
        raise BadInput(f"y contains NaN: {count} rows have no label", "Leave those rows out")
    array = np.asarray(typed)
    try:
        check_classification_targets(array.astype(object) if array.dtype.kind in "US" else array)
    except ValueError as error:
        raise BadInput(str(error), "Give labels of classes") from None
    known = list(dict.fromkeys([*typed, *([] if classes is None else classes)]))
    names = texts_of(series_of("labels", known)).to_list()
    if len(set(names)) < len(names):
        if unlike := {type(name).__name__ for name in (classes if classes is not None else ())} - {
            type(value).__name__ for value in typed
        }:
            raise BadInput(f"classes has labels of type {min(unlike)}, and y has none", "Write them as y has them")
        raise BadInput("two labels are written alike", "Give labels that differ in more than spaces and case")
    return dict(zip(names, known, strict=True))


def _written(held: Frame, frame: pl.DataFrame, label: str) -> list[Any]:
    return _typed(held[label]) if _is_pandas(held) else frame[label].to_list()


def _typed(values: Values) -> list[Any]:
    array = None if has_names(values) or _is_pandas(values) else np.asarray(values)
    if array is not None and array.dtype.kind in "biuf":
        return list(array.reshape(-1))
    return values_of(values, "y", len(values)).to_list()
