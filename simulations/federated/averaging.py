"""Federated averaging from start to end: Flower's strategy on one side, the parties' ClientApp on the other."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import Strategy

from consilium.simulations.federated.client_app import as_record, party_app
from consilium.simulations.federated.in_process_grid import InProcessGrid
from consilium.simulations.federated.local_training import LocalTraining, TrainingRows
from consilium.simulations.federated.networks import AveragedNetwork
from consilium.simulations.federated.party_privacy import PartyPrivacy
from consilium.simulations.federated.rounds import Rounds
from consilium.simulations.federated.seeds import lots_of, noise_of

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
    random.setstate(lots_of(seed).getstate())
    np.random.set_state(noise_of(seed).get_state())  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
