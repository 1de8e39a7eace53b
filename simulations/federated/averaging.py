"""Federated averaging from start to end: Flower's strategy on one side, the parties' ClientApp on the other."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg, FedProx, Strategy

from consilium.simulations.federated.client_app import as_record, party_app
from consilium.simulations.federated.in_process_grid import InProcessGrid
from consilium.simulations.federated.local_training import LocalTraining, TrainingRows
from consilium.simulations.federated.networks import AveragedNetwork
from consilium.simulations.federated.party_privacy import PartyPrivacy

_FLOWERS_LOG = logging.getLogger("flwr")
_PURPOSE = 0x666C6F776572


@dataclass(frozen=True)
class Rounds:
    """How often, and with whom: `count` rounds, `fraction` of the parties in each by lot (at least one).

    proximal_mu: None for Flower's FedAvg, else that of its FedProx.
    """

    count: int
    fraction: float = 1.0
    proximal_mu: float | None = None

    def strategy(self) -> FedAvg:
        """Without evaluation at the parties, see `client_app`."""
        nodes: dict[str, Any] = {
            "fraction_train": self.fraction,
            "fraction_evaluate": 0.0,
            "min_train_nodes": 1,
            "min_evaluate_nodes": 0,
            "min_available_nodes": 1,
        }
        return FedAvg(**nodes) if self.proximal_mu is None else FedProx(**nodes, proximal_mu=self.proximal_mu)


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
    start: np.ndarray | None = None,
) -> Federated:
    """Train one model on the parties' rows. Deterministic in its arguments, noise and lots included: for simulations.

    start: the first model, float64 (size,); left out: `network.initial`. privacy: needs `rounds.fraction` 1. Flower
    draws its noise as floating-point Gaussians from numpy's generator: a deployment would need better (Mironov 2012).
    """
    if privacy is not None and rounds.fraction < 1:
        raise ValueError("private averaging is accounted for with all parties in each round")
    clips = privacy is not None and privacy.clipped_by == "party"
    grid = InProcessGrid(party_app(parties, network, seed, private=privacy is not None, clips=clips), len(parties))
    start, config = network.initial(seed) if start is None else start, ConfigRecord(training.to_config())
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
    random.seed(seed ^ _PURPOSE)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32, _PURPOSE & 0xFFFFFFFF])  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
