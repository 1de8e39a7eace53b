"""How strong a pair (epsilon, delta) is, and what it lets anybody become sure of; `docs/report.md` argues it.

The odds of a belief grow at most by the factor e^epsilon / (1 - delta / c), save with probability c: with
S = {outputs that raise the odds by more than e^t}, P(S) <= e^(epsilon - t) P(S) + delta gives
P(S) <= delta / (1 - e^(epsilon - t)), and t is chosen so that this is c (after Kasiviswanathan, Smith 2014, lemma 3.3).
It holds for any statement about the unit's data, and whatever else is known. For a guess see `report.disclosure`.
"""

from __future__ import annotations

import math
from typing import Literal

from scipy.special import expit, logit

from consilium.accounting.units import Unit
from consilium.report.words import delta_text, many

STRONG, MODERATE = 1.0, 3.0
"""Largest epsilon of a strong and of a moderate promise: a guess is then right in 74 and in 96 of 100 cases at most."""
EXCEPTIONS = 100
"""How many times delta is c, the chance that a belief grows by more than what is said."""
NEARLY = 0.01
"""Of delta times the number of parties: above it no promise is strong; from 1 on it may name one of them outright."""

Level = Literal["strong", "moderate", "weak", "none"]


def surest_belief(before: float, epsilon: float, delta: float) -> float:
    """Most that somebody may believe after, save with probability `EXCEPTIONS` delta; `before` in (0, 1).

    >>> round(surest_belief(0.1, 0.8, 0.0), 4), round(surest_belief(0.5, 0.8, 1e-5), 4)
    (0.1983, 0.6921)
    """
    factor = 0.0 if delta == 0 else -math.log1p(-1 / EXCEPTIONS)
    return float(expit(logit(before) + epsilon + factor))


def in_hundred(share: float) -> str:
    """Cases in 100 with one decimal, rounded up, to compare several.

    >>> in_hundred(0.02219), in_hundred(0.9999)
    ('2.3 in 100', 'above 99.9 in 100')
    """
    cases = math.ceil(round(1000 * share, 6)) / 10
    return f"{cases:.1f} in 100" if cases < 100 else "above 99.9 in 100"


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
    expected, whole = delta * parties, unit is Unit.PARTY
    among = many(parties, word) if whole else f"at least {many(parties, unit.value)}"
    if expected >= 1:
        return "weak", (f"Delta is {delta:g}: with {among} it would allow to name one of them outright.", reason)
    if expected > NEARLY and level == "strong":
        product = f"Delta times {'the ' if whole else ''}{among} is {expected:.2g}, above {NEARLY:g}."
        return "moderate", (product, reason)
    room = f"{_two_digits(expected)} over all {among} together" if whole else f"{delta_text(delta)} for each {unit}"
    return level, (reason, f"Delta, the room left for a mishap, is {room}.")


def _two_digits(value: float) -> str:
    """Rounded up.

    >>> _two_digits(0.00371), _two_digits(0.0040001), _two_digits(0.0)
    ('0.0038', '0.0041', '0')
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1) if value > 0 else 1.0
    return f"{math.ceil(value / unit - 1e-9) * unit:.2g}"
