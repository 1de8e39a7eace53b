"""Numbers and names in words, as every page and the terminal write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

ALONE, STUDENT, PLURALITY, POOLED = "one party alone", "student", "plurality", "pooled"
MAJORITY, MANUAL = "majority class", "manual labels"
LABELS_ALONE = "labels of the public rows alone"
NOISY_AVERAGE, PRIVATE_GRADIENT = "noisy average", "private gradient descent"
"""What models are called, in the terminal, in reports and in studies alike."""
METRICS = {"accuracy": "accuracy", "auc": "AUC"}
"""By which models are judged, with their words."""


def many(count: int, word: str) -> str:
    """
    >>> many(1, "hospital"), many(1200, "hospital"), many(0, "party")
    ('1 hospital', '1,200 hospitals', '0 parties')
    """
    return f"{count:,} {word if count == 1 else plural(word)}"


def plural(word: str) -> str:
    """
    >>> [plural(word) for word in ("hospital", "party", "day", "branch", "epoch", "class", "wards")]
    ['hospitals', 'parties', 'days', 'branches', 'epochs', 'classes', 'wards']
    """
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith(("ss", "x", "z", "sh")) or (word.endswith("ch") and not word.endswith("och")):
        return word + "es"
    return word if word.endswith("s") else word + "s"


def delta_text(delta: float) -> str:
    """
    >>> delta_text(1e-5), delta_text(0.0)
    ('1e-5', '0')
    """
    return f"{delta:g}".replace("e-0", "e-")


def with_interval(value: float | None, ends: Sequence[float] | None) -> str:
    """
    >>> with_interval(0.7713, [0.7493, 0.7919]), with_interval(0.5, None), with_interval(None, None)
    ('0.771 (0.749 to 0.792)', '0.500', '–')
    """
    text = value_text(value)
    return text if value is None or ends is None else f"{text} ({value_text(ends[0])} to {value_text(ends[1])})"


def signed_text(value: float) -> str:
    """
    >>> signed_text(0.0123), signed_text(-0.2), signed_text(0.00001)
    ('+0.012', '−0.200', '0.000')
    """
    text = f"{value:+.3f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def value_text(value: float | None) -> str:
    """Three places behind the point, fewer of large numbers, none of whole ones from 2 on; no sign of a nought.

    >>> value_text(0.84312), value_text(1234.5), value_text(24.0), value_text(-0.00004), value_text(1e-5)
    ('0.843', '1,234', '24', '0.000', '1e-5')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "unbounded"
    if 1e-12 < value < 5e-4:
        return f"{value:.2g}".replace("e-0", "e-")
    if abs(value) >= 100 or (abs(value) >= 2 and value == round(value)):
        return f"{value:,.0f}".replace("-", "−")
    text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def range_text(low: float | None, high: float | None) -> str:
    """
    >>> range_text(0.8, 0.9), range_text(-0.1, 0.02), range_text(None, None), range_text(0.0004, 0.02)
    ('0.800 to 0.900', '−0.100 to 0.020', '', '0.000 to 0.020')
    """
    if low is None or high is None or low == high:
        return ""
    if min(abs(low), abs(high)) < 5e-4 and max(abs(low), abs(high)) >= 1e-2:  # in the same places
        low, high = round(low, 3), round(high, 3)
    return f"{value_text(low)} to {value_text(high)}"


def upper_first(text: str) -> str:
    """
    >>> upper_first("accuracy"), upper_first("AUC")
    ('Accuracy', 'AUC')
    """
    return text[:1].upper() + text[1:]
