"""Each row keeps its noise, whatever the votes of other rows are."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.coordinator.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    GNMax,
    Immutable,
    Interactive,
    LNMax,
    NoisyHistogram,
)
from consilium.coordinator.mechanisms.base import Mechanism
from consilium.protocol.noise import SeededNoise
from consilium.simulations.study.measures.influence import RowNoise

MECHANISMS: list[Mechanism] = [
    LNMax(gamma=0.1),
    GNMax(sigma=9.0),
    NoisyHistogram(sigma=9.0),
    Confident(threshold=24, sigma1=6.0, sigma2=9.0),
    Interactive(threshold=12, sigma1=6.0, sigma2=9.0, confidence=0.8),
    Immutable(gamma=0.1, constant=3, unsafe_not_private=True),
    Distributed(threshold=20, sigma=9.0, noise_shares=40),
    DistributedTwoPhase(threshold=14, sigma1=6.0, sigma2=9.0, noise_shares=30),
]
EVERY = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: type(each).__name__)
TWO_STEPS = pytest.mark.parametrize("mechanism", [MECHANISMS[3], MECHANISMS[4], MECHANISMS[7]], ids=["c", "i", "t"])
ROWS = 60


def votes() -> np.ndarray:
    """Of 40 teachers on 60 rows and 3 classes."""
    return np.random.default_rng(0).multinomial(40, [0.5, 0.3, 0.2], size=ROWS).astype(np.int64)


def thoughts() -> np.ndarray:
    return np.random.default_rng(1).dirichlet([1, 1, 1], size=ROWS)


def made(mechanism: Mechanism) -> RowNoise:
    return RowNoise(mechanism, votes(), SeededNoise(3), thoughts(), 7)


@EVERY
def test_it_is_what_the_mechanism_draws(mechanism: Mechanism) -> None:
    expected = mechanism.draw(votes(), SeededNoise(3), thoughts())
    found = made(mechanism).drawn
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.reinforced, expected.reinforced)


@EVERY
def test_the_same_votes_give_the_same(mechanism: Mechanism) -> None:
    noise = made(mechanism)
    again = noise.drawn_for(votes())
    assert np.array_equal(again.labels, noise.drawn.labels)
    if noise.drawn.counts is not None:
        assert again.counts is not None and np.array_equal(again.counts, noise.drawn.counts)


@EVERY
def test_a_row_hangs_on_its_own_votes_alone(mechanism: Mechanism) -> None:
    noise, other = made(mechanism), votes()
    other[:30] = np.roll(other[:30], 1, axis=0)
    other[0], other[1] = [40, 0, 0], [14, 13, 13]
    assert np.array_equal(noise.drawn_for(other).labels[30:], noise.drawn.labels[30:])


@TWO_STEPS
def test_by_the_order_of_the_draws_alone_it_would_not(mechanism: Mechanism) -> None:
    """So the test above can fail: rows get other labels, though nothing of them changed."""
    other = votes()
    other[:30] = [14, 13, 13]
    naive = mechanism.draw(other, SeededNoise(3), thoughts()).labels[30:]
    assert not np.array_equal(naive, made(mechanism).drawn.labels[30:])


@TWO_STEPS
def test_noise_of_a_row_that_passes_later_does_not_hang_on_others(mechanism: Mechanism) -> None:
    """Votes that no row fails with: all have noise, those that had none before too, and the same again."""
    noise = made(mechanism)
    certain = np.tile(np.array([0, 40, 0]), (ROWS, 1))
    first = noise.drawn_for(certain)
    assert first.answered.sum() > noise.drawn.answered.sum()
    some = votes()
    some[::2] = certain[::2]
    assert np.array_equal(noise.drawn_for(some).labels[::2], first.labels[::2])


def test_where_no_row_passed_there_is_noise_all_the_same() -> None:
    mechanism = DistributedTwoPhase(threshold=10_000, sigma1=6.0, sigma2=9.0, noise_shares=30)
    noise = RowNoise(mechanism, votes(), SeededNoise(3), thoughts(), 7)
    assert not noise.drawn.answered.any()
    assert noise.drawn_for(np.tile(np.array([0, 20_000, 0]), (ROWS, 1))).labels.tolist() == [1] * ROWS
