"""Parties that sum their votes in secret, as the coordinator's collector meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from consilium.accounting.mechanisms import Confident, GNMax
from consilium.coordinator.collection.admission import Greeting, enrol, train
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.means import Collecting
from consilium.coordinator.collection.secure import SecureCollector
from consilium.coordinator.config import FederationConfig
from consilium.protocol.queries import canonical_queries
from consilium.sums.terms import NO_LEDGER
from tests.federation import FakeTransport, make_config, make_homes, make_secure, standing

PARTIES = 7  # t = 5
ONE_ROUND = GNMax(sigma=4.0)
TWO_ROUNDS = Confident(threshold=1, sigma1=2.5, sigma2=2.5)


class Cluster:
    """Parties at home, enrolled and trained in a federation with secure votes."""

    def __init__(
        self, root: Path, log, faults=None, policy=None, make=make_config, colluders=0, parties=PARTIES, **changes
    ) -> None:
        self.root, self.log = root, log
        self.homes = make_homes(root / "parties", parties, **(policy or {}))
        self.keys = make_secure(self.homes, root, colluders)
        self.config: FederationConfig = make(collection="secure", roster=self.keys.roster.digest, **changes)
        self.transport = FakeTransport(self.homes, faults)

    def ready(self):
        names = [party.settings.name for party in self.transport.parties.values()]
        greeting = Greeting(lambda: NO_LEDGER, asked=lambda: names)
        members = enrol(self.transport, self.config, NO_LEDGER.ledger, self.log, greeting)
        return train(self.transport, self.config, members, self.log).members

    def collector(self, members) -> SecureCollector:
        greeting = Greeting(lambda: NO_LEDGER)
        means = Collecting(self.transport, self.config, members, self.root, standing(), greeting, self.log)
        return SecureCollector(means, self.keys)


def queries(count: int = 20, seed: int = 3) -> np.ndarray:
    return canonical_queries(np.random.default_rng(seed).normal(size=(count, 3)) * [10, 20, 1] + [60, 140, 0], 3)


def ask(collector: SecureCollector, x: np.ndarray, round_: int = 1) -> Counts:
    """The sums of one round, with the noise that the federation's mechanism asks for."""
    return collector.collect(Queries(x, round_), collector._config.sigmas[round_ - 1])


def told(made: Cluster, event: str) -> list[dict]:
    lines = (made.root / "events.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]
