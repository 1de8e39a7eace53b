"""`monitor.toml`: what it may say, which names are answered, and what doctor finds."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError
from consilium.protocol.monitor.checks import monitor_checks
from consilium.protocol.monitor.settings import MONITOR_FILE, MonitorSettings, load_monitor
from consilium.protocol.node.checks import CheckResult, examine
from consilium.protocol.node.kit import Coordinator, Kit
from tests.deploy.kits import free_ports
from tests.protocol.monitor.nodes import kit_in


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
