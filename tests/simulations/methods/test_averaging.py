"""Federated averaging: gradients as torch finds them, and rounds that are a plain loop."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from consilium.accounting.units import Neighbouring, Unit
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
from tests.simulations.methods.made_up_parties import made_up_parties


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
