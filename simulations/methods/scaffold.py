"""The rival that corrects local steps for how far parties differ: SCAFFOLD.

Karimireddy et al. 2020, arXiv 1910.06378, Algorithm 1 with option II: each party has a control variate, the direction
in which its own steps would drift, and takes it out of them. All parties are in every round and count by their rows.
Flower has no such strategy, so that rounds are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from consilium.simulations.divide import Case
from consilium.simulations.methods.averaging import (
    AveragedNetwork,
    LocalTraining,
    TrainingRows,
    generator_of,
    train_locally,
)
from consilium.simulations.methods.base import Predicted, StudyMethod
from consilium.simulations.methods.federated import LEARNING_RATES, ROUNDS
from consilium.simulations.metrics import leading_metric, row_scores
from consilium.simulations.vote import Ensemble


def scaffold(
    parties: Sequence[TrainingRows], network: AveragedNetwork, training: LocalTraining, rounds: int, seed: int
) -> np.ndarray:
    """The server's model float64 (size,) after so many rounds; not finite where a party diverged."""
    counts = np.array([len(rows.y) for rows in parties], dtype=np.float64)
    weights = counts / counts.sum()
    steps = training.epochs * -(-counts // training.batch)
    model = network.initial(seed)
    variates = np.zeros((len(parties), network.size))
    for number in range(1, rounds + 1):
        common = weights @ variates
        models = np.stack(
            [
                train_locally(
                    network, model, rows, training, 0.0, generator_of((seed, index, number)), common - variates[index]
                )
                for index, rows in enumerate(parties)
            ]
        )
        variates += (model - models) / (steps * training.learning_rate)[:, None] - common
        model = weights @ models
        if not np.isfinite(model).all():
            break
    return model


class Scaffold(StudyMethod):
    """SCAFFOLD (Karimireddy et al. 2020) of softmax regression on the schema's inputs, without privacy. The learning
    rate that is left out is the one of `federated.LEARNING_RATES` that does best on the pool's true labels."""

    title: ClassVar[str] = "SCAFFOLD"
    private: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = False

    name: Literal["scaffold"] = "scaffold"
    rounds: int = Field(default=ROUNDS, ge=1, le=10_000, description="of local training and averaging")
    local_epochs: int = Field(default=1, ge=1, le=1000, description="passes over a party's rows in a round")
    batch: int = Field(default=32, ge=1, description="rows of one gradient step")
    learning_rate: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="left out: chosen on the pool's true labels"
    )

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`."""
        return {}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        schema = case.config.rows
        parts = [case.train_rows(party) for party in case.parties]
        parties = [TrainingRows(schema.inputs(x).astype(np.float32), y) for x, y in parts]
        network = AveragedNetwork.of(parties[0].x.shape[1], len(case.classes), 0)
        pool_x, metric = schema.inputs(case.pool_x), leading_metric(case.pool_y, len(case.classes))
        best: tuple[float, float, np.ndarray | None] = (-math.inf, 0.0, None)
        for rate in LEARNING_RATES if self.learning_rate is None else (self.learning_rate,):
            model = scaffold(
                parties, network, LocalTraining(rate, self.batch, self.local_epochs), self.rounds, case.seed
            )
            if np.isfinite(model).all():
                reached = float(row_scores(network.probabilities(model, pool_x), case.pool_y, metric).mean())
                if reached > best[0]:
                    best = reached, rate, model
        _, rate, model = best
        if model is None:
            return Predicted(absent="training diverged at every learning rate that was tried")
        return Predicted(
            test=network.probabilities(model, schema.inputs(case.test_x)) if len(case.test_y) else None,
            home=network.probabilities(model, schema.inputs(case.home_x)) if len(case.home_y) else None,
            figures={"rounds": float(self.rounds), "learning_rate": rate, "parties": float(len(parties))},
        )
