"""Federated averaging by Flower's strategies, in this process: a party's part of a round, all rounds, their noise.

There is no evaluation at the parties: a study judges all methods on the same held-out rows, and what a party would
measure on its own rows would leave it in plaintext, outside of any guarantee.

With privacy Flower's wrapper clips each party's update to Euclidean norm C, averages n of them, and adds noise of
deviation z C / n to each number, z the noise multiplier (McMahan et al. 2018, arXiv 1710.06963, algorithm 1). With
equal weights and n public, a party that is replaced moves the average by 2 C / n, and one that gives nothing, 0 in
place of its update, by C / n: see `StatedGuarantee.noise_multiplier`. All parties take part in every round, so nothing
is gained by sampling.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, Strategy

from consilium.protocol.errors import EngineError
from consilium.simulations.engines.flower import (
    COORDINATOR_NODE,
    FIRST_NODE,
    RUN_ID,
    NodesGrid,
    answered,
    assign_message_id,
    assume_identity,
)
from consilium.simulations.methods.base import StatedGuarantee, linear_probabilities

_LEAST_CHANGE = 1e-12
_ROUND, _FLOWERS, _WORD = 0x726F756E64, 0x666C6F77, 2**32
DIVERGED = 500
"""Error code of an answer without a model; those below 400 or so are Flower's own."""


@dataclass(frozen=True)
class TrainingRows:
    """One party's own. x: inputs float32 (n, inputs); y: classes int64 (n,); n is 1 at least."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class LocalTraining:
    """learning_rate: of plain gradient steps, without momentum. batch: rows of a step. epochs: passes over the rows in
    a round, each in an order by lot, its last batch as small as it happens to be."""

    learning_rate: float
    batch: int = 32
    epochs: int = 1


@dataclass(frozen=True)
class PartyPrivacy:
    """What all rounds may cost together, a whole party as the unit. clip: C, to which the server clips."""

    promise: StatedGuarantee
    clip: float


def gradient(model: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of the mean cross-entropy of softmax regression: float64 (inputs + 1, classes), like the model, the bias last.

    x: float64 (n, inputs); y: classes int64 (n,).
    """
    error = linear_probabilities(x, model)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    return np.vstack([x.T @ error, error.sum(axis=0)])


def train_locally(
    start: np.ndarray, rows: TrainingRows, training: LocalTraining, generator: np.random.Generator
) -> np.ndarray:
    """The party's model float64 (inputs + 1, classes) after one round from `start`; not finite where it diverged."""
    model, x = start.copy(), rows.x.astype(np.float64)
    with np.errstate(all="ignore"):  # whoever asked looks at what comes out
        for _ in range(training.epochs):
            order = generator.permutation(len(x))
            for first in range(0, len(x), training.batch):
                chosen = order[first : first + training.batch]
                model -= training.learning_rate * gradient(model, x[chosen], rows.y[chosen])
    return model


def party_app(parties: Sequence[TrainingRows], training: LocalTraining, seed: int, *, private: bool) -> ClientApp:
    """The app of node `partition-id`, which is an index into `parties`.

    private: every party counts the same, and answers whatever happens: with the model that it was given, where its
    training diverged. Otherwise it counts by its rows, and answers with an error then.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        start = message.content.array_records["arrays"].to_numpy_ndarrays()[0]
        index = int(context.node_config["partition-id"])
        number: Any = message.content.config_records["config"]["server-round"]
        rows = parties[index]
        model = train_locally(start, rows, training, np.random.default_rng([_ROUND, seed, index, number]))
        if not np.isfinite(model).all():
            if not private:
                return Message(Error(code=DIVERGED, reason="training diverged"), reply_to=message)
            model = start.copy()
        if private and (model == start).all():
            # Flower divides by the length of the update: 0 would end the whole run
            model.flat[np.abs(model).argmin()] += _LEAST_CHANGE
        weight = MetricRecord({"num-examples": 1 if private else len(rows.y)})
        return Message(RecordDict({"arrays": ArrayRecord([model]), "metrics": weight}), reply_to=message)

    return app


class InProcessGrid(NodesGrid):
    """`parties` nodes in this process. left_out: indices of those that answered with an error at least once."""

    def __init__(self, app: ClientApp, parties: int) -> None:
        self._app = app
        super().__init__(parties)
        self.left_out: set[int] = set()
        assume_identity(RUN_ID, COORDINATOR_NODE)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not served: parties in this process answer at once."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not served, see `push_messages`."""
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See flwr.serverapp.Grid; the answers come in the order of the messages, however long they take."""
        replies = [self._answer(message) for message in messages]
        assume_identity(RUN_ID, COORDINATOR_NODE)
        return replies

    def _answer(self, message: Message) -> Message:
        assign_message_id(message)
        reply = answered(self._app, message)
        if reply.has_error():
            self.left_out.add(message.metadata.dst_node_id - FIRST_NODE)
        return reply


@dataclass(frozen=True)
class Federated:
    """model: float64 (inputs + 1, classes), the last average. rounds: that gave one. left_out: indices of the parties
    that were missing in a round because their training diverged."""

    model: np.ndarray = field(repr=False)
    rounds: int
    left_out: tuple[int, ...]


def federate(
    parties: Sequence[TrainingRows],
    classes: int,
    training: LocalTraining,
    rounds: int,
    seed: int,
    privacy: PartyPrivacy | None = None,
) -> Federated:
    """Train one softmax regression on the parties' rows, from zeros. Deterministic in its arguments, noise included.

    For simulations: Flower draws its noise as floating-point Gaussians from numpy's generator, and a deployment would
    need better (Mironov 2012).
    """
    grid = InProcessGrid(party_app(parties, training, seed, private=privacy is not None), len(parties))
    start = np.zeros((parties[0].x.shape[1] + 1, classes))
    with _seeded_and_quiet(seed):
        strategy: Strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=1, min_evaluate_nodes=0, min_available_nodes=len(parties)
        )
        if privacy is not None:
            noise = privacy.promise.noise_multiplier(rounds)
            strategy = DifferentialPrivacyServerSideFixedClipping(strategy, noise, privacy.clip, len(parties))
        result = strategy.start(grid, ArrayRecord([start]), num_rounds=rounds)
    if privacy is not None and grid.left_out:  # an average of fewer moves further than its noise covers
        raise EngineError(f"{len(grid.left_out)} parties did not answer a round of private averaging")
    done = len(result.train_metrics_clientapp)
    model = result.arrays.to_numpy_ndarrays()[0] if done else start
    return Federated(model, done, tuple(sorted(grid.left_out)))


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
