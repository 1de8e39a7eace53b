"""The interface that all mechanisms share, and what their classes have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Protocol, TypedDict

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from consilium.accounting.events import Evidence, ReleaseEvent
from consilium.accounting.planning.target import round_down, round_up
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource


@dataclass(frozen=True)
class NoiseScale:
    """Marks a field that says how much noise there is. inverse: a larger value is less noise."""

    inverse: bool = False

    def of(self, amount: float) -> float:
        """The field's value for this amount of noise, or a little more, in four digits."""
        return round_down(1 / amount) if self.inverse else round_up(amount)


Sigma = Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False, description="of the noise, in votes"), NoiseScale()]
"""Parameter of the discrete Gaussian on one number, in votes. The upper limit bounds the memory of seeded noise."""

Gamma = Annotated[
    float,
    Field(ge=1e-12, le=1e3, allow_inf_nan=False, description="inverse scale of the noise on one count"),
    NoiseScale(inverse=True),
]
"""Inverse scale of the discrete Laplace noise on one count."""

Votes = Annotated[int, Field(ge=0, le=2**53, description="votes, whole")]
"""A whole number of votes; the limit keeps sums far from the end of int64."""


@dataclass(frozen=True)
class Drawn:
    """What a mechanism released: `labels` int64 (queries,), NO_LABEL for an abstention; `reinforced` bool (queries,),
    True where the label is the student's own prediction, confirmed at no further cost."""

    labels: np.ndarray = field(repr=False)
    reinforced: np.ndarray = field(repr=False)

    @classmethod
    def from_teachers(cls, labels: np.ndarray) -> Drawn:
        """Labels that all come from the teachers."""
        return cls(labels.astype(np.int64, copy=False), np.zeros(len(labels), dtype=bool))

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): where the teachers' votes gave a label, which is what is paid for."""
        return (self.labels != NO_LABEL) & ~self.reinforced

    def first(self, count: int) -> Drawn:
        """The first `count` queries alone."""
        return Drawn(self.labels[:count], self.reinforced[:count])


class Mechanism(Protocol):
    """Draws outcomes from vote histograms and describes what they cost."""

    @property
    def name(self) -> str: ...

    needs_probabilities: ClassVar[bool]
    """Whether the student must send its class probabilities with the queries."""
    answers_all: ClassVar[bool]
    """Whether every query gets a label."""
    noise_by_parties: ClassVar[bool]
    """Whether the parties add the noise: the coordinator then decides on noisy sums, and `draw` only simulates."""

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        """Votes int64 (queries, classes), and the student's float64 (queries, classes) where they are needed."""
        ...

    def event(
        self, *, asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int
    ) -> ReleaseEvent:
        """The release event of `asked` queries of which the teachers answered `answered`, towards whoever sees it: the
        student, or, where the parties add the noise, the coordinator."""
        ...

    def evidence(self, event: ReleaseEvent, votes: np.ndarray, probabilities: np.ndarray | None = None) -> Evidence:
        """What the votes say about the event's cost, for the ledger. Secret; (None, None) where nothing is kept."""
        ...

    def describe(self) -> str:
        """One line for people, with all parameters."""
        ...


class MechanismModel(BaseModel):
    """Base of all mechanisms: frozen, unknown keys refused; keeps the event's evidence and adds the noise itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs_probabilities: ClassVar[bool] = False
    answers_all: ClassVar[bool] = False
    noise_by_parties: ClassVar[bool] = False

    def evidence(self, event: ReleaseEvent, votes: np.ndarray, probabilities: np.ndarray | None = None) -> Evidence:
        """See `Mechanism.evidence`."""
        return event.evidence(votes)


class Stated(TypedDict):
    """The fields that every release event has."""

    asked: int
    answered: int
    unit: Unit
    neighbouring: Neighbouring
    teachers_per_party: int
    towards: Towards
    noise: Noise


def stated(
    asked: int, answered: int, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int, towards: Towards
) -> Stated:
    """The fields that every release event has, for integer noise."""
    return Stated(
        asked=asked,
        answered=answered,
        unit=unit,
        neighbouring=neighbouring,
        teachers_per_party=teachers_per_party,
        towards=towards,
        noise=Noise.DISCRETE,
    )
