"""What `benchmarks.residuals` releases in a round, and what it charges for it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.residuals import CLASSES, MU, ROUNDS, SCENARIO_PARTIES, epsilon, release


def vectors(seed: int) -> np.ndarray:
    """Of as many parties as the noise is for; each is far longer than any norm here."""
    return np.random.default_rng(seed).normal(size=(SCENARIO_PARTIES, 5, CLASSES))


@pytest.mark.parametrize("norm", [0.15, 0.2])
def test_one_party_in_place_of_another_moves_a_clipped_sum_by_two_norms_at_most(norm: float) -> None:
    one = vectors(0)
    other = one.copy()
    other[7] = -one[7]
    (before, deviation), (after, _) = (release(each, 0.4, norm, np.random.default_rng(1)) for each in (one, other))
    moved = float(np.linalg.norm(after - before))
    assert moved == pytest.approx(2 * norm / SCENARIO_PARTIES)
    assert moved / deviation == pytest.approx(MU * 0.4**0.5)


@pytest.mark.parametrize("rounds", ROUNDS.values())
def test_rounds_have_the_budget_of_one_release(rounds: tuple[tuple[float, float | None], ...]) -> None:
    assert sum(share for share, _ in rounds) == pytest.approx(1)
    assert 0.9 < epsilon() < 1
