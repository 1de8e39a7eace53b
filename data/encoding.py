"""Raw columns of a table as numbers: which they are is inferred from public rows or declared, never from private ones.
A number is one feature of the column's name. A category is one feature of two values (the second), and one for each
value of more; where public rows lack values, or it is declared, "COLUMN missing" is one feature more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import category

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from consilium.data.cells import Column, ValueState, Wanted, places_of, read_cells
from consilium.data.files import Lines
from consilium.data.remedy import Faults, TableFault, quoted
from consilium.data.texts import TRUTH, codes_among, in_order, texts_of, written
from consilium.protocol.errors import DataError
from consilium.protocol.models import Frozen
from consilium.protocol.schema import MOST_LETTERS, MOST_VALUES, ColumnEncoding, Kind, Name, features_of

if TYPE_CHECKING:
    import polars as pl

_LEAST_OF_A_RANGE = 10
"""Different numbers from which on a column is one of numbers in which a few texts were left."""
_MOST_CODES = 100
"""Texts of one column that are written out as keys."""
MISSING = frozenset(("na", "n/a", "n.a.", "nan", "null", "?", "-", "--", ".", "<na>", "#n/a", "#nv"))
"""Texts that mostly mean "missing"."""
_EXACT, _LOST = 2.0**24, 1e-3
"""Whole numbers that float32 holds, and the share of a column's spread by which it may round."""
_DAY = r"[0-9]{1,2}([./-])[0-9]{1,2}\2([0-9]{4}|[0-9]{2})( .*)?"
_DATE = re.compile(r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}([T ].*)?|" + _DAY)
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}([,.' ’\u00a0\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_INSIDE = re.compile(r"(?:[<>≤≥~]=?|=<|=>|[^\w\s+-])?\s*([+-]?[0-9]+(?:[.,][0-9]+)?)\s*([^0-9\s][^0-9]{0,9})?")
"""A number in a bound or beside a unit: "> 89", "12 mg", "€ 5", "90+"."""


def _short_form(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class DeclaredColumn(Frozen):
    """What somebody declares of a column; the rest is inferred. In a file, a bare text is its kind. kind: what it is.
    values: of a category, in order. missing: whether "COLUMN missing" is a feature."""

    kind: Kind | None = None
    values: tuple[Name, ...] = Field(default=(), max_length=MOST_VALUES)
    missing: bool | None = None

    @model_validator(mode="after")
    def _a_number_has_no_values(self) -> DeclaredColumn:
        if self.kind == "number" and self.values:
            raise ValueError("a number has no values: leave them out, or declare a category")
        return self


DeclaredColumns = dict[Name, Annotated[DeclaredColumn, BeforeValidator(_short_form)]]
"""By column: a kind, or a `DeclaredColumn`."""


@dataclass(frozen=True)
class Doubt:
    """Values of one column that are not what its encoding says. `rows` int64 (n,): where, counted from 0; private
    where the rows are. `state`: UNKNOWN_CATEGORY is all zeros, every other one is NaN."""

    column: str
    state: ValueState
    rows: np.ndarray = field(repr=False)


def infer(
    frame: pl.DataFrame,
    declared: Mapping[str, DeclaredColumn] | None = None,
    places: Lines | None = None,
    faults: Faults | None = None,
) -> tuple[ColumnEncoding, ...]:
    """How the columns of `frame` are encoded: its rows must be PUBLIC, for their values are in the answer. A column of
    numbers is a number (see `cells.codes_among`), every other one, and one that its type declares so, a category whose
    values are sorted: numbers by size, then texts. What a value may be is judged after that. places: where its rows
    stand, for messages. faults: notes there what is wrong, and what is only doubtful, and leaves such columns out.
    Raises DataError: a declared column is not there, or all that is wrong: a column has no value, is of dates, has text
    among numbers, or more values than a category may have; two features would have one name, or a name is too long."""
    declared, noted = declared or {}, Faults() if faults is None else faults
    places = places or Lines.of_rows("the public rows", frame.height)
    if absent := [name for name in declared if name not in frame.columns]:
        raise DataError(
            f"the public rows have no column {absent[0]!r}, which is declared", f"They have {frame.columns}"
        )
    columns = []
    for name in frame.columns:
        with noted.noting():
            _check_name(name, "a column's name")
            columns.append(_inferred(frame[name], declared.get(name, DeclaredColumn()), places, noted))
    if faults is None:
        noted.check(places.whole)
    sound = tuple(column for column in columns if column is not None)
    names = Counter(features_of(sound))
    with noted.noting():
        if double := [name for name, count in names.items() if count > 1]:
            raise DataError(f"two columns give a feature {double[0]!r}", "Rename one of them")
        for name in names:
            _check_name(name, "a feature's name, COLUMN=VALUE,")
    if faults is None:
        noted.check(places.whole)
    return sound


def encode(frame: pl.DataFrame, columns: Sequence[ColumnEncoding]) -> tuple[np.ndarray, tuple[Doubt, ...]]:
    """Rows of raw values -> float32 (rows, features), NaN where a value is missing, and what is odd about them. A
    category that no public row has is all zeros, and a doubt. Missing is NaN in every feature of a number; of a
    category too, unless it has a feature for missing values: then its values are all zeros. Raises DataError: a column
    is not there, or holds neither numbers nor text."""
    parts = [np.zeros((frame.height, 0), dtype=np.float32)]
    doubts: list[Doubt] = []
    for column in columns:
        read = cells_of(frame, column)
        parts.append(features_from(read, column))
        for state in ValueState:
            if state not in (ValueState.GOOD, ValueState.MISSING) and len(rows := read.rows(state)):
                doubts.append(Doubt(column.column, state, rows))
    return np.concatenate(parts, axis=1), tuple(doubts)


def cells_of(frame: pl.DataFrame, column: ColumnEncoding) -> Column:
    """A raw column as numbers, or as places of values. Raises what `encode` raises."""
    if column.column not in frame.columns:
        raise DataError(f"the rows have no column {column.column!r}", f"They have {frame.columns}")
    series = frame[column.column]
    return _numbers(series, column.offset) if column.kind == "number" else places_of(series, column.values)


def _check_name(name: str, role: str) -> None:
    """Raise DataError for a name that a schema cannot have, or that would do something to a terminal."""
    if not 1 <= len(name) <= MOST_LETTERS:
        raise DataError(f"{role} has {len(name)} characters, at most {MOST_LETTERS}: {name[:40]!r}", "Shorten it")
    if any(category(sign) == "Cc" for sign in name):
        raise DataError(f"{role} has a control character: {name!r}", "Rename it")


def _inferred(series: pl.Series, declared: DeclaredColumn, places: Lines, faults: Faults) -> ColumnEncoding | None:
    """How one column is encoded; None where cells are noted that are none of its kind. Raises TableFault."""
    import polars as pl

    texts, name = written(series), series.name
    missing = bool(texts.null_count()) if declared.missing is None else declared.missing
    if declared.values:
        return ColumnEncoding(column=name, kind="category", values=declared.values, missing=missing)
    if isinstance(series.dtype, pl.Enum) and declared.kind != "number":
        return ColumnEncoding(column=name, kind="category", values=tuple(series.dtype.categories), missing=missing)
    if texts.null_count() == len(texts):
        what = f"{places.whole}: column {name!r}: no public row has a value"
        raise TableFault(what, "Leave it out, or declare its values", name, {"drop": [name]})
    read = _numbers(series)
    wrong = ~np.isin(read.states, (ValueState.GOOD, ValueState.MISSING))
    found = declared.kind is None and series.dtype != pl.Categorical
    kind = declared.kind or (_kind(texts, read) if found else "category")
    if kind == "category" and found and _is_range(texts, read, wrong):
        kind = "number"
    if kind == "category":
        values = _values(texts, read, places if found else None)
        if found:
            note_missing(texts.drop_nulls().unique(maintain_order=True), texts, places, faults)
        return ColumnEncoding(column=name, kind="category", values=values, missing=missing)
    if wrong.any():
        note_odd(texts, wrong, places, faults)
        return None
    missing = bool(len(read.rows(ValueState.MISSING))) if declared.missing is None else declared.missing
    return ColumnEncoding(column=name, kind="number", missing=missing, offset=_offset(read))


def _is_range(texts: pl.Series, read: Column, wrong: np.ndarray) -> bool:
    """Whether most of the different values are numbers, and enough that these are a measurement."""
    import polars as pl

    numbers = len(np.unique(read.values[read.states == ValueState.GOOD]))
    numbers += texts.filter(pl.Series(read.states == ValueState.DECIMAL_COMMA)).n_unique()
    return bool(wrong.any() and numbers >= _LEAST_OF_A_RANGE and 2 * numbers > texts.drop_nulls().n_unique())


def note_odd(texts: pl.Series, wrong: np.ndarray, places: Lines, faults: Faults) -> None:
    """Note what stands in a column of numbers and is none, each kind with its cure."""
    import polars as pl

    name = texts.name
    odd: list[str] = texts.filter(pl.Series(wrong)).unique(maintain_order=True).to_list()

    def note(some: Sequence[str], what: str, action: str, keys: Mapping[str, Any]) -> None:
        odd[:] = [text for text in odd if text not in some]
        if some:
            where = places.first(np.flatnonzero(texts.is_in(list(some)).fill_null(False).to_numpy()))
            faults.append(TableFault(f"{where}: column {name!r} has {what}: {quoted(some)}", action, name, keys))

    out, cells = {"drop": [name]}, lambda **rule: {"cells": {name: rule}}
    commas = [text for text in odd if _COMMA.fullmatch(text)]
    if all(map(_THOUSANDS.fullmatch, commas)):  # "1,234" beside "0,5" has a decimal comma
        commas = []
    action = "Export with a decimal point, or set decimal_comma under its cells"
    note(commas, "numbers with a decimal comma", action, cells(decimal_comma=True))
    marked, action = [text for text in odd if _THOUSANDS.fullmatch(text)], "Write them without it"
    note(marked, "numbers with a mark between thousands, or a decimal comma before three digits", action, out)
    absent = [text for text in odd if text.casefold() in MISSING]
    note(absent, "text in a column of numbers", "Name it as missing", {"missing": absent})
    inside = {text: match for text in odd if (match := _INSIDE.fullmatch(text))}
    units = {(match[2] or "").strip().casefold() for match in inside.values()} - {""}
    codes = {text: float(match[1].replace(",", ".")) for text, match in inside.items()}
    if len(units) > 1:
        note([*inside], f"numbers in {len(units)} units", "Write them in one, without its name", out)
    else:
        action = "Write the number alone, or say under codes of its cells which number each means"
        few = cells(codes=codes, other="number") if len(codes) <= _MOST_CODES else out
        note([*inside], "a unit or a bound beside the number", action, few)
    action = "Correct it, say under codes of its cells what it means, name it as missing, or declare a category"
    few = cells(missing_codes=[*odd]) if len(odd) <= _MOST_CODES else out
    note([*odd], "text, or a number beyond float32, in a column of numbers", action, few)


def note_missing(known: pl.Series, texts: pl.Series, places: Lines, faults: Faults) -> None:
    """Note values of a category that mostly mean "missing". known: those that occur."""
    absent = [text for text in known if text.casefold() in MISSING and not (text == "-" and "+" in known)]
    if absent:
        where = places.first(np.flatnonzero(texts.is_in(absent).fill_null(False).to_numpy()))
        what = f"{where}: column {texts.name!r} has {quoted(absent)}, which is read as a value like others"
        action = "Name it under missing if it stands for a missing value"
        faults.doubts.append(TableFault(what, action, texts.name, {"missing": absent}))


def _kind(texts: pl.Series, read: Column) -> Kind:
    """What a column is by its form: see `infer`."""
    known = set(texts.drop_nulls().unique())
    numbers = {ValueState.GOOD, ValueState.DECIMAL_COMMA} & set(read.states)
    names, commas = (len(read.rows(state)) for state in (ValueState.NOT_A_NUMBER, ValueState.DECIMAL_COMMA))
    if names > commas or not numbers or codes_among(texts):
        return "category"
    # "TRUE" beside 2 is a text; beside 0 and 1 it is another way to write them
    return (
        "category"
        if known <= set(TRUTH) or (known & set(TRUTH) and not known <= {*TRUTH, *TRUTH.values()})
        else "number"
    )


def _offset(read: Column) -> float:
    """What is taken from numbers that are so far from 0 that float32 would lose what tells them apart; mostly 0."""
    values = read.values[read.states == ValueState.GOOD]
    if not len(values):
        return 0.0
    mean, spread = float(values.mean()), float(values.std())
    if abs(mean) <= (_EXACT * _LOST * spread if spread else _EXACT):
        return 0.0
    return float(round(mean)) if abs(mean) > _EXACT else mean


def _values(texts: pl.Series, read: Column, places: Lines | None) -> tuple[str, ...]:
    """The values of a category, in order. places: of the rows, where nobody declares that it is one. Raises TableFault
    where it can hardly be one."""
    name, known = texts.name, texts.drop_nulls().unique(maintain_order=True)
    if places is not None:
        whole, out = places.whole, {"drop": [name]}
        dates = [text for text in known if _DATE.fullmatch(text)]
        if 2 * len(dates) > len(known):
            action = "Leave it out, or give the days since an event; where it orders the rows, name it as the time"
            raise TableFault(f"{whole}: column {name!r} is of dates: {quoted(dates)}", action, name, out)
        codes, numbers = codes_among(texts), len(np.unique(read.values[read.states == ValueState.GOOD]))
        ambiguous = numbers >= _LEAST_OF_A_RANGE and all("." in code for code in codes)
        if codes and (ambiguous or len(known) > MOST_VALUES) and 2 * numbers > len(known):
            raise TableFault(
                f"{whole}: column {name!r} has {numbers} different numbers, and {codes[0]!r} among them is written as"
                " codes are: with zeros before it, or as another text is that means the same number",
                'Declare it a "number", or a "category" with its values',
                name,
                {"columns": {name: "number"}} if ambiguous else out,
            )
    if len(known) > MOST_VALUES:
        raise TableFault(
            f"{places.whole if places else 'the rows'}: column {name!r} has {len(known)} different values in"
            f" {len(texts)} rows, a category at most {MOST_VALUES}: it may be an identifier or free text",
            "Leave it out, or declare it a number or its values",
            name,
            {"drop": [name]},
        )
    for text in known:
        _check_name(text, f"a value of column {name!r}")
    plain = texts_of(known)
    return tuple(sorted((plain if plain.n_unique() == len(known) else known).to_list(), key=in_order))


def _numbers(series: pl.Series, offset: float = 0.0) -> Column:
    """As numbers less `offset`, truth values as 1 and 0, with those that are beyond float32 among the infinite ones."""
    column = read_cells(series, Wanted(series.name, series.name, center=offset))
    beyond = np.abs(column.values) > np.finfo(np.float32).max
    column.states[beyond], column.values[beyond] = ValueState.INFINITE, np.nan
    return column


def features_from(read: Column, column: ColumnEncoding) -> np.ndarray:
    """A column of numbers, or of places of values, as float32 (rows, features of the column)."""
    absent = read.states == ValueState.MISSING
    if column.kind == "number":
        with np.errstate(over="ignore"):
            features = read.values.astype(np.float32)[:, None]
    else:
        places = [column.values.index(value) for value in column.shown]
        features = (read.values[:, None] == np.array(places)[None, :]).astype(np.float32)
        features[absent & (not column.missing)] = np.nan
    return np.concatenate([features, absent.astype(np.float32)[:, None]], axis=1) if column.missing else features


def times_of(series: pl.Series) -> np.ndarray:
    """float64 (rows,), NaN where missing: days since 1970-01-01 of dates (with or without a time), else the numbers.
    Raises DataError: a value is neither; which one is not said."""
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
    moments = whole.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")
    if moments.null_count() > texts.null_count():
        row = int(np.flatnonzero((moments.is_null() & texts.is_not_null()).to_numpy())[0])
        raise DataError(
            f"column {series.name!r}, row {row + 1}: the value is neither an ISO date (2024-12-31) nor a number",
            "Export times as ISO dates, all in one form, or as numbers",
        )
    return (moments.dt.epoch("us").cast(pl.Float64) / 86_400e6).fill_null(np.nan).to_numpy()
