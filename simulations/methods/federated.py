"""The rival that averages models round after round: Flower's FedAvg, private if asked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from consilium.accounting.units import Unit
from consilium.coordinator.privacy import promised
from consilium.models.evaluation import leading_metric, row_scores
from consilium.simulations.divide import Case
from consilium.simulations.methods.averaging import Federated, LocalTraining, PartyPrivacy, TrainingRows, federate
from consilium.simulations.methods.base import Predicted, StatedGuarantee, StudyMethod, linear_probabilities
from consilium.simulations.vote import Ensemble

LEARNING_RATES = (0.01, 0.05, 0.2, 1.0)
"""What the learning rate may be where none is set."""
CLIPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""What the norm C may be where none is set."""
ROUNDS = 20
"""How many where none are set."""
PRIVATE_ROUNDS = (5, 10, ROUNDS)
"""How many there may be with `epsilon`: each has noise of its own, so that more are not always better."""


class FedAvgMethod(StudyMethod):
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629) by Flower's FedAvg: parties count by their rows, or
    all the same where it is private.

    The model is softmax regression on the schema's inputs. Learning rate, and with `epsilon` rounds and clipping norm,
    are those that do best on the true labels of the pool, which judges nobody, at no charge: they speak for the rival.
    The learning rate is chosen without privacy, then the others with the noise that they bring. `epsilon` is for whole
    parties whatever unit the federation's own promise has: for that unit there is `private_gradient`.
    """

    needs_ensemble: ClassVar[bool] = False

    name: Literal["fedavg"] = "fedavg"
    rounds: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description=f"of local training and averaging; left out: {ROUNDS}, with `epsilon` the best of"
        f" {', '.join(map(str, PRIVATE_ROUNDS))} on the pool's true labels",
    )
    local_epochs: int = Field(default=1, ge=1, le=1000, description="passes over a party's rows in a round")
    batch: int = Field(default=32, ge=1, description="rows of one gradient step")
    learning_rate: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="left out: chosen on the pool's true labels"
    )
    epsilon: float | Literal["federation"] | None = Field(
        default=None,
        description="what all rounds may cost together, a whole party as the unit, at the federation's delta and"
        ' relation; "federation": what the federation promises; left out: no privacy',
    )
    clip: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="with `epsilon`, longest update of a party (Euclidean); left out: chosen on the pool's labels",
    )

    @model_validator(mode="after")
    def _privacy_is_whole(self) -> FedAvgMethod:
        if self.epsilon is None and self.clip is not None:
            raise ValueError("clip is for private averaging: set epsilon, or leave it out")
        if isinstance(self.epsilon, float) and not 0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon {self.epsilon} must be finite and above 0; leave it out for no privacy")
        return self

    @property
    def private(self) -> bool:
        """Whether `epsilon` is set."""
        return self.epsilon is not None

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """See `StudyMethod.guarantee`: for a whole party, the one unit that private averaging is accounted for."""
        epsilon, privacy = self._epsilon(case), case.config.privacy
        if not 0 < epsilon < math.inf:
            return None
        return StatedGuarantee(epsilon, privacy.delta, Unit.PARTY, privacy.neighbouring)

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        promise, figures = self.guarantee(case), dict[str, float]()
        if self.private and promise is None:
            return Predicted(absent="the federation promises no epsilon that private averaging could keep")
        inputs, classes = case.config.rows.inputs, len(case.classes)
        rows = [case.train_rows(party) for party in case.parties]
        parties = [TrainingRows(inputs(x).astype(np.float32), y) for x, y in rows]
        pool, metric = inputs(case.pool_x), leading_metric(case.pool_y, classes)

        def federated(trial: Trial) -> Federated:
            training = LocalTraining(trial.learning_rate, self.batch, self.local_epochs)
            return federate(parties, classes, training, trial.rounds, case.seed, trial.privacy)

        def best(trials: Sequence[Trial]) -> Trial:
            """The first of those whose model does best on the pool."""
            if len(trials) == 1:
                return trials[0]
            models = [linear_probabilities(pool, federated(trial).model) for trial in trials]
            return trials[int(np.argmax([row_scores(model, case.pool_y, metric).mean() for model in models]))]

        rates = LEARNING_RATES if self.learning_rate is None else (self.learning_rate,)
        chosen = best([Trial(rate, self.rounds or ROUNDS) for rate in rates])
        if promise is not None:
            counts = PRIVATE_ROUNDS if self.rounds is None else (self.rounds,)
            clips = CLIPS if self.clip is None else (self.clip,)
            pairs = itertools.product(counts, clips)
            chosen = best([Trial(chosen.learning_rate, count, PartyPrivacy(promise, clip)) for count, clip in pairs])
            figures = {"epsilon": promise.epsilon, "delta": promise.delta}
            figures["clip"] = chosen.privacy.clip if chosen.privacy else 0.0
        result = federated(chosen)
        if not result.rounds:
            return Predicted(absent="no round gave a model: training failed at every party")
        figures |= {"rounds": result.rounds, "learning_rate": chosen.learning_rate, "parties": len(case.parties)}
        figures |= {"parties_left_out": len(result.left_out)}
        return Predicted(
            test=linear_probabilities(inputs(case.test_x), result.model) if len(case.test_y) else None,
            home=linear_probabilities(inputs(case.home_x), result.model) if len(case.home_y) else None,
            figures=figures,
        )

    def _epsilon(self, case: Case) -> float:
        return promised(case.config).epsilon if self.epsilon == "federation" else float(self.epsilon or 0)


class Trial(NamedTuple):
    """What is tried."""

    learning_rate: float
    rounds: int
    privacy: PartyPrivacy | None = None
