"""What a party's teachers vote on a data file: the party's own path, from the file to the vote."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from coordinator.config import FederationConfig
from party import store
from party.home import Home
from party.inputs import query_inputs
from party.node import PartyNode
from party.policy import Policy
from party.teachers import vote
from protocol.device import using_device
from protocol.errors import ConfigError
from protocol.messages import TrainRequest
from protocol.queries import query_set_hash
from protocol.refusals import Refused


@dataclass(frozen=True)
class Predictions:
    """`said` int64 (teachers, queries): the class that each teacher votes for. Private."""

    said: np.ndarray = field(repr=False)
    classes: int

    @property
    def votes(self) -> np.ndarray:
        """int64 (queries, classes)."""
        return (self.said[:, :, None] == np.arange(self.classes)).sum(axis=0)


@dataclass(frozen=True)
class AuditedParty:
    """A party as it is, but for its policy: the audit serves nobody, and trains on the CPU, where seeds decide.

    `seed` fixes the shards' secret and the estimators' random choices, so that two data sets are compared under the
    same ones; neither depends on the data in earnest.
    """

    home: Home
    config: FederationConfig
    seed: int

    def predictions(self, data_file: Path, folder: Path, queries: np.ndarray) -> Predictions:
        """Train on `data_file` in `folder`, which must be new, and vote on canonical queries (n, features).

        Raises
        ------
        ConfigError : the party would refuse to train.
        """
        folder.mkdir(mode=0o700)
        schema, config = self.config.rows, self.config
        policy = Policy(
            allowed_classes=schema.classes,
            least_rows_per_teacher=0,
            most_teachers=config.teachers_per_party,
            votes="clear",
            allow_simulation=True,
        )
        node = PartyNode(replace(self.home, folder=folder, data_file=data_file, policy=policy))
        request = TrainRequest(
            federation=config.digest(),
            rows_json=schema.model_dump_json(),
            spec_json=config.teacher.model_dump_json(),
            teachers=config.teachers_per_party,
            seed=self.seed,
        )
        try:
            with using_device("cpu"):
                node.train(request)
                teachers = store.load(node.home.teachers(request.federation), request.federation).teachers
                inputs = query_inputs(schema, queries, query_set_hash(queries))
                said = [vote([teacher], inputs, len(schema.classes)).argmax(axis=1) for teacher in teachers]
        except Refused as error:
            raise ConfigError(f"the party would refuse to train: {error}", "See `consilium party check`") from None
        return Predictions(np.array(said), len(schema.classes))
