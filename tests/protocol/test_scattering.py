"""Scattering: stable under small shifts, blind to constants where it should be, the same for one image and for many."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.protocol.images import ANGLES, CHANNELS, hellinger, represent, scatter
from consilium.protocol.schema import Schema

NAMES = tuple(f"p{index}" for index in range(784))


def drawing() -> np.ndarray:
    """A fixed image (28, 28) in [0, 1]: a bar and a blob, made of formulas."""
    y, x = np.mgrid[:28, :28]
    bar = np.exp(-((x - 12 - 0.2 * y) ** 2) / 6) * (np.abs(y - 13) < 8)
    blob = np.exp(-((x - 18) ** 2 + (y - 9) ** 2) / 8)
    return np.maximum(bar, blob)


def photograph() -> np.ndarray:
    """A fixed image (32, 32, 3) in [0, 1]."""
    y, x = np.mgrid[:32, :32]
    return np.stack([np.sin(x / 3) ** 2, np.cos(y / 4) ** 2, np.exp(-((x - 16) ** 2 + (y - 10) ** 2) / 30)], axis=2)


def test_golden_values_and_shapes() -> None:
    """Sums of the first layers and of the second on the drawing; they would move with any change of the filters."""
    found = scatter(drawing().reshape(1, -1)).reshape(CHANNELS, 7, 7)
    sums = [found[0].sum(), found[1 : 1 + ANGLES].sum(), found[1 + ANGLES : 1 + 2 * ANGLES].sum(), found[17:].sum()]
    np.testing.assert_allclose(sums, [5.17088, 4.12971, 8.13075, 6.09832], rtol=1e-4)
    rows = np.random.default_rng(0).random((130, 784))  # more than a block, and not a whole number of them
    out = scatter(rows)
    assert (out.shape, out.dtype, scatter(rows[:0]).shape) == ((130, 3969), np.float32, (0, 3969))
    assert (out >= -1e-6).all()


def test_hellinger_has_length_one() -> None:
    out = hellinger(np.array([[4.0, 9.0, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(out, [[2 / 13**0.5, 3 / 13**0.5, 0], [0, 0, 0]], rtol=1e-6)


def test_the_representation_is_in_the_digest() -> None:
    plain, scattered = (Schema.of_images(NAMES, ("a", "b"), kind) for kind in ("none", "scattering"))
    assert plain.digest() != scattered.digest()
    assert Schema.model_validate_json(scattered.model_dump_json()) == scattered
    rows = drawing().reshape(1, -1)
    assert (plain.inputs(rows) == rows).all()
    assert (scattered.inputs(rows) == represent("scattering", rows)).all()


def test_colours_are_transformed_one_by_one() -> None:
    image = photograph()
    whole = scatter(image.reshape(1, -1))
    assert whole.shape == (1, 3 * 81 * 8 * 8)
    for colour, found in enumerate(np.split(whole[0], 3)):
        np.testing.assert_allclose(found, scatter(image[:, :, colour].reshape(1, -1))[0], rtol=1e-6)
    rows = np.random.default_rng(0).random((40, 3072))  # more than a block of planes
    np.testing.assert_allclose(scatter(rows)[33], scatter(rows[33:34])[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("features", [2, 27 * 27, 30 * 30, 3 * 30 * 30, 64 * 64])
def test_images_of_other_sizes_have_no_scattering(features: int) -> None:
    with pytest.raises(ValidationError, match=f"28x28 or 32x32 pixels, grey or in colour, not {features} features"):
        Schema.of_images(tuple(map(str, range(features))), ("x", "y"), "scattering")
