"""What noisy shares say about like rows: exact where there is no noise, nothing where there is nothing but noise."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.models.base import Shares
from consilium.models.images.graph_cnn import smooth_shares
from consilium.models.kernel import nearest_rows, neighbour_graph, principal_places, smoothest

CLOUDS, EACH = 6, 120


def clouds(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Six clouds of 120 rows that do not touch, of three classes; float32 (720, 5) by lot, and the classes."""
    generator = np.random.default_rng(seed)
    centres = 10 * np.eye(CLOUDS, 5) - 10 * (np.arange(CLOUDS) == 5)[:, None]
    cloud = generator.permutation(np.repeat(np.arange(CLOUDS), EACH))
    rows = centres[cloud] + generator.normal(size=(len(cloud), 5))
    return rows.astype(np.float32), cloud % 3


def told(y: np.ndarray, deviation: float, seed: int) -> Shares:
    noise = deviation * np.random.default_rng(seed).normal(size=(len(y), 3))
    return Shares(np.eye(3)[y] + noise, np.full(len(y), deviation))


@pytest.mark.parametrize(
    ("asked", "deviation"), [(720, 1e-3), (720, 1.5), (200, 0.8), (30, 0.2)], ids=["exact", "all", "some", "few"]
)
def test_like_rows_share_what_they_were_told(asked: int, deviation: float) -> None:
    """With noise 1.5 the largest share of a single row is right in half of the cases; here every row's is. A cloud of
    120 rows has a mean with deviation 0.14, a gap of 1 is seven times as much as that of a difference: one false alarm
    in 10^10."""
    rows, y = clouds(0)
    shares = smooth_shares(rows, told(y[:asked], deviation, 1), neighbours=10)
    assert shares.shape == (720, 3)
    assert (shares.argmax(axis=1) == y).mean() == 1


def test_noise_alone_says_little() -> None:
    rows, y = clouds(0)
    shares = smooth_shares(rows, told(y, 1000.0, 1), neighbours=10)
    assert np.abs(shares - 1 / 3).max() < 0.5  # a row's own share is off by about a thousand


@pytest.mark.parametrize(("rows", "asked"), [(1, 1), (2, 1), (3, 3), (40, 1)])
def test_few_rows(rows: int, asked: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    shares = smooth_shares(x, Shares(np.eye(2)[np.zeros(asked, dtype=int)], np.full(asked, 0.2)), neighbours=10)
    assert shares.shape == (rows, 2)
    assert np.isfinite(shares).all()


def test_rows_that_are_all_alike() -> None:
    shares = smooth_shares(np.ones((50, 3), dtype=np.float32), Shares(np.eye(2)[[0, 0, 1]], np.full(3, 0.2)), 5)
    assert np.isfinite(shares).all()


@pytest.mark.parametrize("total", [300, 900], ids=["dense", "sparse"])
def test_smoothest_functions_are_eigenvectors(total: int) -> None:
    rows = np.random.default_rng(0).normal(size=(total, 3)).astype(np.float32)
    graph = neighbour_graph(*nearest_rows(rows, 10))
    values, vectors = smoothest(graph, 8)
    assert values[0] == pytest.approx(1, abs=1e-4)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(graph @ vectors, vectors * values, atol=1e-3)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-6)


def test_principal_places_keep_distances() -> None:
    """Rows of 20 directions in 500 columns, and a little noise in all of them."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(200, 20)) @ generator.normal(size=(20, 500)) + 0.01 * generator.normal(
        size=(200, 500)
    )
    rows = rows.astype(np.float32)
    places = principal_places(rows, 20)
    assert places.shape == (200, 20)
    far = [np.linalg.norm(x[:100] - x[100:], axis=1) for x in (rows, places)]
    np.testing.assert_allclose(far[1], far[0], rtol=1e-3)
    np.testing.assert_array_equal(places, principal_places(rows, 20))
    np.testing.assert_array_equal(principal_places(rows[:, :8], 20), rows[:, :8] - rows[:, :8].mean(axis=0))
