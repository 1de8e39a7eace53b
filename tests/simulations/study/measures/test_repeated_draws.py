"""Draws that are repeated are those of a fresh generator with the same seed, in whatever order they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from consilium.simulations.study.measures import figures
from consilium.simulations.study.measures.figures import Draws, RepeatedDraws

VALUES = np.arange(7) + 0.5
ASKED: dict[str, Callable[[Draws], Any]] = {
    "times": lambda draws: draws.multinomial(5, np.full(5, 0.2), size=40),
    "fewer times": lambda draws: draws.multinomial(3, np.full(3, 1 / 3), size=40),
    "picked": lambda draws: draws.integers(5, size=(40, 5)),
    "lots": lambda draws: draws.permutation(VALUES),
}
ORDERS = [["times", "picked", "lots", "times"], ["times", "picked", "times", "lots"], ["picked", "lots", "lots"],
          ["times", "fewer times", "picked"], ["times", "picked", "lots", "times"]]  # fmt: skip


@pytest.mark.parametrize("most", [40_000_000, 2_000, 0])
def test_what_is_drawn_again_is_what_was_drawn(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_MOST_BYTES", most)
    repeated = RepeatedDraws([3, 5])
    for order in ORDERS:
        repeated.anew()
        fresh = np.random.default_rng([3, 5])
        for name in order:
            np.testing.assert_array_equal(ASKED[name](repeated), ASKED[name](fresh), err_msg=f"{name} of {order}")


@pytest.mark.parametrize("seed", range(3))
def test_ranks_of_draws_are_those_of_each(seed: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.integers(0, 9, 30) / 4 - 1.0
    picked = generator.integers(30, size=(50, 30))
    assert figures._ranks(values, picked).tolist() == rankdata(values[picked], axis=1).tolist()
