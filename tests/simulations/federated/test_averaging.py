"""Federated averaging through Flower is what a plain loop gives, and a party that fails is left out and told."""

from __future__ import annotations

import random

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from consilium.simulations.federated import local_training
from consilium.simulations.federated.averaging import federate
from consilium.simulations.federated.client_app import as_record
from consilium.simulations.federated.in_process_grid import InProcessGrid
from consilium.simulations.federated.local_training import LocalTraining, TrainingRows, train_locally
from consilium.simulations.federated.networks import AveragedNetwork
from consilium.simulations.federated.rounds import Rounds
from tests.simulations.federated.made_up_parties import made_up_parties

LINEAR = AveragedNetwork.of(3, 2, hidden=0)
HIDDEN = AveragedNetwork.of(3, 3, hidden=4)
TRAINING = LocalTraining(0.3, batch=8, epochs=2)


def trained_alone(
    network: AveragedNetwork, given: np.ndarray, parties: list[TrainingRows], round_: int, seed: int, mu: float = 0.0
) -> list[np.ndarray]:
    """What each party makes of the model in this round."""
    return [
        train_locally(
            network, given, rows, TRAINING, mu, np.random.default_rng([local_training._PURPOSE, seed, index, round_])
        )
        for index, rows in enumerate(parties)
    ]


def test_one_round_of_equal_parties_is_their_mean() -> None:
    parties = made_up_parties([20, 20, 20])
    found = federate(parties, LINEAR, TRAINING, Rounds(1), seed=4)
    alone = trained_alone(LINEAR, np.zeros(8), parties, 1, seed=4)
    assert found.model == pytest.approx(np.mean(alone, axis=0), rel=1e-12)
    assert (found.rounds, found.left_out, found.epsilon) == (1, (), None)
    assert found.model != pytest.approx(alone[0], rel=0.05)


@pytest.mark.parametrize(("network", "classes"), [(LINEAR, 2), (HIDDEN, 3)])
@pytest.mark.parametrize("mu", [None, 0.4])
def test_several_rounds_are_a_plain_loop(network: AveragedNetwork, classes: int, mu: float | None) -> None:
    parties = made_up_parties([1, 5, 12, 40], classes)
    sizes = np.array([1, 5, 12, 40])
    model = network.initial(7)
    for round_ in range(1, 5):
        model = sizes / sizes.sum() @ np.stack(trained_alone(network, model, parties, round_, seed=7, mu=mu or 0.0))
    found = federate(parties, network, TRAINING, Rounds(4, proximal_mu=mu), seed=7)
    assert found.model == pytest.approx(model, rel=1e-9, abs=1e-12)


def test_fedprox_without_its_term_is_fedavg() -> None:
    parties = made_up_parties([3, 9, 30])
    averaged = federate(parties, LINEAR, TRAINING, Rounds(5), seed=1).model
    assert (federate(parties, LINEAR, TRAINING, Rounds(5, proximal_mu=0.0), seed=1).model == averaged).all()
    assert (federate(parties, LINEAR, TRAINING, Rounds(5, proximal_mu=0.5), seed=1).model != averaged).all()


@pytest.mark.parametrize("sizes", [[1], [30], [1, 1]])
def test_one_party_or_one_row_will_do(sizes: list[int]) -> None:
    found = federate(made_up_parties(sizes), LINEAR, TRAINING, Rounds(3), seed=0)
    assert (found.rounds, np.isfinite(found.model).all()) == (3, True)


def test_a_party_whose_training_diverges_is_left_out_and_told() -> None:
    parties = made_up_parties([20, 20, 20])
    broken = TrainingRows(np.full((20, 3), np.inf, dtype=np.float32), parties[1].y)
    found = federate([parties[0], broken, parties[2]], LINEAR, TRAINING, Rounds(1), seed=4)
    alone = trained_alone(LINEAR, np.zeros(8), parties, 1, seed=4)
    assert found.left_out == (1,)
    assert found.model == pytest.approx((alone[0] + alone[2]) / 2, rel=1e-12)


def test_where_all_fail_nothing_is_learned() -> None:
    broken = TrainingRows(np.full((2, 3), np.nan, dtype=np.float32), np.array([0, 1]))
    found = federate([broken, broken], LINEAR, TRAINING, Rounds(2), seed=4)
    assert (found.rounds, found.left_out, found.model.tolist()) == (0, (0, 1), [0.0] * 8)


def test_an_app_that_raises_is_left_out_without_its_text() -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise RuntimeError("value 17 of a patient")

    grid = InProcessGrid(app, 2)
    messages = FedAvg(1.0, 0.0, 1, 0, 1).configure_train(1, as_record(np.zeros(2)), ConfigRecord(), grid)
    replies = list(grid.send_and_receive(messages))
    assert [reply.has_error() for reply in replies] == [True, True]
    assert {reply.error.reason for reply in replies} == {"ClientApp raised"}
    assert grid.left_out == {0, 1}


@pytest.mark.parametrize(("fraction", "taking_part"), [(0.5, 3), (0.01, 1), (1.0, 6)])
def test_a_fraction_of_the_parties_by_lot(fraction: float, taking_part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    answer = InProcessGrid._answer
    monkeypatch.setattr(
        InProcessGrid,
        "_answer",
        lambda self, message: asked.append(message.metadata.dst_node_id) or answer(self, message),
    )
    federate(made_up_parties([5] * 6), LINEAR, TRAINING, Rounds(20, fraction), seed=2)
    rounds = np.array(asked).reshape(20, taking_part)
    assert all(len(set(each)) == taking_part for each in rounds.tolist())
    assert len(set(asked)) == 6


def test_the_same_seed_gives_the_same_and_leaves_global_generators_alone(capfd: pytest.CaptureFixture[str]) -> None:
    parties = made_up_parties([5] * 8)

    def drawn(seed: int) -> np.ndarray:
        return federate(parties, HIDDEN, TRAINING, Rounds(3, 0.5), seed=seed).model

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
