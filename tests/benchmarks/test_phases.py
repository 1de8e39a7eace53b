"""Seconds by phase: what the loop beside a run does, and what the table says of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import plain_pate
from benchmarks.papers import Place
from benchmarks.phases import ALL, PHASES, table, write_rows


def test_the_loop_learns_from_all_parties(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place("stroke", 0, ["data.least_rows=60", "federation.minimum_parties=2"])
    write_rows(place, tmp_path / "rows.npz")
    plain_pate.main([str(tmp_path / "rows.npz")])
    said = json.loads(capsys.readouterr().out)
    assert said["seconds"].keys() <= set(PHASES)
    assert said["auc"] > 0.5


def test_what_a_phase_is_not_in_has_no_ratio() -> None:
    runs = [{"train": 2.0, "enrol": 1.0, "total": 4.0, "memory, MB": 200.4}, {"train": 4.0, "enrol": 1.0, "total": 6.0}]
    rows = {phase: cells for phase, *cells in table(runs, [{"train": 1.5, "total": 2.0}])}
    assert list(rows) == [*PHASES, *ALL]
    assert rows["train"] == ["3.00", "1.50", "2.00"]
    assert rows["enrol"] == ["1.00", "-", "-"]
    assert rows["total"] == ["5.00", "2.00", "2.50"]
    assert rows["memory, MB"] == ["200", "-", "-"]
    assert rows["report"] == ["-", "-", "-"]
