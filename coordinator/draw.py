"""From counts to labels: what each mechanism releases.

A mechanism has two laws. Of exact counts it is its paper's. Where counts hold noise already (`Counts.sigma` above 0),
they decide themselves, and a check is made of a first sum with its own noise on top, and labels of a second sum:
whatever the noise in a sum is, one moved vote moves the number that is compared by at most one, as it does of exact
sums. What the student gets has the same event by both laws (`accounting.mechanisms`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import singledispatch

import numpy as np

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Confident, Difference, GNMax, Histogram, Immutable, ImmutableGaussian, LNMax
from consilium.accounting.units import Noise
from consilium.coordinator.collection.base import Counts
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource

Collect = Callable[[int, np.ndarray | None], Counts]
"""Round (1, then 2), and positions of queries int64 (n,), None for all -> their counts. Each call asks the parties, and
noise that counts hold is fresh: they may be below 0, or above the number of votes. A row that a party or an aggregator
falsified need not add up to the number of votes, and nothing may be decided on what it adds up to."""

Shown = Callable[["Drawn", np.ndarray], tuple["Drawn", np.ndarray]]
"""Gets what a check left unanswered and what passed, bool (queries,), before anybody is asked about that. Returns the
same, or what it got of these queries before, where the release was broken off then."""


@dataclass(frozen=True)
class Drawn:
    """What a mechanism released, of the queries that are charged: all, or those up to the last answer.

    labels: int64 (queries,), NO_LABEL for an abstention. reinforced: bool (queries,), where the label is the student's
        own prediction, confirmed at no further cost.
    counts: the noisy histograms int64 (queries, classes) where these are released, of which a label is the largest.
    failure: why a second round gave no sums, after a first one that is paid for.
    """

    labels: np.ndarray = field(repr=False)
    reinforced: np.ndarray = field(repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)
    failure: ConsiliumError | None = None

    @classmethod
    def winners(cls, noisy: np.ndarray) -> Drawn:
        """The largest of noisy counts int64 (queries, classes), for every query."""
        return cls(noisy.argmax(axis=1), np.zeros(len(noisy), dtype=bool))

    @classmethod
    def nothing(cls, queries: int, failure: ConsiliumError | None = None) -> Drawn:
        return cls(np.full(queries, NO_LABEL, dtype=np.int64), np.zeros(queries, dtype=bool), failure=failure)

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): where the teachers' votes gave a label, which is what is paid for."""
        return (self.labels != NO_LABEL) & ~self.reinforced

    def up_to(self, answers: int) -> Drawn:
        """The queries up to the one that takes the last of so many answers, at least 1; all, if there are fewer. Where
        the cut lies depends on the labels alone, which are released anyway.

        >>> Drawn(np.array([2, NO_LABEL, 0, NO_LABEL, 1]), np.zeros(5, dtype=bool)).up_to(2).labels.tolist()
        [2, -1, 0]
        """
        end = int(np.searchsorted(np.cumsum(self.answered), answers)) + 1
        return replace(self, labels=self.labels[:end], reinforced=self.reinforced[:end])


def projected(noisy: np.ndarray, votes: int) -> np.ndarray:
    """Noisy histograms int64 (queries, classes), each moved as a whole so that it adds up to the number of votes, or
    less than one for each class below it: int64. Exact ones stay as they are.

    A vote for another class moves them as it moves the votes, since it does not change what they add up to. Each count
    loses its share of the noise on the total. In whole numbers, where no rounding can make one vote look like two.

    >>> projected(np.array([[12, 2, 1], [12, 2, 2]]), 9).tolist()
    [[10, 0, -1], [9, -1, -1]]
    """
    return noisy + (votes - noisy.sum(axis=1, keepdims=True)) // noisy.shape[1]


def exact(votes: np.ndarray) -> Collect:
    """Of votes that are at hand, int64 (queries, classes), each row as many."""
    counts = Counts(votes, (), int(votes[0].sum()) if len(votes) else 0)
    return lambda *_: counts


@singledispatch
def draw(
    mechanism: Mechanism,
    collect: Collect,
    noise: NoiseSource,
    *,
    room: int,
    probabilities: np.ndarray | None = None,
    shown: Shown = lambda *seen: seen,
) -> Drawn:
    """Ask the parties and decide on labels: the one way from votes to what is released.

    noise : what is drawn here, on exact counts or on a check. room : answers that may still be given, at least 1. What
    lies beyond the last of them is neither charged nor recorded, where counts are exact; queries whose noisy sums were
    seen are all returned. probabilities : the student's, float64 (queries, classes), where a mechanism needs them.

    Raises ConsiliumError : there are no sums; nothing was seen. Later than that it is the `failure` of what is
    returned: what was seen is to be charged.
    """
    raise ConfigError(f"{mechanism.name} is no mechanism that gives labels", "Name another one")


@draw.register
def _(mechanism: Difference, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    votes = _exact(mechanism, collect)
    compared = mechanism.comparison(votes, int(votes[:1].sum()), Noise.DISCRETE)
    noisy = compared.number + noise.gaussian(mechanism.sigma, compared.number.shape)
    return Drawn((noisy >= compared.threshold).astype(np.int64), np.zeros(len(votes), dtype=bool))


@draw.register(GNMax)
@draw.register(Histogram)
def _(mechanism: GNMax | Histogram, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    counts = collect(1, None)
    held = counts.sigma > 0  # those that hold noise have all that they need
    noisy = counts.votes if held else counts.votes + noise.gaussian(mechanism.sigma, counts.votes.shape)
    return replace(Drawn.winners(noisy), counts=noisy if mechanism.count_sigma else None)


@draw.register
def _(mechanism: LNMax, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    votes = _exact(mechanism, collect)
    return Drawn.winners(votes + noise.laplace(mechanism.gamma, votes.shape))


@draw.register
def _(mechanism: Immutable, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    votes = _exact(mechanism, collect)
    return _raised(votes, noise.laplace(mechanism.gamma, votes.shape), mechanism.constant)


@draw.register
def _(mechanism: ImmutableGaussian, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    votes = _exact(mechanism, collect)
    return _raised(votes, noise.gaussian(mechanism.sigma, votes.shape), mechanism.constant)


def _raised(votes: np.ndarray, noise: np.ndarray, constant: int) -> Drawn:
    """The largest count gets `constant` more."""
    drawn = votes + noise
    drawn[np.arange(len(votes)), votes.argmax(axis=1)] += constant
    return Drawn.winners(drawn)


@draw.register
def _(
    mechanism: Confident,
    collect: Collect,
    noise: NoiseSource,
    *,
    room: int,
    probabilities: np.ndarray | None = None,
    shown: Shown = lambda *seen: seen,
) -> Drawn:
    """Confident and Interactive, which differ in what is compared, and in what is confirmed where the check fails."""
    counts = collect(1, None)
    votes = projected(counts.votes, counts.teachers)
    number = mechanism.comparison(votes, counts.teachers, Noise.DISCRETE, probabilities).number
    passed = number + noise.gaussian(mechanism.sigma1, number.shape) >= mechanism.threshold
    unanswered = Drawn.nothing(len(votes))
    confirmed = ~passed & mechanism.confirmed(probabilities)
    if probabilities is not None and confirmed.any():
        unanswered = Drawn(np.where(confirmed, probabilities.argmax(axis=1), NO_LABEL), confirmed)
    if counts.sigma == 0:
        chosen = np.flatnonzero(passed)
        fresh = counts.votes[chosen] + noise.gaussian(mechanism.sigma2, counts.votes[chosen].shape)
        return _labelled(unanswered, chosen, fresh).up_to(room)
    unanswered, passed = shown(unanswered, passed)
    chosen = np.flatnonzero(passed)[:room]
    if not len(chosen):
        return unanswered
    try:
        return _labelled(unanswered, chosen, collect(2, chosen).votes)
    except ConsiliumError as error:
        return Drawn.nothing(len(votes), error)


def _exact(mechanism: Mechanism, collect: Collect) -> np.ndarray:
    counts = collect(1, None)
    if counts.sigma > 0:
        raise ConfigError(f"{mechanism.name} is drawn on exact counts alone", "Collect votes in plaintext")
    return counts.votes


def _labelled(unanswered: Drawn, chosen: np.ndarray, noisy: np.ndarray) -> Drawn:
    """The winners of noisy counts int64 (chosen, classes) as labels of these positions."""
    labels = unanswered.labels.copy()
    labels[chosen] = noisy.argmax(axis=1)
    return replace(unanswered, labels=labels)
