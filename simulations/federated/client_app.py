"""The parties' side as a Flower ClientApp, all parties of one simulation behind it.

There is no evaluation in it: a study judges all methods on the same held-out rows, and what a party would measure on
its own rows would leave it in clear, outside of any guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod

from consilium.simulations.federated.local_training import LocalTraining, TrainingRows, answer
from consilium.simulations.federated.networks import AveragedNetwork

ARRAYS, CONFIG, METRICS, WEIGHT = "arrays", "config", "metrics", "num-examples"
"""Names that Flower's FedAvg expects."""
DIVERGED = 500
"""Error code of an answer without a model; those below 400 or so are Flower's own."""


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
        config: dict[str, Any] = dict(message.content.config_records[CONFIG])
        index = int(context.node_config["partition-id"])
        given = message.content.array_records[ARRAYS].to_numpy_ndarrays()[0]
        training, mu = LocalTraining.of_config(config), config.get("proximal-mu", 0.0)
        lots = (seed, index, config["server-round"])
        model = answer(network, given, parties[index], training, mu, lots, private=private)
        if model is None:
            return Message(Error(code=DIVERGED, reason="training diverged"), reply_to=message)
        weight = 1 if private else len(parties[index].y)
        content = RecordDict({ARRAYS: as_record(model), METRICS: MetricRecord({WEIGHT: weight})})
        return Message(content, reply_to=message)

    return app


def as_record(model: np.ndarray) -> ArrayRecord:
    """A model as it travels."""
    return ArrayRecord([model])
