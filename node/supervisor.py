"""Child processes that are started again when they end, and that end with their parent; what systemd is told."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from consilium.protocol.errors import EngineError

SOCKET = "NOTIFY_SOCKET"
EVERY_SECONDS = 10.0
"""Between two signs of life; the units' WatchdogSec is much longer."""


class ServiceManager:
    """systemd where `address` names its socket, else nobody. address: a path, or "@" and an abstract name."""

    def __init__(self, address: str = "") -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._told: float | None = None

    @classmethod
    def of_environment(cls) -> ServiceManager:
        """The one that started this program. Its children are not to speak for it, so the variable is taken away."""
        return cls(os.environ.pop(SOCKET, ""))

    def alive(self) -> None:
        """The main loop goes round: at first also that the node is ready."""
        if self._told is None:
            self._send("READY=1")
        elif time.monotonic() - self._told < EVERY_SECONDS:
            return
        self._told = time.monotonic()
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The node was asked to stop."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)  # a manager that does not listen holds nothing up
            channel.sendto(state.encode(), self._address)


class StopEvent(threading.Event):
    """Set when a node is to stop. Whenever its main thread waits on it, the service manager hears that it is alive."""

    def __init__(self, manager: ServiceManager) -> None:
        super().__init__()
        self._manager = manager

    def wait(self, timeout: float | None = None) -> bool:
        """As `threading.Event.wait`."""
        if threading.current_thread() is threading.main_thread():
            self._manager.alive()
        return super().wait(timeout)

    def set(self) -> None:
        """As `threading.Event.set`."""
        self._manager.stopping()
        super().set()


PARENT_SECONDS, PATIENCE = 1.0, 20.0


def end_with_parent(look: float = PARENT_SECONDS, patience: float = PATIENCE) -> None:
    """From now on send this process SIGTERM once its parent is another one, and its group SIGKILL `patience` s later.

    The group only where this process leads it, as one does that a `Supervisor` started.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(look)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
        if os.getpgid(0) == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="orphans", daemon=True).start()


Tell = Callable[[str, str], None]
"""Called with the name of a process and what happened to it."""

LOOK_SECONDS = 0.2
MOST_LOG_BYTES = 20_000_000

ENDED = "ended ("
"""How the message begins that tells of a program that ended."""


@dataclass(frozen=True)
class BackOff:
    """Seconds before a process is started again: `first`, doubled up to `most`; `first` again after a calm while.

    The default is for a SuperNode: one that was killed is refused until its SuperLink has missed its heartbeats, for
    about 50 s, and should then not wait long.
    """

    first: float = 1.0
    most: float = 8.0
    calm: float = 60.0

    def pause(self, failures: int) -> float:
        """After so many failures in a row, from 1.

        >>> [BackOff().pause(failures) for failures in range(1, 7)]
        [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
        """
        return min(self.most, self.first * 2 ** min(failures - 1, 30))


@dataclass(frozen=True)
class Program:
    """What to run.

    news: texts in its log that are worth telling, and in which words; each once for each start. well: the words that
    say that all is well again, after which the others are news once more.
    """

    name: str
    command: Sequence[str]
    folder: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    news: Mapping[str, str] = field(default_factory=dict)
    well: frozenset[str] = frozenset()


class News:
    """What of a program's log is to be told, in its order; one for each start of the program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._told: set[str] = set()

    def of(self, text: str) -> list[str]:
        """Of the next part of the log."""
        found = sorted((text.rfind(mark), words) for mark, words in self._program.news.items() if mark in text)
        fresh = []
        for _, words in found:
            if words in self._told:
                continue
            self._told -= self._told if words in self._program.well else self._program.well
            self._told.add(words)
            fresh.append(words)
        return fresh


class Supervisor:
    """Runs programs while the context is open. Each is started again whenever it ends."""

    def __init__(
        self, programs: Sequence[Program], tell: Tell, backoff: BackOff | None = None, patience: float = 20
    ) -> None:
        """patience: seconds that a process and its children get between SIGTERM and SIGKILL."""
        self._programs = programs
        self._tell = tell
        self._backoff = backoff or BackOff()
        self._patience = patience
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._keep, args=(program,)) for program in programs]

    def __enter__(self) -> Supervisor:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _keep(self, program: Program) -> None:
        failures = 0
        while not self._stop.is_set():
            started = time.monotonic()
            how = self._run(program)
            if self._stop.is_set():
                return
            failures = 1 if time.monotonic() - started >= self._backoff.calm else failures + 1
            pause = self._backoff.pause(failures)
            self._tell(program.name, f"{ENDED}{how}); starts again in {pause:g} s; log: {program.log}")
            self._stop.wait(pause)

    def _run(self, program: Program) -> str:
        """Start it, tell its news until it ends or is to end, and leave nothing of it behind."""
        try:
            with open(program.log, "ab") as output:
                os.chmod(program.log, 0o600)
                position = output.tell()
                process = subprocess.Popen(
                    list(program.command), cwd=program.folder, env=dict(program.environment) or None,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            return f"could not be started: {error.strerror}"
        mark = program.log.with_suffix(".pid")
        with contextlib.suppress(OSError):  # on a full disk the process still runs, and is still ended
            mark.write_text(str(process.pid))
        news = News(program)
        try:
            while not self._stop.is_set() and process.poll() is None:
                position = self._tell_news(program, position, news)
                self._stop.wait(LOOK_SECONDS)
            self._tell_news(program, position, news)
        finally:
            stop_group(process, self._patience)
            mark.unlink(missing_ok=True)
        code = process.returncode
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _tell_news(self, program: Program, position: int, news: News) -> int:
        """Tell what is new in the log, from a byte position; returns the position after it."""
        with open(program.log, "r+b") as file:
            file.seek(position)
            fresh = file.read()
            if position + len(fresh) > MOST_LOG_BYTES:
                # the process appends, so that it goes on at the start; only the last part is kept aside
                with contextlib.suppress(OSError):  # on a full disk nothing is
                    program.log.with_suffix(".old").write_bytes(fresh[-MOST_LOG_BYTES:])
                    os.chmod(program.log.with_suffix(".old"), 0o600)
                file.truncate(0)
                return 0
        whole = fresh.rfind(b"\n") + 1
        for words in news.of(fresh[:whole].decode(errors="replace")):
            self._tell(program.name, words)
        return position + whole


def set_aside(log: Path) -> None:
    """Give a log that is too long another name; the one before goes. For logs that nobody writes at the moment."""
    if log.exists() and log.stat().st_size > MOST_LOG_BYTES:
        log.replace(log.with_suffix(".old"))


def stop_group(process: subprocess.Popen, patience: float) -> None:
    """End a process and all that it started: SIGTERM, and SIGKILL for what is left after `patience` seconds."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_leftovers(logs: Path, tell: Tell) -> None:
    """End process groups that an earlier supervisor left behind when it was killed itself.

    SIGTERM, and SIGKILL for what is left of a group after five seconds. Call it only while holding the node's lock:
    then nobody else owns them. A process id that was given to another program in the meantime is left alone: its
    command would not name this node's folder.
    """
    folder = str(logs.parent.parent).encode()
    for mark in sorted(logs.glob("*.pid")):
        with contextlib.suppress(OSError, ValueError):
            pid = int(mark.read_text())
            # in a container numbers begin again: it may be this very process's
            if pid != os.getpid() and folder in Path(f"/proc/{pid}/cmdline").read_bytes():
                _end_leftover(mark.stem, pid, tell)
        mark.unlink(missing_ok=True)
    for pid in _detached(folder):
        _end_leftover("superexec", pid, tell)


def _detached(folder: bytes) -> list[int]:
    """Flower's programs that start apps for a SuperLink of this folder: each has a session of its own, in which an app
    lives on, and holds the label port, when the SuperLink is gone."""
    pids: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes()
            if b"flower-superexec" in command and folder + b"/" in command:
                pids.append(int(path.parent.name))
    return pids


def _end_leftover(name: str, pid: int, tell: Tell) -> None:
    with contextlib.suppress(OSError):
        tell(name, f"process {pid} of an earlier start is still there: ending it")
        os.killpg(pid, signal.SIGTERM)
        for _ in range(50):  # the whole group: what its leader started may live longer
            os.killpg(pid, 0)
            time.sleep(0.1)
        os.killpg(pid, signal.SIGKILL)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the context is open. For the main thread, which is to wait on it every
    few seconds: where systemd started the node, that is its sign of life.

    A thread of its own sets it. The signals' handler runs in the main thread, wherever that is: within the event's own
    lock too, for which it would wait for ever.
    """
    stop = StopEvent(ServiceManager.of_environment())
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def ask(_signal: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):  # there are thousands before it
            os.write(told, b"s")

    def wait() -> None:
        if os.read(heard, 1):
            stop.set()

    thread = threading.Thread(target=wait, name="signals")
    thread.start()
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        thread.join()
        os.close(heard)


def wait_until(true: Callable[[], bool], seconds: float, what: str, stop: threading.Event) -> None:
    """Wait for a condition; returns early where `stop` is set. Raises EngineError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not true() and not stop.wait(LOOK_SECONDS):
        if time.monotonic() > deadline:
            raise EngineError(f"{what} after {seconds:g} s", "See the logs in the kit's state/logs")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def tell_time(name: str, what: str) -> None:
    """A `Tell` that prints a line with the time to standard error, without line ends and control characters: nobody's
    name or message can look like a line of its own."""
    print(f"{time.strftime('%H:%M:%S')} {name}: {_CONTROL.sub(' ', what)}", file=sys.stderr, flush=True)
