"""The rivals that average models round after round: Flower's FedAvg and FedProx, private if asked, and what a party may
make of the average at home: the average trained on (fine-tuned), or a model of its own held near it (Ditto)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from consilium.accounting.units import Unit
from consilium.coordinator.privacy import promised_to_student
from consilium.simulations.divide import Case
from consilium.simulations.methods.averaging import (
    AveragedNetwork,
    Federated,
    LocalTraining,
    Rounds,
    TrainingRows,
    federate,
    generator_of,
    train_locally,
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
PROXIMAL = (0.001, 0.01, 0.1, 1.0)
"""What FedProx's mu may be where none is set, as its authors searched it."""


class Trial(NamedTuple):
    """What is tried: a learning rate, and a promise with its norm."""

    learning_rate: float
    privacy: PartyPrivacy | None = None


class Personal(NamedTuple):
    """What a party does to the average at home: passes over its rows, and the weight of half the squared distance from
    the average in its loss."""

    epochs: int
    proximal_mu: float


AT_HOME: dict[str, tuple[Personal, ...]] = {
    "no": (Personal(0, 0.0),),
    "fine_tuned": (Personal(0, 0.0), Personal(1, 0.0), Personal(5, 0.0), Personal(20, 0.0)),
    "ditto": (Personal(20, 5.0), Personal(20, 1.0), Personal(20, 0.2), Personal(20, 0.05)),
}
"""By `FederatedMethod.personal`; the best one for all parties is chosen by halves of their own rows."""


class FederatedMethod(StudyMethod):
    """What FedAvg and FedProx have in common.

    The model is softmax regression on the schema's inputs, or a network with one hidden layer. Learning rate, and with
    `epsilon` rounds and clipping norm, are those that do best on the true labels of the pool, which judges nobody, at
    no charge: they speak for the rival. The learning rate is chosen without privacy, then the others with the noise
    that they bring. `epsilon` is for whole parties whatever unit the federation's own promise has: for that unit there
    is `private_gradient`.

    With `personal` a party judges itself by a model of its own at home, which nobody else sees; how it is made is the
    same for all, chosen by halves: trained on one half of each party's rows, and judged by the log loss of the other.
    """

    needs_ensemble: ClassVar[bool] = False
    format: ClassVar[int] = 2

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
    personal: Literal["no", "fine_tuned", "ditto"] = Field(
        default="no",
        description="what parties use at home: the average, the average trained on (`fine_tuned`), or a model of their"
        " own held near it (`ditto`, Li et al. 2021)",
    )

    @model_validator(mode="after")
    def _privacy_is_whole(self) -> FederatedMethod:
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

    def plan(self, rounds: int) -> Rounds:
        """Flower's strategy and its rounds."""
        raise NotImplementedError

    @property
    def own_figures(self) -> dict[str, float]:
        """Figures of keys that only this kind has."""
        return {}

    @property
    def variants(self) -> tuple[Self, ...]:
        """The method with each value of what is chosen beside the learning rate, without privacy."""
        return (self,)

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
        settings, tried = (
            [AveragingSetting.of(case, variant) for variant in self.variants],
            [Trial(rate) for rate in rates],
        )
        several = len(settings) > 1
        bests = [(setting, *setting.best(tried, (rounds,), several)) for setting in settings]
        setting, trial, _, _ = max(bests, key=lambda item: item[-1])
        rate, figures = trial.learning_rate, setting.method.own_figures
        if stated is not None:
            clips = CLIPS if self.clip is None else (self.clip,)
            terms = (stated.epsilon, stated.delta, stated.neighbouring)
            trials = [Trial(rate, PartyPrivacy(*terms, clip)) for clip in clips]
            trial, rounds, _ = setting.best(trials, PRIVATE_ROUNDS if self.rounds is None else (rounds,))
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
        home = None
        if len(case.home_y):
            personal, models = setting.personal(result.model, rate)
            if self.personal != "no":
                figures |= {"home_epochs": personal.epochs, "home_proximal_mu": personal.proximal_mu}
            home_x, of = inputs(case.home_x), case.home_party
            home = np.concatenate(
                [network.probabilities(models[party], home_x[of == party]) for party in np.unique(of)]
            )
        return Predicted(
            network.probabilities(result.model, inputs(case.test_x)) if len(case.test_y) else None, home, figures
        )

    def _epsilon(self, case: Case) -> float:
        return promised_to_student(case.config).epsilon if self.epsilon == "federation" else float(self.epsilon or 0)


_HOME = 0x686F6D65


@dataclass(frozen=True)
class AveragingSetting:
    """A case as averaging takes it."""

    method: FederatedMethod
    parties: list[TrainingRows]
    network: AveragedNetwork
    pool_x: np.ndarray
    pool_y: np.ndarray
    seed: int

    @classmethod
    def of(cls, case: Case, method: FederatedMethod) -> AveragingSetting:
        schema, parties = case.config.rows, []
        for party in case.parties:
            x, y = case.train_rows(party)
            parties.append(TrainingRows(schema.inputs(x).astype(np.float32), y))
        pool_x = schema.inputs(case.pool_x)
        network = AveragedNetwork.of(pool_x.shape[1], len(case.classes), method.hidden)
        return cls(method, parties, network, pool_x, case.pool_y, case.seed)

    def best(self, trials: Sequence[Trial], counts: Sequence[int], judged: bool = False) -> tuple[Trial, int, float]:
        """The first of those whose model does best on the pool, after how many rounds, and how well; NaN of a single
        one, unless it is to be `judged`."""
        pairs = [(trial, count) for count in counts for trial in trials]
        if len(pairs) == 1 and not judged:
            return *pairs[0], math.nan
        scores = [self._on_the_pool(self.federated(*trial, count).model) for trial, count in pairs]
        first = int(np.argmax(scores))
        return *pairs[first], scores[first]

    def federated(self, rate: float, privacy: PartyPrivacy | None, rounds: int) -> Federated:
        """The same by Flower's strategy."""
        plan = self.method.plan(rounds)
        return federate(self.parties, self.network, self._training(rate), plan, self.seed, privacy)

    def personal(self, model: np.ndarray, rate: float) -> tuple[Personal, list[np.ndarray]]:
        """What is done at home to the average `model`, and each party's model float64 (size,)."""
        ways = AT_HOME[self.method.personal]
        losses = [self._loss_of_halves(model, rate, way) for way in ways] if len(ways) > 1 else [0.0]
        way = ways[int(np.argmin(losses))]
        return way, [self._at_home(model, rate, way, rows, (index, 0)) for index, rows in enumerate(self.parties)]

    def _at_home(
        self, model: np.ndarray, rate: float, way: Personal, rows: TrainingRows, lots: tuple[int, int]
    ) -> np.ndarray:
        """The average where it trains no further, or its training diverges."""
        if not way.epochs:
            return model
        training = LocalTraining(rate, self.method.batch, way.epochs)
        lot = generator_of((self.seed, _HOME, *lots))
        trained = train_locally(self.network, model, rows, training, way.proximal_mu, lot)
        return trained if np.isfinite(trained).all() else model

    def _loss_of_halves(self, model: np.ndarray, rate: float, way: Personal) -> float:
        """Sum of the log losses of all parties' rows, each by a model of the other half of its party's."""
        total = 0.0
        for index, rows in enumerate(self.parties):
            order = np.random.default_rng([self.seed, _HOME, index]).permutation(len(rows.y))
            for half, (learned, judged) in enumerate(((order[::2], order[1::2]), (order[1::2], order[::2]))):
                if not len(judged):
                    continue
                part = TrainingRows(rows.x[learned], rows.y[learned])
                trained = self._at_home(model, rate, way, part, (index, 1 + half)) if len(learned) else model
                likely = self.network.probabilities(trained, rows.x[judged])[np.arange(len(judged)), rows.y[judged]]
                total -= float(np.log(np.maximum(likely, 1e-12)).sum())
        return total

    def _training(self, rate: float) -> LocalTraining:
        return LocalTraining(rate, self.method.batch, self.method.local_epochs)

    def _on_the_pool(self, model: np.ndarray) -> float:
        metric = leading_metric(self.pool_y, self.network.widths[-1])
        return float(row_scores(self.network.probabilities(model, self.pool_x), self.pool_y, metric).mean())


class FedAvgMethod(FederatedMethod):
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629) by Flower's FedAvg: parties count by their rows, or
    all the same where it is private."""

    title: ClassVar[str] = "federated averaging"

    name: Literal["fedavg"] = "fedavg"

    def plan(self, rounds: int) -> Rounds:
        """Flower's FedAvg."""
        return Rounds(rounds, self.fraction)


class FedProxMethod(FederatedMethod):
    """The same with a proximal term in each party's loss (Li et al. 2020, arXiv 1812.06127) by Flower's FedProx."""

    title: ClassVar[str] = "federated averaging, proximal"

    name: Literal["fedprox"] = "fedprox"
    format: ClassVar[int] = 3
    proximal_mu: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="weight of the proximal term; 0 is `fedavg`; left out: chosen on the pool's true labels",
    )

    @property
    def variants(self) -> tuple[Self, ...]:
        """See `FederatedMethod.variants`: with each of `PROXIMAL`."""
        chosen = PROXIMAL if self.proximal_mu is None else (self.proximal_mu,)
        return tuple(self.model_copy(update={"proximal_mu": mu}) for mu in chosen)

    @property
    def own_figures(self) -> dict[str, float]:
        """See `FederatedMethod.own_figures`."""
        return {"proximal_mu": float(self.proximal_mu or 0.0)}

    def plan(self, rounds: int) -> Rounds:
        """Flower's FedProx."""
        return Rounds(rounds, self.fraction, self.proximal_mu)
