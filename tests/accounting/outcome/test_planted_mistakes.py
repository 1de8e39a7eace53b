"""What a wrong build would say lies below the truth somewhere: each planted mistake is caught by the brute force."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from consilium.accounting.outcome import argmax, divergence, left_out, winners
from consilium.accounting.outcome import winners as quadrature
from tests.accounting.outcome.oracle import Oracle

ORDERS = [1.5, 4.0, 30.0]
DISPUTED = np.array([[9, 8, 6, 1], [7, 7, 6, 4], [12, 6, 6, 0], [3, 6, 7, 8]])


def lowest(scale: float, noise: str) -> float:
    """The least ratio of what is charged to the truth."""
    oracle = Oracle("gaussian", scale, noise, int(np.ptp(DISPUTED, axis=1).max()) + 2)
    truth = np.array([oracle.worst(row, ORDERS) for row in DISPUTED.tolist()])
    return float((argmax.per_query(DISPUTED, scale, noise, "gaussian", ORDERS) / truth).min())


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return monkeypatch.setattr


def test_without_a_mistake_nothing_is_below() -> None:
    assert lowest(5.0, "discrete") >= 1
    assert lowest(5.0, "continuous") >= 1


def test_a_direction_is_forgotten(plant: Callable[..., None]) -> None:
    plant(divergence, "powers", lambda orders, both: (1 - orders,))
    assert lowest(5.0, "discrete") < 0.999


def test_the_moves_of_the_last_class_are_left_out(plant: Callable[..., None]) -> None:
    plant(argmax, "_ALL_ACTIVE", 2)
    plant(argmax, "_ACTIVE", (2,))
    assert lowest(5.0, "discrete") >= 1
    plant(left_out.Families, "moments", lambda self, power: np.zeros((self.queries, power.size)))
    assert lowest(5.0, "discrete") < 0.999


def test_ties_are_ignored(plant: Callable[..., None]) -> None:
    real = argmax.tables
    plant(argmax, "tables", lambda *args: dataclasses.replace(real(*args), strict=0))
    assert lowest(5.0, "discrete") < 0.999


def test_ties_go_to_the_highest_index(plant: Callable[..., None]) -> None:
    real = winners.winners

    def turned(tables: object, votes: np.ndarray, *args: object) -> object:
        return real(tables, votes[:, ::-1], *args)  # pyright: ignore[reportArgumentType]

    plant(argmax, "winners", turned)
    assert lowest(5.0, "discrete") < 0.999


def test_nodes_are_too_far_apart(plant: Callable[..., None]) -> None:
    plant(quadrature, "largest_step", lambda near, classes: 2.5)
    assert lowest(8.0, "continuous") < 1 - 1e-6


def test_the_winner_is_cut_off(plant: Callable[..., None]) -> None:
    plant(quadrature, "_HIGH", 1.0)
    argmax.tables.cache_clear()
    try:
        assert lowest(8.0, "continuous") < 1 - 1e-6
    finally:
        argmax.tables.cache_clear()


def test_errors_are_rounded_down(plant: Callable[..., None]) -> None:
    real = divergence.outward
    plant(divergence, "outward", lambda log_p, change, away=None: 2 * change - real(log_p, change, away))
    plant(divergence, "UP", 1.0)
    assert lowest(5.0, "discrete") < 1
