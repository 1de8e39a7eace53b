"""The phases of a federation's schedule, as rows of the report's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consilium.protocol.errors import DataError
from consilium.protocol.strict_json import number
from consilium.report.disclosure import epsilon_text


@dataclass(frozen=True)
class PhaseRow:
    """One phase: asked and answered of its caps, as text. epsilon_text: what it may cost by itself."""

    mechanism: str
    asked: str
    answered: str
    reinforced: str
    epsilon_text: str


def phase_rows(phases: Sequence[Mapping[str, Any]]) -> list[PhaseRow]:
    """phases : as `coordinator.ledger.privacy.by_phase` gives them; empty where there is no schedule. All of it may be
    shown.

    Raises
    ------
    DataError : they are not of that form.
    """
    try:
        return [
            PhaseRow(
                str(phase["mechanism"]),
                f"{phase['asked']:,} of {phase['most_queries']:,}",
                f"{phase['answered']:,} of {phase['most_answers']:,}",
                f"{phase['reinforced']:,}",
                epsilon_text(number(dict(phase), "epsilon")),
            )
            for phase in phases
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("the report's phases are not those of a run", "Run: consilium audit") from error
