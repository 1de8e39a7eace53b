"""Pairs of units that people write into one column, told apart by medians and spreads: a factor alone is no conversion.

A pair is named only where its formula brings both the median and the spread of some owners to those of the others, so
that an offset (degrees Fahrenheit) is never taken for a factor.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UnitPair:
    """second = factor * first + offset. names: of columns that it is meant for, casefolded; alone: it is known by its
    numbers too, whatever the column is called."""

    first: str
    second: str
    factor: float
    names: str
    offset: float = 0.0
    alone: bool = False


_END = r"[^\W\d_]*"
"""Before a German word that ends others: Körpergewicht, Blutzucker."""
PAIRS = (
    UnitPair("°C", "°F", 1.8, "temp|fever|fieber|fiebre|fièvre", 32, alone=True),
    UnitPair("°C", "K", 1, "temp", 273.15, alone=True),
    UnitPair("kg", "lb", 2.20462, rf"weight|mass|{_END}gewicht|poids|peso|wt|kg|lbs?", alone=True),
    UnitPair(
        "in",
        "cm",
        2.54,
        rf"height|ht|length|waist|circumference|size|{_END}gr(ö|oe)sse|taille|talla|altura|altezza|cm|inch(es)?",
        alone=True,
    ),
    UnitPair("m", "cm", 100, rf"height|ht|length|{_END}gr(ö|oe)sse|size|taille|talla|altura|altezza|cm"),
    UnitPair(
        "mmol/l", "mg/dl", 18.016, rf"glu[ck](ose)?|glu|glc|sugar|{_END}zucker|gl[yi]c[eé]mi[ae]|glucosa|bg|fbs|fbg"
    ),
    UnitPair("mmol/l", "mg/dl", 38.67, "[ck]hol(esterol|esterin)?|cholestérol|colesterolo?|ldl|hdl"),
    UnitPair("mmol/l", "mg/dl", 88.57, "trigl[yi][cz]erid(es?|os|i)?|triglycérides|trig|tg"),
    UnitPair("mg/dl", "µmol/l", 88.42, "cr[eé]atinin[ea]?|creatinina|crea|kreatinin|krea"),
    UnitPair("mg/dl", "µmol/l", 17.1, "bilirubin|bili"),
    UnitPair("mmol/l", "mg/dl", 6.006, "urea|harnstoff"),
    UnitPair("mmol/l", "mg/dl", 2.801, "bun"),
    UnitPair("mmol/l", "mg/dl", 4.008, "[ck]al[cz]i(um|o)|ca"),
    UnitPair("mmol/l", "mg/dl", 9.008, "lactate?|laktat"),
    UnitPair("g/dl", "g/l", 10, "h(ae?|e|ä|é)moglobin[ae]?|hb|hgb|albumin[ae]?|alb|protein"),
    UnitPair("mmol/l", "g/dl", 1.6114, "h(ae?|e|ä|é)moglobin[ae]?|hb|hgb"),
    UnitPair("mmol/l", "g/l", 16.114, "h(ae?|e|ä|é)moglobin[ae]?|hb|hgb"),
    UnitPair("mg/dl", "mg/l", 10, "crp"),
    UnitPair("kPa", "mmHg", 7.5006, "pressure|p[ac]?o2|p[ac]?co2|bp|sbp|dbp|systolic|diastolic"),
    UnitPair("%", "mmol/mol", 10.93, "hb ?a1c|a1c", -23.5),
    UnitPair("a fraction", "%", 100, "sat|saturation|spo2|sao2|fio2|ha?ematocrit|hct|share|rate"),
    UnitPair("years", "months", 12, "age|alter|duration"),
    UnitPair("days", "hours", 24, "stay|los|duration|time"),
)


@dataclass(frozen=True)
class Conversion:
    """Of some owners' numbers: they write `theirs`, the others `usual`. formula: in x, one of their numbers."""

    theirs: str
    usual: str
    formula: str


def conversion(column: str, theirs: np.ndarray, usual: np.ndarray) -> Conversion | None:
    """The one known pair of units that explains how the numbers of some owners differ from the others'; None where
    none does, or two do and the column's name does not tell which.

    >>> warm = np.random.default_rng(0).normal(37.2, 0.7, 400)
    >>> conversion("temperature", warm[:100] * 1.8 + 32, warm[100:]).formula
    '(x - 32) / 1.8'
    """
    words = " ".join(re.findall(r"[^\W\d_]+\d*[^\W\d_]*", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column))).casefold()
    fitting = [(pair, back) for pair in PAIRS for back in (True, False) if _fits(pair, back, theirs, usual)]
    by_name = [entry for entry in fitting if re.search(rf"\b({entry[0].names})\b", words)]
    likely = by_name or [entry for entry in fitting if entry[0].alone]
    if len(likely) != 1:
        return None
    ((pair, back),) = likely
    shift = f" {'-' if (pair.offset > 0) == back else '+'} {abs(pair.offset):g}" if pair.offset else ""
    if back:
        formula = f"(x{shift})" if shift and pair.factor != 1 else f"x{shift}"
        formula += "" if pair.factor == 1 else f" / {pair.factor:g}"
        return Conversion(pair.second, pair.first, formula)
    return Conversion(pair.first, pair.second, ("x" if pair.factor == 1 else f"x * {pair.factor:g}") + shift)


_APART = 0.5
"""Of the usual spread: how far medians of owners in one unit lie from each other, besides chance."""
_WIDER = 1.3
"""Likewise the ratio of their spreads."""


def _fits(pair: UnitPair, back: bool, theirs: np.ndarray, usual: np.ndarray) -> bool:
    """Whether their numbers, brought from the second unit to the first (back) or the other way, are like the usual."""
    moved = (theirs - pair.offset) / pair.factor if back else theirs * pair.factor + pair.offset
    spread, of_moved = _spread(usual), _spread(moved)
    if not spread or not of_moved:
        return False
    chance = 2.5 * math.sqrt(1 / len(theirs) + 1 / len(usual))
    far = abs(float(np.median(moved) - np.median(usual))) / spread
    return far <= _APART + chance and abs(math.log(of_moved / spread)) <= math.log(_WIDER) + chance


def _spread(values: np.ndarray) -> float:
    """Standard deviation, by the quartiles, of a normal distribution."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 1.349


def in_two_units(column: str, theirs: np.ndarray, usual: np.ndarray, whose: str) -> tuple[str, str]:
    """Fault and action where some owners write other numbers than the others: with a formula only where one fits."""
    known = conversion(column, theirs, usual)
    if known is None:
        low, high = sorted(abs(float(np.median(values))) for values in (theirs, usual))
        size = f"the medians differ by a factor of about {high / low:.3g}" if low else "the medians differ"
        return (
            f"owners lie apart, as in two units: {whose} and the others; {size}",
            "Find out which units, devices or codings these are, and bring them to one in the file. No known pair of"
            " units explains medians and spreads, and the ratio of medians is no conversion",
        )
    return (
        f"owners write two units: numbers of {whose} are as in {known.theirs}, the others' in {known.usual}",
        f"If that is so, write {known.formula} there in the file, where x is the number that stands there",
    )


def two_groups(inside: dict[str, np.ndarray]) -> tuple[list[str], list[str]]:
    """Two groups of owners, smaller and larger numbers; none where there are not two. inside: quantiles .1, .5 and .9.

    The groups' ranges do not meet, and owners of one group are far more alike than both groups are.
    """
    order = sorted(inside, key=lambda name: float(inside[name][1]))
    if len(order) < 4 or min(inside[name][1] for name in order) <= 0:
        return [], []
    logs = np.log([inside[name][1] for name in order])
    cut = int(np.argmax(np.diff(logs))) + 1
    lower, upper = order[:cut], order[cut:]
    apart = max(inside[name][2] for name in lower) < min(inside[name][0] for name in upper)
    widest = max(float(np.ptp(logs[:cut])), float(np.ptp(logs[cut:])))
    if not apart or min(len(lower), len(upper)) < 2 or logs[cut] - logs[cut - 1] < max(2 * widest, math.log(1.5)):
        return [], []
    return lower, upper
