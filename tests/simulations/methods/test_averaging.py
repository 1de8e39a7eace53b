"""Federated averaging: gradients as torch finds them, and rounds that are a plain loop."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm

from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.errors import EngineError
from consilium.simulations.methods import averaging
from consilium.simulations.methods.averaging import (
    LocalTraining,
    PartyPrivacy,
    TrainingRows,
    federate,
    gradient,
    train_locally,
)
from consilium.simulations.methods.base import StatedGuarantee

INPUTS = 3


def made_up_parties(sizes: list[int], classes: int = 2, inputs: int = INPUTS, seed: int = 0) -> list[TrainingRows]:
    """One for each size; classes whose means differ, in shares of each party's own."""
    generator = np.random.default_rng([seed, 11])
    means = generator.normal(size=(classes, inputs))
    found = []
    for size in sizes:
        y = generator.choice(classes, size=size, p=generator.dirichlet(np.ones(classes)))
        found.append(TrainingRows((means[y] + generator.normal(size=(size, inputs))).astype(np.float32), y))
    return found


@pytest.mark.parametrize("classes", [2, 4])
def test_gradient_is_torchs(classes: int) -> None:
    generator = np.random.default_rng(classes)
    model, x, y = (
        generator.normal(size=(7, classes)),
        generator.normal(size=(9, 6)),
        generator.integers(classes, size=9),
    )
    layer = torch.tensor(model, requires_grad=True)
    torch.nn.functional.cross_entropy(torch.tensor(x) @ layer[:-1] + layer[-1], torch.tensor(y)).backward()
    assert layer.grad is not None
    assert gradient(model, x, y) == pytest.approx(layer.grad.numpy(), rel=1e-10, abs=1e-12)


def test_one_step_by_hand() -> None:
    rows = TrainingRows(np.array([[1.0, 0.0, 2.0]], dtype=np.float32), np.array([1]))
    # at zero both classes have probability one half: the gradient of class 1 is -x / 2, of class 0 +x / 2
    found = train_locally(np.zeros((4, 2)), rows, LocalTraining(0.2), np.random.default_rng(0))
    assert found.tolist() == pytest.approx(np.array([[-0.1, 0.1], [0, 0], [-0.2, 0.2], [-0.1, 0.1]]))


TRAINING = LocalTraining(0.3, batch=8, epochs=2)


def trained_alone(given: np.ndarray, parties: list[TrainingRows], round_: int, seed: int) -> list[np.ndarray]:
    """What each party makes of the model in this round."""
    return [
        train_locally(given, rows, TRAINING, np.random.default_rng([averaging._ROUND, seed, index, round_]))
        for index, rows in enumerate(parties)
    ]


@pytest.mark.parametrize("classes", [2, 3])
def test_several_rounds_are_a_plain_loop(classes: int) -> None:
    parties = made_up_parties([1, 5, 12, 40], classes)
    sizes = np.array([1, 5, 12, 40])
    model = np.zeros((4, classes))
    for round_ in range(1, 5):
        model = np.average(trained_alone(model, parties, round_, seed=7), axis=0, weights=sizes)
    found = federate(parties, classes, TRAINING, 4, seed=7)
    assert found.model == pytest.approx(model, rel=1e-9, abs=1e-12)


def test_a_party_whose_training_diverges_is_left_out_and_told() -> None:
    parties = made_up_parties([20, 20, 20])
    broken = TrainingRows(np.full((20, 3), np.inf, dtype=np.float32), parties[1].y)
    found = federate([parties[0], broken, parties[2]], 2, TRAINING, 1, seed=4)
    alone = trained_alone(np.zeros((4, 2)), parties, 1, seed=4)
    assert found.left_out == (1,)
    assert found.model == pytest.approx((alone[0] + alone[2]) / 2, rel=1e-12)


def test_where_all_fail_nothing_is_learned() -> None:
    broken = TrainingRows(np.full((2, 3), np.nan, dtype=np.float32), np.array([0, 1]))
    found = federate([broken, broken], 2, TRAINING, 2, seed=4)
    assert (found.rounds, found.left_out, found.model.any()) == (0, (0, 1), False)


def test_the_same_seed_gives_the_same_and_leaves_global_generators_alone(capfd: pytest.CaptureFixture[str]) -> None:
    parties = made_up_parties([5] * 8)

    promise = StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)

    def drawn(seed: int) -> np.ndarray:
        return federate(parties, 2, TRAINING, 3, seed, PartyPrivacy(promise, 0.1)).model

    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    first = drawn(3)
    after = (np.random.random(), random.random())  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    assert after == (np.random.random(), random.random())  # noqa: NPY002
    assert (first == drawn(3)).all()
    assert (first != drawn(2**40)).any()
    assert capfd.readouterr() == ("", "")


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
