"""Votes by asking again, and liars: what works without the protection, and what it does with it."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.units import Unit
from consilium.coordinator.mechanisms import Interactive
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack import repeats
from consilium.simulations.attack.liars import poisoned_students
from consilium.simulations.attack.membership import asked_rows, drawn_on, outcome_law
from consilium.simulations.attack.repeats import recovered_votes
from consilium.simulations.attack.shadows import outcome_shares
from tests.simulations.attack.small import everything, shadows

LABELS = ('federation.mechanism={name = "gnmax", sigma = 8.0}',)


@pytest.mark.parametrize("overrides", [(), LABELS])
def test_answered_once_hides_what_answered_anew_gives_away(
    monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...]
) -> None:
    """The control: fresh noise on 40,000 answers leaves less than half a vote, and most histograms are exact."""
    monkeypatch.setattr(repeats, "TIMES", (1, 40_000))
    once, single, many, near = recovered_votes(everything(*overrides))
    assert many.error < 0.5
    assert many.exact >= 0.5
    assert many.error < near.error < single.error
    assert once.error > 4 * many.error
    assert once.exact < 0.5
    assert near.epsilon is not None
    assert near.epsilon < (many.epsilon or np.inf)


def test_where_the_noise_is_in_the_sums_nothing_is_averaged() -> None:
    assert recovered_votes(everything("federation.collection=distributed")) == []


def test_one_liar_within_its_vote_does_little_and_one_that_nobody_checks_does_all() -> None:
    mine = everything()
    results = poisoned_students(mine, asked_rows(mine))
    flips = [one for one in results if one.attack == "flip"]
    honest, unverified = flips[0], results[-2]
    assert honest.liars == 0
    assert honest.moved == 0
    assert [one.moved for one in flips] == sorted(one.moved for one in flips)
    assert unverified.attack == "flip, of unverified votes"
    assert unverified.liars == 1
    assert unverified.moved > 0.9
    assert (unverified.value or 1) < 0.5 < (flips[1].value or 0)
    assert {one.hit is None for one in results if one.attack == "trigger"} == {False}


def test_liars_for_their_own_gain_get_little_by_votes_and_more_where_nobody_checks() -> None:
    mine = everything()
    results = poisoned_students(mine, asked_rows(mine))
    gains = [one for one in results if one.attack == "gain" and one.liars]
    checked, unchecked = max(gains, key=lambda one: one.liars), results[-1]
    assert unchecked.attack == "gain, of unverified votes"
    for one in (checked, unchecked):
        assert one.own is not None
        assert one.own_honest is not None
    assert checked.moved < unchecked.moved < 1
    assert unchecked.moved > 0.1
    assert abs((checked.own or 0) - (checked.own_honest or 0)) < 0.05
    assert {one.hit is None for one in results if one.attack == "class"} == {False}


def test_an_interactive_mechanism_is_asked_by_who_has_no_opinion() -> None:
    mechanism = Interactive(threshold=120, sigma1=60, sigma2=50, confidence=0.9)
    votes = np.tile([[150, 90]], (4000, 1))
    passed = (drawn_on(mechanism, votes, SeededNoise(1)).labels >= 0).mean()
    assert passed == pytest.approx(1 - outcome_law(mechanism, votes[:1])[0][-1], abs=0.03)


def test_a_share_of_outcomes_is_a_target_of_its_party() -> None:
    targets = outcome_shares(shadows(), 2)
    assert {target.unit for target in targets} == {Unit.PARTY}
    assert all(target.moved > 0 for target in targets)
