"""A column of a data file as numbers, with what is wrong with each value. Nothing here raises for a bad value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl


class ValueState(IntEnum):
    """What is wrong with one value."""

    GOOD = 0
    MISSING = 1
    NOT_A_NUMBER = 2
    DECIMAL_COMMA = 3
    DECIMAL_POINT = 4
    UNKNOWN_CODE = 5
    INFINITE = 6
    UNKNOWN_CATEGORY = 7
    NUMBER_BESIDE_CODES = 8


@dataclass(frozen=True)
class Wanted:
    """A column to read. `codes` maps texts to numbers (of the label: to indices of classes); None for plain numbers.

    numbers_too: other texts than codes are numbers. factor, offset: each number * factor + offset, of codes too.
    known: values of a category, which is then read as their indices; renamed: one of them, or another name, for a text.
    """

    name: str
    column: str
    codes: Mapping[str, float] | None = None
    missing: tuple[str, ...] = ()
    numbers_too: bool = False
    factor: float = 1.0
    offset: float = 0.0
    known: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """How the column is called in messages."""
        return self.name if self.name == self.column else f"{self.name} (column {self.column!r})"

    @property
    def changes_unit(self) -> bool:
        """Whether factor or offset say something."""
        return (self.factor, self.offset) != (1.0, 0.0)


@dataclass(frozen=True)
class Column:
    """`values` float64 (rows,), NaN where the state is not GOOD; `states` uint8 (rows,), of `ValueState`.

    keys: float64 (rows,) of a category: a hash of each text, of known ones and others, equal where the texts are.
    """

    values: np.ndarray = field(repr=False)
    states: np.ndarray = field(repr=False)
    keys: np.ndarray | None = field(default=None, repr=False)

    def count(self, state: ValueState) -> int:
        """Rows in this state."""
        return int(np.count_nonzero(self.states == state))

    def rows(self, state: ValueState) -> np.ndarray:
        """Where the rows in this state are, int64, ascending."""
        return np.flatnonzero(self.states == state)

    @classmethod
    def joined(cls, parts: Sequence[Column]) -> Column:
        """Several parts, one below the other."""
        keys = [part.keys for part in parts if part.keys is not None]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.states for part in parts]),
            np.concatenate(keys) if keys else None,
        )


def from_numbers(numbers: np.ndarray, wanted: Wanted) -> Column:
    """Numbers of any kind (rows,), NaN where missing; codes are read as numbers."""
    values = numbers.astype(np.float64)
    states = np.zeros(len(values), dtype=np.uint8)
    absent = _as_numbers(wanted.missing)
    if wanted.codes is None and not absent and not wanted.changes_unit and np.isfinite(values).all():
        return Column(values, states)  # most columns; of images there are hundreds
    states[np.isinf(values)] = ValueState.INFINITE
    states[np.isnan(values) | np.isin(values, absent)] = ValueState.MISSING
    if wanted.codes is not None:
        coded = np.full(len(values), np.nan)
        for text, number in wanted.codes.items():
            for key in _as_numbers([text]):
                coded[values == key] = number
        if wanted.numbers_too:
            coded = np.where(np.isnan(coded), values, coded)
        else:
            states[(states != ValueState.MISSING) & np.isnan(coded)] = ValueState.NUMBER_BESIDE_CODES
        values = coded
    return _in_unit(values, states, wanted)


def _in_unit(values: np.ndarray, states: np.ndarray, wanted: Wanted) -> Column:
    """The column in the federation's unit, without the values that are not good. Both arrays may be changed."""
    if wanted.changes_unit:
        with np.errstate(over="ignore", invalid="ignore"):
            values = values * wanted.factor + wanted.offset
        states[(states == ValueState.GOOD) & ~np.isfinite(values)] = ValueState.INFINITE
    values[states != ValueState.GOOD] = np.nan
    return Column(values, states)


def from_text(texts: pl.Series, wanted: Wanted, decimal_comma: bool = False) -> Column:
    """Text (rows,), with nulls where missing."""
    import polars as pl  # a fifth of a second: only where a file is text

    if wanted.codes is None and not decimal_comma:  # most columns are numbers, and nothing but numbers
        numbers = texts.cast(pl.Float64, strict=False)
        if not numbers.null_count():
            return from_numbers(numbers.to_numpy(), wanted)
    text = pl.col("text").str.strip_chars()
    point = text.str.replace(",", ".", literal=True) if decimal_comma else text
    number = point.cast(pl.Float64, strict=False)
    missing = text.is_null() | text.is_in(["", *wanted.missing])
    coded = pl.lit(None, dtype=pl.Float64)
    if wanted.codes is not None:
        codes = {code.strip(): value for code, value in wanted.codes.items()}
        coded = text.replace_strict(list(codes), list(codes.values()), default=None, return_dtype=pl.Float64)
    if wanted.codes is not None and not wanted.numbers_too:
        value = coded
        odd = pl.when(number.is_finite()).then(pl.lit(int(ValueState.NUMBER_BESIDE_CODES)))
        wrong = pl.when(value.is_null()).then(odd.otherwise(pl.lit(int(ValueState.UNKNOWN_CODE))))
    else:
        missing |= number.is_nan() | number.is_in(_as_numbers(wanted.missing))
        value = pl.coalesce(coded, number)
        comma = pl.lit(False) if decimal_comma else text.str.contains(r"^[+-]?\d*,\d+([eE][+-]?\d+)?$")
        dot = text.str.contains(".", literal=True) if decimal_comma else pl.lit(False)
        wrong = (
            pl.when(comma)
            .then(pl.lit(int(ValueState.DECIMAL_COMMA)))
            .when(dot)
            .then(pl.lit(int(ValueState.DECIMAL_POINT)))
            .when(number.is_null())
            .then(pl.lit(int(ValueState.NOT_A_NUMBER)))
            .when(number.is_infinite())
            .then(pl.lit(int(ValueState.INFINITE)))
        )
        wrong = pl.when(coded.is_null()).then(wrong.otherwise(pl.lit(0)))
    missing = missing.fill_null(False)
    state = pl.when(missing).then(pl.lit(int(ValueState.MISSING))).otherwise(wrong.otherwise(pl.lit(0))).cast(pl.UInt8)
    frame = texts.rename("text").to_frame().select(value.cast(pl.Float64).alias("value"), state.alias("state"))
    values, states = frame["value"].fill_null(np.nan).to_numpy(writable=True), frame["state"].to_numpy(writable=True)
    return _in_unit(values, states, wanted)


def _as_numbers(texts: Sequence[str]) -> list[float]:
    """Those of the texts that are finite numbers; booleans as Parquet has them count as 1 and 0."""
    numbers = []
    for text in texts:
        try:
            number = {"true": 1.0, "false": 0.0}.get(text.lower())
            number = float(text) if number is None else number
        except ValueError:
            continue
        if np.isfinite(number):
            numbers.append(number)
    return numbers
