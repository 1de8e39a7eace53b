"""Private averaging costs what it says: how far one party moves a round, how much noise there is, how rounds add up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flwr.serverapp import GaussianPrivacyEvent
from scipy.stats import chi2, norm

from consilium.accounting.units import Neighbouring
from consilium.simulations.methods.averaging import AveragedNetwork, LocalTraining, Rounds, TrainingRows, federate
from consilium.simulations.methods.averaging_privacy import PartyPrivacy
from tests.simulations.methods.made_up_parties import made_up_parties

LINEAR = AveragedNetwork.of(3, 2, hidden=0)
TRAINING = LocalTraining(0.3, batch=8, epochs=2)
REPLACE = PartyPrivacy(1.0, 1e-5, Neighbouring.REPLACE, clip=0.1)
RELATIONS = [(Neighbouring.REPLACE, 2), (Neighbouring.ADD_OR_REMOVE, 1)]


def delta_by_hand(rounds: int, noise: float, moved: int, epsilon: float) -> float:
    """Of so many Gaussian releases whose mean moves by `moved` at noise of deviation `noise` (Balle, Wang 2018)."""
    mu = math.sqrt(rounds) * moved / noise
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("relation", "moved"), RELATIONS)
@pytest.mark.parametrize("rounds", [1, 20])
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_all_rounds_together_cost_epsilon(relation: Neighbouring, moved: int, rounds: int, epsilon: float) -> None:
    privacy = PartyPrivacy(epsilon, 1e-5, relation, clip=1.0)
    noise = privacy.noise_multiplier(rounds)
    assert delta_by_hand(rounds, noise, moved, epsilon) == pytest.approx(1e-5, rel=1e-5)
    accountant, event = privacy.accountant(50), GaussianPrivacyEvent(noise, 50, 50)
    for _round in range(rounds):
        assert not accountant.would_exceed(event)
        accountant.compose(event)
    spent = accountant.get_privacy_spent()
    assert (spent.num_releases, spent.delta) == (rounds, 1e-5)
    assert epsilon * (1 - 1e-6) < spent.epsilon <= epsilon
    assert accountant.get_delta(spent.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert accountant.would_exceed(event)
    assert not accountant.would_exceed(event, max_epsilon=10 * epsilon)


def test_nothing_released_costs_nothing() -> None:
    accountant = REPLACE.accountant(3)
    assert (accountant.get_epsilon(1e-5), accountant.get_delta(0.5)) == (0.0, 0.0)


def test_figures_of_a_run_are_what_it_spent() -> None:
    found = federate(made_up_parties([4, 9, 30]), LINEAR, TRAINING, Rounds(6), seed=0, privacy=REPLACE)
    assert found.rounds == 6
    assert found.epsilon == pytest.approx(1.0, rel=1e-6)
    assert found.epsilon is not None and found.epsilon <= 1.0


def test_one_party_moves_a_round_by_2_c_over_n_and_no_more() -> None:
    parties = made_up_parties([50, 3, 3, 3])
    other = TrainingRows(-100 * parties[0].x, 1 - parties[0].y)
    privacy = REPLACE

    def released(first: TrainingRows) -> np.ndarray:
        # the same seed: the same noise, so that the difference is that of the averages
        return federate([first, *parties[1:]], LINEAR, TRAINING, Rounds(1), seed=3, privacy=privacy).model

    opposite = TrainingRows(parties[0].x, 1 - parties[0].y)
    limit = 2 * privacy.clip / len(parties)
    moved = [float(np.linalg.norm(released(parties[0]) - released(each))) for each in (other, opposite)]
    assert max(moved) <= limit * (1 + 1e-9)
    assert max(moved) > 0.9 * limit


def test_the_noise_is_there() -> None:
    """Sum of squares against chi-square, and the mean against a normal law. False alarms: 2e-6 in all, seed fixed."""
    wide, parties = AveragedNetwork.of(2000, 2, hidden=0), made_up_parties([4, 9, 30], inputs=2000)
    # in one step of so small a rate the parties move by 1e-9: what is left is noise
    found = federate(parties, wide, LocalTraining(1e-12), Rounds(1), seed=8, privacy=REPLACE).model
    deviation = REPLACE.noise_multiplier(1) * REPLACE.clip / 3
    squares, count = float(((found / deviation) ** 2).sum()), len(found)
    assert chi2.ppf(5e-7, count) < squares < chi2.ppf(1 - 5e-7, count)
    assert abs(found.mean()) < deviation / math.sqrt(count) * norm.ppf(1 - 5e-7)


def test_each_round_has_noise_of_its_own() -> None:
    wide, parties = AveragedNetwork.of(2000, 2, hidden=0), made_up_parties([4, 9], inputs=2000)

    def after(rounds: int) -> np.ndarray:
        return federate(parties, wide, LocalTraining(1e-12), Rounds(rounds), seed=8, privacy=REPLACE).model

    once, often = after(1), after(4)
    expected = REPLACE.noise_multiplier(4) / REPLACE.noise_multiplier(1) * 2
    assert often.std() / once.std() == pytest.approx(expected, rel=0.05)


def test_parties_count_the_same_however_many_rows_they_have() -> None:
    parties, step = made_up_parties([2, 400]), LocalTraining(1.0, batch=400)
    small, large = (federate([each], LINEAR, step, Rounds(1), seed=0).model for each in parties)
    privacy = replace(REPLACE, epsilon=1e6, clip=5.0)  # clips nothing, and has next to no noise
    found = federate(parties, LINEAR, step, Rounds(1), seed=0, privacy=privacy).model
    assert found == pytest.approx((small + large) / 2, abs=0.02)
    weighted = federate(parties, LINEAR, step, Rounds(1), seed=0).model
    assert weighted == pytest.approx((2 * small + 400 * large) / 402, rel=1e-9)
    assert np.abs(weighted - found).max() > 0.1


@pytest.mark.parametrize(
    "rows",
    [
        TrainingRows(np.full((3, 3), np.nan, dtype=np.float32), np.array([0, 1, 1])),
        TrainingRows(np.full((3, 3), np.inf, dtype=np.float32), np.array([0, 1, 1])),
        TrainingRows(np.zeros((2, 3), dtype=np.float32), np.array([0, 1])),
    ],
    ids=["missing", "diverges", "learns nothing"],
)
def test_whatever_a_party_has_it_takes_part(rows: TrainingRows) -> None:
    privacy = REPLACE
    parties = [*made_up_parties([4, 9]), rows]
    found = federate(parties, LINEAR, TRAINING, Rounds(3), seed=0, privacy=privacy)
    assert (found.rounds, found.left_out, np.isfinite(found.model).all()) == (3, (), True)


def test_a_part_of_the_parties_is_refused() -> None:
    with pytest.raises(ValueError, match="all parties in each round"):
        federate(made_up_parties([4, 9]), LINEAR, TRAINING, Rounds(3, fraction=0.5), seed=0, privacy=REPLACE)
