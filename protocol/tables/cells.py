"""Cells of one column, in whichever form the file has them, by the rule for them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.rows.columns import Column, Wanted, from_numbers, from_text
from consilium.protocol.rows.encoding import places_of, texts_of

if TYPE_CHECKING:
    import polars as pl


def read_cells(series: pl.Series, wanted: Wanted, decimal_comma: bool = False) -> Column:
    """A part of a column, numbers or text, as numbers; of a category as places among the values that are known."""
    import polars as pl

    if wanted.known:
        return _category(series, wanted)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return from_numbers(series.cast(pl.Float64).to_numpy(), wanted)  # nulls become NaN
    return from_text(series.cast(pl.String), wanted, decimal_comma)


def renamed(series: pl.Series, wanted: Wanted) -> pl.Series:
    """Text as `texts_of` gives it, by the public names, null where it means "missing"."""
    import polars as pl

    texts = texts_of(series)
    absent = [text.strip() for text in wanted.missing]
    if absent:
        given = series.cast(pl.String).str.strip_chars()
        known = pl.select(pl.when(texts.is_in(absent) | given.is_in(absent)).then(None).otherwise(texts)).to_series()
        texts = known.rename(texts.name)
    names = texts_of(pl.Series(list(wanted.renamed), dtype=pl.String)).to_list()
    return texts.replace(names, list(wanted.renamed.values())) if names else texts


def _category(series: pl.Series, wanted: Wanted) -> Column:
    texts = texts_of(renamed(series, wanted))
    column = places_of(texts, wanted.known)
    names = [name for name in texts.unique().to_list() if name is not None]
    keys = texts.replace_strict(names, [_key(name) for name in names], default=None) if names else texts
    return Column(column.values, column.states, np.array(keys.cast(float).fill_null(np.nan).to_numpy()))


def _key(text: str) -> float:
    """53 bits of a hash: a float64 holds them."""
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 11)
