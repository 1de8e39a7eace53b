"""How strong a pair (epsilon, delta) is; `docs/report.md` argues it. What it lets anybody guess: `report.disclosure`."""

from __future__ import annotations

import math
from typing import Literal

from consilium.accounting.units import Unit
from consilium.report.words import delta_text, many

STRONG, MODERATE = 1.0, 3.0
"""Largest epsilon of a strong and of a moderate promise: a guess is then right in 74 and in 96 of 100 cases at most."""
NEARLY = 0.01
"""Of delta times the number of parties: above it no promise is strong; from 1 on it may name one of them outright."""

Level = Literal["strong", "moderate", "weak", "none"]


def verdict(
    epsilon: float, delta: float, parties: int, word: str = "party", unit: Unit = Unit.PARTY
) -> tuple[Level, tuple[str, ...]]:
    """How much a promise is worth, by noise that nobody knows, and why: the first sentence decided.

    parties: that take part, each a `word`. unit: what delta is for; there are as many records and patients as parties,
    or more, which is not told: the level may then be too good.

    >>> [verdict(epsilon, 1e-5, 371)[0] for epsilon in (0.8, 2, 8, math.inf)], verdict(2, 1e-2, 371)[0]
    (['strong', 'moderate', 'weak', 'none'], 'weak')
    """
    if math.isinf(epsilon):
        return "none", ("No number bounds what the release tells about one of them.",)
    level: Level = "strong" if epsilon <= STRONG else "moderate" if epsilon <= MODERATE else "weak"
    reason = {
        "strong": f"Epsilon is at most {STRONG:g}.",
        "moderate": f"Epsilon is above {STRONG:g} and at most {MODERATE:g}.",
        "weak": f"Epsilon is above {MODERATE:g}: from an even start somebody could become surer than 19 to 1, which is"
        " commonly taken for proof.",
    }[level]
    expected = delta * parties
    among = many(parties, word) if unit is Unit.PARTY else f"at least {many(parties, unit.value)}"
    if expected >= 1:
        return "weak", (f"Delta is {delta:g}: with {among} it would allow to name one of them outright.", reason)
    if expected > NEARLY and level == "strong":
        return "moderate", (f"Delta times the number of them ({among}) is {expected:.2g}, above {NEARLY:g}.", reason)
    return level, (reason, f"Delta, the room left for a mishap, is {delta_text(delta)} for each {unit}.")
