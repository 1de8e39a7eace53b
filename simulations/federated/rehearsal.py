"""The same rounds without Flower, in a fraction of the time: to try what the rounds that count are run with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.simulations.federated.local_training import LocalTraining, TrainingRows, answer
from consilium.simulations.federated.networks import AveragedNetwork
from consilium.simulations.federated.party_privacy import PartyPrivacy
from consilium.simulations.federated.rounds import Rounds
from consilium.simulations.federated.seeds import lots_of, noise_of


def rehearse(
    parties: Sequence[TrainingRows],
    network: AveragedNetwork,
    training: LocalTraining,
    rounds: Rounds,
    seed: int,
    privacy: PartyPrivacy | None = None,
) -> np.ndarray:
    """The model float64 (size,) that `federate` gives with these arguments, lots and noise included, but for
    rounding."""
    lots, noise, model = lots_of(seed), noise_of(seed), network.initial(seed)
    deviation = privacy.noise_deviation(rounds.count, len(parties)) if privacy else 0.0
    for number in range(1, rounds.count + 1):
        updates, weights = [], []
        for index in lots.sample(range(len(parties)), rounds.parties_in_each(len(parties))):
            mu, rows = rounds.proximal_mu or 0.0, parties[index]
            found = answer(network, model, rows, training, mu, (seed, index, number), private=privacy is not None)
            if found is not None:
                updates.append(found - model if privacy is None else privacy.clipped(found - model))
                weights.append(len(rows.y) if privacy is None else 1)
        if updates:
            model = model + np.asarray(weights) @ np.stack(updates) / sum(weights)
        if privacy is not None:
            model = model + noise.normal(0, deviation, model.shape)
    return model
