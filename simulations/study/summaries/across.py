"""Properties of divisions beside what methods reach or lose there, over the points of an axis of data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from consilium.simulations.study.summaries.ranks import LEAST, rank_correlation
from consilium.simulations.study.summaries.tidy import as_number, axis_names, methods_of, private_methods, tidy

PROPERTIES = (
    "parties",
    "rows",
    "rows_median",
    "gini",
    "effective_parties",
    "hellinger_mean",
    "hellinger_weighted",
    "mmd2_mean",
    "c2st_auc_mean",
)
"""Of a division, known before anything is trained; those of the teachers are `VOTES`."""
VOTES = ("consensus", "kappa", "plurality_right", "cross_site_accuracy_shift")


class Going(NamedTuple):
    """The rank correlation of a property with what `method` reaches, or with what it loses `against` another."""

    property: str
    method: str
    against: str | None
    value: float
    low: float
    high: float
    pairs: int


def set_axis(order: Mapping[str, Sequence[str]]) -> str | None:
    """The axis whose points are data sets: the one with the most points that are names, at least `LEAST`."""
    named = {axis: sum(as_number(point) is None for point in points) for axis, points in order.items()}
    best = max(named, key=lambda axis: named[axis], default=None)
    return best if best is not None and named[best] >= LEAST else None


def goes_with(frame: pl.DataFrame, axis: str, metric: str) -> list[Going]:
    """Correlations over the points of `axis`, each figure a mean over seeds and over all other axes.

    Outcomes: what the first private method reaches, and what it loses against pooled and against local only.

    Raises
    ------
    DataError : a column is missing.
    """
    plain = tidy(frame).filter(pl.col("scope") == "run")
    private = private_methods(frame)
    if axis not in axis_names(frame) or not private:
        return []
    means = plain.group_by(axis, "method", "metric").agg(pl.col("value").mean())
    known = {(row[0], row[1], row[2]): row[3] for row in means.iter_rows()}
    points = sorted({key[0] for key in known})
    method, found = private[0], []
    outcomes: dict[str | None, np.ndarray] = {None: _values(known, points, method, metric)}
    for other in [name for name in methods_of(frame) if name in ("pooled", "local")]:
        outcomes[other] = _values(known, points, other, metric) - outcomes[None]
    for of, names in (("division", PROPERTIES), ("teachers", VOTES)):
        for name in names:
            measured = _values(known, points, of, name)
            for against, reached in outcomes.items():
                both = np.isfinite(measured) & np.isfinite(reached)
                correlation = rank_correlation(measured[both], reached[both])
                if correlation is not None:
                    found.append(Going(name, method, against, *correlation))
    return found


def _values(known: Mapping[tuple[str, str, str], float], points: Sequence[str], method: str, metric: str) -> np.ndarray:
    """float64 (points,), NaN where there is none."""
    return np.array([known.get((point, method, metric), np.nan) for point in points])
