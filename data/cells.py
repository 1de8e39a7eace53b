"""Cells of one column as numbers, by the rule for them, with what is wrong with each: no bad value raises here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from consilium.data.files import Coded, Hints, Lines
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
    NUMBER_BESIDE_CODES = 8


@dataclass(frozen=True)
class Wanted:
    """A column to read. `codes` maps texts to numbers (of the label: to indices of classes); None for plain numbers.

    numbers_too: other texts than codes are numbers. factor, offset: each number * factor + offset, of codes too.
    center: taken from all numbers at last, before whole ones and decimals become float64.
    known: values of a category, which is then read as their indices; renamed: one of them, or another name, for a text.
    either_mark: a number's decimal mark may be a comma or a point.
    """

    name: str
    column: str
    codes: Mapping[str, float] | None = None
    missing: tuple[str, ...] = ()
    numbers_too: bool = False
    factor: float = 1.0
    offset: float = 0.0
    center: float = 0.0
    known: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    either_mark: bool = False

    @property
    def where(self) -> str:
        """How the column is called in messages."""
        return self.name if self.name == self.column else f"{self.name} (column {self.column!r})"

    @property
    def changes_unit(self) -> bool:
        """Whether factor or offset say something."""
        return (self.factor, self.offset) != (1.0, 0.0)

    @property
    def is_plain(self) -> bool:
        """Whether numbers are taken as they stand."""
        return self.codes is None and not self.missing and not self.center and not self.changes_unit


@dataclass(frozen=True)
class Column:
    """`values` float64 (rows,), NaN where the state is not GOOD; `states` uint8 (rows,), of `ValueState`.

    keys: float64 (rows,), what tells rows apart where that is not `values`: of a category a hash of each text, of known
        ones and others, equal where the texts are; of numbers that lost a center, the numbers, and of whole ones with
        more digits than float64 holds a hash.
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
    def without_values(cls, rows: int) -> Column:
        """One in which every row misses its value."""
        return cls(np.full(rows, np.nan), np.full(rows, ValueState.MISSING, dtype=np.uint8))

    @classmethod
    def joined(cls, parts: Sequence[Column]) -> Column:
        """Several parts, one below the other."""
        keys = [part.values if part.keys is None else part.keys for part in parts]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.states for part in parts]),
            np.concatenate(keys) if any(part.keys is not None for part in parts) else None,
        )


def from_numbers(series: pl.Series, wanted: Wanted) -> Column:
    """Numbers or truth values of any type (rows,), null or NaN where missing; codes are read as numbers."""
    import polars as pl

    numbers = _exact(series)
    values = numbers.cast(pl.Float64).fill_null(np.nan).to_numpy(writable=True)
    states = np.zeros(len(values), dtype=np.uint8)
    if wanted.is_plain and np.isfinite(values).all():
        return Column(values, states)  # most columns
    states[np.isinf(values)] = ValueState.INFINITE
    states[np.isnan(values) | _equal(numbers, wanted.missing)] = ValueState.MISSING
    coded = None
    if wanted.codes is not None:
        coded = np.full(len(values), np.nan)
        for text, number in wanted.codes.items():
            coded[_equal(numbers, [text])] = number
        if not wanted.numbers_too:
            states[(states != ValueState.MISSING) & np.isnan(coded)] = ValueState.NUMBER_BESIDE_CODES
    return _in_unit(values, coded, numbers, states, wanted)


def _exact(series: pl.Series) -> pl.Series:
    """Numbers or truth values, whole ones and decimals with all their digits, the others as float64."""
    import polars as pl

    kind = series.dtype
    if isinstance(kind, pl.Decimal):
        return series.cast(pl.Decimal(38, kind.scale))
    return series.cast(pl.Int128 if kind.is_integer() or kind == pl.Boolean else pl.Float64)


def _equal(numbers: pl.Series, texts: Sequence[str]) -> np.ndarray:
    """bool (rows,): which of the numbers, as `_exact` gives them, one of the texts is."""
    known: list[Any] = _as_numbers(texts)
    if numbers.dtype.is_float():
        known = [float(number) for number in known]
    else:
        known = [number for number in known if abs(number) < _LARGEST]
    if numbers.dtype.is_integer():
        known = [int(number) for number in known if number % 1 == 0]
    same = numbers.is_in(known)
    return same.fill_null(False).to_numpy()


def _less(values: np.ndarray, exact: pl.Series, center: float) -> np.ndarray:
    """Numbers less a center, float64 (rows,): of `exact`, as `_exact` gives them, else of values float64 (rows,)."""
    import polars as pl

    if not center or not center.is_integer() or exact.dtype.is_float():
        return values - center
    less = (exact - pl.Series([int(center)], dtype=pl.Int128).cast(exact.dtype)).cast(pl.Float64)
    return np.where(less.is_null().to_numpy(), values - center, less.fill_null(0.0).to_numpy())


def _in_unit(
    values: np.ndarray, coded: np.ndarray | None, exact: pl.Series, states: np.ndarray, wanted: Wanted
) -> Column:
    """The column in the federation's unit, less its center, without the values that are not good. values: float64
    (rows,), and where codes say another one, coded; exact: those with all digits. Arrays may be changed."""
    import polars as pl

    bad, same = states != ValueState.GOOD, wanted.factor == 1
    large = np.abs(values) >= _EXACT
    with np.errstate(over="ignore", invalid="ignore"):
        whole = _less(values, exact, -wanted.offset) if same else values * wanted.factor + wanted.offset
        centred = _less(values, exact, wanted.center - wanted.offset) if same else whole - wanted.center
        if coded is not None:
            of_codes = ~np.isnan(coded)
            whole[of_codes] = coded[of_codes] * wanted.factor + wanted.offset
            centred[of_codes] = whole[of_codes] - wanted.center
            large &= ~of_codes
    states[~bad & ~np.isfinite(whole)] = ValueState.INFINITE
    bad = states != ValueState.GOOD
    whole[bad] = centred[bad] = np.nan
    keys = whole if wanted.center else None
    large &= ~bad & exact.is_not_null().to_numpy()
    if large.any() and not exact.dtype.is_float():
        keys = whole.copy()
        keys[large] = [_key(f"{Decimal(str(number)).normalize():f}") for number in exact.filter(pl.Series(large))]
    return Column(centred, states, keys)


def from_text(texts: pl.Series, wanted: Wanted, decimal_comma: bool = False) -> Column:
    """Text (rows,), with nulls where missing."""
    import polars as pl  # a fifth of a second: only where a file is text

    if wanted.is_plain and not decimal_comma:  # most columns are numbers, and nothing but numbers
        numbers = texts.cast(pl.Float64, strict=False)
        if not numbers.null_count():
            return from_numbers(numbers, wanted)
    decimal_comma |= wanted.either_mark
    text = pl.col("text").str.strip_chars()
    point = text.str.replace(",", ".", literal=True) if decimal_comma else text
    cells = texts.rename("text").to_frame().with_columns(point.cast(pl.Float64, strict=False).alias("number"))
    number, large = pl.col("number"), pl.col("number").abs() >= _EXACT
    exact = pl.lit(None, dtype=pl.Decimal(38, 2))
    if bool((cells["number"].abs() >= _EXACT).any()):
        exact = point.cast(pl.Decimal(38, 2), strict=False)
    missing = text.is_null() | text.is_in(["", *wanted.missing])
    coded = pl.lit(None, dtype=pl.Float64)
    if wanted.codes is not None:
        codes = {code.strip(): value for code, value in wanted.codes.items()}
        coded = text.replace_strict(list(codes), list(codes.values()), default=None, return_dtype=pl.Float64)
    if wanted.codes is not None and not wanted.numbers_too:
        odd = pl.when(number.is_finite()).then(pl.lit(int(ValueState.NUMBER_BESIDE_CODES)))
        wrong = pl.when(coded.is_null()).then(odd.otherwise(pl.lit(int(ValueState.UNKNOWN_CODE))))
    else:
        known = _as_numbers(wanted.missing)
        same = pl.when(large).then(exact.is_in([each for each in known if abs(each) < _LARGEST]))
        same = same.otherwise(number.is_in([float(each) for each in known]))
        missing |= number.is_nan() | same
        comma = pl.lit(False) if decimal_comma else text.str.contains(r"^[+-]?\d*,\d+([eE][+-]?\d+)?$")
        marked = decimal_comma and not wanted.either_mark
        dot = text.str.contains(".", literal=True) if marked else pl.lit(False)
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
    read = {"number": number, "exact": pl.when(large).then(exact), "coded": coded, "state": state}
    frame = cells.select(**read)
    values, of_codes = (frame[name].fill_null(np.nan).to_numpy(writable=True) for name in ("number", "coded"))
    return _in_unit(values, of_codes, frame["exact"], frame["state"].to_numpy(writable=True), wanted)


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


_EXACT = 2.0**53
"""Below it float64 holds every whole number."""
_LARGEST = 10**35
"""Below it a decimal of two places does."""


def _as_numbers(texts: Sequence[str]) -> list[Decimal]:
    """Those of the texts that are numbers; truth values count as 1 and 0."""
    plain = [TRUTH.get(text.strip().lower(), text.strip()) for text in texts]
    return [Decimal(text) for text in plain if _NUMBER.fullmatch(text)]


_BOUND = re.compile(r"^\s*(([<>≤≥]=?|=<|=>)\s*[+-]?\d+([.,]\d+)?|[+-]?\d+([.,]\d+)?\s*\+)\s*$")


class CellRule(Frozen):
    """Of one column. All of it is said of the file's own texts and units.

    codes: a number for a text. other: what a text means that codes does not have: "number", what it says, or "error".
        Left out, it is "number" where codes has a bound (`> 89`, `<0.1`, `90+`), which stands beside numbers, else
        "error". values: of a category, the public name for the file's text; other texts are names already.
    factor, offset: to the federation's unit: number * factor + offset, of codes too. missing_codes: texts that mean
        "missing". decimal_comma: numbers of this column are written 1,5 or 1.5, and a comma is no mark of thousands.
    """

    codes: dict[str, FiniteFloat] | None = Field(default=None, min_length=1)
    other: Literal["number", "error"] | None = None
    values: dict[str, str] | None = Field(default=None, min_length=1)
    factor: FiniteFloat = 1.0
    offset: FiniteFloat = 0.0
    missing_codes: tuple[str, ...] | None = None
    decimal_comma: bool = False

    @model_validator(mode="after")
    def _numbers_or_categories(self) -> CellRule:
        if self.values is not None and (self.codes is not None or self.changes_unit or self.decimal_comma):
            raise ValueError(
                "values are of a category; codes, factor, offset and decimal_comma of numbers: give one or the other"
            )
        if self.other is not None and self.codes is None:
            raise ValueError("other says what stands beside codes, and there are none")
        if self.factor == 0:
            raise ValueError("factor 0 makes all values one: leave the column out instead")
        return self

    @property
    def changes_unit(self) -> bool:
        """Whether numbers are in another unit."""
        return (self.factor, self.offset) != (1.0, 0.0)

    @property
    def numbers_beside_codes(self) -> bool:
        """Whether a text that codes does not have is read as a number."""
        if self.other is None:
            return any(_BOUND.match(code) for code in self.codes or ())
        return self.other == "number"

    def wanted(
        self, name: str, column: str, missing: Sequence[str], known: Sequence[str] = (), center: float = 0.0
    ) -> Wanted:
        """What to read of `column` for `name`. missing: texts, unless the rule has its own. known: of a category.
        center: of numbers."""
        missing_codes = self.missing_codes
        return Wanted(
            name=name,
            column=column.strip(),
            codes=self.codes,
            missing=tuple(missing) if missing_codes is None else missing_codes,
            numbers_too=self.numbers_beside_codes,
            factor=self.factor,
            offset=self.offset,
            center=center,
            known=tuple(known),
            renamed=self.values or {},
            either_mark=self.decimal_comma,
        )


def read_cells(series: pl.Series | np.ndarray | Coded, wanted: Wanted, decimal_comma: bool = False) -> Column:
    """A part of a column as a file has it, numbers or text, as numbers; of a category as places among the values that
    are known."""
    if isinstance(series, Coded):
        return _coded(series, wanted)
    if isinstance(series, np.ndarray) and wanted.is_plain and np.isfinite(series).all():
        return Column(series.astype(np.float64), np.zeros(len(series), dtype=np.uint8))  # of images there are hundreds
    import polars as pl

    if isinstance(series, np.ndarray):
        series = pl.Series(series if series.dtype.kind in "iu" else series.astype(np.float64))
    if wanted.known:
        return _category(series, wanted)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return from_numbers(series, wanted)
    return from_text(series.cast(pl.String), wanted, decimal_comma)


def _coded(cells: Coded, wanted: Wanted) -> Column:
    """Texts by `codes`; all others are unknown."""
    codes = wanted.codes or {}
    states = [
        ValueState.MISSING if text in wanted.missing else ValueState.GOOD if text in codes else ValueState.UNKNOWN_CODE
        for text in cells.texts
    ]
    values = np.array([codes.get(text, np.nan) for text in cells.texts], dtype=np.float64)
    return Column(values[cells.codes], np.array(states, dtype=np.uint8)[cells.codes])


def renamed(series: pl.Series, wanted: Wanted) -> pl.Series:
    """Text as `written` gives it, by the public names, null where it means "missing"."""
    import polars as pl

    exact, texts = written(series), texts_of(series)
    absent = [text.strip() for text in wanted.missing]
    names = dict(zip(texts_of(pl.Series(list(wanted.renamed), dtype=pl.String)), wanted.renamed.values(), strict=True))
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


def within_float32(column: Column) -> Column:
    """The column, with numbers that float32 cannot hold among the infinite ones."""
    beyond = np.abs(column.values) > np.finfo(np.float32).max
    if not beyond.any():
        return column
    states = np.where(beyond, ValueState.INFINITE, column.states).astype(np.uint8)
    return Column(np.where(beyond, np.nan, column.values), states)


FAULTS = {
    ValueState.NOT_A_NUMBER: (
        "hold text that is no number",
        'Map it with codes: beside a bound as in codes = { "> 89" = 90 } other cells stay numbers. Or, if it means a'
        " missing value, name it in missing_codes",
    ),
    ValueState.DECIMAL_COMMA: ("have a decimal comma", ""),
    ValueState.DECIMAL_POINT: ("have a point although decimal_comma is set: it may separate thousands", ""),
    ValueState.UNKNOWN_CODE: ("hold a value that codes does not have", "Add it to codes, or to missing_codes"),
    ValueState.NUMBER_BESIDE_CODES: (
        "hold a value that codes does not have, and that is a number",
        'If codes stand beside numbers ("> 89" beside 34), set other = "number"; else add it to codes',
    ),
    ValueState.INFINITE: ("are infinite, or beyond float32", "Correct them, or empty them"),
}
"""What cells are in each state that no number is made of, and what to do where every file has the same answer."""


def cell_faults(rows: Callable[[ValueState], np.ndarray], lines: Lines, hints: Hints) -> Iterator[tuple[str, str]]:
    """What is wrong with the cells of one column, and what to do. rows: where those of a state are. Quotes no cell."""
    actions = {ValueState.DECIMAL_COMMA: hints.decimal_comma, ValueState.DECIMAL_POINT: hints.no_decimal_comma}
    for state, (fault, action) in FAULTS.items():
        if len(some := rows(state)):
            yield counted(lines, some, fault), actions.get(state, action)


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
