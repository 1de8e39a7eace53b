"""Properties of divisions beside what methods reach or lose there, over data sets: one division of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from consilium.simulations.study.summaries.ranks import LEAST, rank_correlation
from consilium.simulations.study.summaries.tidy import axis_names, methods_of, private_methods, tidy

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


def set_axis(frame: pl.DataFrame, order: Mapping[str, Sequence[str]]) -> tuple[str, list[str]] | None:
    """The axis along which the data set itself changes, and the first of its points for each; None with fewer than
    `LEAST` data sets.

    Data sets are those that the results name (`spec.FACTS`): divisions of one table are one, and results of 0.9, which
    name none, have no such axis. frame: tidy. order: of axes their points.
    """
    best: tuple[str, list[str]] | None = None
    for axis, points in order.items():
        of_point: dict[str, set[str | None]] = {}
        for point, name in frame.select(axis, "data_set").unique(maintain_order=True).iter_rows():
            of_point.setdefault(point, set()).add(name)
        first: dict[str, str] = {}
        for point in points:
            for name in of_point.get(point, set()) if len(of_point.get(point, set())) == 1 else ():
                if name is not None:
                    first.setdefault(name, point)
        if len(first) >= max(LEAST, 1 + len(best[1]) if best else 0):
            best = axis, list(first.values())
    return best


def goes_with(frame: pl.DataFrame, axis: str, metric: str, points: Sequence[str]) -> list[Going]:
    """Correlations over these points of `axis`, each figure a mean over seeds and over all other axes.

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
