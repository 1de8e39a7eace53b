"""Whose claim an audit tries: that of what leaves, whoever draws the noise."""

from __future__ import annotations

import pytest

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.distinguish.game import EventClaims
from consilium.coordinator.mechanisms import Distributed, GNMax, Mechanism, NoisyHistogram


@pytest.mark.parametrize(
    ("by_parties", "by_coordinator"),
    [
        (Distributed(threshold=0, sigma=40.0, noise_shares=10), GNMax(sigma=40.0)),
        (Distributed(threshold=0, sigma=40.0, noise_shares=10, release_counts=True), NoisyHistogram(sigma=40.0)),
    ],
    ids=["labels", "histograms"],
)
def test_noise_of_the_parties_claims_towards_the_student_what_noise_of_the_coordinator_does(
    by_parties: Mechanism, by_coordinator: Mechanism
) -> None:
    """An audit plays the student's side; the claim towards a coordinator that sees histograms would be too easy."""
    claimed = [
        EventClaims(each, Unit.PARTY, Neighbouring.REPLACE, 1).epsilon(10, 10, 1e-5)
        for each in (by_parties, by_coordinator)
    ]
    assert claimed[0] == pytest.approx(claimed[1], rel=1e-9)
