"""Curves that are kept are those that were computed, and go with the code that computed them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.units import Noise
from consilium.accounting.worst import adaptive, renyi
from tests import curves


@pytest.fixture(scope="module", autouse=True)
def kept_curves() -> None:
    """Each test keeps its own."""


ORDERS = (1.5, 2.0, 8.0)


def test_what_is_kept_is_what_was_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = renyi._one_move(5.0, ORDERS, Noise.DISCRETE, 1)
    with curves.kept_in(tmp_path):
        assert (renyi._one_move(5.0, ORDERS, Noise.DISCRETE, 1) == truth).all()
        other = renyi._one_move(6.0, ORDERS, Noise.DISCRETE, 1)
        epsilon = adaptive._epsilon(((adaptive.Composed(1, "check", 30.0, Noise.DISCRETE), 9),), 1, 1e-5)
    monkeypatch.setattr(curves, "kept", lambda function, folder: function)  # nothing but files is left
    (folder,) = tmp_path.iterdir()
    found = [np.load(path) for path in folder.glob("*.npy")]
    assert len(found) == 3
    assert any(np.array_equal(each, truth) for each in found) and any(np.array_equal(each, other) for each in found)
    assert isinstance(epsilon, float) and any(each.ndim == 0 and each == epsilon for each in found)


def test_other_code_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with curves.kept_in(tmp_path):
        renyi._one_move(5.0, ORDERS, Noise.DISCRETE, 1)
    monkeypatch.setattr(curves, "code", lambda: "other")
    with curves.kept_in(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["other"]
        assert list((tmp_path / "other").iterdir()) == []
