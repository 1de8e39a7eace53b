"""The parties' side as a Flower ClientApp, all parties of one simulation behind it.

There is no evaluation in it: a study judges all methods on the same held-out rows, and what a party would measure on
its own rows would leave it in clear, outside of any guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod

from consilium.simulations.federated.local_training import LocalTraining, TrainingRows, train_locally
from consilium.simulations.federated.networks import AveragedNetwork

ARRAYS, CONFIG, METRICS, WEIGHT = "arrays", "config", "metrics", "num-examples"
"""Names that Flower's FedAvg expects."""
DIVERGED = 500
"""Error code of an answer without a model; those below 400 or so are Flower's own."""
_LEAST_CHANGE = 1e-12
_PURPOSE = 0x726F756E64


def party_app(
    parties: Sequence[TrainingRows], network: AveragedNetwork, seed: int, *, private: bool, clips: bool = False
) -> ClientApp:
    """The app of node `partition-id`, which is an index into `parties`.

    private: every party counts the same, and answers whatever happens: with the model that it was given, where its
    training diverged. Otherwise it counts by its rows, and answers with an error then. clips: with Flower's own mod
    that clips a party's update before it leaves.
    """
    app = ClientApp(mods=[fixedclipping_mod] if clips else [])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        index, config = int(context.node_config["partition-id"]), dict(message.content.config_records[CONFIG])
        given = message.content.array_records[ARRAYS].to_numpy_ndarrays()[0]
        generator = np.random.default_rng([seed, _PURPOSE, index, int(config["server-round"])])  # pyright: ignore
        mu = float(config.get("proximal-mu", 0.0))  # pyright: ignore[reportArgumentType]
        rows = parties[index]
        model = train_locally(network, given, rows, LocalTraining.of_config(config), mu, generator)
        if not np.isfinite(model).all():
            if not private:
                return Message(Error(code=DIVERGED, reason="training diverged"), reply_to=message)
            model = given.copy()
        if private and (model == given).all():
            # Flower divides by the length of the update: 0 would end the whole run
            model[np.abs(model).argmin()] += _LEAST_CHANGE
        weight = 1 if private else len(rows.y)
        content = RecordDict({ARRAYS: as_record(model), METRICS: MetricRecord({WEIGHT: weight})})
        return Message(content, reply_to=message)

    return app


def as_record(model: np.ndarray) -> ArrayRecord:
    """A model as it travels."""
    return ArrayRecord([model])
