"""Students of images in colour: all of them learn hues, and how photographs are changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from consilium.models.images.pixels import PHOTOS, SIGNS, Distortion, Pixels
from consilium.models.torch_classifier import TorchClassifier
from consilium.protocol.rows.images import ImageShape
from consilium.student.learn import train
from tests.specs import student_of

TRAINERS = ["cnn", "vat", "graph_cnn"]
SIDE = 8


def hues(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 8x8 pixels in colour: one of three channels is brighter, and their sum is the same."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    x = generator.uniform(0.2, 0.4, size=(count, SIDE, SIDE, 3)) + 0.4 * np.eye(3)[y][:, None, None, :]
    return x.reshape(count, -1), y


@pytest.mark.slow
@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_student_of_images_learns_hues(trainer: str) -> None:
    (x, y), (other, truth) = hues(200), hues(200, seed=1)
    spec = student_of(trainer, channels=4, steps=60, looks=10, networks=2, settled=0.0, augment="photos", gamma=0.5)
    model = train(x[:30], y[:30], x[30:], 3, spec, seed=0)
    assert (model.predict_proba(other).argmax(axis=1) == truth).mean() > 0.9


@pytest.mark.parametrize("distortion", [SIGNS.weak, SIGNS.strong, PHOTOS.weak, PHOTOS.strong])
@pytest.mark.parametrize("channels", [1, 3])
def test_distortions_keep_shape_and_range(distortion: Distortion, channels: int) -> None:
    images = torch.rand(20, channels, 12, 12, generator=torch.Generator().manual_seed(1))
    changed = distortion(images, torch.Generator().manual_seed(0))
    assert changed.shape == images.shape
    assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
    assert not torch.allclose(changed, images, atol=1e-3)


def test_a_tint_changes_each_channel_by_itself() -> None:
    images = torch.full((300, 3, 4, 4), 0.4)
    changed = Distortion(tint=0.5)(images, torch.Generator().manual_seed(0))
    of_channels = changed[:, :, 0, 0]
    assert torch.equal(changed, of_channels[:, :, None, None].expand_as(changed))
    for channel in of_channels.T:
        assert 0.2 <= float(channel.min()) < 0.22 and 0.58 < float(channel.max()) <= 0.6
    assert float(torch.corrcoef(of_channels.T).fill_diagonal_(0).abs().max()) < 0.35  # 6 deviations of 300 draws


def test_a_photograph_goes_on_beyond_its_edge() -> None:
    images = torch.full((50, 3, 9, 9), 0.7)
    generator = torch.Generator().manual_seed(0)
    assert float(Distortion(shift=0.3)(images, generator).min()) == 0
    assert float(Distortion(shift=0.3, beyond="reflection")(images, generator).min()) == pytest.approx(0.7)


def test_rows_become_planes() -> None:
    rows = np.arange(2 * 192, dtype=np.float32).reshape(2, 192)
    pixels = Pixels.of(rows)
    assert pixels.shape == ImageShape(3, 8)
    images = pixels.images(rows)
    assert images.shape == (2, 3, 8, 8) and images.is_contiguous()
    assert float(images[0, 1, 0, 2]) == pytest.approx(7 / 383)  # green of the third pixel


class Kernels(nn.Module):
    """A module of somebody's own."""

    def __init__(self, inputs: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.told = inputs
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(inputs[0], 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def test_a_module_of_ones_own_gets_three_channels() -> None:
    x, y = hues(60)
    model = TorchClassifier(Kernels, images=True, epochs=10, learning_rate=0.01).fit(x, y)
    assert model.module_.told == (3, 8, 8)
    assert (model.predict(x) == y).mean() > 0.9
