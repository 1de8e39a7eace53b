"""What a party's teachers vote on a data file: the party's own path, from the file to the vote."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.party.home import Home
from consilium.party.node import PartyNode
from consilium.party.policy import Policy
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, ballots
from consilium.party.teachers.inputs import query_inputs
from consilium.protocol.errors import ConfigError
from consilium.protocol.node.device import using_device
from consilium.protocol.parties.messages import PROTOCOL_VERSION, HelloRequest
from consilium.protocol.parties.refusals import Refused
from consilium.protocol.rows.queries import query_ids, query_set_hash


@dataclass(frozen=True)
class Predictions:
    """`said` int64 (teachers, queries): the class that each teacher votes for. Private."""

    said: np.ndarray = field(repr=False)
    classes: int

    @property
    def votes(self) -> np.ndarray:
        """int64 (queries, classes)."""
        return (self.said[:, :, None] == np.arange(self.classes)).sum(axis=0)


class AuditedParty:
    """A party as it is, but for its policy: the audit serves nobody, and trains on the CPU, where seeds decide.

    `seed` fixes the shards' secret and the estimators' random choices, so that two data sets are compared under the
    same ones; in a deployment neither depends on the data. `folder`: an empty one, for the party's state.
    """

    def __init__(self, home: Home, config: FederationConfig, seed: int, folder: Path) -> None:
        changed = {
            "simulation": True,
            "votes": "clear",
            "roster": "",
            "pool": None,
            "record_votes": False,
            "seed": seed,
        }
        self._config = config.model_copy(update=changed)
        policy = Policy(
            allowed_classes=config.rows.classes,
            least_rows_per_teacher=0,
            most_teachers=config.teachers_per_party,
            most_epsilon=math.inf,
            votes="clear",
            allow_simulation=True,
        )
        self._home = replace(home, folder=folder, own_policy=policy, terms_file=None)
        terms = self._config.terms().model_dump()
        self._hello = HelloRequest(
            **terms, protocol_version=PROTOCOL_VERSION, ledger="0" * 64, batch=0, head="0" * 64, program=""
        )

    def predictions(self, data_file: Path, queries: np.ndarray) -> Predictions:
        """Train on `data_file` and vote on canonical queries (n, features).

        Raises
        ------
        ConfigError : the party would refuse to train.
        """
        node, schema = PartyNode(replace(self._home, data_file=data_file)), self._config.rows
        federation = self._config.digest()
        try:
            with using_device("cpu"):
                node.hello(self._hello)
                node.train(self._config.train_request())
                trained = store.load(node.home.teachers(federation), federation)
                inputs = query_inputs(schema, queries, query_set_hash(queries))
                said = ballots(trained, inputs, Lot(node.home.name, federation, query_ids(queries)))
        except Refused as error:
            raise ConfigError(f"the party would refuse to train: {error}", "See `consilium party check`") from None
        return Predictions(said, len(schema.classes))
