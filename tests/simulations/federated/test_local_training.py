"""A party's round: which rows it steps on, and where the proximal term pulls."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.simulations.federated import local_training as module
from consilium.simulations.federated.local_training import LocalTraining, TrainingRows, train_locally
from consilium.simulations.federated.networks import AveragedNetwork
from tests.simulations.federated.made_up_parties import made_up_parties

NETWORK = AveragedNetwork.of(3, 2, hidden=0)


@pytest.mark.parametrize(
    ("rows", "training", "sizes"),
    [
        (7, LocalTraining(0.1, batch=3), [3, 3, 1]),
        (7, LocalTraining(0.1, batch=3, epochs=2), [3, 3, 1, 3, 3, 1]),
        (1, LocalTraining(0.1, batch=32), [1]),
        (6, LocalTraining(0.1, batch=3), [3, 3]),
        (7, LocalTraining(0.1, batch=3, steps=5), [3, 3, 1, 3, 3]),
        (7, LocalTraining(0.1, batch=3, steps=1), [3]),
    ],
)
def test_each_pass_takes_every_row_once(rows: int, training: LocalTraining, sizes: list[int]) -> None:
    found = list(module._batches(rows, training, np.random.default_rng(0)))
    assert [len(each) for each in found] == sizes
    for start in range(0, len(found), per_pass := -(-rows // training.batch)):
        taken = np.concatenate(found[start : start + per_pass])
        assert len(np.unique(taken)) == len(taken)
    assert (np.concatenate(found[:per_pass])[: len(np.unique(np.concatenate(found)))] < rows).all()


def test_one_step_by_hand() -> None:
    rows = TrainingRows(np.array([[1.0, 0.0, 2.0]], dtype=np.float32), np.array([1]))
    # at zero both classes have probability one half: the gradient of class 1 is -x / 2, of class 0 +x / 2
    found = train_locally(NETWORK, np.zeros(8), rows, LocalTraining(0.2), 0.0, np.random.default_rng(0))
    assert found.reshape(4, 2).tolist() == pytest.approx(np.array([[-0.1, 0.1], [0, 0], [-0.2, 0.2], [-0.1, 0.1]]))


def test_the_proximal_term_pulls_towards_the_model_that_was_given() -> None:
    rows, training = made_up_parties([40])[0], LocalTraining(0.1, batch=8, epochs=20)

    def distance(mu: float) -> float:
        given = np.ones(8)
        return float(
            np.linalg.norm(train_locally(NETWORK, given, rows, training, mu, np.random.default_rng(1)) - given)
        )

    assert distance(0.0) > 2 * distance(1.0) > 4 * distance(5.0) > 0


def test_a_large_proximal_term_ends_where_its_gradient_balances_the_losss() -> None:
    rows, given, mu = made_up_parties([40])[0], np.full(8, 0.5), 3.0
    training = LocalTraining(0.05, batch=40, epochs=600)
    found = train_locally(NETWORK, given, rows, training, mu, np.random.default_rng(1))
    balance = NETWORK.gradient(found, rows.x.astype(np.float64), rows.y) + mu * (found - given)
    assert balance == pytest.approx(np.zeros(8), abs=1e-9)


def test_what_travels_comes_out_as_it_went_in() -> None:
    training = LocalTraining(0.25, batch=4, epochs=3, steps=7)
    assert LocalTraining.of_config({**training.to_config(), "server-round": 3}) == training
