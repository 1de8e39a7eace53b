"""A student that can be looked at: not ready before the label service answers, then its stages."""

from __future__ import annotations

import json
from pathlib import Path

from consilium.node.log import MonitorSettings
from consilium.node.metrics import exposition
from consilium.student.watching import StudentBoard, student_monitor
from tests.deploy.kits import free_ports
from tests.node.nodes import ask, kit_in


def test_stages_are_noted_and_passed_on() -> None:
    board, told = StudentBoard(), []
    progress = board.follow(lambda *stage: told.append(stage))
    assert board.waits_for()
    board.connected = True
    progress("vote", 3, 12)
    assert board.waits_for() == []
    assert told == [("vote", 3, 12)]
    text = exposition(board.metrics()).decode()
    for line in ('consilium_stage{stage="vote"} 1.0', "consilium_stage_done 3.0", "consilium_connected 1.0"):
        assert line in text


def test_its_port(tmp_path: Path) -> None:
    told: list[str] = []
    settings = MonitorSettings(port=free_ports(1)[0])
    kit = kit_in(tmp_path, "student", "university")
    with student_monitor(kit, settings, lambda _, what: told.append(what)) as board:
        assert settings.port is not None
        waiting = ask(settings.port, "/readyz")
        board.connected = True
        assert (waiting.status, json.loads(waiting.body)["kind"]) == (503, "student")
        assert ask(settings.port, "/").status == 404
    assert told == [f"http://127.0.0.1:{settings.port}/"]
