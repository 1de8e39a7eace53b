"""What is left of a federation's caps, phase by phase: public numbers, for status and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.store import Ledger
from consilium.coordinator.stages import Caps


@dataclass(frozen=True)
class PhaseUse:
    """Of one phase: its number, None where there is no schedule; what was asked and answered of its caps, and whether a
    later one has begun, so that nothing more can be."""

    number: int | None
    asked: int
    answered: int
    caps: Caps
    over: bool

    @property
    def queries_left(self) -> int:
        """That can still be asked."""
        return 0 if self.over else self.caps.queries - self.asked

    @property
    def answers_left(self) -> int:
        """That can still be given."""
        return 0 if self.over else self.caps.answers - self.answered

    def describe(self) -> str:
        """For people."""
        where = "" if self.number is None else f"phase {self.number}: "
        used = (
            f"{self.asked} of {self.caps.queries} queries asked, {self.answered} of {self.caps.answers} answers given"
        )
        return f"{where}{used}{', over' if self.over else ''}"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        left = {"queries_left": self.queries_left, "answers_left": self.answers_left}
        return {"phase": self.number, "asked": self.asked, "answered": self.answered, **left, "over": self.over}


def use_of_phases(config: FederationConfig, ledger: Ledger | None) -> list[PhaseUse]:
    """Of each phase in order, one where there is no schedule. ledger: None before there is one."""
    last = 0 if ledger is None else ledger.last_phase()
    found = []
    for number in config.phase_numbers:
        asked, answered = (0, 0) if ledger is None else ledger.spent(number)
        found.append(PhaseUse(number, asked, answered, config.phase(number).caps, number is not None and number < last))
    return found
