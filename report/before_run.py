"""What a run warns of before anything is spent, from numbers that are fixed and public by then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from consilium.report.disclosure import epsilon_text, times_as_likely
from consilium.report.warnings import RunWarning, WarningCode, all_of
from consilium.report.words import many

MOST_EPSILON = 5.0
"""Above it, an outcome may be e^5 = 148 times as likely with somebody's data as without: a promise of little."""
LEAST_SIGNAL = 3.0
"""Of `Expected.signal`: on divisions that decided nothing a student was useless at 2.1 and fair at 4.4."""


@dataclass(frozen=True)
class Expected:
    """What is known of a federation before it runs, all of it public.

    epsilon, delta, unit: promised, with the whole query budget used up. votes: for each query, of all parties together.
    undeclared: whether teachers vote relative to their own scores, and nobody says how frequent the classes are.
    epsilon_nodes: promised towards whoever adds votes up, where these see noisy sums; 0 elsewhere. signal: how far the
    votes stand out of the promise's noise (`accounting.drowned`); infinite where nobody knows how many votes there are.
    """

    epsilon: float
    delta: float
    unit: str
    votes: int
    undeclared: bool = False
    epsilon_nodes: float = 0.0
    signal: float = math.inf


def _epsilon(expected: Expected) -> str | None:
    epsilon = max(expected.epsilon, expected.epsilon_nodes)
    if epsilon > MOST_EPSILON:
        bounded = math.isfinite(epsilon)
        value = epsilon_text(epsilon) if bounded else "without bound"
        whom = " towards the nodes that add votes up" if epsilon > expected.epsilon else ""
        likelier = f"an outcome may be {times_as_likely(epsilon)} as likely with it as without"
        why = f"{likelier}, which protects little" if bounded else "this is not private"
        return (
            f"epsilon{whom} is {value} at delta {expected.delta:g} for each {expected.unit}, above {MOST_EPSILON:g}:"
            f" {why}. Ask fewer queries, add noise, or find more parties"
        )


def _information(expected: Expected) -> str | None:
    if expected.signal < LEAST_SIGNAL:
        return (
            f"noise of epsilon {epsilon_text(expected.epsilon)} for each {expected.unit} drowns"
            f" {many(expected.votes, 'vote')}: all answers together stand {expected.signal:.2g} standard deviations out"
            f" of it, below {LEAST_SIGNAL:g}: expect nothing. Find more parties (or, for records and patients, more"
            " teachers in each), or take a larger epsilon"
        )


def _halves(expected: Expected) -> str | None:
    if expected.undeclared:
        return (
            "teachers vote relative to their own scores, and no class shares are declared: a vote says which cases are"
            " likelier than others, so the student's order means something and its classes do not. Declare"
            " federation.voting_rule.shares, or look at the AUC alone"
        )


_BEFORE: Mapping[WarningCode, Callable[[Expected], str | None]] = {
    WarningCode.LARGE_EPSILON: _epsilon,
    WarningCode.LITTLE_INFORMATION: _information,
    WarningCode.HALVES_NOT_CLASSES: _halves,
}


def before_run(expected: Expected) -> list[RunWarning]:
    """All that there is to warn of before anything is spent, the most important first."""
    return all_of(_BEFORE, expected)
