"""A SuperNode on loopback serves nobody but the user whose it is; Flower's programs ask no proxy for this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from consilium.node import supernode
from consilium.node.flower import flower_environment, free_port, python_module, without_loopback
from consilium.node.supernode import for_own_user
from consilium.protocol.errors import EngineError

ANOTHER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can play another user")
ASK = """
import http.client, os, socket, sys
host, path = sys.argv[2].removeprefix("http://").split("/")
connection = http.client.HTTPConnection(host)
os.seteuid(int(sys.argv[1]))  # whose a connection is, is decided when its socket is made
connection.sock = socket.socket()
os.seteuid(0)
connection.sock.connect((connection.host, connection.port))
connection.request("GET", "/" + path, headers=dict(part.split("=") for part in sys.argv[3:]))
print(connection.getresponse().status)
"""


def asked_by(user: int, address: str, *headers: str) -> str:
    """The status that a process of this user gets."""
    return subprocess.run(
        [sys.executable, "-c", ASK, str(user), address, *headers], capture_output=True, text=True
    ).stdout.strip()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"nodes"})


@contextmanager
def serving(served: Callable[..., Any]) -> Iterator[str]:
    """As Flower serves it; the address."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(served, host="127.0.0.1", port=port, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


@as_root
class TestAnotherUser:
    def test_is_refused(self) -> None:
        with serving(for_own_user(app)) as address:
            assert asked_by(ANOTHER, address) == "403"
            assert asked_by(os.geteuid(), address) == "200"

    def test_control_without_the_rule_is_served(self) -> None:
        with serving(app) as address:
            assert asked_by(ANOTHER, address) == "200"

    @pytest.mark.parametrize(("believed", "answer"), [("127.0.0.1", "200"), ("", "403")])  # the first is the control
    def test_cannot_pass_for_an_own_connection(self, monkeypatch, believed: str, answer: str) -> None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", believed)
        with serving(for_own_user(app)) as address:
            port = int(address.rstrip("/").rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as own:
                host, at = own.getsockname()
                assert asked_by(ANOTHER, address, f"X-Forwarded-For={host}:{at}") == answer

    def test_cannot_pass_for_root_by_letting_go(self) -> None:
        """The kernel shows a connection that nobody holds as root's."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.create_connection(listener.getsockname()) as peer:
                ends = peer.getsockname(), listener.getsockname()
                connection, _ = listener.accept()
                assert supernode.is_own(*ends)
            with connection:
                assert not supernode.is_own(*ends)


def test_a_supernode_whose_apps_have_died_ends(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "flower-superexec").write_text("#!/bin/sh\nexec sleep 3\n")
    (programs / "flower-superexec").chmod(0o700)
    node = python_module("consilium.node.supernode", "--insecure", "--superlink", "127.0.0.1:1")
    done = subprocess.run(
        [*node, "--host", "127.0.0.1", "--port", str(free_port())],
        env=flower_environment(tmp_path, programs), cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "SuperNode terminated gracefully" in done.stdout + done.stderr


def test_a_connection_that_the_kernel_does_not_show_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(supernode, "PEERS", tmp_path / "tcp")
    (tmp_path / "tcp").write_text("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n")
    with serving(for_own_user(app)) as address, pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address)


def test_a_flower_that_serves_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module(supernode.PROGRAM), supernode.SERVES, lambda *_: None)
    with pytest.raises(EngineError, match=r"serves something else than flwr\.supernode\.main\.create_app"):
        supernode.guard()


@pytest.mark.parametrize("before", [{}, {"NO_PROXY": "example.net"}, {"no_proxy": "localhost,example.net"}])
def test_this_machine_is_behind_no_proxy(before: dict[str, str]) -> None:
    names = without_loopback(before)["no_proxy"].split(",")
    assert {"127.0.0.1", "localhost", "::1", *("example.net" for _ in before)} == set(names)
    assert len(names) == len(set(names))
