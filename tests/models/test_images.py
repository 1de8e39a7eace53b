"""The student of a graph and networks: rows as images, their changed copies, and that its parts help each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from consilium.models.images.pixels import DIGITS, NONE, OBJECTS, Distortion, Pixels
from consilium.models.keys import TorchKeys
from consilium.models.torch_classifier import TorchClassifier
from consilium.protocol.errors import ConfigError
from consilium.student.learn import train
from tests.models.digits import digits, spec
from tests.strangers import Eyes


def test_probabilities_of_classes_never_seen_too() -> None:
    """Neither threads nor the random state of others change."""
    x, y = digits()
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    model = train(x[:40], y[:40], x[40:90], 12, spec("graph_cnn", steps=10), seed=0)
    assert (torch.get_rng_state() == state).all() and torch.get_num_threads() == threads
    probabilities = model.predict_proba(x[:700])
    assert (probabilities.shape, probabilities.dtype) == ((700, 12), np.float64)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    assert (probabilities >= 0).all()
    assert model.predict_proba(x[:0]).shape == (0, 12)


def test_learns() -> None:
    x, y = digits()
    model = train(x[:300], y[:300], x[300:600], 10, spec("graph_cnn", channels=12, steps=150, networks=2), seed=0)
    # processors add in other orders, and some in 16 bits: from .74 up; by chance .1
    assert (model.predict_proba(x[1000:]).argmax(axis=1) == y[1000:]).mean() > 0.7


def test_the_seed_decides() -> None:
    x, y = digits()
    first, again, other = (
        train(x[:30], y[:30], x[30:90], 10, spec("graph_cnn", steps=8, networks=1), seed).predict_proba(x[:50])
        for seed in (4, 4, 5)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(("labelled", "unlabelled"), [(30, 0), (2, 50)])
def test_few_rows(labelled: int, unlabelled: int) -> None:
    x, y = digits()
    rows = np.append(np.flatnonzero(y != y[0])[: labelled - 1], 0)  # two classes, where there are but two labels
    model = train(x[rows], y[rows], x[100 : 100 + unlabelled], 10, spec("graph_cnn", steps=5), seed=0)
    assert np.isfinite(model.predict_proba(x[:5])).all()


def test_rows_that_are_no_images() -> None:
    with pytest.raises(ConfigError, match="square images of at least 8x8 pixels, not 3 features"):
        train(np.zeros((2, 3)), np.array([0, 1]), np.zeros((0, 3)), 2, spec("graph_cnn"), seed=0)


@pytest.mark.parametrize("distortion", [DIGITS.weak, DIGITS.strong, OBJECTS.weak, OBJECTS.strong, NONE.strong])
def test_distortions_keep_shape_and_range(distortion: Distortion) -> None:
    images = Pixels.of(digits()[0]).images(digits()[0][:50])
    generator = torch.Generator().manual_seed(0)
    changed = distortion(images, generator)
    assert (changed.shape, changed.dtype) == (images.shape, images.dtype)
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert torch.allclose(changed, images, atol=1e-5) == (distortion == Distortion())
    assert not torch.equal(distortion(images, generator), changed) or distortion == Distortion()


def test_distortions_by_hand() -> None:
    dot = torch.zeros(200, 1, 9, 9)
    dot[:, 0, 4, 4] = 1.0
    generator = torch.Generator().manual_seed(0)
    turned = Distortion(degrees=180)(dot, generator)
    assert torch.allclose(turned[:, 0, 4, 4], torch.ones(200), atol=1e-4)  # the centre stays where it is
    moved = Distortion(shift=1 / 9)(dot, generator)
    reach = torch.nonzero(moved.sum(dim=(0, 1)) > 1e-4)
    assert (reach.min(), reach.max()) == (3, 5)  # at most one pixel, to all sides
    left = torch.zeros(200, 1, 9, 9)
    left[:, 0, 4, 0] = 1.0
    mirrored = Distortion(mirror=True)(left, generator)[:, 0, 4, 8]
    assert 60 <= int((mirrored > 0.99).sum()) <= 140  # of 200 coins; outside in one of 10^8 seeds
    light = Distortion(light=0.5)(torch.full((200, 1, 9, 9), 0.4), generator)[:, 0, 4, 4]
    assert 0.2 <= float(light.min()) < 0.22
    assert 0.58 < float(light.max()) <= 0.6
    holes = (Distortion(cutout=0.5)(torch.ones(200, 1, 9, 9), generator) == 0).sum(dim=(1, 2, 3))
    assert 4 <= int(holes.min()) <= int(holes.max()) <= 25


def test_rows_as_images() -> None:
    rows = np.arange(128, dtype=np.float32).reshape(2, 64)
    images = Pixels.of(rows).images(rows)
    assert images.shape == (2, 1, 8, 8)
    assert (float(images.min()), float(images.max())) == (0, 1)
    assert float(images[0, 0, 1, 0]) == pytest.approx(8 / 127)  # the second line begins with the ninth feature
    assert float(Pixels.of(np.full((2, 64), 7.0)).images(np.full((1, 64), 7.0)).abs().max()) == 0


SIDE = 8


def hues(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 8x8 pixels in colour: one of three channels is brighter, and their sum is the same."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    x = generator.uniform(0.2, 0.4, size=(count, SIDE, SIDE, 3)) + 0.4 * np.eye(3)[y][:, None, None, :]
    return x.reshape(count, -1), y


def test_a_student_of_images_learns_hues() -> None:
    (x, y), (other, truth) = hues(200), hues(200, seed=1)
    settings = spec("graph_cnn", channels=4, looks=10, networks=2, augment="objects", gamma=0.5)
    model = train(x[:30], y[:30], x[30:], 3, settings, seed=0)
    assert (model.predict_proba(other).argmax(axis=1) == truth).mean() > 0.9


def test_a_module_of_ones_own_gets_three_channels() -> None:
    x, y = hues(60)
    keys = TorchKeys(factory="a:b", images=True, epochs=20, learning_rate=0.01)
    model = TorchClassifier(keys, Eyes).fit(x, y)
    assert next(model.module_.parameters()).shape == (4, 3, 3, 3)
    assert (model.predict(x) == y).mean() > 0.9
