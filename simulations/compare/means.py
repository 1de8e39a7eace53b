"""Metrics of several models on the same test rows, as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LOW, HIGH = 10, 90
"""Percentiles of the parties that say what one of them has by itself."""


def mean_metrics(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of what `evaluate` gave for each; None where there is no value for any: no test row has such a class.

    >>> mean_metrics([{"accuracy": 0.5, "auc": None, "recall_per_class": {"ill": share}} for share in (0.25, 0.75)])
    {'accuracy': 0.5, 'auc': None, 'recall_per_class': {'ill': 0.5}}
    """
    recall = {name: _mean([item["recall_per_class"][name] for item in found]) for name in found[0]["recall_per_class"]}
    metrics = {name: _mean([item[name] for item in found]) for name in ("accuracy", "auc")}
    return {**metrics, "recall_per_class": recall}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def over_parties(metric: str, values: Sequence[float]) -> dict[str, float | None]:
    """Mean and percentiles of a metric over the parties, under names of their own; None where no party has it.

    >>> over_parties("auc", [0.0, 0.5, 1.0])
    {'auc': 0.5, 'auc_p10': 0.1, 'auc_p90': 0.9}
    """
    names = (metric, f"{metric}_p{LOW}", f"{metric}_p{HIGH}")
    if not values:
        return dict.fromkeys(names)
    low, high = np.percentile(values, (LOW, HIGH))
    return dict(zip(names, (float(np.mean(values)), float(low), float(high)), strict=True))
