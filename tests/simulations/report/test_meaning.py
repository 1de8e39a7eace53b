"""What epsilon and delta are said to mean holds for mechanisms that have exactly this epsilon and delta."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consilium.accounting.units import Unit
from consilium.report.disclosure import out_of, surest_guess
from consilium.simulations.report.guarantees import MODERATE, STRONG, verdict

PROMISES = [(0.0, 0.0), (0.3, 1e-5), (0.8, 1e-5), (1.0, 1e-2), (3.0, 1e-6), (8.0, 0.0)]


def leakiest(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Two laws of four outputs that reach the promise at every threshold (Kairouz, Oh, Viswanath 2015, section 3.1)."""
    rest = (1 - delta) / (1 + math.exp(epsilon))
    return np.array([delta, rest * math.exp(epsilon), rest, 0.0]), np.array(
        [0.0, rest, rest * math.exp(epsilon), delta]
    )


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_the_best_guess_against_the_leakiest_mechanism_is_right_as_often_as_is_said(
    epsilon: float, delta: float
) -> None:
    one, other = leakiest(epsilon, delta)
    best = np.maximum(one, other).sum() / 2
    assert surest_guess(epsilon, delta) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "parties", "level", "reason"),
    [
        (STRONG, 1e-5, 371, "strong", "at most 1"),
        (STRONG + 1e-9, 1e-5, 371, "moderate", "above 1 and at most 3"),
        (MODERATE + 1e-9, 1e-5, 371, "weak", "19 to 1"),
        (math.inf, 1e-5, 371, "none", "No number bounds"),
        (0.1, 1e-2, 371, "weak", "name one of them outright"),
        (0.1, 1e-4, 371, "moderate", "above 0.01"),
    ],
)
def test_a_verdict_has_a_level_and_its_reason_first(
    epsilon: float, delta: float, parties: int, level: str, reason: str
) -> None:
    found, reasons = verdict(epsilon, delta, parties, "hospital")
    assert found == level
    assert reason in reasons[0]


@pytest.mark.parametrize("share", [0.5, 0.6899, 0.69, 0.98999, 0.99, 0.9999999, 1.0])
def test_what_is_said_is_never_less_than_what_may_be(share: float) -> None:
    told = out_of(share)
    cases, base = (1.0, 1.0) if told == "always" else (float(part.replace(",", "")) for part in told.split(" in "))
    assert share - 1e-9 <= cases / base
    assert (told == "always") == (share > 0.999999)


def test_delta_is_of_the_unit() -> None:
    """Of records there are more than parties: a product with these would be too small."""
    for unit in Unit:
        assert f"is 1e-5 for each {unit}" in verdict(0.5, 1e-5, 24, "hospital", unit)[1][-1]
        among = "24 hospitals" if unit is Unit.PARTY else f"at least 24 {unit}s"
        assert all(among in verdict(0.5, delta, 24, "hospital", unit)[1][0] for delta in (1e-3, 0.05))
