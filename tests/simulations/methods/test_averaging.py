"""The averaged models: their gradients are those that torch finds."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from consilium.simulations.methods import averaging
from consilium.simulations.methods.averaging import (
    AveragedNetwork,
    InProcessGrid,
    LocalTraining,
    Rounds,
    TrainingRows,
    as_record,
    federate,
    train_locally,
)
from tests.simulations.methods.made_up_parties import made_up_parties


@pytest.mark.parametrize(("classes", "hidden"), [(2, 0), (4, 0), (2, 5), (3, 5)])
def test_gradient_is_torchs(classes: int, hidden: int) -> None:
    generator = np.random.default_rng(classes)
    network = AveragedNetwork.of(6, classes, hidden)
    model, x, y = (
        generator.normal(size=network.size),
        generator.normal(size=(9, 6)),
        generator.integers(classes, size=9),
    )
    layers = []
    start = 0
    for before, after in zip(network.widths, network.widths[1:], strict=False):
        end = start + (before + 1) * after
        layers.append(torch.tensor(model[start:end].reshape(before + 1, after), requires_grad=True))
        start = end
    assert start == network.size
    value = torch.tensor(x)
    for index, layer in enumerate(layers):
        value = (torch.relu(value) if index else value) @ layer[:-1] + layer[-1]
    torch.nn.functional.cross_entropy(value, torch.tensor(y)).backward()
    expected = np.concatenate([layer.grad.numpy().ravel() for layer in layers if layer.grad is not None])
    assert network.gradient(model, x, y) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert network.probabilities(model, x) == pytest.approx(torch.softmax(value, dim=1).detach().numpy(), rel=1e-10)


def test_parties_start_alike_and_a_hidden_layer_by_lot() -> None:
    assert not AveragedNetwork.of(4, 2, hidden=0).initial(0).any()
    wide = AveragedNetwork.of(400, 2, hidden=30)
    first = wide.initial(3)
    assert (first == wide.initial(3)).all()
    assert (first != wide.initial(4)).any()
    assert first[: 400 * 30].std() == pytest.approx(np.sqrt(2 / 400), rel=0.05)
    assert not first[400 * 30 : 401 * 30].any()


NETWORK = AveragedNetwork.of(3, 2, hidden=0)


@pytest.mark.parametrize(
    ("rows", "training", "sizes"),
    [
        (7, LocalTraining(0.1, batch=3), [3, 3, 1]),
        (7, LocalTraining(0.1, batch=3, epochs=2), [3, 3, 1, 3, 3, 1]),
        (1, LocalTraining(0.1, batch=32), [1]),
    ],
)
def test_each_pass_takes_every_row_once(rows: int, training: LocalTraining, sizes: list[int]) -> None:
    found = list(averaging.batches_of(rows, training, np.random.default_rng(0)))
    assert [len(each) for each in found] == sizes
    for start in range(0, len(found), per_pass := -(-rows // training.batch)):
        taken = np.concatenate(found[start : start + per_pass])
        assert len(np.unique(taken)) == len(taken)
    assert (np.concatenate(found[:per_pass])[: len(np.unique(np.concatenate(found)))] < rows).all()


def test_one_step_by_hand() -> None:
    rows = TrainingRows(np.array([[1.0, 0.0, 2.0]], dtype=np.float32), np.array([1]))
    # at zero both classes have probability one half: the gradient of class 1 is -x / 2, of class 0 +x / 2
    found = train_locally(NETWORK, np.zeros(8), rows, LocalTraining(0.2), np.random.default_rng(0))
    assert found.reshape(4, 2).tolist() == pytest.approx(np.array([[-0.1, 0.1], [0, 0], [-0.2, 0.2], [-0.1, 0.1]]))


LINEAR = AveragedNetwork.of(3, 2, hidden=0)
HIDDEN = AveragedNetwork.of(3, 3, hidden=4)
TRAINING = LocalTraining(0.3, batch=8, epochs=2)


def trained_alone(
    network: AveragedNetwork, given: np.ndarray, parties: list[TrainingRows], round_: int, seed: int
) -> list[np.ndarray]:
    """What each party makes of the model in this round."""
    return [
        train_locally(network, given, rows, TRAINING, np.random.default_rng([averaging._ROUND, seed, index, round_]))
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
def test_several_rounds_are_a_plain_loop(network: AveragedNetwork, classes: int) -> None:
    parties = made_up_parties([1, 5, 12, 40], classes)
    sizes = np.array([1, 5, 12, 40])
    model = network.initial(7)
    for round_ in range(1, 5):
        model = sizes / sizes.sum() @ np.stack(trained_alone(network, model, parties, round_, seed=7))
    found = federate(parties, network, TRAINING, Rounds(4), seed=7)
    assert found.model == pytest.approx(model, rel=1e-9, abs=1e-12)


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
