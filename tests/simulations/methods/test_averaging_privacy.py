"""Private averaging costs what it says: how far one party moves a round, how much noise there is, how rounds add up."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import EngineError
from consilium.simulations.methods import averaging
from consilium.simulations.methods.averaging import LocalTraining, PartyPrivacy, TrainingRows, federate
from consilium.simulations.methods.base import StatedGuarantee
from tests.simulations.methods.made_up_parties import made_up_parties

TRAINING = LocalTraining(0.3, batch=8, epochs=2)
PROMISE = StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
REPLACE = PartyPrivacy(PROMISE, clip=0.1)


def test_one_party_moves_a_round_by_2_c_over_n_and_no_more() -> None:
    parties = made_up_parties([50, 3, 3, 3])
    other = TrainingRows(-100 * parties[0].x, 1 - parties[0].y)
    privacy = REPLACE

    def released(first: TrainingRows) -> np.ndarray:
        # the same seed: the same noise, so that the difference is that of the averages
        return federate([first, *parties[1:]], 2, TRAINING, 1, seed=3, privacy=privacy).model

    opposite = TrainingRows(parties[0].x, 1 - parties[0].y)
    limit = 2 * privacy.clip / len(parties)
    moved = [float(np.linalg.norm(released(parties[0]) - released(each))) for each in (other, opposite)]
    assert max(moved) <= limit * (1 + 1e-9)
    assert max(moved) > 0.9 * limit


def test_the_noise_is_there() -> None:
    """Sum of squares against chi-square, and the mean against a normal law. False alarms: 2e-6 in all, seed fixed."""
    parties = made_up_parties([4, 9, 30], inputs=2000)
    # in one step of so small a rate the parties move by 1e-9: what is left is noise
    found = federate(parties, 2, LocalTraining(1e-12), 1, seed=8, privacy=REPLACE).model
    deviation = PROMISE.noise_multiplier(1) * REPLACE.clip / 3
    squares, count = float(((found / deviation) ** 2).sum()), found.size
    assert chi2.ppf(5e-7, count) < squares < chi2.ppf(1 - 5e-7, count)
    assert abs(found.mean()) < deviation / math.sqrt(count) * norm.ppf(1 - 5e-7)


def test_each_round_has_noise_of_its_own() -> None:
    parties = made_up_parties([4, 9], inputs=2000)

    def after(rounds: int) -> np.ndarray:
        return federate(parties, 2, LocalTraining(1e-12), rounds, seed=8, privacy=REPLACE).model

    once, often = after(1), after(4)
    expected = PROMISE.noise_multiplier(4) / PROMISE.noise_multiplier(1) * 2
    assert often.std() / once.std() == pytest.approx(expected, rel=0.05)


def test_parties_count_the_same_however_many_rows_they_have() -> None:
    parties, step = made_up_parties([2, 400]), LocalTraining(1.0, batch=400)
    small, large = (federate([each], 2, step, 1, seed=0).model for each in parties)
    privacy = PartyPrivacy(replace(PROMISE, epsilon=1e6), clip=5.0)  # clips nothing, and has next to no noise
    found = federate(parties, 2, step, 1, seed=0, privacy=privacy).model
    assert found == pytest.approx((small + large) / 2, abs=0.02)
    weighted = federate(parties, 2, step, 1, seed=0).model
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
    parties = [*made_up_parties([4, 9]), rows]
    found = federate(parties, 2, TRAINING, 3, seed=0, privacy=REPLACE)
    assert (found.rounds, found.left_out, np.isfinite(found.model).all()) == (3, (), True)


def test_a_party_that_gives_no_model_ends_private_averaging(monkeypatch: pytest.MonkeyPatch) -> None:
    app = averaging.party_app
    monkeypatch.setattr(averaging, "party_app", lambda *given, private: app(*given, private=False))
    broken = TrainingRows(np.full((3, 3), np.nan, dtype=np.float32), np.array([0, 1, 1]))
    with pytest.raises(EngineError, match="1 parties did not answer"):
        federate([*made_up_parties([4, 9]), broken], 2, TRAINING, 3, seed=0, privacy=REPLACE)
