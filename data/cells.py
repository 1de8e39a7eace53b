"""Cells of one column as numbers, by the rule for them, with what is wrong with each: no bad value raises here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from consilium.data.files import Lines
from consilium.data.texts import TRUTH, texts_of, written
from consilium.protocol.models import Frozen
from consilium.protocol.schema import Range

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


_BOUND = re.compile(r"^\s*(([<>≤≥]=?|=<|=>)\s*[+-]?\d+([.,]\d+)?|[+-]?\d+([.,]\d+)?\s*\+)\s*$")


class CellRule(Frozen):
    """Of one column. All of it is said of the file's own texts and units. codes: a number for a text. other: what a
    text means that codes does not have: "number", what it says, or "error". Left out, it is "number" where codes has a
    bound (`> 89`, `<0.1`, `90+`), which stands beside numbers, else "error". values: of a category, the public name for
    the file's text; other texts are names already. factor, offset: to the federation's unit: number * factor + offset,
    of codes too. missing_codes: texts that mean "missing". decimal_comma: numbers of this column are written 1,5 or
    1.5, and a comma is no mark of thousands."""

    codes: dict[str, FiniteFloat] | None = Field(default=None, min_length=1)
    other: Literal["number", "error"] | None = None
    values: dict[str, str] | None = Field(default=None, min_length=1)
    factor: FiniteFloat = 1.0
    offset: FiniteFloat = 0.0
    missing_codes: tuple[str, ...] | None = None
    decimal_comma: bool = False

    @model_validator(mode="after")
    def _numbers_or_categories(self) -> CellRule:
        if self.values is not None and self.of_numbers:
            raise ValueError(
                "values are of a category; codes, factor, offset and decimal_comma of numbers: give one or the other"
            )
        if self.other is not None and self.codes is None:
            raise ValueError("other says what stands beside codes, and there are none")
        if self.factor == 0:
            raise ValueError("factor 0 makes all values one: leave the column out instead")
        return self

    @property
    def of_numbers(self) -> bool:
        return self.codes is not None or (self.factor, self.offset) != (1.0, 0.0) or self.decimal_comma

    @property
    def numbers_beside_codes(self) -> bool:
        """Whether a text that codes does not have is read as a number."""
        if self.codes is None or self.other is not None:
            return self.other != "error"
        return any(_BOUND.match(code) for code in self.codes)


PLAIN = CellRule()


@dataclass(frozen=True)
class Wanted:
    """A column to read, by its rule. name: what messages call it; column: in the file. missing: texts that mean
    "missing", unless the rule has its own. center: taken from all numbers at last. known: values of a category, which
    is then read as their indices."""

    name: str
    column: str
    rule: CellRule = PLAIN
    missing: tuple[str, ...] = ()
    center: float = 0.0
    known: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return self.name if self.name == self.column else f"{self.name} (column {self.column!r})"

    @property
    def absent(self) -> tuple[str, ...]:
        return self.missing if self.rule.missing_codes is None else self.rule.missing_codes


@dataclass(frozen=True)
class Column:
    """`values` float64 (rows,), NaN where the state is not GOOD; `states` uint8 (rows,), of `ValueState`. keys: float64
    (rows,), what tells rows apart where that is not `values`: of a category a hash of each text, of known ones and
    others, equal where the texts are; of numbers that lost a center, the numbers."""

    values: np.ndarray = field(repr=False)
    states: np.ndarray = field(repr=False)
    keys: np.ndarray | None = field(default=None, repr=False)

    def rows(self, state: ValueState) -> np.ndarray:
        """Where the rows in this state are, int64, ascending."""
        return np.flatnonzero(self.states == state)


def read_cells(series: pl.Series | np.ndarray, wanted: Wanted, decimal_comma: bool = False) -> Column:
    """A column as a file has it, numbers or text (rows,), null or NaN where missing, as numbers; of a category as
    places among the values that are known. decimal_comma: whether numbers in its text have one."""
    plain = not (wanted.rule.of_numbers or wanted.absent or wanted.center)
    if isinstance(series, np.ndarray) and plain and np.isfinite(series).all():
        return Column(series.astype(np.float64), np.zeros(len(series), dtype=np.uint8))  # of images there are hundreds
    import polars as pl  # a fifth of a second: only where a file is read

    if isinstance(series, np.ndarray):
        series = pl.Series(series if series.dtype.kind in "iu" else series.astype(np.float64))
    if wanted.known:
        return _category(series, wanted)
    states = np.zeros(len(series), dtype=np.uint8)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        numbers = series.cast(pl.Float64)
    else:
        numbers = _numbers_of(texts_of(series), states, decimal_comma, wanted.rule.decimal_comma)
    if plain and not states.any() and not numbers.null_count() and numbers.is_finite().all():
        return Column(numbers.to_numpy(writable=True), states)  # most columns
    texts, named = texts_of(series), pl.Series(wanted.absent, dtype=pl.String)
    absent = texts.is_null() | numbers.is_nan().fill_null(False) | texts.is_in(texts_of(named).to_list())
    absent |= numbers.is_in(named.cast(pl.Float64, strict=False).drop_nulls().to_list()).fill_null(False)
    values = numbers.fill_null(np.nan).to_numpy(writable=True)
    states[np.isinf(values)] = ValueState.INFINITE
    with np.errstate(over="ignore", invalid="ignore"):
        values = values * wanted.rule.factor + wanted.rule.offset
    if wanted.rule.codes is not None:
        if not wanted.rule.numbers_beside_codes:
            states[:] = ValueState.UNKNOWN_CODE
        codes = wanted.rule.codes
        names = texts_of(pl.Series(list(codes), dtype=pl.String))
        coded = texts.replace_strict(names, list(codes.values()), default=None, return_dtype=pl.Float64)
        known = coded.is_not_null().to_numpy()
        states[known] = ValueState.GOOD
        values[known] = coded.to_numpy()[known] * wanted.rule.factor + wanted.rule.offset
    states[np.isinf(values) & (states == ValueState.GOOD)] = ValueState.INFINITE
    states[absent.to_numpy()] = ValueState.MISSING
    values[states != ValueState.GOOD] = np.nan
    return Column(values - wanted.center, states, values) if wanted.center else Column(values, states)


COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"


def _numbers_of(texts: pl.Series, states: np.ndarray, decimal_comma: bool, either: bool) -> pl.Series:
    """Texts as numbers, null where one is none; `states` are noted. either: a number's mark may be a comma or a point,
    while with `decimal_comma` a point may separate thousands."""
    commas = texts.str.contains(COMMA).fill_null(False)
    points = texts.str.contains(".", literal=True).fill_null(False)
    if decimal_comma or either:
        texts = texts.str.replace(",", ".", literal=True)
    import polars as pl

    numbers = texts.replace(TRUTH).cast(pl.Float64, strict=False)
    states[numbers.is_null().to_numpy()] = ValueState.NOT_A_NUMBER
    if not (decimal_comma or either):
        states[commas.to_numpy()] = ValueState.DECIMAL_COMMA
    elif not either:
        states[points.to_numpy()] = ValueState.DECIMAL_POINT
    return numbers


def renamed(series: pl.Series, wanted: Wanted) -> pl.Series:
    """Text as `written` gives it, by the public names, null where it means "missing"."""
    import polars as pl

    exact, texts = written(series), texts_of(series)
    absent = [text.strip() for text in wanted.absent]
    values = wanted.rule.values or {}
    names = dict(zip(texts_of(pl.Series(list(values), dtype=pl.String)), values.values(), strict=True))
    public = texts.replace_strict(names, default=None, return_dtype=pl.String) if names else pl.lit(None, pl.String)
    meant = pl.when(texts.is_in(absent) | exact.is_in(absent)).then(None).otherwise(pl.coalesce(public, exact))
    return pl.select(meant).to_series().rename(series.name)


def _category(series: pl.Series, wanted: Wanted) -> Column:
    known = renamed(series, wanted)
    column, texts = places_of(known, wanted.known), texts_of(known)
    names = [name for name in texts.unique().to_list() if name is not None]
    keys = texts.replace_strict(names, [_key(name) for name in names], default=None) if names else texts
    return Column(column.values, column.states, np.array(keys.cast(float).fill_null(np.nan).to_numpy()))


def _key(text: str) -> float:
    """53 bits of a hash: a float64 holds them."""
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 11)


def places_of(series: pl.Series, known: Sequence[str]) -> Column:
    """Values of a category -> their places among those that are known: as they are written or, where that is none of
    them, without a fraction that is 0."""
    import polars as pl

    exact, texts = written(series), texts_of(series)
    names = texts_of(pl.Series(known, dtype=pl.String)).to_list()
    as_written = written(pl.Series(known, dtype=pl.String)).to_list()
    by_text = {name: place for place, name in enumerate(names) if names.count(name) == 1}
    by_text |= {name: place for place, name in enumerate(as_written)}
    of_exact = exact.replace_strict(list(by_text), list(by_text.values()), default=None, return_dtype=pl.Float64)
    of_text = texts.replace_strict(list(by_text), list(by_text.values()), default=None, return_dtype=pl.Float64)
    places = of_exact.fill_null(of_text)
    states = np.where(places.is_null().to_numpy(), ValueState.UNKNOWN_CATEGORY, ValueState.GOOD).astype(np.uint8)
    states[texts.is_null().to_numpy()] = ValueState.MISSING
    return Column(places.fill_null(np.nan).to_numpy(writable=True), states)


def classes_of(series: pl.Series, classes: Mapping[str, int], missing: Sequence[str]) -> Column:
    """A column of labels as indices of classes, by their texts; another text is an UNKNOWN_CODE."""
    import polars as pl

    texts = texts_of(series)
    names = texts_of(pl.Series(list(classes), dtype=pl.String))
    places = texts.replace_strict(names, list(classes.values()), default=None, return_dtype=pl.Float64)
    states = np.where(places.is_null().to_numpy(), ValueState.UNKNOWN_CODE, ValueState.GOOD).astype(np.uint8)
    absent = texts.is_null() | texts.is_in(texts_of(pl.Series(missing, dtype=pl.String)).to_list())
    states[absent.to_numpy()] = ValueState.MISSING
    return Column(places.fill_null(np.nan).to_numpy(writable=True), states)


FAULTS = {
    ValueState.NOT_A_NUMBER: (
        "hold text that is no number",
        'Map it with codes: beside a bound as in codes = { "> 89" = 90 } other cells stay numbers. Or, if it means a'
        " missing value, name it in missing_codes",
    ),
    ValueState.DECIMAL_COMMA: (
        "have a decimal comma",
        "Export with a decimal point and no mark of thousands, or set decimal_comma of the file"
        " (--decimal-comma) or of this column",
    ),
    ValueState.DECIMAL_POINT: (
        "have a point although decimal_comma is set: it may separate thousands",
        "Export without thousands separators, or leave decimal_comma of the file away and set that of its cells",
    ),
    ValueState.UNKNOWN_CODE: (
        "hold a value that codes does not have",
        'Add it to codes, or to missing_codes; if numbers stand beside codes ("> 89" beside 34), set other = "number"',
    ),
    ValueState.INFINITE: ("are infinite, or beyond float32", "Correct them, or empty them"),
}
"""What cells are in each state that no number is made of, and what to do."""


def cell_faults(rows: Callable[[ValueState], np.ndarray], lines: Lines) -> Iterator[tuple[str, str]]:
    """What is wrong with the cells of one column, and what to do. rows: where those of a state are. Quotes no cell."""
    for state, (fault, action) in FAULTS.items():
        if len(some := rows(state)):
            yield counted(lines, some, fault), action


def counted(lines: Lines, rows: np.ndarray, fault: str, cell: str = "") -> str:
    """How many rows of all, what they are, and where the first one is. cell: it, where it may be quoted."""
    return f"{len(rows)} of {len(lines)} rows {fault} (first: {lines.place(int(rows[0]))}{cell})"


FAR, SHIFTED = 10.0, 3.0
"""Public standard deviations from the public mean, beyond which a value is odd, and the mean of a column."""
LEAST_FOR_A_MEAN = 20


def outside(values: np.ndarray, allowed: Range) -> Iterator[tuple[np.ndarray, str]]:
    """Which values (rows,), NaN where missing, a schema's range does not have: rows, and what they are. Compared in
    float32, as queries travel: 0.1 is not above 0.1."""
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)  # NaN is neither below nor above
    beyond = (small < np.float32(allowed.low)) | (small > np.float32(allowed.high))
    broken = (small != np.rint(small)) & ~np.isnan(small) & ~beyond & allowed.whole
    yield np.flatnonzero(beyond), f"are outside {allowed.low:g} to {allowed.high:g}, which the schema allows"
    yield np.flatnonzero(broken), "are no whole numbers, which the schema asks for"


def far_from_public(values: np.ndarray, center: float, scale: float) -> Iterator[tuple[np.ndarray, str]]:
    """Which values float64 (rows,), NaN where missing, are hardly in the unit of the public mean and deviation: rows,
    and what they are. 0 and 1 are never far: they may be a rare category, as a column of its own.

    >>> [(rows.tolist(), text[:34]) for rows, text in far_from_public(np.array([1.1, np.nan, 88.0]), 1.0, 0.2)]
    [([2], 'are more than 10 deviations from t')]
    """
    good = np.flatnonzero(~np.isnan(values))
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.flatnonzero((np.abs(values - center) > FAR * scale) & (values != 0) & (values != 1))
        shift = abs(float(values[good].mean()) - center) / scale if len(good) >= LEAST_FOR_A_MEAN else 0.0
    if len(far):
        yield far, f"are more than {FAR:g} deviations from the public mean"
    elif shift > SHIFTED:
        yield good, f"have a mean that is {shift:.1f} deviations from the public one"
