"""Scanners: planted ones are named with what they are, and what images show is not taken for one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

from consilium.protocol.errors import DataError
from consilium.simulations.study.measures.scanner import image_traits
from consilium.simulations.study.measures.shift import WhichShift, which_shift

OWNERS = 12


@cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two digits of scikit-learn's, dealt by lot to twelve owners."""
    x, y = load_digits(return_X_y=True)
    x, y = np.asarray(x), np.asarray(y)
    rows = np.random.default_rng(5).permutation(np.flatnonzero(y < 4))
    return x[rows], y[rows], np.arange(len(rows)) % OWNERS


def scanned(kind: str, strength: float, owners: int = 2) -> WhichShift:
    x, y, owner = digits()
    x = x.copy()
    mine = owner < owners
    if kind == "contrast":
        x[mine] = x.mean() + (x[mine] - x.mean()) / (1 + strength)
    elif kind == "blur":
        x[mine] = gaussian_filter(x[mine].reshape(-1, 8, 8), (0, strength, strength), mode="nearest").reshape(-1, 64)
    elif kind == "noise":
        noise = np.random.default_rng(6).standard_normal(x[mine].shape)
        x[mine] = np.clip(x[mine] + strength * x.std() * noise, 0, 16)
    return which_shift(x, y, owner, images=True)


@pytest.mark.parametrize(("kind", "strength"), [("contrast", 0.5), ("blur", 0.8), ("noise", 0.5)])
def test_a_planted_scanner_is_named_with_what_it_is_and_nothing_else(kind: str, strength: float) -> None:
    shift = scanned(kind, strength)
    assert shift.named == ("scanner",)
    part = shift.of("scanner")
    assert part is not None and part.where == (f"{kind} at 0", f"{kind} at 1")
    assert {name: part.figures[name] for name in ("contrast", "blur", "noise")} == {
        name: 2.0 * (name == kind) for name in ("contrast", "blur", "noise")
    }
    assert part.strength > part.floor_high and shift.owners == OWNERS
    assert "as from another scanner" in part.text() and f"{kind} at 0" in part.text()


def test_nothing_is_named_where_images_are_dealt_by_lot() -> None:
    shift = scanned("none", 0.0)
    assert shift.named == () and shift.of("scanner") is not None


def test_other_classes_are_no_other_scanner() -> None:
    x, y, owner = digits()
    stays = np.random.default_rng(7).random(len(y)) < np.where((y < 2) == (owner < 6), 1.0, 0.25)
    assert which_shift(x[stays], y[stays], owner[stays], images=True).named == ("label",)


def test_rows_that_are_no_images_have_no_scanner() -> None:
    x, y, owner = digits()
    assert which_shift(x, y, owner).of("scanner") is None
    with pytest.raises(DataError, match="no square images"):
        which_shift(x[:, :60], y, owner, images=True)


def test_contrast_moves_the_deviation_alone_and_scale_nothing_of_sharpness_and_grain() -> None:
    x = digits()[0][:50]
    before, after = image_traits(x), image_traits(3 + 0.5 * x)
    assert after[:, 0] == pytest.approx(3 + 0.5 * before[:, 0])
    assert after[:, 1] == pytest.approx(before[:, 1] - np.log(2))
    assert after[:, 2:] == pytest.approx(before[:, 2:], abs=1e-9)


def test_traits_of_a_flat_image_and_of_colours_are_numbers() -> None:
    generator = np.random.default_rng(8)
    rows = np.vstack([np.zeros((1, 192)), generator.random((4, 192))])
    assert np.isfinite(image_traits(rows)).all() and image_traits(rows).shape == (5, 4)
