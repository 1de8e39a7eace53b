"""Of every metric and method of a study: what it is called, and between which ends a metric lies."""

from __future__ import annotations

import re
from math import inf
from typing import NamedTuple

from consilium.report import words
from consilium.report.disclosure import epsilon_text
from consilium.report.words import range_text, value_text

Range = tuple[float, float]  # both ends of what a figure can be


class Metric(NamedTuple):
    """words: "" makes them of the name. count: a number of things, said in whole numbers from 10 on."""

    words: str = ""
    within: Range = (-inf, inf)
    count: bool = False
    less_is_better: bool = False


_SHARE = (
    "accuracy recall plurality_right plurality_wrong consensus agreement gini hellinger js"
    " labels_right one_class_parties shift delta"
)
_COUNT = (
    "answered asked c2st_parties labels left_out parties parties_left_out reinforced rounds rows teachers units"
    " winners_flipped gain_accuracy_better gain_accuracy_worse gain_accuracy_parties"
)
_POSITIVE = "epsilon gap clip learning_rate noise_deviation noise_multiplier shrinkage step"
METRICS: dict[str, Metric] = {
    **dict.fromkeys(_SHARE.split(), Metric(within=(0, 1))),
    **dict.fromkeys(_COUNT.split(), Metric(within=(0, inf), count=True)),
    **dict.fromkeys(_POSITIVE.split(), Metric(within=(0, inf))),
    **dict.fromkeys(("gain_accuracy", "gain_auc", "kappa"), Metric(within=(-1, 1))),
    "auc": Metric("AUC", (0, 1)),
    "brier": Metric("Brier score", (0, 1), less_is_better=True),  # of two classes; of more it may be larger
    "c2st_auc": Metric("AUC of telling a party from all", (0, 1)),
    "teacher_right": Metric("one party’s teachers right", (0, 1)),
    "ambiguity_10": Metric("gap below 10%", (0, 1)),
}
"""By name; a longer name, as `hellinger_mean_floor`, is of the longest name here that it begins with, and of models at
home (`home_auc`) as without the prefix. What stands nowhere has no ends."""
LEADING = ("auc", "accuracy")  # by which of the metrics methods are compared first
JUDGED = (*LEADING, "brier")
"""By which models are judged."""
_WORDS = {"hellinger": "Hellinger", "js": "Jensen-Shannon", "gini": "Gini index", "auc": "AUC", "p50": "median"}


def metric(name: str) -> Metric:
    """
    >>> metric("home_auc").within, metric("hellinger_mean_floor").within, metric("joy").within
    ((0, 1), (0, 1), (-inf, inf))
    """
    parts = re.sub("^(home|test)_", "", name).split("_")
    starts = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((METRICS[start] for start in starts if start in METRICS), Metric())


def metric_words(name: str) -> str:
    """
    >>> metric_words("auc"), metric_words("c2st_auc_mean"), metric_words("hellinger_mean"), metric_words("gap_p50")
    ('AUC', 'AUC of telling a party from all', 'Hellinger mean', 'gap median')
    """
    if name.startswith("shift_"):
        return name.removeprefix("shift_").replace("_", ", ")
    known = METRICS.get(name.removesuffix("_mean"), Metric()).words
    return known or " ".join(_WORDS.get(part, part) for part in name.split("_"))


def figure_text(name: str, value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """A value of a metric, and its interval ("" where there is none): counts are whole numbers from 10 on, an epsilon
    is rounded up.

    >>> figure_text("answered", 11.4, 0.0, 39.1), figure_text("winners_flipped_mean", 0.48, None, None)
    (('11', '0 to 39'), ('0.480', ''))
    >>> figure_text("auc", 0.8, 0.7, 0.9), figure_text("epsilon", 0.79929, None, None)
    (('0.800', '0.700 to 0.900'), ('0.800', ''))
    """
    count = metric(name).count
    text = epsilon_text(value) if name == "epsilon" else value_text(value)
    whole = count and low is not None and high is not None and low != high and high >= 10
    ends = f"{low:,.0f} to {high:,.0f}" if whole else range_text(low, high)
    return f"{value:,.0f}" if count and value >= 10 else text, ends


MEASURED = ("division", "teachers")
"""In the column `method`: what is measured of the partition and of the votes, and no method."""
_TITLES = {
    "local": words.ALONE,
    "pooled": words.POOLED,
    "plurality": words.PLURALITY,
    "fedavg": "FedAvg",
    "noisy_average": words.NOISY_AVERAGE,
    "private_gradient": words.PRIVATE_GRADIENT,
    "pate": words.STUDENT,
}
"""Of methods, in the order of tables: those without a guarantee first."""


def kind(method: str) -> str:
    """The name of a method without its keys, as `fedavg` of `fedavg (rounds=20)` or `fedavg-2`."""
    return next((kind for kind in sorted(_TITLES, key=len, reverse=True) if method.startswith(kind)), method)


def place(method: str) -> tuple[int, str]:
    """By which methods are sorted."""
    return (list(_TITLES).index(kind(method)) if kind(method) in _TITLES else len(_TITLES), method)


def title(method: str) -> str:
    """As tables and pictures call it.

    >>> title("pate"), title("pate (most_answers=10)"), title("median_of_means")
    ('student', 'student (most_answers=10)', 'median of means')
    """
    of = kind(method)
    return _TITLES[of] + method.removeprefix(of) if of in _TITLES else method.replace("_", " ")


def noun(method: str) -> str:
    """The same within a sentence.

    >>> noun("pate"), noun("pooled")
    ('the student', 'pooled')
    """
    return f"the {title(method)}" if kind(method) == "pate" else title(method)
