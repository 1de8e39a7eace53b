"""Values of columns as texts: names of categories, classes, owners and patients, and texts that are codes by form."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from consilium.protocol.errors import DataError

if TYPE_CHECKING:
    import polars as pl

TRUTH = {"true": "1", "false": "0"}


_WHOLE = 2.0**63
"""Whole numbers of this size and more are no int64."""


def texts_of(series: pl.Series) -> pl.Series:
    """Values as text, null where missing, so that files of different kinds have the same ones: whole numbers without a
    fraction and with all their digits, truth values in small letters, no spaces around. Raises DataError: neither
    numbers, text, truth values nor dates."""
    return written(series).str.replace(r"^([+-]?\d+)\.0+$", "${1}")


def written(series: pl.Series) -> pl.Series:
    """As `texts_of`, but text as it is written: "250.0" and "250" may be two codes."""
    import polars as pl

    kind, name, value = series.dtype, series.name, pl.col("value")
    taken = kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Date, pl.Datetime)
    if not (kind.is_numeric() or taken):
        what = {pl.Duration: "durations", pl.Time: "times of day"}.get(kind.base_type(), f"of type {kind.base_type()}")
        raise DataError(f"column {name!r} is {what}", "Write it as numbers (of days, of hours), as dates or as text")
    text = value.cast(pl.String)
    if kind.is_float():
        whole = value.is_finite() & (value == value.round()) & (value.abs() < _WHOLE)
        integers = pl.when(whole).then(value).otherwise(None).cast(pl.Int64).cast(pl.String)
        text = pl.when(value.is_not_nan()).then(pl.coalesce(integers, text))
    elif kind.is_decimal():
        text = text.str.replace(r"\.0+$", "")
    elif not kind.is_numeric():
        text = text.str.strip_chars()
        small = text.str.to_lowercase()
        text = pl.when(small.is_in(list(TRUTH))).then(small).when(text != "").then(text)
    return series.rename("value").to_frame().select(text.alias("text"))["text"].rename(name)


def in_order(text: str) -> tuple[bool, float, str]:
    """Sorts numbers by size, then texts.

    >>> sorted(["b", "10", "9", "a"], key=in_order)
    ['9', '10', 'a', 'b']
    """
    try:
        number = float(text)
    except ValueError:
        return True, 0.0, text
    return (False, number, text) if math.isfinite(number) else (True, 0.0, text)


def codes_among(texts: pl.Series) -> list[str]:
    """Texts that read as numbers and yet are names, so that the column is a category; none where it is one of numbers.
    texts: as `written` gives them. They are names where a zero stands before digits (ICD "01882"); where whole numbers
    have an exponent's letter and none of the column a fraction (bed "1E3"); and where two texts would be one number
    ("+1" and "1", "250.0" and "250.00"), but for "5" beside "5.0" and ".5" beside "0.5", which are ways to write one.
    """
    import polars as pl

    known = texts.unique(maintain_order=True)
    numbers = known.filter(known.cast(pl.Float64, strict=False).is_finite().fill_null(False))
    odd = numbers.filter(~numbers.str.contains(_CANONICAL))
    if not len(odd):
        return []
    zeros, exponents = odd.filter(odd.str.contains(r"^[+-]?0\d")), odd.filter(odd.str.contains(r"^\d+[eE]\d+$"))
    if len(zeros):
        return zeros.to_list()
    if len(exponents) and not numbers.str.contains(".", literal=True).any():
        return exponents.to_list()
    alike = numbers.filter(numbers.cast(pl.Float64).is_duplicated())
    numbers_in = Counter(Decimal(form) for form in {_plain_form(text) for text in alike})
    return [text for text in odd.filter(odd.is_in(alike.to_list())) if numbers_in[Decimal(_plain_form(text))] > 1]


_CANONICAL = r"^-?([1-9]\d*|0\.\d*[1-9]|[1-9]\d*\.\d*[1-9])$|^0$"
"""Of such texts no two are one number."""


def _plain_form(text: str) -> str:
    """Without what is only a way to write it: a whole one's zero after the point, a zero before it, the sign of 0."""
    plain = re.sub(r"^(-?)0\.(?=\d)", r"\1.", re.sub(r"^([+-]?\d+)\.0?$", r"\1", text))
    return "0" if plain == "-0" else plain


def plain_name(text: str) -> str:
    """What is left of a name without case, blanks, invisible signs, and zeros before a number; a blank between digits
    stays.

    >>> plain_name("Ward  07\u200b"), plain_name("ward7"), plain_name("1 05"), plain_name("0.05")
    ('ward7', 'ward7', '1 5', '0.05')
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc"))
    text = re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", text)


def spelled_twice(names: Iterable[str]) -> dict[str, str]:
    """Name -> the first one that it equals but for what `plain_name` takes away.

    >>> spelled_twice(["Ward 7", "Ward 8", "ward 07"])
    {'ward 07': 'Ward 7'}
    """
    first: dict[str, str] = {}
    return {name: known for name in names if (known := first.setdefault(plain_name(name), name)) != name}
