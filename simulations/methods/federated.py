"""The rival that averages models round after round: Flower's FedAvg, private if asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from consilium.accounting.units import Unit
from consilium.coordinator.privacy import promised
from consilium.simulations.divide import Case
from consilium.simulations.methods.averaging import (
    AveragedNetwork,
    Federated,
    LocalTraining,
    Rounds,
    TrainingRows,
    federate,
)
from consilium.simulations.methods.averaging_privacy import PartyPrivacy
from consilium.simulations.methods.base import Predicted, StatedGuarantee, StudyMethod
from consilium.simulations.metrics import leading_metric, row_scores
from consilium.simulations.vote import Ensemble

LEARNING_RATES = (0.01, 0.05, 0.2, 1.0)
"""What the learning rate may be where none is set."""
CLIPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""What the norm C may be where none is set."""
ROUNDS = 20
"""How many where none are set."""
PRIVATE_ROUNDS = (5, 10, ROUNDS)
"""How many there may be with `epsilon`: each has noise of its own, so that more are not always better."""


class Trial(NamedTuple):
    """What is tried: a learning rate, and a promise with its norm."""

    learning_rate: float
    privacy: PartyPrivacy | None = None


class FedAvgMethod(StudyMethod):
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629) by Flower's FedAvg: parties count by their rows, or
    all the same where it is private.

    The model is softmax regression on the schema's inputs, or a network with one hidden layer. Learning rate, and with
    `epsilon` rounds and clipping norm, are those that do best on the true labels of the pool, which judges nobody, at
    no charge: they speak for the rival. The learning rate is chosen without privacy, then the others with the noise
    that they bring. `epsilon` is for whole parties whatever unit the federation's own promise has: for that unit there
    is `private_gradient`.
    """

    title: ClassVar[str] = "federated averaging"
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
    hidden: int = Field(default=0, ge=0, le=4096, description="units of a hidden layer; 0 for softmax regression")
    fraction: float = Field(default=1.0, gt=0, le=1, description="of the parties in each round; 1 with `epsilon`")
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
        if self.epsilon is None:
            if self.clip is not None:
                raise ValueError("clip is for private averaging: set epsilon, or leave it out")
            return self
        if self.epsilon != "federation" and not 0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon {self.epsilon} must be finite and above 0; leave it out for no privacy")
        if self.fraction < 1:
            raise ValueError(f"with epsilon all parties are in every round: fraction must be 1, not {self.fraction}")
        return self

    @property
    def private(self) -> bool:
        """Whether `epsilon` is set."""
        return self.epsilon is not None

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """See `StudyMethod.guarantee`: for a whole party, the one unit that private averaging is accounted for."""
        epsilon, privacy = self._epsilon(case), case.config.privacy
        if not self.private or not 0 < epsilon < math.inf:
            return None
        return StatedGuarantee(epsilon, privacy.delta, Unit.PARTY, privacy.neighbouring)

    def depends_on(self, case: Case) -> dict[str, Any]:
        """See `StudyMethod.depends_on`: the terms of the guarantee, if there is one."""
        if self.epsilon is None:
            return {}
        privacy = case.config.privacy
        return {
            "epsilon": repr(self._epsilon(case)),
            "delta": privacy.delta,
            "neighbouring": privacy.neighbouring.value,
        }

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """See `StudyMethod.predict`."""
        stated = self.guarantee(case)
        if self.private and stated is None:
            return Predicted(absent="the federation promises no epsilon that private averaging could keep")
        privacy, rounds = None, self.rounds or ROUNDS
        rates = LEARNING_RATES if self.learning_rate is None else (self.learning_rate,)
        setting = AveragingSetting.of(case, self)
        rate = setting.best([Trial(rate) for rate in rates], (rounds,))[0].learning_rate
        figures = dict[str, float]()
        if stated is not None:
            clips = CLIPS if self.clip is None else (self.clip,)
            terms = (stated.epsilon, stated.delta, stated.neighbouring)
            trials = [Trial(rate, PartyPrivacy(*terms, clip)) for clip in clips]
            trial, rounds = setting.best(trials, PRIVATE_ROUNDS if self.rounds is None else (rounds,))
            privacy = trial.privacy
            figures |= {"delta": stated.delta, "clip": 0.0 if privacy is None else privacy.clip}
        result = setting.federated(rate, privacy, rounds)
        if not result.rounds:
            return Predicted(absent="no round gave a model: training failed at every party")
        if result.epsilon is not None:
            figures["epsilon"] = result.epsilon
        figures |= {"rounds": result.rounds, "learning_rate": rate, "parties": len(case.parties)}
        figures |= {"parties_left_out": len(result.left_out)}
        inputs, network = case.config.rows.inputs, setting.network
        return Predicted(
            test=network.probabilities(result.model, inputs(case.test_x)) if len(case.test_y) else None,
            home=network.probabilities(result.model, inputs(case.home_x)) if len(case.home_y) else None,
            figures=figures,
        )

    def _epsilon(self, case: Case) -> float:
        return promised(case.config).epsilon if self.epsilon == "federation" else float(self.epsilon or 0)


@dataclass(frozen=True)
class AveragingSetting:
    """A case as averaging takes it."""

    method: FedAvgMethod
    parties: list[TrainingRows]
    network: AveragedNetwork
    pool_x: np.ndarray
    pool_y: np.ndarray
    seed: int

    @classmethod
    def of(cls, case: Case, method: FedAvgMethod) -> AveragingSetting:
        schema, parties = case.config.rows, []
        for party in case.parties:
            x, y = case.train_rows(party)
            parties.append(TrainingRows(schema.inputs(x).astype(np.float32), y))
        pool_x = schema.inputs(case.pool_x)
        network = AveragedNetwork.of(pool_x.shape[1], len(case.classes), method.hidden)
        return cls(method, parties, network, pool_x, case.pool_y, case.seed)

    def best(self, trials: Sequence[Trial], counts: Sequence[int]) -> tuple[Trial, int]:
        """The first of those whose model does best on the pool, and after how many rounds."""
        pairs = [(trial, count) for count in counts for trial in trials]
        if len(pairs) == 1:
            return pairs[0]
        scores = [self._on_the_pool(self.federated(*trial, count).model) for trial, count in pairs]
        return pairs[int(np.argmax(scores))]

    def federated(self, rate: float, privacy: PartyPrivacy | None, rounds: int) -> Federated:
        """The same by Flower's strategy."""
        training = LocalTraining(rate, self.method.batch, self.method.local_epochs)
        plan = Rounds(rounds, self.method.fraction)
        return federate(self.parties, self.network, training, plan, self.seed, privacy)

    def _on_the_pool(self, model: np.ndarray) -> float:
        metric = leading_metric(self.pool_y, self.network.widths[-1])
        return float(row_scores(self.network.probabilities(model, self.pool_x), self.pool_y, metric).mean())
