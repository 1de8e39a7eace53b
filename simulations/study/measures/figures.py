"""Collects figures as rows of the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.simulations.study.measures.resampling import Estimate, ends
from consilium.simulations.study.rows import Row

QUANTILES = (10, 50, 90)
"""Percentiles that say how a figure is spread over parties or rows."""


@dataclass
class Figures:
    """Rows of one method, in the order in which they are added."""

    method: str
    rows: list[Row] = field(default_factory=list, repr=False)

    def run(self, metric: str, value: float, low: float | None = None, high: float | None = None) -> None:
        """Of the whole cell."""
        self.add("run", "", metric, value, low, high)

    def estimate(self, metric: str, found: Estimate | None, scope: str = "run", name: str = "") -> None:
        """With its interval; nothing where there is none."""
        if found is not None:
            self.add(scope, name, metric, *found)

    def spread(self, metric: str, values: np.ndarray) -> None:
        """Mean and `QUANTILES` of float (n,) as METRIC_mean, METRIC_p10 ...; nothing where there are no values."""
        if len(values):
            self.run(f"{metric}_mean", values.mean())
            for percent, value in zip(QUANTILES, np.percentile(values, QUANTILES), strict=True):
                self.run(f"{metric}_p{percent}", value)

    def floor(self, metric: str, drawn: np.ndarray) -> None:
        """What chance alone gives, as METRIC_floor: the mean of lots float (n,) with what 95 % of them are in."""
        self.run(f"{metric}_floor", drawn.mean(), *ends(drawn))

    def each(self, scope: str, names: Sequence[str], metric: str, values: Iterable[float]) -> None:
        """Of each party, class or group; NaN says that one has none, and it gets no row."""
        for name, value in zip(names, values, strict=True):
            if not np.isnan(value):
                self.add(scope, name, metric, value)

    def add(
        self,
        scope: str,
        name: str,
        metric: str,
        value: float,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """See `Row`."""
        self.rows.append(Row(self.method, scope, name, metric, float(value), low, high))
