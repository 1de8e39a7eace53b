"""The column of labels: what is voted on, or why that is nothing to vote on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.places import Places

if TYPE_CHECKING:
    import polars as pl

MOST_CLASSES = 100
"""A label with more different values is an identifier, or a measurement."""


@dataclass(frozen=True)
class LabelColumn:
    """`y` int64 (rows,) indices into `values`, the texts that occur, or into `classes` where these are declared."""

    y: np.ndarray = field(repr=False)
    classes: tuple[str, ...]
    values: tuple[str, ...]

    def decided(self, public_rows: np.ndarray, places: Places, column: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Indices int64 (rows,) and classes: those that are declared, else those of the public rows, in order.

        Raises
        ------
        DataError : the public rows have one class only, or another row has a label that is none of theirs.
        """
        if self.classes:
            return self.y, self.classes
        known = np.unique(self.y[public_rows])
        names = tuple(self.values[code] for code in known)
        if len(names) < 2:
            what = f"{places.whole}: the {len(public_rows)} public rows all have {column} = {''.join(names)!r}"
            raise DataError(what, f"Declare data.classes ({self._all()}), or make more rows public")
        outside = np.flatnonzero(~np.isin(self.y, known))
        if len(outside):
            found = self.values[self.y[outside[0]]]
            raise DataError(
                f"{places.told(outside)}: {column} is {found!r}, which none of the {len(public_rows)} public rows has",
                f"Declare data.classes ({self._all()}), or make more rows public",
            )
        return np.searchsorted(known, self.y).astype(np.int64), names

    def _all(self) -> str:
        return f"for example {list(self.values[:5])}"


def labels_of(
    texts: pl.Series, classes: Sequence[str], values: Mapping[str, str], places: Places, column: str
) -> LabelColumn:
    """Labels from texts (rows,), none of which is missing. classes: declared, in order, or none. values: the class that
    a text stands for; empty, it is its own.

    Raises
    ------
    DataError : a label that is no class, one class only, a measurement or an identifier.
    """
    if values:
        unknown = (~texts.is_in(list(values))).to_numpy()
        _refuse_unknown(texts, unknown, list(values), places, column, "data.label_values")
        texts = texts.replace_strict(dict(values), return_dtype=texts.dtype)
    known = sorted(texts.unique().to_list(), key=in_order)
    if classes:
        unknown = (~texts.is_in(list(classes))).to_numpy()
        _refuse_unknown(texts, unknown, list(classes), places, column, "data.classes")
        known = list(classes)
    else:
        _refuse_what_is_no_class(texts, known, places, column)
    codes = texts.replace_strict(known, list(range(len(known)))).to_numpy().astype(np.int64)
    return LabelColumn(codes, tuple(classes), tuple(known))


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


def _refuse_unknown(
    texts: pl.Series, unknown: np.ndarray, known: list[str], places: Places, column: str, key: str
) -> None:
    if unknown.any():
        at = np.flatnonzero(unknown)
        raise DataError(
            f"{places.told(at)}: {column} is {texts[int(at[0])]!r}, which {key} does not have: {known[:10]}",
            "Correct the rows, name the label there, or say under data.label_values which class it means",
        )


def _refuse_what_is_no_class(texts: pl.Series, known: list[str], places: Places, column: str) -> None:
    if len(known) == 1:
        raise DataError(
            f"{places.whole}: {column} is {known[0]!r} in all {len(texts)} rows: there is nothing to vote on",
            "Choose another column with data.label, or declare data.classes",
        )
    numbers = [value for wrong, value, _ in map(in_order, known) if not wrong]
    broken = [value for value in numbers if value != round(value)]
    if broken or len(known) > MOST_CLASSES:
        what = f"{places.whole}: {column} has {len(known)} different values, such as {known[0]!r} and {known[1]!r}"
        kind = "numbers with fractions are no classes" if broken else f"at most {MOST_CLASSES} are classes"
        raise DataError(f"{what}; {kind}", "Choose another column with data.label, or write classes into it")
