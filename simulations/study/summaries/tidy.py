"""A study's results in one form: columns, the order of points and methods, and numbers and names in words."""

from __future__ import annotations

import polars as pl

from consilium.protocol.errors import DataError
from consilium.report.disclosure import epsilon_text
from consilium.report.words import (
    ALONE,
    BY_HAND,
    NOISY_AVERAGE,
    PLURALITY,
    POOLED,
    PRIVATE_GRADIENT,
    STUDENT,
    range_text,
    value_text,
)
from consilium.simulations.study.spec import COLUMNS as FIELDS
from consilium.simulations.study.spec import FACTS

METRIC_WORDS = {
    "auc": "AUC",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "net_benefit": "net benefit at the rate of the class",
    "calibration_level": "calibration in the large",
    "ambiguity_10": "gap below 10%",
    "teacher_right_mean": "one party’s teachers right",
    "c2st_auc_mean": "AUC of telling a party from all",
    "hand_labels": "labels by hand",
}
"""Where they are not made of the name."""
SHARES = (
    "auc", "accuracy", "balanced_accuracy", "ece", "plurality_right", "plurality_wrong", "consensus", "gini",
    "home_accuracy", "home_auc", "labels_right", "recall",
)  # fmt: skip
"""Metrics between 0 and 1, where their intervals end."""
COUNTS = (
    "answered", "asked", "hand_labels", "hand_labels_above", "home_rows", "labels", "left_out", "parties", "reinforced",
    "rows", "rows_least", "rows_median", "rows_most", "teachers", "winners_flipped_mean", "winners_flipped_most",
)  # fmt: skip
"""Metrics that count something: intervals do not go below 0, and are said in whole numbers."""
JUDGED = ("auc", "accuracy", "balanced_accuracy", "brier", "ece")
"""By which models are judged."""
AS_RISKS = ("net_benefit", "calibration_level", "calibration_slope")
"""By which their probabilities of the second class are judged as risks, at other places."""
LESS_IS_BETTER = ("brier", "ece")
_WORDS = {
    "auc": "AUC",
    "hellinger": "Hellinger",
    "js": "Jensen-Shannon",
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
    >>> metric_words("auc"), metric_words("hellinger_mean"), metric_words("gap_p50")
    ('AUC', 'Hellinger mean', 'gap median')
    """
    return METRIC_WORDS.get(metric) or " ".join(_WORDS.get(part, part) for part in metric.split("_"))


def figure_text(metric: str, value: float) -> str:
    """A value of a metric: `value_text`, of a mean of counts a whole number from 10 on.

    >>> figure_text("hand_labels", 11.4), figure_text("winners_flipped_mean", 0.48), figure_text("auc", 0.8)
    ('11', '0.480', '0.800')
    >>> figure_text("epsilon", 0.79929)
    '0.800'
    """
    if metric == "epsilon":  # a guarantee
        return epsilon_text(value)
    return f"{value:,.0f}" if metric in COUNTS and value >= 10 else value_text(value)


def ends_text(metric: str, low: float | None, high: float | None) -> str:
    """An interval of a metric: `range_text`, of counts that reach 10 in whole numbers.

    >>> ends_text("hand_labels", 0.0, 39.1), ends_text("hand_labels", None, None), ends_text("auc", 0.8, 0.9)
    ('0 to 39', '', '0.800 to 0.900')
    """
    if metric in COUNTS and low is not None and high is not None and low != high and high >= 10:
        return f"{low:,.0f} to {high:,.0f}"
    return range_text(low, high)


MEASURED = ("division", "teachers")
"""In the column `method`: what is measured of the division and of the votes, and no method."""
LEADING = ("auc", "accuracy")
"""By which of the metrics methods are compared first."""
NATURAL = ("natural", "owners", "owner")
"""How the division that the data came with is called, in small letters."""


def tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with every figure once: one of several cells of a point is kept of what the cells share.

    Figures that are no number are left out. An epsilon may be infinite.

    Raises
    ------
    DataError : a column is missing.
    """
    missing = [name for name in (*FIELDS, *FACTS) if name not in frame.columns]
    if missing:
        raise DataError(f"a table of a study's results has no column {', '.join(missing)}", "Run: consilium study")
    key = [*axis_names(frame), "seed", "method", "scope", "name", "metric"]
    known = frame.filter(pl.col("value").is_not_nan() & pl.col("value").is_not_null())
    return known.unique(key, keep="first", maintain_order=True)


def axis_names(frame: pl.DataFrame) -> list[str]:
    """Of the columns those that are axes, in their order: all but `COLUMNS` and `FACTS` of `study.spec`.

    >>> axis_names(pl.DataFrame(schema=["cell", "division", "seed", *FIELDS[2:]]))
    ['division']
    """
    return [name for name in frame.columns if name not in (*FIELDS, *FACTS)]


def as_number(text: str) -> float | None:
    """A point of a numeric axis as a number; None for one that is a name.

    >>> as_number("0.05"), as_number("natural"), as_number("nan")
    (0.05, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def methods_of(frame: pl.DataFrame) -> list[str]:
    """Names of all that is compared, those without privacy first: see `title`."""
    names = set(frame["method"].to_list()) - set(MEASURED)
    return sorted(names, key=lambda method: (_ORDER.get(_kind(method), len(_ORDER)), method))


def private_methods(frame: pl.DataFrame) -> list[str]:
    """Those that state a finite epsilon, PATE first."""
    states = (pl.col("scope") == "run") & (pl.col("metric") == "epsilon") & pl.col("value").is_finite()
    private = set(frame.filter(states)["method"])
    return sorted(filter(private.__contains__, methods_of(frame)), key=lambda method: _kind(method) != "pate")


def lead(frame: pl.DataFrame) -> str | None:
    """The metric of runs that most of the methods have, AUC before accuracy; None where there is neither."""
    run = frame.filter((pl.col("scope") == "run") & ~pl.col("method").is_in(MEASURED))
    having = {metric: run.filter(pl.col("metric") == metric)["method"].n_unique() for metric in LEADING}
    best = max(LEADING, key=lambda metric: having[metric])
    return best if having[best] else None


_TITLES = {
    "local": ALONE,
    "pooled": POOLED,
    "plurality": PLURALITY,
    "fedavg": "FedAvg",
    "noisy_average": NOISY_AVERAGE,
    "private_gradient": PRIVATE_GRADIENT,
    "pate": STUDENT,
    "hand_labels": BY_HAND,
}
_ORDER = {kind: index for index, kind in enumerate(_TITLES)}


def _kind(method: str) -> str:
    """The name of a method without its keys, as `fedavg` of `fedavg (rounds=20)` or `fedavg-2`."""
    return next((kind for kind in sorted(_TITLES, key=len, reverse=True) if method.startswith(kind)), method)


def title(method: str) -> str:
    """As tables and pictures call it.

    >>> title("pate"), title("pate (most_answers=10)"), title("median_of_means")
    ('student', 'student (most_answers=10)', 'median of means')
    """
    kind = _kind(method)
    return _TITLES[kind] + method.removeprefix(kind) if kind in _TITLES else method.replace("_", " ")


def noun(method: str) -> str:
    """The same within a sentence.

    >>> noun("pate"), noun("pooled")
    ('the student', 'pooled')
    """
    return f"the {title(method)}" if _kind(method) == "pate" else title(method)
