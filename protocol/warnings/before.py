"""Warnings before anything is spent, from numbers that are fixed and public by then."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from consilium.protocol.warnings.kinds import RunWarning, WarningCode
from consilium.protocol.warnings.plain_words import times_as_likely

MOST_EPSILON = 5.0
"""Above it, an outcome may be e^5 = 148 times as likely with somebody's data as without: a promise of little."""

TYPICAL_GAP = 0.4
"""Difference of the first two classes' shares of the votes in a query of middling difficulty: 70 % against 30 %. The
median of the default scenario's queries is 0.46."""

EFFECTIVE_PARAMETERS = 10
"""Directions that a regularised student still learns under noise: a lower bound, so that the warning is no false alarm
for any but the simplest tasks."""

LEAST_ANSWERS = 10
"""For each class, in the mean: with fewer, a class may well get no label at all."""

MANY_PAIRED = 300
"""Parties of a secure sum: each masks its votes with every other, so that all work grows with the square of them."""


@dataclass(frozen=True)
class Expected:
    """What is known of a federation before it runs, all of it public.

    epsilon, delta, unit: promised, with all caps used up. classes: to vote for. answers: most that are released.
    votes: for each query, of all parties together. noise: standard deviation on one count that a label or a histogram
    is read from, in votes; None where it is not known, or the winner is released exactly or not at all.
    asks_typical: whether the student asks about few rows that stand for many (`selection = "typical"`); None where each
    student chooses for itself, and whoever warns does not know. It has no default: a default would advise what is
    already done. histogram: whether noisy counts are released, not labels alone. undeclared: whether teachers vote
    relative to their own scores, and nobody says how frequent the classes are. paired: parties whose votes are masked
    in pairs; 0 where none are. uncharged: keys whose values were chosen by other runs on these parties' votes.
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
    uncharged: tuple[str, ...] = ()


def before_run(expected: Expected) -> list[RunWarning]:
    """All that there is to warn of, the most important first."""
    return [
        warning
        for kind in (_epsilon, _choice, _noise, _information, _answers, _halves, _pairs)
        for warning in kind(expected)
    ]


def _epsilon(expected: Expected) -> Iterator[RunWarning]:
    if expected.epsilon > MOST_EPSILON:
        bounded = math.isfinite(expected.epsilon)
        value = f"{expected.epsilon:.3g}" if bounded else "without bound"
        likelier = f"an outcome may be {times_as_likely(expected.epsilon)} as likely with it as without"
        why = f"{likelier}, which protects little" if bounded else "this is not private"
        yield RunWarning(
            WarningCode.LARGE_EPSILON,
            f"epsilon is {value} at delta {expected.delta:g} for each {expected.unit}, above {MOST_EPSILON:g}: {why}."
            " Ask fewer queries, add noise, or find more parties",
        )


def _choice(expected: Expected) -> Iterator[RunWarning]:
    if expected.uncharged:
        yield RunWarning(
            WarningCode.TUNED_ON_OWN_VOTES,
            f"{', '.join(expected.uncharged)}: chosen in view of runs on these parties' own votes, and epsilon charges"
            " one run. State how many there were in federation.privacy.candidates",
        )


def _noise(expected: Expected) -> Iterator[RunWarning]:
    """Of labels; of histograms a student averages the noise over queries, so that what counts is `_information`."""
    if expected.noise is None or expected.histogram or not expected.votes:
        return
    between = math.sqrt(2) * expected.noise
    typical = TYPICAL_GAP * expected.votes
    if between <= typical:
        return
    unanimous = between > expected.votes
    gap = expected.votes if unanimous else typical
    vote = f"all {expected.votes} votes" if unanimous else f"a typical gap of {typical:.3g} of {expected.votes} votes"
    right = label_right(gap / expected.noise, expected.classes)
    yield RunWarning(
        WarningCode.NOISE_ABOVE_UNANIMITY if unanimous else WarningCode.NOISE_ABOVE_TYPICAL_VOTE,
        f"noise of {between:.3g} between two counts is above {vote}: such a label is the winner's with probability"
        f" {right:.2f} (by chance {1 / expected.classes:.2f}). Find more parties, ask fewer queries, or release"
        " histograms (mechanism histogram)",
    )


def _information(expected: Expected) -> Iterator[RunWarning]:
    """Only where the noise of one answer is above all votes: below, an easy task on which all agree can be learnt from
    few answers, each of which is right by itself."""
    if expected.noise is None or not expected.votes or not expected.answers:
        return
    if math.sqrt(2) * expected.noise <= expected.votes:
        return
    error = share_error(expected)
    if error > TYPICAL_GAP:
        what = "histograms" if expected.histogram else "labels"
        typical = f"above the typical gap of {TYPICAL_GAP:g}: expect little"
        beyond = "larger than any vote: expect nothing" if error > 1 else typical
        yield RunWarning(
            WarningCode.LITTLE_INFORMATION,
            f"from {expected.answers} noisy {what} of {expected.votes} votes a student of {EFFECTIVE_PARAMETERS}"
            f" effective parameters knows a difference of two vote shares to {error:.2f} at best, {beyond}."
            " Find more parties (or, for records and patients, more teachers in each), or take a larger epsilon",
        )


def _answers(expected: Expected) -> Iterator[RunWarning]:
    for_each = expected.answers / expected.classes
    if for_each < LEAST_ANSWERS and not expected.asks_typical:
        who = "have it" if expected.asks_typical is False else "have each student"
        yield RunWarning(
            WarningCode.FEW_ANSWERS,
            f"at most {expected.answers} answers for {expected.classes} classes are {for_each:.3g} for each, below"
            f" {LEAST_ANSWERS}: a student learns little from so few that are drawn at random. Raise caps.answers, or"
            f' {who} ask about typical rows (selection = "typical")',
        )


def _halves(expected: Expected) -> Iterator[RunWarning]:
    if expected.undeclared:
        yield RunWarning(
            WarningCode.HALVES_NOT_CLASSES,
            "teachers vote relative to their own scores, and no class shares are declared: a vote says which cases are"
            " likelier than others, so the student's order means something and its classes do not. Declare"
            " federation.ballot.shares, or look at the AUC alone",
        )


def _pairs(expected: Expected) -> Iterator[RunWarning]:
    if expected.paired > MANY_PAIRED:
        pairs, times = expected.paired * (expected.paired - 1) // 2, (expected.paired / MANY_PAIRED) ** 2
        yield RunWarning(
            WarningCode.MANY_PAIRED,
            f"{expected.paired} parties mask their votes in {pairs} pairs, above {MANY_PAIRED} parties: the"
            f" coordinator's work is {times:.2g} times that of {MANY_PAIRED}, and grows with the square of the parties."
            ' Use votes = "verified", whose work grows with the parties alone, and see what each costs (docs/scale.md)',
        )


def share_error(expected: Expected) -> float:
    """Standard deviation of a predicted difference of two vote shares, at best.

    Least squares on n noisy histograms: sqrt(2 d sigma^2 / n) / votes for d effective parameters. Labels alone hold
    less, see `label_information`.
    """
    noise = 0.0 if expected.noise is None else expected.noise
    kept = 1.0 if expected.histogram else label_information(expected.classes)
    return math.sqrt(2 * EFFECTIVE_PARAMETERS * noise**2 / (kept * expected.answers)) / expected.votes


def label_right(gap: float, classes: int) -> float:
    """Probability that the winner by `gap`, in standard deviations of one count's noise, stays the winner among
    `classes`, the others being equal.

    >>> round(label_right(0.0, 4), 3), round(label_right(2.0, 2), 3)
    (0.25, 0.921)
    """
    at, density = _grid()
    return float(np.sum(density * _cumulative(at + gap) ** (classes - 1)))


def label_information(classes: int) -> float:
    """Share of a noisy histogram's Fisher information that its argmax keeps, where noise is far above the gaps.

    m^2 K / (K - 1)^2, m the mean of the largest of K standard normal numbers; 2 / pi for two classes.

    >>> round(label_information(2), 4), round(label_information(10), 3)
    (0.6366, 0.292)
    """
    at, density = _grid()
    largest = float(np.sum(classes * at * density * _cumulative(at) ** (classes - 1)))
    return largest**2 * classes / (classes - 1) ** 2


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Points, and the standard normal probability around each."""
    at = np.linspace(-9.0, 9.0, 3601)
    density = np.exp(-(at**2) / 2)
    return at, density / density.sum()


def _cumulative(at: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in at.tolist()])
