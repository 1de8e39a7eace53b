"""Numbers and names of a study in words."""

from __future__ import annotations

import math

METRICS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
}
"""By which models are judged, with the words for them."""
COUNTS = frozenset(
    {
        "answered",
        "asked",
        "hand_labels",
        "hand_labels_above",
        "home_rows",
        "labels",
        "labels_flipped_mean",
        "labels_flipped_most",
        "left_out",
        "parties",
        "reinforced",
        "rows",
        "rows_least",
        "rows_median",
        "rows_most",
        "teachers",
    }
)
"""Metrics that count something: their intervals do not go below 0, and are said in whole numbers."""

_PHRASES = {
    "ambiguity_02": "gap below 2%",
    "ambiguity_10": "gap below 10%",
    "ambiguity_20": "gap below 20%",
    "teacher_right_mean": "one party’s teachers right",
    "plurality_right": "plurality right",
    "cross_site_accuracy_shift": "own less others’ accuracy at home",
    "c2st_auc_mean": "AUC of telling a party from all",
    "hand_labels": "labels by hand",
}
_HOME = "home_"
_WORDS = {
    "auc": "AUC",
    "hellinger": "Hellinger",
    "js": "Jensen-Shannon",
    "tv": "total variation",
    "mmd2": "squared MMD",
    "c2st": "two-sample",
    "gini": "Gini",
    "brier": "Brier",
    "p10": "10th percentile",
    "p50": "median",
    "p90": "90th percentile",
}


def short(axis: str) -> str:
    """
    >>> short("data.alpha"), short("federation.privacy.epsilon"), short("division")
    ('alpha', 'epsilon', 'division')
    """
    return axis.rsplit(".", 1)[-1].replace("_", " ")


def metric_words(metric: str) -> str:
    """
    >>> metric_words("auc"), metric_words("hellinger_mean"), metric_words("gap_p50"), metric_words("home_auc")
    ('AUC', 'Hellinger mean', 'gap median', 'AUC at home')
    """
    if metric.startswith(_HOME):
        return f"{metric_words(metric.removeprefix(_HOME))} at home"
    return METRICS.get(metric) or _PHRASES.get(metric) or " ".join(_WORDS.get(part, part) for part in metric.split("_"))


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


def figure_text(metric: str, value: float) -> str:
    """A value of a metric: `value_text`, of a mean of counts a whole number from 10 on.

    >>> figure_text("hand_labels", 11.4), figure_text("labels_flipped_mean", 0.48), figure_text("auc", 0.8)
    ('11', '0.480', '0.800')
    """
    return f"{value:,.0f}" if metric in COUNTS and value >= 10 else value_text(value)


def ends_text(metric: str, low: float | None, high: float | None) -> str:
    """An interval of a metric: `range_text`, of counts that reach 10 in whole numbers.

    >>> ends_text("hand_labels", 0.0, 39.1), ends_text("hand_labels", None, None), ends_text("auc", 0.8, 0.9)
    ('0 to 39', '', '0.800 to 0.900')
    """
    if metric in COUNTS and low is not None and high is not None and low != high and high >= 10:
        return f"{low:,.0f} to {high:,.0f}"
    return range_text(low, high)


def signed_text(value: float) -> str:
    """
    >>> signed_text(0.0123), signed_text(-0.2), signed_text(0.00001)
    ('+0.012', '−0.200', '0.000')
    """
    text = f"{value:+.3f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def upper_first(text: str) -> str:
    """
    >>> upper_first("accuracy"), upper_first("AUC")
    ('Accuracy', 'AUC')
    """
    return text[:1].upper() + text[1:]
