"""The averaged models: their gradients are those that torch finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from consilium.simulations.federated.networks import AveragedNetwork


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
