"""What is tried without Flower is what Flower then does: a choice among trials is a choice among runs."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.units import Neighbouring
from consilium.simulations.federated.averaging import federate
from consilium.simulations.federated.local_training import LocalTraining, TrainingRows
from consilium.simulations.federated.networks import AveragedNetwork
from consilium.simulations.federated.party_privacy import PartyPrivacy
from consilium.simulations.federated.rehearsal import rehearse
from consilium.simulations.federated.rounds import Rounds
from tests.simulations.federated.made_up_parties import made_up_parties

PRIVATE = PartyPrivacy(5.0, 1e-5, Neighbouring.REPLACE, clip=0.1)


@pytest.mark.parametrize(
    ("rounds", "privacy"),
    [
        (Rounds(4), None),
        (Rounds(4, proximal_mu=0.3), None),
        (Rounds(6, fraction=0.4), None),
        (Rounds(4), PRIVATE),
        (Rounds(4, proximal_mu=0.3), PRIVATE),
    ],
    ids=["fedavg", "fedprox", "a part", "private", "private fedprox"],
)
@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize("broken", [False, True])
def test_a_trial_is_the_run(rounds: Rounds, privacy: PartyPrivacy | None, hidden: int, broken: bool) -> None:
    parties = made_up_parties([2, 7, 30, 12, 5], classes=3)
    if broken:
        parties[1] = TrainingRows(np.full((7, 3), np.nan, dtype=np.float32), parties[1].y)
    network, training = AveragedNetwork.of(3, 3, hidden), LocalTraining(0.2, batch=8)
    run = federate(parties, network, training, rounds, 5, privacy).model
    trial = rehearse(parties, network, training, rounds, 5, privacy)
    assert trial == pytest.approx(run, rel=1e-9, abs=1e-12)
    assert rehearse(parties, network, training, rounds, 6, privacy) != pytest.approx(run, rel=1e-3)


def test_where_all_fail_a_trial_learns_nothing() -> None:
    broken = TrainingRows(np.full((2, 3), np.nan, dtype=np.float32), np.array([0, 1]))
    network = AveragedNetwork.of(3, 2, hidden=0)
    assert not rehearse([broken, broken], network, LocalTraining(0.2), Rounds(2), 0).any()
