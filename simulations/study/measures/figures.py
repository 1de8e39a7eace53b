"""Rows of figures with their intervals: resampled over parties, by sizes and label distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import jensenshannon

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row

REPLICATES = 1000
QUANTILES = (10, 50, 90)  # percentiles that say how a figure is spread over parties or rows


def ends(drawn: np.ndarray) -> tuple[float, float]:
    """Of the 95 % interval that replicates float64 (n,) give."""
    low, high = np.quantile(drawn, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    return float(low), float(high)


def ratio(
    points: np.ndarray, of: np.ndarray, generator: np.random.Generator
) -> tuple[float, float | None, float | None]:
    """sum points / sum of, each float64 (parties,), `of` positive, with both ends of its interval over parties.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.random.default_rng(0))
    (0.5, 0.5, 0.5)
    """
    value, parties = float(points.sum() / of.sum()), len(points)
    if parties < 2:
        return value, None, None
    times = generator.multinomial(parties, np.full(parties, 1 / parties), size=REPLICATES)
    return value, *ends((times @ points) / (times @ of))


def shares(counts: np.ndarray) -> np.ndarray:
    """Counts (..., classes) -> shares float64; all 0 where nothing was counted."""
    return counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)


def hellinger(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sqrt(1/2 sum (sqrt p - sqrt q)^2), of distributions float64 (..., classes).

    >>> float(hellinger(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    return np.sqrt(((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1) / 2)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Jensen-Shannon *distance*: the square root of the divergence in bits (Endres, Schindelin 2003), a metric.

    >>> float(jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    1.0
    """
    distance = jensenshannon(p, q, base=2, axis=-1)  # pyright: ignore[reportCallIssue]
    return np.nan_to_num(distance)  # NaN: a root of what rounding leaves below 0


DISTANCES = {"hellinger": hellinger, "js": jensen_shannon}  # by the name of the metric in the results


def gini(values: np.ndarray) -> float:
    """Gini's index of sizes float (n,), none negative, n at least 2: the common one times n / (n - 1), 0 where all are
    equal, 1 where one has all (Raffinetti, Siletti, Vernizzi 2015).

    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 4.0]))
    (0.0, 1.0)
    """
    ordered, count, total = np.sort(values.astype(np.float64)), len(values), float(values.sum())
    differences = 2 * ((2 * np.arange(count) - count + 1) * ordered).sum()
    return float(differences / (2 * (count - 1) * total)) if total else 0.0


def rows_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rows int64 (n,) of all parties, party after party, what it holds out last; and the index of each row's party."""
    none = np.zeros(0, dtype=np.int64)
    parts = [np.r_[case.partition.parties[party], case.home.get(party, none)] for party in case.parties]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def counted(party: np.ndarray, y: np.ndarray, parties: int, classes: int) -> np.ndarray:
    """Rows by party and class, int64 (parties, classes), from each row's party and label, int64 (n,)."""
    return np.bincount(party * classes + y, minlength=parties * classes).reshape(parties, classes)


def label_counts(case: Case) -> np.ndarray:
    """Rows of each party and class, int64 (parties, classes)."""
    rows, party = rows_of(case)
    return counted(party, case.dataset.y[rows], len(case.parties), len(case.classes))


@dataclass
class Figures:
    """Rows of one method, in the order in which they are added."""

    method: str
    rows: list[Row] = field(default_factory=list, repr=False)

    def run(self, metric: str, value: float, low: float | None = None, high: float | None = None) -> None:
        """Of the whole cell."""
        self.add("run", "", metric, value, low, high)

    def spread(self, metric: str, values: np.ndarray) -> None:
        """Mean and `QUANTILES` of float (n,) as METRIC_mean, METRIC_p10 ...; nothing where there are no values."""
        if len(values):
            self.run(f"{metric}_mean", values.mean())
            for percent, value in zip(QUANTILES, np.percentile(values, QUANTILES), strict=True):
                self.run(f"{metric}_p{percent}", value)

    def floor(self, metric: str, drawn: np.ndarray) -> None:
        """What chance alone gives, as METRIC_floor: the mean of lots float (n,) with what 95 % of them are in."""
        self.run(f"{metric}_floor", drawn.mean(), *ends(drawn))

    def series(self, scope: str, names: Sequence[str], metric: str, values: Iterable[float]) -> None:
        """Of each party, class or group; NaN says that one has none, and it gets no row."""
        for name, value in zip(names, values, strict=True):
            if not np.isnan(value):
                self.add(scope, name, metric, value)

    def add(
        self, scope: str, name: str, metric: str, value: float, low: float | None = None, high: float | None = None
    ) -> None:
        """See `Row`."""
        self.rows.append(Row(self.method, scope, name, metric, float(value), low, high))
