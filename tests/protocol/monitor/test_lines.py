"""A node's log: levels, JSON, rotation, and nobody's text looks like a line of its own."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from consilium.coordinator.deploy.start import in_words
from consilium.protocol.monitor import lines
from consilium.protocol.monitor.heard import MOST_REMEMBERED, Heard
from consilium.protocol.monitor.lines import RotatedFile, level_of, log_of
from consilium.protocol.monitor.settings import LogSettings
from consilium.protocol.node.supernode import NEWS
from tests.protocol.monitor.nodes import kit_in

LEFT_OUT = {"event": "left-out", "party": "ward-a", "stage": "train", "reason": "refused: data"}


@pytest.mark.parametrize(
    ("what", "level"),
    [
        (in_words({"event": "closed", "asked": 3, "answered": 2}), "info"),
        (in_words({"event": "waiting", "connected": 1, "required": 3}), "info"),
        (in_words(LEFT_OUT), "warning"),
        (in_words({"event": "warned", "code": "few-answers", "text": "few"}), "warning"),
        (in_words({"event": "failed", "what": "0 parties", "action": "See"}), "error"),
        ("the run ended without an outcome. See state/logs; again in 5 s, and from then on", "error"),
        (in_words({"event": "lost", "parties": ["ward-a"]}), "warning"),
        (in_words({"event": "connected", "parties": ["ward-a"]}), "info"),
        ("ended (signal SIGKILL); starts again in 1 s; log: x", "error"),
        (NEWS["SuperNode ID:"], "info"),
        (NEWS["Connection attempt failed"], "warning"),
        (NEWS["Failed to activate SuperNode"], "warning"),
        ("server.crt expires on 2026-12-01. Ask the operator for a new certificate in time", "warning"),
        ("port 9464 on 127.0.0.1 cannot be used: address already in use; the node works on", "error"),
        ("5 MB free at /srv, 10 MB are needed. Make room", "error"),
    ],
)
def test_levels_are_those_of_what_nodes_really_say(what: str, level: str) -> None:
    assert level_of(what) == level


def test_one_json_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell = log_of(kit_in(tmp_path, "party", "ward-a"), LogSettings(format="json"), clock=lambda: 0.5)
    tell("supernode", 'ended (exit code 1)\n{"level": "info"}')
    tell("party", "Größe \u2028 stopped")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first == {
        "at": "1970-01-01T00:00:00.500+00:00", "level": "error", "node": "ward-a", "kind": "party",
        "process": "supernode", "what": 'ended (exit code 1) {"level": "info"}',
    }  # fmt: skip
    assert second["what"] == "Größe   stopped"


@pytest.mark.parametrize("settings", [LogSettings(), LogSettings(file="node.log"), LogSettings(format="json")])
def test_a_message_is_one_line(tmp_path: Path, settings: LogSettings, capsys: pytest.CaptureFixture[str]) -> None:
    log_of(kit_in(tmp_path), settings)("run", "ward-a\r\n12:00:00 coordinator: closed\x1b[2J\x00")
    written = (tmp_path / "node.log").read_text() if settings.file else capsys.readouterr().err
    assert written.count("\n") == 1
    assert not {"\r", "\x1b", "\x00"} & set(written)


def test_files_rotate_and_are_private(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "node.log", most_bytes=25, keep=2)
    for number in range(7):
        file.write(f"line number {number}")  # 14 bytes: one in each file
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {
        "node.log": "line number 6\n", "node.log.1": "line number 5\n", "node.log.2": "line number 4\n"
    }  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_file_that_cannot_be_written_loses_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_of(kit_in(tmp_path), LogSettings(file="no/such/folder/node.log"))("coordinator", "stopped")
    assert capsys.readouterr().err.endswith("coordinator: stopped\n")


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RotatedFile(tmp_path / "node.log", most_bytes=1000, keep=1)
    file.write("first")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(lines.os, "write", lambda descriptor, content: write(descriptor, content[:3]))
        with pytest.raises(OSError, match="No space left"):
            file.write("second")
    file.write("third")
    assert (tmp_path / "node.log").read_text() == "first\nthird\n"


def test_what_was_heard_is_passed_on_and_remembered() -> None:
    told: list[tuple[str, str]] = []
    heard = Heard(lambda name, what: told.append((name, what)), clock=lambda: 7.0)
    for number in range(MOST_REMEMBERED + 5):
        heard.tell("superlink", f"ended (exit code {number}); starts again in 1 s; log: x")
    heard.tell("run", "stage train: 3 parties")
    assert len(told) == MOST_REMEMBERED + 6
    assert heard.ended == {"superlink": MOST_REMEMBERED + 5}
    assert heard.lines == {"info": 1, "warning": 0, "error": MOST_REMEMBERED + 5}
    assert [said.what.split(")")[0] for said in heard.troubles][::19] == ["ended (exit code 5", "ended (exit code 24"]
