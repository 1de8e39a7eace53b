"""Cells as people write them: what kind of text stands where a number was meant, and which numbers mean "missing"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from consilium.data.cells import texts_of

if TYPE_CHECKING:
    import polars as pl

_ERRORS = ("#n/a", "#nv", "#null!", "#value!", "#wert!", "#ref!", "#bezug!", "#div/0!", "#name?", "#num!", "#zahl!")
"""What spreadsheets write, also German ones."""
MISSING = frozenset(("na", "n/a", "n.a.", "nan", "null", "?", "-", "--", "---", ".", "<na>", *_ERRORS))
"""Texts that mean "missing" in any column."""
MISSING_AMONG_NUMBERS = frozenset(
    (
        "none",
        "nil",
        "unknown",
        "unk",
        "missing",
        "not done",
        "not available",
        "nd",
        "n.d.",
        "k.a.",
        "tbd",
        "x",
        "blank",
        "unbekannt",
        "keine angabe",
        "fehlt",
        "inconnu",
        "manquant",
        "desconocido",
        "sconosciuto",
    )
)
"""Texts that mean it beside numbers; a category may have them as values."""
LEAST_NUMBERS = 10
"""Different numbers from which on a column is a measurement, as for `encoding.infer`."""
DATES = (
    ("2024-12-31", re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?")),
    ("31.12.2024", re.compile(r"\d{1,2}\.\d{1,2}\.(\d{4}|\d{2})( .*)?")),
    ("12/31/2024", re.compile(r"(\d{1,2}/\d{1,2}/(\d{4}|\d{2})|\d{4}/\d{1,2}/\d{1,2})( .*)?")),
    ("31-12-2024", re.compile(r"\d{1,2}-\d{1,2}-\d{4}( .*)?")),
    (
        "31 Dec 2024",
        re.compile(
            r"(\d{1,2}[- ]?)?(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?[- ](\d{1,2},? )?(\d{4}|\d{2})",
            re.I,
        ),
    ),
)
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,. '’\u00a0\u202f])\d{3}(\1\d{3})*([.,]\d+)?")
_UNIT = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*((?:[%‰°µμ]|[^\W\d_])[^\s\d]{0,9}(?:\s?[/^][^\s]{1,6})?)")
_BOUND = re.compile(r"(?:[<>≤≥]=?|=<|=>)\s*([+-]?\d+(?:[.,]\d+)?)|([+-]?\d+(?:[.,]\d+)?)\s*\+")
_PRICE = re.compile(r"(?:[€$£¥]|CHF|EUR|USD|GBP)\s*([+-]?\d.*)")
_ORDINALS = {"st", "nd", "rd", "th"}
MOST_UNITS = 3


def number_in(text: str) -> float:
    """With a decimal comma or a point."""
    return float(text.replace(",", "."))


@dataclass(frozen=True)
class OddCell:
    """A text that is no plain number: what kind, the number in it, and the unit or form."""

    kind: str
    number: float = math.nan
    form: str = ""


def _odd(text: str) -> OddCell:
    small = text.casefold()
    if small in MISSING:
        return OddCell("missing")
    for form, pattern in DATES:
        if pattern.fullmatch(text):
            return OddCell("date", form=form)
    if match := _BOUND.fullmatch(text):
        return OddCell("bound", number_in(match[1] or match[2]))
    if (match := _THOUSANDS.fullmatch(text)) and not (match[1] == "." and text.count(".") == 1 and "," not in text):
        marks, end = match[1], match[3] or ""
        number = float(text[: len(text) - len(end)].replace(marks, "") + end.replace(",", "."))
        unclear = marks == "," and text.count(",") == 1 and not end
        return OddCell("either" if unclear else "thousands", number)
    if _COMMA.fullmatch(text):
        return OddCell("comma", number_in(text))
    if (match := _UNIT.fullmatch(text)) and match[2].casefold() not in _ORDINALS:
        return OddCell("unit", number_in(match[1]), match[2].casefold())
    if match := _PRICE.fullmatch(text):
        inner = _odd(match[1]) if re.fullmatch(r"[+-]?\d+(\.\d+)?", match[1]) is None else OddCell("", float(match[1]))
        if not math.isnan(inner.number):
            return OddCell("unit", inner.number, text[: len(text) - len(match[1])].strip())
    if small in MISSING_AMONG_NUMBERS:
        return OddCell("none")
    if small.lstrip("+-") in ("inf", "infinity"):
        return OddCell("infinite")
    return OddCell("text")


NUMERIC = {
    "comma": (
        "decimal-comma",
        "numbers with a decimal comma",
        "Export with a decimal point, or set decimal_comma under its cells",
    ),
    "thousands": ("thousands", "numbers with a mark between thousands", "Export without it, or read them with cells"),
    "unit": ("number-with-unit", "numbers with a unit", "Write the number alone, or read them with cells"),
    "bound": ("bound", "bounds instead of numbers", "Say under cells which number stands for each"),
}
"""Kinds of cells that mean a number -> code, fault and action."""


class CellColumn:
    """A column: texts as the reader compares them, null where empty; numbers float64 (rows,), NaN where it is none."""

    def __init__(self, series: pl.Series) -> None:
        import polars as pl

        self.name = series.name
        self.numeric = series.dtype.is_numeric()
        self.texts = texts_of(series)
        numbers = self.texts.cast(pl.Float64, strict=False)
        numbers = numbers.fill_null(np.nan).to_numpy().copy()
        numbers[~np.isfinite(numbers)] = np.nan
        self.numbers = numbers
        strange = self.texts.filter(pl.Series(np.isnan(numbers)))
        self.odd = {text: _odd(text) for text in strange.drop_nulls().unique(maintain_order=True).to_list()}

    @cached_property
    def counts(self) -> dict[str, int]:
        """Of each text that is there, in the order of their first rows."""
        counted = self.texts.drop_nulls().value_counts()
        order = {text: place for place, text in enumerate(self.texts.drop_nulls().unique(maintain_order=True))}
        pairs = zip(counted[self.name].to_list(), counted[counted.columns[1]].to_list(), strict=True)
        return dict(sorted(pairs, key=lambda pair: order[pair[0]]))

    def of(self, *kinds: str) -> list[str]:
        """Odd texts of these kinds."""
        return [text for text, odd in self.odd.items() if odd.kind in kinds]

    def rows(self, texts: Iterable[str]) -> np.ndarray:
        """Where one of the texts stands."""
        return np.flatnonzero(self.texts.is_in(list(texts)).fill_null(False).to_numpy())

    def total(self, texts: Iterable[str]) -> int:
        return sum(self.counts[text] for text in texts)
