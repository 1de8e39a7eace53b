"""Rows as images, and the changed copies of them that a trainer learns from."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from consilium.models.images.pixels import DIGITS, INVARIANCES, NONE, OBJECTS, Distortion, Pixels
from consilium.models.specs import Augment
from tests.student.trainers.digits import digits

pytestmark = pytest.mark.slow


def test_each_kind_of_picture_has_its_distortions() -> None:
    assert set(INVARIANCES) == set(get_args(Augment))


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
