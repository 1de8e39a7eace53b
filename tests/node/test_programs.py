"""Programs of a node: they end with it, and one on loopback serves nobody but the user whose it is."""

from __future__ import annotations

import os
import signal
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

from consilium.node import supernode, supervisor
from consilium.node.flower import free_port, without_loopback
from consilium.node.supernode import for_own_user
from consilium.node.supervisor import Program, run_program
from consilium.protocol.errors import EngineError
from tests.deploy.edge import until

WATCH = "from consilium.node.supervisor import end_with_parent; end_with_parent(0.05, 0.2)\n"
CHILD = "import os, signal, time\n{before}{watch}print(os.getpid(), flush=True)\ntime.sleep(3600)\n"
PARENT = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)\ntime.sleep(3600)\n"
)


def started(child: str) -> tuple[subprocess.Popen[str], int]:
    """A parent, and the number of its child once that runs."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, child], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def runs(pid: int) -> bool:
    """Whether it does; what has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
class TestOrphans:
    @pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
    def test_a_child_that_watches_ends(self, before: str) -> None:
        parent, child = started(CHILD.format(before=before, watch=WATCH))
        assert runs(child)
        parent.kill()
        parent.wait()
        until(lambda: not runs(child))

    def test_control_one_that_does_not_watch_stays(self) -> None:
        parent, child = started(CHILD.format(before="", watch=""))
        try:
            parent.kill()
            parent.wait()
            time.sleep(1)
            assert runs(child)
        finally:
            os.kill(child, signal.SIGKILL)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def program(folder: Path, text: str) -> Program:
    return Program("child", [sys.executable, "-c", text], folder, dict(os.environ))


FAMILY = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
signal.signal(signal.SIGTERM, HANDLER)
open("pids", "a").write(f"{os.getpid()}\\n{child.pid}\\n")
while True:
    time.sleep(0.1)
"""


def ignore(name: str, what: str) -> None:
    """Nobody is told."""


@pytest.mark.parametrize(
    ("handler", "late"),
    [("lambda *_: sys.exit(0)", []), ("signal.SIG_IGN", ["child: did not end within 0.5 s: it was killed"])],
)
def test_programs_and_what_they_started_end_with_the_node(tmp_path: Path, handler: str, late: list[str]) -> None:
    stop, told = threading.Event(), []

    def look() -> None:
        if len(lines_of(tmp_path / "pids")) == 2:
            stop.set()

    child = program(tmp_path, FAMILY.replace("HANDLER", handler))
    run_program(child, lambda name, what: told.append(f"{name}: {what}"), stop, look, patience=0.5)
    until(lambda: not any(map(runs, map(int, lines_of(tmp_path / "pids")))))
    assert told == late


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise SystemExit(3)", r"exit code 3"), ("import os; os.kill(os.getpid(), 9)", "signal SIGKILL")],
)
def test_where_it_ends_all_that_it_started_ends(tmp_path: Path, text: str, said: str) -> None:
    family = FAMILY.replace("HANDLER", "signal.SIG_DFL").partition("while True")[0]
    with pytest.raises(EngineError, match=rf"child ended \({said}\)"):
        run_program(program(tmp_path, family + text), ignore, threading.Event(), lambda: None)
    until(lambda: not any(map(runs, map(int, lines_of(tmp_path / "pids")))))


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    absent = Program("absent", [str(tmp_path / "absent")], tmp_path, {})
    with pytest.raises(EngineError, match="absent could not be started: No such file"):
        run_program(absent, ignore, threading.Event(), lambda: None)


def test_a_node_stops_cleanly_on_a_signal(tmp_path: Path) -> None:
    family = FAMILY.replace("HANDLER", "lambda *_: sys.exit(0)")
    node = (
        "import os, sys\nfrom pathlib import Path\n"
        "from consilium.node.supervisor import Program, run_program, stop_on_signals, tell_time\n"
        f"child = Program('child', {[sys.executable, '-c', family]!r}, Path({str(tmp_path)!r}), dict(os.environ))\n"
        "with stop_on_signals() as stop:\n    run_program(child, tell_time, stop, lambda: None)\nprint('clean')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", node], stdout=subprocess.PIPE, text=True)
    until(lambda: len(lines_of(tmp_path / "pids")) == 2)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    assert (process.returncode, output) == (0, "clean\n")
    until(lambda: not any(map(runs, map(int, lines_of(tmp_path / "pids")))))


@pytest.mark.timeout(120)
def test_a_signal_within_the_events_own_lock_stops_too() -> None:
    """As when it comes in the moment in which the main thread begins to wait."""
    before = signal.getsignal(signal.SIGTERM)
    with supervisor.stop_on_signals() as stop:
        with stop._cond:  # type: ignore[attr-defined]
            signal.raise_signal(signal.SIGTERM)
            assert not stop._flag  # type: ignore[attr-defined]  # nobody could set it yet
        assert stop.wait(100)
    assert signal.getsignal(signal.SIGTERM) == before


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
    return subprocess.run(
        [sys.executable, "-c", ASK, str(user), address, *headers], capture_output=True, text=True
    ).stdout.strip()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"nodes"})


@contextmanager
def serving(served: Callable[..., Any]) -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(served, host="127.0.0.1", port=port, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()


@as_root
class TestAnotherUser:
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
