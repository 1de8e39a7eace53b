"""What a promise is said to mean is never less than what it allows; nor what a count says of one vote."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import ReleaseKind, widest
from consilium.report.disclosure import (
    SAVE_WITH,
    Disclosure,
    in_plain_words,
    one_histogram,
    people,
    rounded_up,
    times_as_likely,
    vote_odds,
)


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


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.693, 1.0, 2.3025, 4.6, 5.0, 9.99, 13.8])
def test_a_factor_is_rounded_up_and_by_less_than_a_hundredth(epsilon: float) -> None:
    told = float(times_as_likely(epsilon).removesuffix(" times").replace(",", ""))
    assert math.exp(epsilon) <= told + 1e-9 <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize("epsilon", [13.9, 40.0, 85.47, 1e4])
def test_a_large_factor_is_a_power_of_ten_above_it(epsilon: float) -> None:
    power = int(times_as_likely(epsilon).removeprefix("10^").removesuffix(" times"))
    assert power - 1 <= epsilon / math.log(10) <= power


def test_no_bound_is_no_number() -> None:
    assert (rounded_up(math.inf), times_as_likely(math.inf)) == ("any number", "any number of times")


@pytest.mark.parametrize(
    ("unit", "neighbouring", "subject"),
    [
        ("party", "replace", "Other data of a whole party (a hospital with all its records) make no outcome"),
        ("record", "replace", "Other data of one record (a single case at one party) make no outcome"),
        (
            "patient",
            "add_or_remove",
            "Whether one patient (all records at one party) is among the data makes no outcome",
        ),
    ],
)
def test_it_is_said_of_the_unit(unit: str, neighbouring: str, subject: str) -> None:
    told = in_plain_words(1.0, 1e-6, unit, neighbouring)
    assert told.startswith(subject)
    assert "2.72 times as likely, plus a chance of 1e-06 (delta)" in told
    assert "right in at most 74 in 100 cases; a coin is in 50 in 100." in told
    assert "not private" in in_plain_words(math.inf, 1e-6, unit, neighbouring)
