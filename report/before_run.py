"""What a run warns of before anything is spent, from numbers that are fixed and public by then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from consilium.report.disclosure import epsilon_text, times_as_likely
from consilium.report.warnings import RunWarning, WarningCode, all_of
from consilium.report.words import many

MOST_EPSILON = 5.0
"""Above it, an outcome may be e^5 = 148 times as likely with somebody's data as without: a promise of little."""
TYPICAL_GAP = 0.4
"""Difference of the first two classes' shares of the votes in a query of middling difficulty: 70 % against 30 %. The
median of the default scenario's queries is 0.46."""
LEAST_SIGNAL = 3.0
"""Of `Expected.signal`: on divisions that decided nothing a student was useless at 2.1 and fair at 4.4."""
LEAST_ANSWERS = 10
"""For each class, in the mean: with fewer, a class may well get no label at all."""
MANY_PAIRED = 300
"""Parties of a secure sum: each masks its votes with every other, so that all work grows with the square of them."""


@dataclass(frozen=True)
class Expected:
    """What is known of a federation before it runs, all of it public.

    epsilon, delta, unit: promised, with the whole query budget used up. classes: to vote for. answers: most that are
    released. votes: for each query, of all parties together. noise: standard deviation on one count that a label or a
    histogram is read from, in votes; None where it is not known, or the winner is released exactly or not at all.
    asks_typical: whether the student asks about few rows that stand for many (`selection = "typical"`); None where each
    student chooses for itself, and whoever warns does not know. It has no default: a default would advise what is
    already done. histogram: whether noisy counts are released, not labels alone. undeclared: whether teachers vote
    relative to their own scores, and nobody says how frequent the classes are. paired: parties whose votes are masked
    in pairs; 0 where none are.
    epsilon_nodes: promised towards whoever adds votes up, where these see noisy sums; 0 elsewhere. signal: how far the
    votes stand out of the promise's noise (`accounting.drowned`); infinite where nobody knows how many votes there are.
    """

    epsilon: float
    delta: float
    unit: str
    classes: int
    answers: int
    votes: int
    asks_typical: bool | None
    noise: float | None = None
    histogram: bool = False
    undeclared: bool = False
    paired: int = 0
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


def _noise_above(expected: Expected, unanimous: bool) -> str | None:
    """Of labels, above all votes or else above a typical gap; of histograms a student averages the noise over queries,
    so that what counts is `_information`."""
    if expected.noise is None or expected.histogram or not expected.votes:
        return None
    between = math.sqrt(2) * expected.noise
    typical = TYPICAL_GAP * expected.votes
    if between <= typical or unanimous != (between > expected.votes):
        return None
    gap = expected.votes if unanimous else typical
    vote = f"all {expected.votes} votes" if unanimous else f"a typical gap of {typical:.3g} of {expected.votes} votes"
    right = label_right(gap / expected.noise, expected.classes)
    return (
        f"noise of {between:.3g} between two counts is above {vote}: such a label is the winner's with probability"
        f" {right:.2f} (by chance {1 / expected.classes:.2f}). Find more parties, ask fewer queries, or release"
        " noisy counts (mechanism histogram)"
    )


def _information(expected: Expected) -> str | None:
    if expected.signal < LEAST_SIGNAL:
        return (
            f"noise of epsilon {epsilon_text(expected.epsilon)} for each {expected.unit} drowns"
            f" {many(expected.votes, 'vote')}: all answers together stand {expected.signal:.2g} standard deviations out"
            f" of it, below {LEAST_SIGNAL:g}: expect nothing. Find more parties (or, for records and patients, more"
            " teachers in each), or take a larger epsilon"
        )


def _answers(expected: Expected) -> str | None:
    for_each = expected.answers / expected.classes
    if for_each < LEAST_ANSWERS and not expected.asks_typical:
        who = "have it" if expected.asks_typical is False else "have each student"
        return (
            f"at most {many(expected.answers, 'answer')} for {expected.classes} classes: {for_each:.3g} for each, below"
            f" {LEAST_ANSWERS}: a student learns little from so few that are drawn at random. Raise"
            " query_budget.answers, or"
            f' {who} ask about typical rows (selection = "typical")'
        )


def _halves(expected: Expected) -> str | None:
    if expected.undeclared:
        return (
            "teachers vote relative to their own scores, and no class shares are declared: a vote says which cases are"
            " likelier than others, so the student's order means something and its classes do not. Declare"
            " federation.voting_rule.shares, or look at the AUC alone"
        )


def _pairs(expected: Expected) -> str | None:
    if expected.paired > MANY_PAIRED:
        pairs, times = expected.paired * (expected.paired - 1) // 2, (expected.paired / MANY_PAIRED) ** 2
        return (
            f"{expected.paired} parties mask their votes in {pairs} pairs, above {MANY_PAIRED} parties: the"
            f" coordinator's work is {times:.2g} times that of {MANY_PAIRED}, and grows with the square of the parties."
            ' Use collection = "verified", whose work grows with the parties alone'
        )


def label_right(gap: float, classes: int) -> float:
    """Probability that the winner by `gap`, in standard deviations of one count's noise, stays the winner among
    `classes`, the others being equal.

    >>> round(label_right(0.0, 4), 3), round(label_right(2.0, 2), 3)
    (0.25, 0.921)
    """
    points, density = _grid()
    return float(np.sum(density * _cumulative(points + gap) ** (classes - 1)))


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Points, and the standard normal probability around each."""
    points = np.linspace(-9.0, 9.0, 3601)
    density = np.exp(-(points**2) / 2)
    return points, density / density.sum()


def _cumulative(points: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in points.tolist()])


_BEFORE: Mapping[WarningCode, Callable[[Expected], str | None]] = {
    WarningCode.LARGE_EPSILON: _epsilon,
    WarningCode.NOISE_ABOVE_UNANIMITY: lambda expected: _noise_above(expected, unanimous=True),
    WarningCode.NOISE_ABOVE_TYPICAL_VOTE: lambda expected: _noise_above(expected, unanimous=False),
    WarningCode.LITTLE_INFORMATION: _information,
    WarningCode.FEW_ANSWERS: _answers,
    WarningCode.HALVES_NOT_CLASSES: _halves,
    WarningCode.MANY_PAIRED: _pairs,
}


def before_run(expected: Expected) -> list[RunWarning]:
    """All that there is to warn of before anything is spent, the most important first."""
    return all_of(_BEFORE, expected)
