"""Federated averaging by Flower's strategies, in this process: models, a party's part of a round, all rounds.

There is no evaluation at the parties: a study judges all methods on the same held-out rows, and what a party would
measure on its own rows would leave it in plaintext, outside of any guarantee."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Strategy
from scipy.special import softmax

from consilium.simulations.engines.flower import (
    COORDINATOR_NODE,
    FIRST_NODE,
    RUN_ID,
    NodesGrid,
    answered,
    assign_message_id,
    assume_identity,
)
from consilium.simulations.methods.averaging_privacy import PartyPrivacy

_FIRST_MODEL = 0x61766572616765


@dataclass(frozen=True)
class AveragedNetwork:
    """Layers of weights with a bias each, a ramp (max(0, .)) between layers, softmax at the end.

    widths: inputs, hidden units if any, classes. A model is float64 (size,): of each layer the weights
    (inputs, outputs), then the bias (outputs,).
    """

    widths: tuple[int, ...]

    @classmethod
    def of(cls, inputs: int, classes: int, hidden: int) -> AveragedNetwork:
        """With `hidden` units in one hidden layer, or with 0 none: softmax regression."""
        return cls((inputs, hidden, classes) if hidden else (inputs, classes))

    @property
    def size(self) -> int:
        """Numbers of a model.

        >>> AveragedNetwork.of(3, 2, hidden=0).size, AveragedNetwork.of(3, 2, hidden=4).size
        (8, 26)
        """
        return sum((before + 1) * after for before, after in itertools.pairwise(self.widths))

    def initial(self, seed: int) -> np.ndarray:
        """Where all parties start: zeros without a hidden layer, else weights by lot (He et al. 2015, equation 10)."""
        model = np.zeros(self.size)
        if len(self.widths) > 2:
            generator = np.random.default_rng([seed, _FIRST_MODEL])
            for layer in self._layers(model):
                layer[:-1] = generator.standard_normal(layer[:-1].shape) * np.sqrt(2 / (len(layer) - 1))
        return model

    def probabilities(self, model: np.ndarray, x: np.ndarray) -> np.ndarray:
        """float64 (n, classes) of inputs `x` (n, inputs)."""
        return softmax(self._activations(model, x)[-1], axis=-1)

    def gradient(self, model: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """float64 (size,) of the mean cross-entropy of rows `x` float64 (n, inputs) with classes `y` int64 (n,)."""
        return self.gradients(model, x, np.eye(self.widths[-1])[y], np.array(float(len(y))))

    def gradients(self, models: np.ndarray, x: np.ndarray, wanted: np.ndarray, count: np.ndarray) -> np.ndarray:
        """The same of many models (..., size), each on rows of its own `x` (..., n, inputs), of the shape of `models`.

        wanted: (..., n, classes), 1 for the class of a row. count: (..., n, 1), of the rows that the mean is over;
        infinite for a row that does not count.
        """
        layers, values = self._layers(models), self._activations(models, x)
        gradients = np.empty(models.shape)
        error = softmax(values[-1], axis=-1)
        error -= wanted
        error /= count
        for index, layer in reversed(list(enumerate(self._layers(gradients)))):
            layer[..., :-1, :] = values[index].swapaxes(-1, -2) @ error
            layer[..., -1, :] = error.sum(axis=-2)
            if index:
                error = (error @ layers[index][..., :-1, :].swapaxes(-1, -2)) * (values[index] > 0)
        return gradients

    def _layers(self, models: np.ndarray) -> list[np.ndarray]:
        """Views (..., inputs + 1, outputs) of models (..., size), the bias last."""
        layers, start = [], 0
        for before, after in itertools.pairwise(self.widths):
            part = models[..., start : start + (before + 1) * after]
            layers.append(part.reshape(*models.shape[:-1], before + 1, after))
            start += (before + 1) * after
        return layers

    def _activations(self, models: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
        """What goes into each layer, and last what comes out of the last."""
        values = [x]
        for layer in self._layers(models):
            inside = values[-1] if len(values) == 1 else np.maximum(values[-1], 0)
            values[-1] = inside
            values.append(inside @ layer[..., :-1, :] + layer[..., -1:, :])
        return values


_LEAST_CHANGE = 1e-12
_ROUND = 0x726F756E64


@dataclass(frozen=True)
class TrainingRows:
    """One party's own. x: inputs float32 (n, inputs); y: classes int64 (n,); n is 1 at least."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class LocalTraining:
    """learning_rate: of plain gradient steps, without momentum. batch: rows of a step. epochs: passes over the rows in
    a round."""

    learning_rate: float
    batch: int = 32
    epochs: int = 1

    def to_config(self) -> dict[str, Any]:
        """As it travels in a train message."""
        return asdict(self)

    @classmethod
    def of_config(cls, config: dict[str, Any]) -> LocalTraining:
        """The inverse; what else is in the message's configuration is left to others."""
        return cls(**{name: config[name] for name in cls.__dataclass_fields__})


def train_locally(
    network: AveragedNetwork,
    start: np.ndarray,
    rows: TrainingRows,
    training: LocalTraining,
    generator: np.random.Generator,
) -> np.ndarray:
    """The party's model float64 (size,) after one round from the model `start`; not finite where it diverged."""
    model, x = start.copy(), rows.x.astype(np.float64)
    with np.errstate(all="ignore"):  # whoever asked looks at what comes out
        for chosen in batches_of(len(x), training, generator):
            model -= training.learning_rate * network.gradient(model, x[chosen], rows.y[chosen])
    return model


def answer(
    network: AveragedNetwork,
    start: np.ndarray,
    rows: TrainingRows,
    training: LocalTraining,
    lots: Sequence[int],
    *,
    private: bool,
) -> np.ndarray | None:
    """The model that a party answers with; None where its training diverged.

    lots: seed, index of the party, number of the round, for the order of its rows. private: there is always an answer,
    the model that was given where training diverged, and always one that differs from it.
    """
    model = train_locally(network, start, rows, training, np.random.default_rng([_ROUND, *lots]))
    if not np.isfinite(model).all():
        if not private:
            return None
        model = start.copy()
    if private and (model == start).all():
        # Flower divides by the length of the update: 0 would end the whole run
        model[np.abs(model).argmin()] += _LEAST_CHANGE
    return model


def batches_of(rows: int, training: LocalTraining, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Positions of the rows of each step: each pass in an order by lot, its last batch as small as it happens to be."""
    for _ in range(training.epochs):
        order = generator.permutation(rows)
        for start in range(0, rows, training.batch):
            yield order[start : start + training.batch]


@dataclass(frozen=True)
class Rounds:
    """How often, and with whom: `count` rounds, `fraction` of the parties in each by lot (at least one)."""

    count: int
    fraction: float = 1.0

    def strategy(self) -> FedAvg:
        """Without evaluation at the parties."""
        return FedAvg(
            fraction_train=self.fraction,
            fraction_evaluate=0.0,
            min_train_nodes=1,
            min_evaluate_nodes=0,
            min_available_nodes=1,
        )

    def parties_in_each(self, parties: int) -> int:
        """How many of so many parties Flower asks in each round.

        >>> [Rounds(1, fraction).parties_in_each(30) for fraction in (0.01, 0.5, 1.0)]
        [1, 15, 30]
        """
        return max(int(parties * self.fraction), 1)


_FLOWERS = 0x666C6F77
_WORD = 2**32


def lots_of(seed: int) -> random.Random:
    """Which parties take part in a round."""
    return random.Random(seed ^ _FLOWERS)


def noise_of(seed: int) -> np.random.RandomState:
    """The noise of all rounds: of the kind that Flower uses."""
    return np.random.RandomState([seed % _WORD, seed // _WORD, _FLOWERS])


ARRAYS, CONFIG, METRICS, WEIGHT = "arrays", "config", "metrics", "num-examples"
"""Names that Flower's FedAvg expects."""
DIVERGED = 500
"""Error code of an answer without a model; those below 400 or so are Flower's own."""


def party_app(parties: Sequence[TrainingRows], network: AveragedNetwork, seed: int, *, private: bool) -> ClientApp:
    """The app of node `partition-id`, which is an index into `parties`.

    private: every party counts the same, and answers whatever happens: with the model that it was given, where its
    training diverged. Otherwise it counts by its rows, and answers with an error then.
    """
    app, request = ClientApp(), _Request()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config, start = request.read(message.content)
        index = int(context.node_config["partition-id"])
        lots = (seed, index, config["server-round"])
        model = answer(network, start, parties[index], LocalTraining.of_config(config), lots, private=private)
        if model is None:
            return Message(Error(code=DIVERGED, reason="training diverged"), reply_to=message)
        weight = 1 if private else len(parties[index].y)
        content = RecordDict({ARRAYS: as_record(model), METRICS: MetricRecord({WEIGHT: weight})})
        return Message(content, reply_to=message)

    return app


class _Request:
    """What all parties of a round are sent, read once: Flower gives each message the same content."""

    def __init__(self) -> None:
        self._content: RecordDict | None = None
        self._read: tuple[dict[str, Any], np.ndarray] = {}, np.zeros(0)

    def read(self, content: RecordDict) -> tuple[dict[str, Any], np.ndarray]:
        """Configuration and model, which nobody writes to."""
        if content is not self._content:
            model = content.array_records[ARRAYS].to_numpy_ndarrays()[0]
            self._content, self._read = content, (dict(content.config_records[CONFIG]), model)
        return self._read


def as_record(model: np.ndarray) -> ArrayRecord:
    """A model as it travels."""
    return ArrayRecord([model])


class InProcessGrid(NodesGrid):
    """`parties` nodes, each with its `partition-id` in its node_config. Only `send_and_receive` is served.

    left_out: indices of the parties that answered with an error at least once, or whose app raised. Its text is not
    kept.
    """

    def __init__(self, app: ClientApp, parties: int) -> None:
        self._app = app
        super().__init__(parties)
        self.left_out: set[int] = set()
        assume_identity(RUN_ID, COORDINATOR_NODE)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not served: nobody would answer in between."""
        raise NotImplementedError("parties in this process answer at once: use send_and_receive")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not served, see `push_messages`."""
        raise NotImplementedError("parties in this process answer at once: use send_and_receive")

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


_FLOWERS_LOG = logging.getLogger("flwr")


@dataclass(frozen=True)
class Federated:
    """model: float64 (size,), the last average. rounds: that gave one. left_out: indices of the parties that were
    missing in a round because their training failed. epsilon: what was spent, None without privacy."""

    model: np.ndarray = field(repr=False)
    rounds: int
    left_out: tuple[int, ...]
    epsilon: float | None = None


def federate(
    parties: Sequence[TrainingRows],
    network: AveragedNetwork,
    training: LocalTraining,
    rounds: Rounds,
    seed: int,
    privacy: PartyPrivacy | None = None,
) -> Federated:
    """Train one model on the parties' rows. Deterministic in its arguments, noise and lots included: for simulations.

    privacy: needs `rounds.fraction` 1. Flower draws its noise as floating-point Gaussians from numpy's generator: a
    deployment would need better (Mironov 2012).
    """
    if privacy is not None and rounds.fraction < 1:
        raise ValueError("private averaging is accounted for with all parties in each round")
    grid = InProcessGrid(party_app(parties, network, seed, private=privacy is not None), len(parties))
    start, config = network.initial(seed), ConfigRecord(training.to_config())
    with _quiet(), _seeded(seed):
        strategy: Strategy = rounds.strategy()
        accountant = None
        if privacy is not None:
            accountant = privacy.accountant(len(parties))
            strategy = privacy.around(rounds.strategy(), len(parties), rounds.count, accountant)
        result = strategy.start(grid, as_record(start), num_rounds=rounds.count, train_config=config)
    done = len(result.train_metrics_clientapp)
    return Federated(
        result.arrays.to_numpy_ndarrays()[0] if done else start,
        done,
        tuple(sorted(grid.left_out)),
        None if accountant is None else accountant.get_privacy_spent().epsilon,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Flower says every round, and every clipped update, on stderr."""
    before = _FLOWERS_LOG.level
    _FLOWERS_LOG.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        _FLOWERS_LOG.setLevel(before)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Flower draws parties and noise from the global generators: seeded for a while, then as they were."""
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.setstate(lots_of(seed).getstate())
    np.random.set_state(noise_of(seed).get_state())  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
