"""Federations that the model of cost is fitted to, and larger ones that judge it."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cost.model import CostedMode, Load
from benchmarks.cost.sessions import SIGMA

FEW = 4
"""Parties, where each costs the same whatever their number."""

_CLEAR_PARTY = [
    Load(FEW, *shape)
    for shape in ((100, 10), (1000, 10, 10), (1000, 10, 10, 20), (3000, 10, 100), (5000, 300, 10, 5), (10_000, 10))
]
_CLEAR = [
    Load(parties, *shape)
    for parties, shape in (
        (20, (200, 10)),
        (50, (1000, 10)),
        (200, (1000, 10)),
        (50, (5000, 40)),
        (200, (5000, 10)),
        (800, (1000, 10)),
        (100, (10_000, 20)),
    )
]
_MASKED = [
    Load(parties, *shape)
    for parties, shape in (
        (10, (200, 5)),
        (20, (1000, 10)),
        (40, (300, 10)),
        (30, (1500, 10, 50)),
        (70, (200, 10)),
        (50, (1000, 10)),
        (10, (10_000, 10)),
        (30, (300, 2)),
        (60, (3000, 10)),
        (100, (300, 10)),
        (80, (1500, 10)),
    )
]
_VERIFIED = [
    Load(parties, *shape)
    for parties, shape in (
        (5, (200, 5)),
        (10, (1000, 10)),
        (40, (1000, 10)),
        (10, (1000, 10, 50, 5)),
        (10, (5000, 40)),
        (10, (10_000, 10)),
        (40, (5000, 5)),
        (100, (500, 2)),
    )
]


def _noisy(loads: list[Load]) -> list[Load]:
    return [replace(load, sigma=SIGMA) for load in loads]


FITTED: dict[CostedMode, list[Load]] = {
    "plaintext": _CLEAR,
    "secure": _MASKED,
    "distributed": _noisy([load for load in _MASKED if load.parties < 100 and load.parties * load.cells <= 240_000]),
    "verified": _VERIFIED,
}
CLEAR_PARTIES = _CLEAR_PARTY
HELD_OUT: dict[CostedMode, list[Load]] = {
    "plaintext": [Load(500, 12_000, 20)],
    "secure": [Load(120, 2000, 10)],
    "distributed": [Load(60, 500, 10, sigma=SIGMA)],
    "verified": [Load(60, 12_000, 60)],
}
CLEAR_PARTY_HELD_OUT = [Load(FEW, 12_000, 150, 20, 3)]
"""Nobody fits anything to these."""
