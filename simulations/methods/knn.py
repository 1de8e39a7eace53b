"""Private-kNN (Zhu et al. 2020, CVPR), the rival that needs no teachers: for each public row the nearest private rows
of a random subset vote.

Each private row of all parties is in the subset with probability q, anew for each public row, and the k nearest of the
subset to that public row vote with their labels. The counts get Gaussian noise. A row that comes into the subset takes
the vote of the farthest of the k, so that it moves the counts by sqrt(2) in the Euclidean norm; what sampling gains is
accounted (`accounting.curves.subsampled`). The cell's own student learns from the noisy counts.

It needs somebody who sees all private rows side by side, or a secure way to find the nearest of them: the guarantee is
towards those who see what is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.accounting.curves.subsampled import subsampled_sigma
from consilium.accounting.units import Unit
from consilium.models.base import Shares
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import TEST_DRAWS, Predicted, PromisedMethod
from consilium.simulations.methods.teachers import distil
from consilium.simulations.metrics import leading_metric, row_scores
from consilium.simulations.vote import Ensemble

SHARES = (0.02, 0.05, 0.15, 0.5)
"""What q may be."""
NEIGHBOURS = (10, 30, 100, 300)
"""What k may be."""
_DRAWS = 5
MOST_PAIRS = 200_000_000
"""Public rows times private ones: of so many all distances take a minute."""
_AT_ONCE = 4_000_000
_PURPOSE = 0x6B6E6E


class PrivateKNN(PromisedMethod):
    """Private-kNN. q and k are chosen on the true labels of the public rows that are asked, at no charge, which speaks
    for the rival; these rows judge nobody.

    Judged on the test rows as the mean over draws of the noise; at home, and as `Predicted.test`, it is the first draw.
    figures: epsilon, delta, rows, share (q), neighbours (k), noise_deviation (of a count).
    """

    title: ClassVar[str] = "private kNN"
    needs_ensemble: ClassVar[bool] = False

    name: Literal["private_knn"] = "private_knn"
    rows: int | None = Field(default=None, ge=1, description="public rows asked, by lot; left out: as a run asks")

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        budget = {"queries": case.config.query_budget.queries} if self.rows is None else {}
        return {**super().depends_on(case), **budget, "student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`. Absent where nothing finite is promised, of another unit, and of too many rows."""
        promise, schema = self.guarantee(case), case.config.rows
        if promise is None or promise.epsilon <= 0:
            return Predicted(absent="the run promises no epsilon that private kNN could keep")
        if promise.unit is not Unit.RECORD:
            return Predicted(
                absent=f"private kNN is accounted for a record alone, and the unit is {promise.unit.value}"
            )
        generator = np.random.default_rng([case.seed, _PURPOSE])
        count = min(self.rows or case.config.query_budget.queries, len(case.pool_y))
        places = np.sort(generator.permutation(len(case.pool_y))[:count])
        parts = [case.train_rows(party) for party in case.parties]
        x, y = np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
        if len(x) * count > MOST_PAIRS:
            return Predicted(
                absent=f"public x private rows are {len(x) * count:,}, above the {MOST_PAIRS:,} it is run on"
            )
        voters = _Voters(schema.inputs(x), np.eye(len(case.classes))[y], schema.inputs(case.pool_x[places]))
        metric, truth = leading_metric(case.pool_y[places], len(case.classes)), case.pool_y[places]
        best, most, chosen = list[Shares](), -math.inf, (0.0, 0, 0.0)
        for q in SHARES:
            scale = math.sqrt(2) * subsampled_sigma(q, count, promise.neighbouring, promise.epsilon, promise.delta)
            neighbours = [k for k in NEIGHBOURS if k <= max(q * len(x), NEIGHBOURS[0])]
            drawn = [voters.counts(q, neighbours, generator) for _ in range(_DRAWS)]
            noise = scale * generator.standard_normal((_DRAWS, count, len(case.classes)))
            for place, k in enumerate(neighbours):
                noisy = [(counts[place] + draw) / k for counts, draw in zip(drawn, noise, strict=True)]
                reached = float(np.mean([row_scores(shares, truth, metric).mean() for shares in noisy]))
                if reached > most:
                    most, chosen = reached, (q, k, scale)
                    best = [Shares(shares, np.full(count, scale / k)) for shares in noisy]
        predicted = [distil(case, places, shares) for shares in best]
        test, home = predicted[0]
        q, k, scale = chosen
        figures = {"epsilon": promise.epsilon, "delta": promise.delta, "rows": float(count), "share": q}
        return Predicted(
            test=test,
            home=home,
            figures={**figures, "neighbours": float(k), "noise_deviation": scale},
            arrays={} if test is None else {TEST_DRAWS: np.stack([of for of, _ in predicted if of is not None])},
        )


@dataclass(frozen=True)
class _Voters:
    """x: float (rows, inputs), all private rows. votes: float64 (rows, classes), one-hot. queries: (m, inputs)."""

    x: np.ndarray = field(repr=False)
    votes: np.ndarray = field(repr=False)
    queries: np.ndarray = field(repr=False)

    def counts(self, share: float, neighbours: list[int], generator: np.random.Generator) -> np.ndarray:
        """Votes of the nearest of a fresh subset for each query: float64 (neighbours, m, classes)."""
        rows, count = len(self.x), len(self.queries)
        lengths = (self.x**2).sum(axis=1)
        counts = np.zeros((len(neighbours), count, self.votes.shape[1]))
        step, most = max(1, _AT_ONCE // rows), min(neighbours[-1], rows)
        for start in range(0, count, step):
            part = self.queries[start : start + step]
            # Equal distances in the order of the rows, so that one that comes takes one place and moves no other.
            distances = np.round(lengths - 2 * part @ self.x.T, 5)
            distances[generator.random(distances.shape) >= share] = np.inf
            nearest = np.argsort(distances, axis=1, kind="stable")[:, :most]
            voting = np.isfinite(np.take_along_axis(distances, nearest, axis=1))
            summed = np.cumsum(self.votes[nearest] * voting[:, :, None], axis=1)
            for place, k in enumerate(neighbours):
                counts[place, start : start + step] = summed[:, min(k, most) - 1]
        return counts
