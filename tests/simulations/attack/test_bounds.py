"""Bounds of attacks: exact intervals, no true claim refuted too often, and close to the truth where games are many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from consilium.accounting.curves.gdp import epsilon_of
from consilium.simulations.attack.bounds import AttackScores, Hits, detections, proved_epsilon


@pytest.mark.parametrize("count", [0, 1, 37, 999, 1000])
def test_intervals_are_those_of_clopper_and_pearson(count: int) -> None:
    low = beta.ppf(0.025, count, 1001 - count) if count else 0.0
    high = beta.ppf(0.975, count + 1, 1000 - count) if count < 1000 else 1.0
    assert Hits(count, 1000).interval() == pytest.approx([low, high], abs=1e-12)


def test_of_no_games_nothing_is_known() -> None:
    assert math.isnan(Hits(0, 0).share)
    assert Hits(0, 0).interval() == [0.0, 1.0]


def test_the_bound_is_the_definition_at_both_limits() -> None:
    """Of 1,000 measured games 600 and 100 have a score of 1, and no other score speaks louder."""
    there = np.tile(np.repeat([1.0, 0.0], [6, 4]), 200)
    away = np.tile(np.repeat([1.0, 0.0], [1, 9]), 200)
    proved = proved_epsilon(AttackScores(there, away), 0.01, 0.1)
    assert (proved.hits, proved.alarms) == (Hits(600, 1000), Hits(100, 1000))
    low, high = beta.ppf(0.05, 600, 401), beta.ppf(0.95, 101, 900)
    assert proved.exact == pytest.approx(math.log((low - 0.01) / high), abs=1e-9)
    assert proved.gaussian is None


def test_a_true_claim_without_slack_is_refuted_no_more_often_than_is_stated() -> None:
    """Randomised response of epsilon 1, whose claim has no slack: 500 bounds, each wrong with probability .2."""
    generator, right = np.random.default_rng(1), math.e / (1 + math.e)
    wrong = 0
    for _ in range(500):
        there, away = generator.random(400) < right, generator.random(400) >= right
        wrong += proved_epsilon(AttackScores(there.astype(float), away.astype(float)), 0.0, 0.2).exact > 1.0
    assert wrong <= 100


def test_bounds_on_gaussian_noise_stay_below_and_come_close() -> None:
    generator, mu = np.random.default_rng(2), 0.2
    proved = [
        proved_epsilon(
            AttackScores(generator.normal(mu, 1, 40_000), generator.normal(0, 1, 40_000)), 1e-5, 0.01, gaussian=True
        )
        for _ in range(20)
    ]
    truth = epsilon_of(mu**2, 1e-5)
    curves = [one.gaussian or 0.0 for one in proved]
    assert max(curves) < truth
    assert np.mean(curves) > 0.65 * truth
    assert max(one.exact for one in proved) < truth


def test_a_threshold_is_chosen_on_other_games_than_it_is_measured_on() -> None:
    """The first half of the games without the target are all quiet, the second half all loud: alarms are counted."""
    away = np.repeat([0.0, 2.0], [1000, 1000])
    one = detections(AttackScores(np.ones(2000), away))[1]
    assert (one.hits.share, one.alarms.share) == (1.0, 1.0)


def test_ties_find_nobody() -> None:
    for one in detections(AttackScores(np.zeros(100), np.zeros(100))):
        assert (one.hits.count, one.alarms.count) == (0, 0)
