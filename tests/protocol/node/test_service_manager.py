"""What systemd hears of a node: ready when its main loop first waits, signs of life, and its end."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from consilium.protocol.node import service_manager
from consilium.protocol.node.service_manager import ServiceManager, StopEvent
from consilium.protocol.node.supervisor import stop_on_signals


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(1000).decode())
        except BlockingIOError:
            return found


def test_ready_alive_and_stopping(systemd: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with stop_on_signals() as stop:
        assert "NOTIFY_SOCKET" not in os.environ  # a child must not speak for the node
        assert heard(systemd) == []  # nothing is said before it waits: it may still refuse to start
        assert not stop.wait(0)
        assert heard(systemd) == ["READY=1", "WATCHDOG=1"]
        assert not stop.wait(0)
        assert heard(systemd) == []  # not at every turn
        monkeypatch.setattr(service_manager, "EVERY_SECONDS", 0.0)
        assert not stop.wait(0)
        assert heard(systemd) == ["WATCHDOG=1"]
        stop.set()
        assert heard(systemd) == ["STOPPING=1"]


def test_another_thread_is_no_sign_of_life(systemd: socket.socket, tmp_path: Path) -> None:
    stop = StopEvent(ServiceManager(str(tmp_path / "notify")))
    thread = threading.Thread(target=stop.wait, args=(0,))
    thread.start()
    thread.join()
    assert heard(systemd) == []


def test_an_abstract_socket() -> None:
    name = f"consilium-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        ServiceManager(f"@{name}").stopping()
        listener.settimeout(10)
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "/nowhere/notify"])
def test_a_node_needs_no_manager(address: str) -> None:
    stop = StopEvent(ServiceManager(address))
    assert not stop.wait(0)
    stop.set()
    assert stop.wait(0)
