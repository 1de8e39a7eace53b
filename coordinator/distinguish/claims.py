"""What is claimed for a mechanism: by its own events, by the paper it comes from, or by the user."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from consilium.accounting.accountant import Accountant
from consilium.accounting.errors import DeltaError
from consilium.accounting.guarantee import Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.mechanisms.base import Mechanism


class Claims(Protocol):
    """Epsilon for a run of `asked` queries of which at most `answered` get a label, at any delta."""

    @property
    def source(self) -> str:
        """Who claims it, in words."""
        ...

    @property
    def every_delta(self) -> bool:
        """Whether an epsilon is claimed at every delta, or at one alone."""
        ...

    def epsilon(self, asked: int, answered: int, delta: float) -> float:
        """The claim; inf where nothing is claimed."""
        ...


class EventClaims:
    """The worst case that the accountant states for the mechanism's own event, towards whoever gets what is released.

    An audit sees what leaves, not what a coordinator sees whom the parties send noisy histograms.
    """

    every_delta = True

    def __init__(self, mechanism: Mechanism, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> None:
        self.source = "worst case of its own event"
        self._mechanism = mechanism
        self._unit = unit
        self._neighbouring = neighbouring
        self._teachers_per_party = teachers_per_party
        self._accountant = lru_cache(maxsize=32)(self._charged)

    def _charged(self, asked: int, answered: int) -> Accountant:
        event = self._mechanism.event(
            asked=asked,
            answered=answered,
            unit=self._unit,
            neighbouring=self._neighbouring,
            teachers_per_party=self._teachers_per_party,
        )
        accountant = Accountant()
        labels_alone = self._mechanism.count_sigma(1) == 0
        accountant.commit(replace(event, towards=Towards.STUDENT) if labels_alone else event)
        return accountant

    def epsilon(self, asked: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`. A delta that the event alone uses up has no claim."""
        try:
            return self._accountant(asked, answered).guarantee(delta, Kind.WORST_CASE).epsilon
        except DeltaError:
            return math.inf


class PaperClaims:
    """What the near-zero-cost paper states for its mechanism, in section 4.2. It is not a guarantee."""

    every_delta = True

    def __init__(self, mechanism: Mechanism) -> None:
        self.source = "near-zero-cost paper, section 4.2"
        self._mechanism = mechanism

    def epsilon(self, asked: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`."""
        claimed = self._mechanism.claimed_epsilon(asked, delta)
        return math.inf if claimed is None else claimed


class UserClaims:
    """One number at one delta, for the whole run."""

    every_delta = False

    def __init__(self, epsilon: float, delta: float) -> None:
        self.source = "given by the user"
        self._epsilon = epsilon
        self._delta = delta

    def epsilon(self, asked: int, answered: int, delta: float) -> float:
        """See `Claims.epsilon`."""
        return self._epsilon if delta >= self._delta else math.inf


def claims_of(mechanism: Mechanism, unit: Unit, neighbouring: Neighbouring, teachers_per_party: int) -> Claims:
    """The claim that goes with a mechanism when nobody names another."""
    if not mechanism.private:
        return PaperClaims(mechanism)
    return EventClaims(mechanism, unit, neighbouring, teachers_per_party)
