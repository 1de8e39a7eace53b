"""The log of a node, and what monitor.toml may say."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from consilium.coordinator.events import event_of
from consilium.node import log
from consilium.node.checks import CheckResult, examine
from consilium.node.health import monitor_checks
from consilium.node.kit import Coordinator, Kit
from consilium.node.log import (
    MONITOR_FILE,
    MOST_REMEMBERED,
    Heard,
    LogSettings,
    MonitorSettings,
    RotatedFile,
    level_of,
    load_monitor,
    log_of,
)
from consilium.node.supernode import NEWS
from consilium.protocol.errors import ConfigError
from tests.deploy.kits import free_ports
from tests.node.nodes import kit_in

LEFT_OUT = {"event": "left-out", "party": "ward-a", "stage": "train", "reason": "refused: data"}


@pytest.mark.parametrize(
    ("what", "level"),
    [
        (event_of({"event": "closed", "asked": 3, "answered": 2}).words, "info"),
        (event_of({"event": "waiting", "connected": 1, "required": 3}).words, "info"),
        (event_of(LEFT_OUT).words, "warning"),
        (event_of({"event": "warned", "code": "few-answers", "text": "few"}).words, "warning"),
        (event_of({"event": "failed", "what": "0 parties", "action": "See"}).words, "error"),
        ("the run ended without an outcome. See state/logs; again in 5 s, and from then on", "error"),
        (event_of({"event": "lost", "parties": ["ward-a"]}).words, "warning"),
        (event_of({"event": "connected", "parties": ["ward-a"]}).words, "info"),
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
        full.setattr(log.os, "write", lambda descriptor, content: write(descriptor, content[:3]))
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 70000", "65535"),
        ("port = 0", "port"),
        ("prot = 9464", "prot"),
        ('port = 9464\nlisten = "0.0.0.0"', "no loopback address"),
        ('port = 9464\nlisten = "console.example.org"', "no loopback address"),
        ('listen = "a b"', "listen"),
        ('hosts = ["x y"]', "hosts"),
        ('[log]\nformat = "xml"', "format"),
        ("[log]\nmost_bytes = 10", "most_bytes"),
        ("[log]\nkeep = 0", "keep"),
        ("port = ", "TOML"),
        ("port = 8443", "superlink_port"),
        ("port = 8444", "label_port"),
        ("port = 8445", "internal_port"),
    ],
)
def test_what_it_may_not_say(tmp_path: Path, text: str, said: str) -> None:
    kit = kit_in(tmp_path)
    (kit / MONITOR_FILE).write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_monitor(kit)


@pytest.mark.parametrize(
    ("kind", "text"), [("party", "port = 9094"), ("student", "port = 8443"), ("coordinator", "port = 9464")]
)
def test_only_ports_of_this_very_node_are_taken(tmp_path: Path, kind: str, text: str) -> None:
    kit = kit_in(tmp_path, kind)
    (kit / MONITOR_FILE).write_text(text)
    if kind == "party":
        with pytest.raises(ConfigError, match="node_port"):
            load_monitor(kit)
    else:
        assert f"port = {load_monitor(kit).port}" == text


def test_without_the_file_nothing_is_opened(tmp_path: Path) -> None:
    assert load_monitor(kit_in(tmp_path)) == MonitorSettings(port=None)


@pytest.mark.parametrize(
    ("listen", "names"),
    [
        ("127.0.0.1", {"127.0.0.1", "localhost", "[::1]"}),
        ("::1", {"127.0.0.1", "localhost", "[::1]"}),
        ("192.0.2.7", {"127.0.0.1", "localhost", "[::1]", "192.0.2.7", "console.example.org"}),
    ],
)
def test_names_that_are_answered(listen: str, names: set[str]) -> None:
    hosts = ("Console.Example.org",) if "console.example.org" in names else ()
    found = MonitorSettings(port=9464, listen=listen, hosts=hosts, observers="x.pem").own_names()
    assert found == names | {f"{name}:9464" for name in names}


def doctor(kit: Kit, running: bool) -> CheckResult:
    return examine(monitor_checks(kit, running))[0]


def test_doctor_knows_the_port(tmp_path: Path) -> None:
    kit = kit_in(tmp_path)
    assert doctor(kit, running=True).what.startswith("no port")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        (kit / MONITOR_FILE).write_text(f"port = {taken.getsockname()[1]}")
        found = doctor(kit, running=True)  # another program answers there
        assert (found.level, found.action) == ("wrong", "Stop what uses it, or change port in monitor.toml")
    (kit / MONITOR_FILE).write_text(f"port = {free_ports(1)[0]}")
    assert "is free" in doctor(kit, running=False).what
    found = doctor(kit, running=True)
    assert found.level == "wrong"
    assert "does not listen there" in found.what


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "prot"),
        ('[log]\nfile = "away/node.log"', "no such folder"),
        ('port = 9464\nobservers = "observers.pem"', "No such file"),
    ],
)
def test_doctor_finds_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    kit = kit_in(tmp_path)
    (kit / MONITOR_FILE).write_text(text)
    found = doctor(kit, running=False)
    assert found.level == "wrong"
    assert said in found.what
    assert found.action or "did you mean" in found.what


def test_doctor_tells_where_the_log_goes(tmp_path: Path) -> None:
    kit = kit_in(tmp_path)
    (kit / MONITOR_FILE).write_text('[log]\nformat = "json"\nfile = "state/logs/node.log"')
    assert doctor(kit, running=False).what.endswith("log: json in node.log, at most 6 times 20 MB")


def test_the_defaults_of_a_coordinator_are_other_ports() -> None:
    """The page on the console names 9464 to 9466."""
    place = Coordinator(hosts=("x",))
    assert {9464, 9465, 9466}.isdisjoint({place.superlink_port, place.label_port, place.internal_port, 9094})
