"""The stages in the report: one line for each, and damaged ones refused without a traceback."""

from __future__ import annotations

from typing import Any

import pytest

from consilium.coordinator.privacy import by_phase
from consilium.protocol.errors import DataError
from consilium.simulations.report.build import stage_lines
from tests.schedule.small import FIRST, SECOND, scheduled

STAGES = by_phase(scheduled(), [])["stages"]


def test_a_line_for_each_stage() -> None:
    lines = [[str(cell.text) for cell in line.cells] for line in stage_lines(STAGES)]
    assert [line[:4] for line in lines] == [
        [FIRST.describe(), "0 of 20", "0 of 15", "0"],
        [SECOND.mechanism.describe(), "0 of 30", "0 of 20", "0"],
    ]
    assert all(float(line[4]) > 0 for line in lines)
    assert stage_lines([]) == ()


@pytest.mark.parametrize(
    "stages", [[{}], ["x"], [1], [{**STAGES[0], "asked": "many"}], [{**STAGES[0], "epsilon": None}]], ids=str
)
def test_what_are_no_stages(stages: list[Any]) -> None:
    with pytest.raises(DataError, match="stages are not those of a run"):
        stage_lines(stages)
