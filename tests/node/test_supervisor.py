"""Supervised processes: those that die or hang, whose supervisor is gone, and what systemd hears."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consilium.node import supervisor
from consilium.node.supervisor import (
    BackOff,
    News,
    Program,
    ServiceManager,
    StopEvent,
    Supervisor,
    end_leftovers,
    stop_on_signals,
)

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
    """A parent is killed with SIGKILL."""

    @pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
    def test_a_child_that_watches_ends(self, before: str) -> None:
        parent, child = started(CHILD.format(before=before, watch=WATCH))
        assert runs(child)
        parent.kill()
        parent.wait()
        while runs(child):  # the time limit of all tests is the only one
            time.sleep(0.02)

    def test_control_one_that_does_not_watch_stays(self) -> None:
        parent, child = started(CHILD.format(before="", watch=""))
        try:
            parent.kill()
            parent.wait()
            time.sleep(1)
            assert runs(child)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_a_child_whose_parent_lives_is_left_alone(self) -> None:
        parent, child = started(CHILD.format(before="", watch=WATCH))
        try:
            time.sleep(0.5)
            assert runs(child)
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()
            parent.wait()


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
        monkeypatch.setattr(supervisor, "EVERY_SECONDS", 0.0)
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


@pytest.mark.parametrize("address", ["", "/nowhere/notify"])
def test_a_node_needs_no_manager(address: str) -> None:
    stop = StopEvent(ServiceManager(address))
    assert not stop.wait(0)
    stop.set()
    assert stop.wait(0)


FAST = BackOff(first=0.1, most=0.4, calm=60)


def script(tmp_path: Path, text: str, name: str = "child", **news: str) -> Program:
    """A Python program of its own."""
    (tmp_path / f"{name}.py").write_text(text)
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(tmp_path / f"{name}.py")]
    return Program(name, command, tmp_path, logs / f"{name}.log", dict(os.environ), news)


def until(true: Callable[[], object]) -> None:
    """Wait for what must come; the time limit of all tests is the only one."""
    while not true():
        time.sleep(0.02)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def wait_for(path: Path, lines: int = 1) -> list[str]:
    """Lines of a file, once it has so many."""
    until(lambda: len(lines_of(path)) >= lines)
    return lines_of(path)


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_program_that_ends_is_started_again_ever_more_slowly(tmp_path: Path) -> None:
    told: list[str] = []
    child = script(tmp_path, "import time\nopen('starts', 'a').write(f'{time.time()}\\n')\nraise SystemExit(3)\n")
    with Supervisor([child], lambda _, what: told.append(what), FAST):
        starts = [float(line) for line in wait_for(tmp_path / "starts", 5)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert all(gap >= pause for gap, pause in zip(gaps, [0.1, 0.2, 0.4, 0.4], strict=False))
    assert "ended (exit code 3); starts again in 0.1 s" in told[0]
    assert "starts again in 0.4 s" in told[3]


FAMILY = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
open("pids", "a").write(f"{os.getpid()}\\n{child.pid}\\n")
signal.signal(signal.SIGTERM, HANDLER)
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("handler", ["lambda *_: sys.exit(0)", "signal.SIG_IGN"])
def test_children_and_their_children_end_with_the_supervisor(tmp_path: Path, handler: str) -> None:
    child = script(tmp_path, FAMILY.replace("HANDLER", handler))
    with Supervisor([child], lambda *_: None, FAST, patience=1):
        pids = [int(line) for line in wait_for(tmp_path / "pids", 2)]
        assert all(alive(pid) for pid in pids)
    until(lambda: not any(alive(pid) for pid in pids))
    assert not list((tmp_path / "state" / "logs").glob("*.pid"))


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (["up\n", "up\n"], ["well"]),
        (["down\n", "down\n", "down\n"], ["lost"]),
        (["up\n", "down\n", "down\n", "back\n"], ["well", "lost", "back"]),
        (["up\n", "down\n", "back\n", "down\n", "back\n"], ["well", "lost", "back", "lost", "back"]),
        (["down\nback\n", "down\n"], ["lost", "back", "lost"]),
        (["down\nodd\ndown\n", "odd\n"], ["strange", "lost"]),
    ],
)
def test_a_loss_is_news_again_once_all_was_well(tmp_path: Path, log: list[str], told: list[str]) -> None:
    words = {"up": "well", "back": "back", "down": "lost", "odd": "strange"}
    news = News(Program("n", [], tmp_path, tmp_path / "log", {}, words, frozenset({"well", "back"})))
    assert [what for part in log for what in news.of(part)] == told


def test_a_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOST_LOG_BYTES", 20_000)
    text = (
        "import time\nfor _ in range(300):\n    print('x' * 500, flush=True)\n    time.sleep(0.005)\n"
        "open('done', 'w').write('x\\n')\ntime.sleep(3600)\n"
    )
    child = script(tmp_path, text)
    with Supervisor([child], lambda *_: None, FAST):
        wait_for(tmp_path / "done")
        until(lambda: child.log.stat().st_size < 120_000 and child.log.with_suffix(".old").exists())
        assert oct(child.log.with_suffix(".old").stat().st_mode & 0o777) == "0o600"


def test_a_long_log_that_nobody_writes_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOST_LOG_BYTES", 5)
    log = tmp_path / "run.log"
    supervisor.set_aside(log)
    for text, kept in (("short", None), ("longer", "longer"), ("the longest", "the longest")):
        log.write_text(text)
        supervisor.set_aside(log)
        old = tmp_path / "run.old"
        assert (old.read_text() if old.exists() else None) == kept
        assert log.exists() == (text == "short")


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "logs").mkdir()
    program = Program("absent", [str(tmp_path / "absent")], tmp_path, tmp_path / "logs" / "absent.log")
    with Supervisor([program], lambda _, what: told.append(what), FAST):
        until(lambda: told)
    assert "could not be started: No such file" in told[0]


def test_what_a_killed_supervisor_left_is_ended_and_strangers_are_not(tmp_path: Path) -> None:
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    ours = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(3600)", str(tmp_path)], start_new_session=True
    )
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
    for each in (ours, stranger):  # a process that has just begun has no command line for a moment
        until(lambda each=each: Path(f"/proc/{each.pid}/cmdline").read_bytes())
    (logs / "supernode.pid").write_text(str(ours.pid))
    (logs / "other.pid").write_text(str(stranger.pid))
    (logs / "broken.pid").write_text("")
    told: list[str] = []
    try:
        reaper = threading.Thread(target=ours.wait)
        reaper.start()
        end_leftovers(logs, lambda name, what: told.append(f"{name}: {what}"))
        reaper.join()
        assert not alive(ours.pid)
        assert alive(stranger.pid)
        assert len(told) == 1
        assert not list(logs.glob("*.pid"))
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.slow
def test_what_outlives_the_leader_of_its_group_is_ended_too(tmp_path: Path) -> None:
    """It may hold what the next start needs."""
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    stays = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(3600)"
    leader = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        " stdout=subprocess.PIPE); child.stdout.readline(); print(child.pid, flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "-c", leader, stays, str(tmp_path)]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        child = int(ours.stdout.readline())
        (logs / "superlink.pid").write_text(str(ours.pid))
        reaper = threading.Thread(target=ours.wait)
        reaper.start()
        end_leftovers(logs, lambda _name, _what: None)
        reaper.join()
    until(lambda: not alive(child))


def test_an_app_in_a_session_of_its_own_is_ended_and_that_of_another_kit_is_not(tmp_path: Path) -> None:
    """Flower gives what starts apps a session of its own; its command names the kit's certificate."""
    logs = tmp_path / "kit" / "state" / "logs"
    logs.mkdir(parents=True)
    ours, other = (
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)", "flower-superexec", str(tmp_path / kit / "a.pem")],
            start_new_session=True,
        )
        for kit in ("kit", "kit-of-another")
    )
    try:
        for process in (ours, other):
            until(lambda process=process: b"superexec" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        reaper = threading.Thread(target=ours.wait)
        reaper.start()
        end_leftovers(logs, lambda _name, _what: None)
        until(lambda: not alive(ours.pid))
        assert alive(other.pid)
    finally:
        for process in (ours, other):
            process.kill()
        other.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_stops_cleanly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    child = script(tmp_path, FAMILY.replace("HANDLER", "lambda *_: sys.exit(0)"))
    node = tmp_path / "node.py"
    node.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from consilium.node.supervisor import Program, Supervisor, stop_on_signals, tell_time\n"
        f"program = Program('child', {list(child.command)!r}, Path({str(tmp_path)!r}), Path({str(child.log)!r}))\n"
        "with stop_on_signals() as stop, Supervisor([program], tell_time):\n    stop.wait()\nprint('clean')\n"
    )
    process = subprocess.Popen([sys.executable, str(node)], stdout=subprocess.PIPE, text=True)
    pids = [int(line) for line in wait_for(tmp_path / "pids", 2)]
    process.send_signal(number)
    output, _ = process.communicate()
    assert (process.returncode, output) == (0, "clean\n")
    until(lambda: not any(alive(pid) for pid in pids))


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
