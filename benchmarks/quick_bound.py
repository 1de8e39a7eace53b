"""How far the bound that takes no second (`numerical=False`) is above the promise: over mechanisms, query budget
and deltas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.mechanisms import Confident, GNMax, Mechanism, NoisyHistogram

DELTAS = (1e-3, 1e-5, 1e-8)
RELEASES = (30, 100, 300, 1000, 3000)
OF_CONFIDENT = ((30, 10), (100, 100), (200, 50), (800, 300), (3000, 100), (3000, 3000))
"""Queries asked and answered."""
GNMAX_SIGMAS = (20.0, 54.0, 108.0, 216.0, 432.0)
HISTOGRAM_SIGMAS = (30.0, 112.1, 400.0)
CONFIDENT_SIGMAS = ((75.0, 27.0), (150.0, 54.0), (300.0, 108.0), (300.0, 300.0), (600.0, 54.0), (1200.0, 432.0))


def settings() -> Iterator[tuple[Mechanism, int, int]]:
    """Mechanisms with how many queries are asked and answered."""
    for sigma, count in product(GNMAX_SIGMAS, RELEASES):
        yield GNMax(sigma=sigma), count, count
    for (sigma1, sigma2), (asked, answered) in product(CONFIDENT_SIGMAS, OF_CONFIDENT):
        yield Confident(threshold=150, sigma1=sigma1, sigma2=sigma2), asked, answered
    for sigma, count in product(HISTOGRAM_SIGMAS, RELEASES):
        yield NoisyHistogram(sigma=sigma), count, count


def excess(mechanism: Mechanism, asked: int, answered: int, delta: float) -> float:
    """By which share the quick bound is above the promise, of a party replaced."""
    event = mechanism.event(
        asked=asked, answered=answered, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(event)
    quick, promise = (accountant.least_worst_case_epsilon(delta, numerical=way)[0].epsilon for way in (False, True))
    return quick / promise - 1


def main() -> None:
    """Print the largest and the median excess of each kind at each delta."""
    found: dict[tuple[str, float], list[float]] = {}
    for (mechanism, asked, answered), delta in product(settings(), DELTAS):
        found.setdefault((mechanism.name, delta), []).append(excess(mechanism, asked, answered, delta))
    for (name, delta), shares in found.items():
        middle = sorted(shares)[len(shares) // 2]
        print(f"{name:10s} delta {delta:.0e}: {len(shares)} settings, at most {max(shares):.1%}, median {middle:.1%}")


if __name__ == "__main__":
    main()
