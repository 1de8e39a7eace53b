"""The phases in the report: one row for each, and damaged ones refused without a traceback."""

from __future__ import annotations

from typing import Any

import pytest

from consilium.coordinator.ledger.privacy import by_phase
from consilium.protocol.errors import DataError
from consilium.simulations.report.phases import phase_rows
from tests.schedule.small import FIRST, SECOND, scheduled

PHASES = by_phase(scheduled(), [])["phases"]


def test_a_row_for_each_phase() -> None:
    rows = phase_rows(PHASES)
    assert [row.mechanism for row in rows] == [FIRST.describe(), SECOND.mechanism.describe()]
    assert [(row.asked, row.answered, row.reinforced) for row in rows] == [
        ("0 of 20", "0 of 15", "0"),
        ("0 of 30", "0 of 20", "0"),
    ]
    assert all(float(row.epsilon_text) > 0 for row in rows)
    assert phase_rows([]) == []


@pytest.mark.parametrize(
    "phases", [[{}], ["x"], [1], [{**PHASES[0], "asked": "many"}], [{**PHASES[0], "epsilon": None}]], ids=str
)
def test_what_are_no_phases(phases: list[Any]) -> None:
    with pytest.raises(DataError, match="phases are not those of a run"):
        phase_rows(phases)
