"""Membership: the control is broken, what is promised is not, and a promise that is false is refuted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from consilium.accounting.units import Unit
from consilium.coordinator.mechanisms import Confident, GNMax
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack import membership as module
from consilium.simulations.attack import shadows as searched
from consilium.simulations.attack.membership import OBSERVERS, MembershipAttack, membership, outcome_law
from tests.simulations.attack.small import everything, shadows

LABELS = ('federation.mechanism={name = "gnmax", sigma = 10.0}',)


@pytest.fixture(scope="module", autouse=True)
def few_targets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TYPICAL", 1)
        patch.setattr(module, "_LEARNT", 100)
        patch.setattr(searched, "TRIES", 6)
        yield


@pytest.fixture(scope="module")
def played(few_targets: None) -> list[MembershipAttack]:
    return membership(shadows(), everything(), 0.2, games=2600)


def test_without_noise_every_observer_finds_the_target(played: list[MembershipAttack]) -> None:
    """The control: TPR of .3 and more at 1 % FPR, and a bound above 5, on the same federation without noise."""
    control = [one for one in played if not one.noise and one.knows.startswith("all other rows")]
    assert {one.observer for one in control} == {"what was released", "the student's model"}
    for one in control:
        if one.target == "worst found":
            assert one.detected[1].hits.share >= 0.3
            assert one.proved.exact > 5


def test_no_bound_is_above_its_promise(played: list[MembershipAttack]) -> None:
    promised = [one for one in played if one.promise is not None]
    assert {one.unit for one in promised} == {Unit.RECORD, Unit.PARTY}
    assert [one for one in promised if one.broken] == []
    assert max(one.bound / (one.promise or 1) for one in promised) > 0.4


def test_towards_a_coordinator_that_sees_votes_nothing_is_promised_and_all_is_found(
    played: list[MembershipAttack],
) -> None:
    seen = [one for one in played if one.observer == "coordinator: each party's votes" and one.target == "worst found"]
    assert {one.promise for one in seen} == {None}
    assert min(one.detected[1].hits.share for one in seen if one.knows == "all other rows") == 1.0


class QuarterOfTheNoise(SeededNoise):
    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return super().gaussian(sigma / 4, shape)


def test_a_promise_with_a_quarter_of_its_noise_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SeededNoise", QuarterOfTheNoise)
    attacks = membership(shadows(), everything(), 0.1, games=600, units=(Unit.PARTY,), observers=OBSERVERS[:2])
    broken = [one for one in attacks if one.broken]
    assert "worst found" in {one.target for one in broken}
    assert "what was released" in {one.observer for one in broken}


@pytest.mark.slow
def test_labels_are_attacked_by_their_law() -> None:
    attacks = membership(
        shadows(*LABELS), everything(*LABELS), 0.1, games=400, units=(Unit.PARTY,), observers=OBSERVERS[:2]
    )
    released = [one for one in attacks if one.observer == "what was released" and one.target == "worst found"]
    assert [one for one in released if one.broken] == []
    assert {one.proved.gaussian for one in released} == {None}
    assert max(one.proved.exact for one in released if not one.noise) > 3


def test_the_law_of_outcomes_is_that_of_the_mechanism() -> None:
    """4 standard errors of 20,000 draws."""
    votes = np.array([[120, 90, 30], [80, 80, 80], [200, 20, 20]])
    for mechanism in (GNMax(sigma=50), Confident(threshold=120, sigma1=60, sigma2=50)):
        drawn = mechanism.draw(np.tile(votes, (20_000, 1)), SeededNoise(1)).labels.reshape(-1, 3)
        shares = np.stack([(drawn == label).mean(axis=0) for label in (0, 1, 2, -1)], axis=1)
        assert np.abs(outcome_law(mechanism, votes) - shares).max() < 4 * 0.5 / np.sqrt(20_000)


def test_values_are_plain(played: list[MembershipAttack]) -> None:
    one = played[0].to_json()
    assert one["detected"][1]["level"] == 0.01
    assert one["ratio"] == pytest.approx(played[0].bound / (played[0].promise or 1))
