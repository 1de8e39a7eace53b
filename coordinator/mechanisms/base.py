"""The interface that all mechanisms share, and what their classes have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from consilium.accounting import events
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.target import round_down, round_up
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource
from consilium.protocol.releases import ReleaseKind


@dataclass(frozen=True)
class NoiseScale:
    """Marks a field that says how much noise there is. inverse: a larger value is less noise."""

    inverse: bool = False

    def of(self, amount: float) -> float:
        """The field's value for this amount of noise, or a little more, in four digits."""
        return round_down(1 / amount) if self.inverse else round_up(amount)


Sigma = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False, description="of the noise, in votes"), NoiseScale()]
"""Parameter of the discrete Gaussian on one number, in votes. The upper limit bounds the memory of seeded noise."""

GAUSSIAN_STEP, LAPLACE_STEP = math.sqrt(math.pi) / 2, math.sqrt(0.5)
"""`Mechanism.label_step`: 1 / (4 f(0)), of the density f of the difference of two draws of deviation 1."""

Gamma = Annotated[
    float,
    Field(ge=1e-12, le=1e3, allow_inf_nan=False, description="inverse scale of the noise on one count"),
    NoiseScale(inverse=True),
]
"""Inverse scale of the discrete Laplace noise on one count."""

Votes = Annotated[int, Field(ge=0, le=2**53, description="votes, whole")]
"""A whole number of votes; the limit keeps sums far from the end of int64."""


Sums = Callable[[np.ndarray, int], tuple[np.ndarray, int]]
"""Positions of queries int64 (n,) and round (1, then 2) -> histograms of the parties' votes, int64 (n, classes), and
the number of votes that were given on each query, which is public.

Each call asks the parties. Where others than the coordinator add noise, it is in the histograms, fresh in every round:
counts may be below 0, or above the number of votes. Without noise, a row that a party or an aggregator falsified need
not add up to the number of votes, and nothing may be decided on what it adds up to.
"""

Shown = Callable[["Drawn", np.ndarray], tuple["Drawn", np.ndarray]]
"""Gets what a check left unanswered and what passed, bool (queries,), before anybody is asked about that. Returns the
same, or what it got of these queries before, where the release was broken off then."""


def projected(noisy: np.ndarray, votes: int) -> np.ndarray:
    """Noisy histograms int64 (queries, classes), each moved as a whole so that it adds up to the number of votes, or
    less than one for each class below it: int64.

    A vote for another class moves them as it moves the votes, since it does not change what they add up to. Each count
    loses its share of the noise on the total. In whole numbers, where no rounding can make one vote look like two.

    >>> projected(np.array([[12, 2, 1], [12, 2, 2]]), 9).tolist()
    [[10, 0, -1], [9, -1, -1]]
    """
    return noisy + (votes - noisy.sum(axis=1, keepdims=True)) // noisy.shape[1]


@dataclass(frozen=True)
class Drawn:
    """What a mechanism released: `labels` int64 (queries,), NO_LABEL for an abstention; `reinforced` bool (queries,),
    True where the label is the student's own prediction, confirmed at no further cost.

    counts: the noisy histograms int64 (queries, classes) where these are what is released, and a label is their largest
        count; None where labels alone are.
    failure: why a later phase gave no sums, after a first one that is paid for; None where nothing failed.
    """

    labels: np.ndarray = field(repr=False)
    reinforced: np.ndarray = field(repr=False)
    failure: ConsiliumError | None = None
    counts: np.ndarray | None = field(default=None, repr=False)

    @classmethod
    def from_counts(cls, counts: np.ndarray) -> Drawn:
        """Noisy histograms int64 (queries, classes), released whole."""
        return replace(cls.from_teachers(counts.argmax(axis=1)), counts=counts.astype(np.int64, copy=False))

    @classmethod
    def from_teachers(cls, labels: np.ndarray) -> Drawn:
        """Labels that all come from the teachers."""
        return cls(labels.astype(np.int64, copy=False), np.zeros(len(labels), dtype=bool))

    @classmethod
    def of_passed(cls, unanswered: Drawn, passed: np.ndarray, room: int, sums: Sums) -> Drawn:
        """`unanswered`, and for the first `room` of the queries that passed, bool (queries,), labels from fresh noisy
        sums in a second round. Where that fails there is no label at all, and its error as `failure`."""
        chosen = np.flatnonzero(passed)[:room]
        if not len(chosen):
            return unanswered
        try:
            noisy, _ = sums(chosen, 2)
        except ConsiliumError as error:
            return cls.nothing(len(passed), error)
        labels = unanswered.labels.copy()
        labels[chosen] = noisy.argmax(axis=1)
        return replace(unanswered, labels=labels)

    @classmethod
    def nothing(cls, queries: int, failure: ConsiliumError | None = None) -> Drawn:
        """No label for any of so many queries."""
        return cls(np.full(queries, NO_LABEL, dtype=np.int64), np.zeros(queries, dtype=bool), failure)

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): where the teachers' votes gave a label, which is what is paid for."""
        return (self.labels != NO_LABEL) & ~self.reinforced

    def within(self, answers: int) -> Drawn:
        """All queries; those beyond the one that takes the last of so many answers are left without a label.

        >>> Drawn.from_teachers(np.array([2, NO_LABEL, 0, NO_LABEL, 1])).within(2).labels.tolist()
        [2, -1, 0, -1, -1]
        """
        beyond = np.cumsum(self.answered) > answers
        return replace(self, labels=np.where(beyond & self.answered, NO_LABEL, self.labels))

    def up_to(self, answers: int) -> Drawn:
        """The queries up to the one that takes the last of so many answers, at least 1; all, if there are fewer.

        Where the cut lies depends on the labels alone, which are released anyway, and on nothing else of the votes.

        >>> Drawn.from_teachers(np.array([2, NO_LABEL, 0, NO_LABEL, 1])).up_to(2).labels.tolist()
        [2, -1, 0]
        """
        end = int(np.searchsorted(np.cumsum(self.answered), answers)) + 1
        counts = None if self.counts is None else self.counts[:end]
        return Drawn(self.labels[:end], self.reinforced[:end], self.failure, counts)


class Mechanism(BaseModel, ABC):
    """Releases labels from vote histograms and describes what they cost. Frozen; unknown keys are refused.

    All that a caller has to know about a mechanism is said here; nobody asks of which class one is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    if TYPE_CHECKING:  # each has its own, which says of which kind a table is
        name: str
    ACCOUNTED: ClassVar[type[events.Mechanism]]
    """As accounting describes it. Its parameters are fields of this one, under the same names."""
    needs_probabilities: ClassVar[bool] = False
    """Whether the student must send its class probabilities with the queries."""
    answers_all: ClassVar[bool] = False
    """Whether every query gets a label."""
    noise_by_parties: ClassVar[bool] = False
    """Whether the parties add the noise: the coordinator then decides on noisy sums, and `draw` only simulates."""
    phases: ClassVar[int] = 1
    """How often the parties are asked for one batch of queries: of the second time, what passed the first."""
    private: ClassVar[bool] = True
    """Whether the mechanism is differentially private at all."""
    label_step: ClassVar[float] = 0.0
    """Votes that a label of two classes stands for (`Shares.of_labels`), in deviations of the noise on one count. 0
    where whether there is a label depends on that very noise, or a label has none."""

    @property
    def releases(self) -> ReleaseKind:
        """What the student gets for a query. The coordinator sees noisy counts where `noise_by_parties`, else what the
        collection of votes shows it."""
        if not self.private:
            return ReleaseKind.EXACT
        if self.count_sigma(1) > 0:
            return ReleaseKind.COUNTS
        if self.answers_all:
            return ReleaseKind.WINNER
        return ReleaseKind.WINNER_OR_CONFIRMATION if self.needs_probabilities else ReleaseKind.WINNER_OR_ABSTENTION

    @property
    def shares_of_noise(self) -> int:
        """Shares that make up noise which is in the sums; 0 for a mechanism that adds its own."""
        return 0

    @property
    def votes_needed(self) -> int:
        """Votes for one class that a query needs to be answered, noise aside; 0 where no count is asked for."""
        return 0

    @abstractmethod
    def label_noise(self, parties: int) -> float | None:
        """Standard deviation of the noise on each count that a label is the largest of, in votes, where `parties` are
        in the sum. None where the label is the exact winner."""

    def count_sigma(self, parties: int) -> float:
        """Sigma of the noise on one released count, in votes, where `parties` are in the sum; 0 where labels alone are
        released. What is charged is never less noise than this, whoever is in the sum."""
        return 0.0

    def release(
        self, sums: Sums, queries: int, room: int, noise: NoiseSource | None, probabilities: np.ndarray | None = None
    ) -> Drawn:
        """Ask the parties about `queries` queries and decide on their labels: the one way from votes to labels.

        Parameters
        ----------
        room : answers that may still be given, at least 1. What lies beyond the last of them is not part of what is
            returned, and is neither charged nor recorded; a mechanism whose sums are seen returns every query.
        noise : what the coordinator adds; None where the sums have the parties' noise in them already.
        probabilities : the student's, float64 (queries, classes), where they are needed.

        Returns
        -------
        Drawn, for the queries up to the last answer that there is room for. A second phase that fails after a first
        one was seen leaves no label, and its error as `failure`: what was seen is to be charged.

        Raises
        ------
        ConsiliumError : there are no sums, or no noise for a mechanism that adds its own. Nothing was seen.
        """
        if noise is None:
            raise ConfigError(
                f"{self.describe()}: no noise was given, and the parties add none",
                "Draw noise, or choose a mechanism whose noise the parties add",
            )
        votes, total = sums(np.arange(queries), 1)
        return self._drawn(votes, total, noise, probabilities).up_to(room)

    @abstractmethod
    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """Votes int64 (queries, classes), as many in each row, and the student's float64 (queries, classes) where they
        are needed."""

    def _drawn(self, votes: np.ndarray, total: int, noise: NoiseSource, probabilities: np.ndarray | None) -> Drawn:
        """The same of rows that somebody may have falsified, of `total` votes on each query, a public number. No error
        may depend on the rows: it would be an answer without noise."""
        return self.draw(votes, noise, probabilities)

    def sums_sigma(self, round_: int) -> float | None:
        """Sigma of all noise on a count of the sums of this round, where others than the coordinator add noise to them.

        By default as much as there is on the counts of a label. None where the mechanism is not private, or has no such
        round.
        """
        return self.label_noise(1) if round_ == 1 and self.private else None

    def tops_up(self, round_: int) -> bool:
        """Whether that noise is all there is in this round, so that the coordinator makes up what is missing of it.
        Else the mechanism adds all of its own on top."""
        return False

    def release_from_noisy(
        self,
        sums: Sums,
        queries: int,
        room: int,
        noise: NoiseSource,
        probabilities: np.ndarray | None = None,
        shown: Shown = lambda unanswered, passed: (unanswered, passed),
    ) -> Drawn:
        """As `release`, where the noise of `sums_sigma` is in the sums. What the student gets has the event that it
        has from exact sums. Every query is returned, since its noisy sum was seen and is not given again; no outcome
        depends on whether a sum is one that votes can give.

        Where the sums have all the noise, they decide. Where there is a second round, the check is of the first, with
        its own noise on top: whatever the noise in the sums is, one moved vote moves the number that is compared by at
        most one, as it does of exact sums. Else the mechanism draws on noisy sums, which move as votes do.
        """
        noisy, votes = sums(np.arange(queries), 1)
        if self.tops_up(1):
            return self._decided(noisy)
        if self.sums_sigma(2) is None:
            return self._drawn(noisy, votes, noise, probabilities).within(room)
        unanswered, passed = shown(*self._checked(projected(noisy, votes), votes, noise, probabilities))
        return Drawn.of_passed(unanswered, passed, room, sums)

    def _decided(self, noisy: np.ndarray) -> Drawn:
        """What noisy histograms int64 (queries, classes) release, of a mechanism whose noise may all be in the sums."""
        raise NotImplementedError

    def _checked(
        self, counts: np.ndarray, votes: int, noise: NoiseSource, probabilities: np.ndarray | None
    ) -> tuple[Drawn, np.ndarray]:
        """The outcome of each query before any label, and which passed the check, bool (queries,).

        counts : int64 (queries, classes), which add up to about `votes`, the public number of votes on each query.
        """
        raise NotImplementedError

    def event(
        self,
        *,
        asked: int,
        answered: int,
        unit: Unit,
        neighbouring: Neighbouring,
        teachers_per_party: int,
        towards: Towards | None = None,
    ) -> ReleaseEvent:
        """The release event of `asked` queries of which the teachers answered `answered`.

        towards : who sees it; None for the student, or, where the parties add the noise, for the coordinator, who then
            sees every query that is asked.
        """
        audience = Towards.COORDINATOR if self.noise_by_parties else Towards.STUDENT
        parameters: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self.ACCOUNTED)}
        return ReleaseEvent(
            mechanism=self.ACCOUNTED(**parameters),
            asked=asked,
            answered=answered,
            unit=unit,
            neighbouring=neighbouring,
            teachers_per_party=teachers_per_party,
            towards=towards or audience,
            noise=Noise.DISCRETE,
        )

    def claimed_epsilon(self, asked: int, delta: float) -> float | None:
        """Epsilon that the paper of a mechanism which is not private states for it; None where the event says it."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """One line for people, with all parameters."""
