"""The rival that averages models round after round: Flower's FedAvg, in this process, private if asked. Nothing is
evaluated at the parties: that would leave them in plaintext, outside of any guarantee.

With privacy Flower's wrapper clips each party's update to Euclidean norm C, averages n of them, and adds noise of
deviation z C / n to each number, z the noise multiplier (McMahan et al. 2018, arXiv 1710.06963, algorithm 1). With
equal weights and n public, a party that is replaced moves the average by 2 C / n, and one that gives nothing, 0 in
place of its update, by C / n: see `StatedGuarantee.noise_multiplier`. All parties take part in every round."""

from __future__ import annotations

import itertools
import logging
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, Strategy
from pydantic import Field, model_validator

from consilium.accounting.units import Unit
from consilium.coordinator.privacy import promised
from consilium.models.evaluation import leading_metric, row_scores
from consilium.protocol.errors import EngineError
from consilium.simulations.divide import Case
from consilium.simulations.engines.flower import (
    COORDINATOR_NODE,
    FIRST_NODE,
    RUN_ID,
    NodesGrid,
    answered,
    assign_message_id,
    assume_identity,
)
from consilium.simulations.methods.base import Predicted, StatedGuarantee, StudyMethod, linear_probabilities
from consilium.simulations.vote import Ensemble

LEARNING_RATES = (0.01, 0.05, 0.2, 1.0)  # what the learning rate may be where none is set
CLIPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # what the norm C may be where none is set
ROUNDS = 20  # how many where none are set
PRIVATE_ROUNDS = (5, 10, ROUNDS)
"""How many there may be with `epsilon`: each has noise of its own, so that more are not always better."""
_LEAST_CHANGE = 1e-12
_ROUND, _FLOWERS, _WORD = 0x726F756E64, 0x666C6F77, 2**32
DIVERGED = 500  # error code of an answer without a model; those below 400 or so are Flower's own

Rows = tuple[np.ndarray, np.ndarray]
"""One party's own: inputs float32 (n, inputs), and classes int64 (n,); n is 1 at least."""


class LocalTraining(NamedTuple):
    """rate: of plain gradient steps, without momentum. rounds: of training and averaging. clip: C, to which the server
    clips where it adds noise. batch: rows of a step. epochs: passes over the rows in a round, each in an order by lot,
    its last batch as small as it happens to be."""

    rate: float
    rounds: int
    clip: float = 0.0
    batch: int = 32
    epochs: int = 1


def gradient(model: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the mean cross-entropy of softmax regression: float64 (inputs + 1, classes), like the model, the bias last. x:
    float64 (n, inputs); y: classes int64 (n,)."""
    error = linear_probabilities(x, model)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    return np.vstack([x.T @ error, error.sum(axis=0)])


def train_locally(start: np.ndarray, rows: Rows, training: LocalTraining, generator: np.random.Generator) -> np.ndarray:
    """The party's model float64 (inputs + 1, classes) after one round from `start`; not finite where it diverged."""
    model, x, y = start.copy(), rows[0].astype(np.float64), rows[1]
    with np.errstate(all="ignore"):  # whoever asked looks at what comes out
        for _ in range(training.epochs):
            order = generator.permutation(len(x))
            for first in range(0, len(x), training.batch):
                chosen = order[first : first + training.batch]
                model -= training.rate * gradient(model, x[chosen], y[chosen])
    return model


def party_app(parties: Sequence[Rows], training: LocalTraining, seed: int, *, private: bool) -> ClientApp:
    """The app of node `partition-id`, which is an index into `parties`. private: every party counts the same, and
    answers whatever happens: with the model that it was given, where its training diverged. Otherwise it counts by its
    rows, and answers with an error then."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        start = message.content.array_records["arrays"].to_numpy_ndarrays()[0]
        index = int(context.node_config["partition-id"])
        number: Any = message.content.config_records["config"]["server-round"]
        model = train_locally(start, parties[index], training, np.random.default_rng([_ROUND, seed, index, number]))
        if not np.isfinite(model).all():
            if not private:
                return Message(Error(code=DIVERGED, reason="training diverged"), reply_to=message)
            model = start.copy()
        if private and (model == start).all():
            # Flower divides by the length of the update: 0 would end the whole run
            model.flat[np.abs(model).argmin()] += _LEAST_CHANGE
        weight = MetricRecord({"num-examples": 1 if private else len(parties[index][1])})
        return Message(RecordDict({"arrays": ArrayRecord([model]), "metrics": weight}), reply_to=message)

    return app


class InProcessGrid(NodesGrid):
    """`parties` nodes in this process. left_out: indices of those that answered with an error at least once."""

    def __init__(self, app: ClientApp, parties: int) -> None:
        super().__init__(parties)
        self._app = app
        self.left_out: set[int] = set()
        assume_identity(RUN_ID, COORDINATOR_NODE)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError("parties in this process answer at once")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError("parties in this process answer at once")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See flwr.serverapp.Grid; the answers come in the order of the messages, however long they take."""
        replies = []
        for message in messages:
            assign_message_id(message)
            replies.append(answered(self._app, message))
            if replies[-1].has_error():
                self.left_out.add(message.metadata.dst_node_id - FIRST_NODE)
        assume_identity(RUN_ID, COORDINATOR_NODE)
        return replies


def federate(
    parties: Sequence[Rows], classes: int, training: LocalTraining, seed: int, promise: StatedGuarantee | None = None
) -> tuple[np.ndarray | None, tuple[int, ...]]:
    """Train one softmax regression on the parties' rows, from zeros: the last average float64 (inputs + 1, classes),
    None where no round gave one; and indices of the parties that were missing in a round because their training
    diverged. promise: what all rounds may cost together, a whole party as the unit. Deterministic in its arguments,
    noise included. For simulations: Flower draws its noise as floating-point Gaussians from numpy's generator, and a
    deployment would need better (Mironov 2012)."""
    grid = InProcessGrid(party_app(parties, training, seed, private=promise is not None), len(parties))
    start = np.zeros((parties[0][0].shape[1] + 1, classes))
    with _seeded_and_quiet(seed):
        strategy: Strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=len(parties)
        )
        if promise is not None:
            noise = promise.noise_multiplier(training.rounds)
            strategy = DifferentialPrivacyServerSideFixedClipping(strategy, noise, training.clip, len(parties))
        result = strategy.start(grid, ArrayRecord([start]), num_rounds=training.rounds)
    if promise is not None and grid.left_out:  # an average of fewer moves further than its noise covers
        raise EngineError(f"{len(grid.left_out)} parties did not answer a round of private averaging")
    model = result.arrays.to_numpy_ndarrays()[0] if result.train_metrics_clientapp else None
    return model, tuple(sorted(grid.left_out))


@contextmanager
def _seeded_and_quiet(seed: int) -> Iterator[None]:
    """Flower draws from the global generators, and says every round on stderr: seeded for a while, then as it was."""
    log = logging.getLogger("flwr")
    python, arrays, level = random.getstate(), np.random.get_state(), log.level  # noqa: NPY002
    random.seed(seed ^ _FLOWERS)
    np.random.set_state(np.random.RandomState([seed % _WORD, seed // _WORD, _FLOWERS]).get_state())  # noqa: NPY002
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        log.setLevel(level)


class FedAvgMethod(StudyMethod):
    """Federated averaging (McMahan et al. 2017, arXiv 1602.05629) by Flower's FedAvg: parties count by their rows, or
    all the same where it is private. The model is softmax regression on the schema's inputs. Learning rate, and with
    `epsilon` rounds and clipping norm, are those that do best on the true labels of the pool, which judges nobody, at
    no charge: they speak for the rival. The learning rate is chosen without privacy, then the others with the noise
    that they bring. `epsilon` is for whole parties whatever unit the federation's own promise has: for that unit there
    is `private_gradient`."""

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

    def guarantee(self, case: Case) -> StatedGuarantee | None:
        """For a whole party, the one unit that private averaging is accounted for."""
        epsilon = promised(case.config).epsilon if self.epsilon == "federation" else float(self.epsilon or 0)
        if not 0 < epsilon < math.inf:
            return None
        return StatedGuarantee(epsilon, case.config.privacy.delta, Unit.PARTY, case.config.privacy.neighbouring)

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        promise, figures = self.guarantee(case), dict[str, float]()
        if self.epsilon is not None and promise is None:
            return Predicted(absent="the federation promises no epsilon that private averaging could keep")
        inputs, classes = case.config.rows.inputs, len(case.classes)
        rows = [case.train_rows(party) for party in case.parties]
        parties = [(inputs(x).astype(np.float32), y) for x, y in rows]
        pool, metric = inputs(case.pool_x), leading_metric(case.pool_y, classes)
        own = {"batch": self.batch, "epochs": self.local_epochs}

        def best(trials: Sequence[LocalTraining], promise: StatedGuarantee | None) -> LocalTraining:
            """The first of those whose model does best on the pool."""
            reached = []
            for trial in trials if len(trials) > 1 else ():
                model, _ = federate(parties, classes, trial, case.seed, promise)
                model = np.zeros((pool.shape[1] + 1, classes)) if model is None else model
                reached.append(row_scores(linear_probabilities(pool, model), case.pool_y, metric).mean())
            return trials[int(np.argmax(reached)) if reached else 0]

        rates = LEARNING_RATES if self.learning_rate is None else (self.learning_rate,)
        chosen = best([LocalTraining(rate, self.rounds or ROUNDS, **own) for rate in rates], None)
        if promise is not None:
            counts = PRIVATE_ROUNDS if self.rounds is None else (self.rounds,)
            pairs = itertools.product(counts, CLIPS if self.clip is None else (self.clip,))
            chosen = best([LocalTraining(chosen.rate, *pair, **own) for pair in pairs], promise)
            figures = {"epsilon": promise.epsilon, "delta": promise.delta, "clip": chosen.clip}
        model, left_out = federate(parties, classes, chosen, case.seed, promise)
        if model is None:
            return Predicted(absent="no round gave a model: training failed at every party")
        figures |= {"rounds": chosen.rounds, "learning_rate": chosen.rate, "parties": len(case.parties)}
        figures |= {"parties_left_out": len(left_out)}
        return Predicted(
            test=linear_probabilities(inputs(case.test_x), model) if len(case.test_y) else None,
            home=linear_probabilities(inputs(case.home_x), model) if len(case.home_y) else None,
            figures=figures,
        )
