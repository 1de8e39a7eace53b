"""How long 20 rounds of federated averaging with 400 parties take, and how much of it is Flower's."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from consilium.accounting.units import Neighbouring
from consilium.simulations.methods.averaging import AveragedNetwork, LocalTraining, Rounds, TrainingRows, federate
from consilium.simulations.methods.averaging_privacy import PartyPrivacy
from consilium.simulations.methods.rehearsal import Trial, rehearse

PARTIES, ROUNDS, REPEATS = 400, 20, 3
SIZES = [(20, 30, 0), (20, 30, 32), (200, 30, 0), (20, 784, 0)]
"""Rows of a party, inputs, units of a hidden layer."""


def seconds(run: Callable[[], object]) -> float:
    """Of processor time, the least of a few."""
    found = []
    for _repeat in range(REPEATS):
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return min(found)


def main() -> None:
    """Print the table."""
    print(f"{PARTIES} parties, {ROUNDS} rounds, seconds of processor time, least of {REPEATS}")
    print(f"{'rows':>5}{'inputs':>8}{'hidden':>8}{'no Flower':>12}{'FedAvg':>9}{'private':>9}{'Flower':>8}")
    generator, training = np.random.default_rng(0), LocalTraining(0.1)
    privacy = PartyPrivacy(1.0, 1e-5, Neighbouring.REPLACE, clip=0.1)
    for rows, inputs, hidden in SIZES:
        network = AveragedNetwork.of(inputs, 2, hidden)
        parties = [
            TrainingRows(generator.normal(size=(rows, inputs)).astype(np.float32), generator.integers(2, size=rows))
            for _party in range(PARTIES)
        ]
        alone = seconds(lambda: rehearse(parties, network, training, Rounds(ROUNDS), 0, [Trial(0.1)]))  # noqa: B023
        clear = seconds(lambda: federate(parties, network, training, Rounds(ROUNDS), 0))  # noqa: B023
        private = seconds(lambda: federate(parties, network, training, Rounds(ROUNDS), 0, privacy))  # noqa: B023
        share = f"{1 - alone / clear:.0%}"
        print(f"{rows:5}{inputs:8}{hidden:8}{alone:12.2f}{clear:9.2f}{private:9.2f}{share:>8}", flush=True)


if __name__ == "__main__":
    main()
