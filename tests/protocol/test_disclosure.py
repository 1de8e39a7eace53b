"""What a released count says of one vote, against the noise that is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import ReleaseKind, widest
from consilium.report.disclosure import SAVE_WITH, Disclosure, one_histogram, people, vote_odds


def log_ratio(counts: np.ndarray, votes: np.ndarray, others: np.ndarray, sigma: float) -> np.ndarray:
    """Of the likelihoods of noisy counts under two histograms of votes; both laws have the same constant."""
    return (((counts - others) ** 2 - (counts - votes) ** 2) / (2 * sigma**2)).sum(axis=-1)


@pytest.mark.parametrize("sigma", [2.0, 67.0, 112.1])
def test_votes_are_seldom_more_likely_than_is_said(sigma: float) -> None:
    """100,000 draws of the integer noise. The bound of the continuous law is exceeded in one of 1,000; this fails by
    chance for less than one seed in a million (5 standard deviations of a Poisson count of 100). Ties of integers at
    a small sigma make it rarer or, by one step of the lattice, more frequent: up to twice."""
    draws = 100_000
    votes, others = np.array([300, 71]), np.array([299, 72])
    ratios = log_ratio(votes + SeededNoise(5).gaussian(sigma, (draws, 2)), votes, others, sigma)
    beyond = int((ratios > math.log(vote_odds(sigma))).sum())
    assert beyond <= SAVE_WITH * draws * (2 if sigma < 10 else 1) + 5 * math.sqrt(SAVE_WITH * draws)
    assert beyond >= SAVE_WITH * draws / 2 - 5 * math.sqrt(SAVE_WITH * draws)  # nor is it far above the truth


def test_more_noise_says_less() -> None:
    assert vote_odds(200.0) < vote_odds(100.0)
    assert "nearly as well" in one_histogram(112.1) and "any other vote too" in one_histogram(5.0)


def test_without_protection_nobody_is_protected() -> None:
    assert [each.protected for each in people()] == ["yes", "no", "in part"]
    assert [each.protected for each in people(unprotected="seeded")] == ["no", "no", "no"]
    assert all(each.why for each in people("hospital", "hospitals", "one record"))


def test_kinds_are_ordered_by_what_they_may_say() -> None:
    for kind in ReleaseKind:
        assert widest([kind, ReleaseKind.WINNER]) is kind
        assert Disclosure(kind, "secure").release.noun in ("label", "noisy histogram")
