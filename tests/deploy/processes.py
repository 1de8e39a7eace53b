"""Nodes as processes of their own, kept as systemd keeps them, and what tests do to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import consilium
from tests.deploy.site import STUDENT, command, write_public

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = 10.0
"""Seconds within which `status` and `doctor` have said what is so."""
SERVES = "students may ask"
"""What the coordinator says then."""
LAST = "the last one"
LONG = 600.0
"""No machine needs so long for one step."""


class Service:
    """A node that is started with a yes at hand, and 2 s after it ended other than cleanly again."""

    def __init__(self, node: Path, env: Mapping[str, str] | None = None) -> None:
        self.node = node
        self.name = node.name
        self.log = node.parent / f"{node.name}.log"
        self.env = {**os.environ, **(env or {})}
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._stop.is_set():
            with open(self.log, "ab") as output:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "consilium", "node", "start", str(self.node)],
                    cwd=ROOT, env=self.env, stdin=subprocess.PIPE, stdout=output, stderr=output,
                )  # fmt: skip
                assert self.process.stdin is not None
                with contextlib.suppress(OSError):
                    self.process.stdin.write(b"yes\n")
                    self.process.stdin.close()
            self.starts += 1
            if self.process.wait() == 0:
                return
            self._stop.wait(2)

    @property
    def said(self) -> str:
        """All that it wrote, over all its starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tree(self) -> dict[int, str]:
        """Command lines of its processes, by id; its own is the first."""
        assert self.process is not None
        return family(self.process.pid)

    def kill(self, text: str = "") -> None:
        """As the kernel does for want of memory. text: in the command lines of those that are meant; LAST: the one that
        was begun last, of a message; none: its own process, the one that systemd watches."""
        assert self.process is not None
        tree = self.tree()
        ids = [each for each, line in tree.items() if text in line] if text else [self.process.pid]
        ids = [max(tree)] if text == LAST else ids
        assert ids, f"no {text!r} among {list(tree.values())}"
        for each in ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def ended(self, seconds: float = LONG) -> bool:
        """Whether it has come to a clean end by itself."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """As `systemctl stop`. Nothing of it is left."""
        self._stop.set()
        if self.process is not None and self.process.poll() is None:
            tree = self.tree()
            self.process.send_signal(signal.SIGTERM)
            if not self.ended(60):
                self.kill()
                pytest.fail(f"{self.name} did not stop within 60 s: {tree}\n{self.said[-3000:]}")

    def power_off(self) -> None:
        """The machine is off: all at once, and nobody starts it again."""
        self._stop.set()
        for each in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._thread.join(LONG)


def family(pid: int) -> dict[int, str]:
    """Command lines of a process and of all that come from it, by id."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return {each: command_line(each) for each in found}


def command_line(pid: int) -> str:
    """Empty for one that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


class Federation:
    """The services of a site, and its students."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.services: dict[str, Service] = {}
        self.students: list[subprocess.Popen[str]] = []
        self._asked = 0

    def start(self, *names: str, env: Mapping[str, str] | None = None) -> None:
        """In this order; one that was started before is started again."""
        for name in names:
            self.services[name] = Service(self.site / name, env)

    def again(self, *names: str) -> None:
        """The same, until students may ask."""
        before = self.coordinator.said.count(SERVES)
        self.start(*names)
        self.serving(before + 1)

    def __getitem__(self, name: str) -> Service:
        return self.services[name]

    @property
    def coordinator(self) -> Service:
        return self.services["coordinator"]

    def wait(self, true: Callable[[], bool], what: str, seconds: float = LONG) -> None:
        """For what must come."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                logs = "\n".join(f"== {name}\n{service.said[-4000:]}" for name, service in self.services.items())
                pytest.fail(f"within {seconds:g} s not so: {what}\n{logs}")
            time.sleep(0.1)

    def serving(self, times: int = 1) -> None:
        """Students may ask, for so many times since the coordinator was started first."""
        self.wait(lambda: self.coordinator.said.count(SERVES) >= times, SERVES)

    def asks(self, out: str, first: int, count: int = 8, *more: str) -> subprocess.Popen[str]:
        """A student's process that asks public rows `first`, `first` + 1, ..."""
        public = write_public(self.site / f"{out}.npz", first, count)
        process = subprocess.Popen(
            [sys.executable, "-m", "consilium", "student", "run", str(self.site / STUDENT), "--wait", "200",
             "--public", str(public), "--out", str(self.site / out), "--format", "json", *more],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.students.append(process)
        return process

    def answer(self, process: subprocess.Popen[str], code: int = 0) -> dict[str, Any]:
        """What a student's process says at its end."""
        try:
            out, told = process.communicate(timeout=LONG)
        except subprocess.TimeoutExpired:
            process.kill()
            logs = "\n".join(f"== {name}\n{service.said[-4000:]}" for name, service in self.services.items())
            pytest.fail(f"the student did not end\n{process.communicate()}\n{logs}")
        assert process.returncode == code, out + told + self.coordinator.said[-4000:]
        return json.loads(out.splitlines()[-1])

    def asked(self, out: str, first: int, count: int = 8) -> dict[str, Any]:
        """A student that asks, and gets its labels."""
        return self.answer(self.asks(out, first, count))

    def status(self, name: str = "coordinator") -> dict[str, Any]:
        """In time."""
        began = time.process_time()
        found = command("status", self.site / name, "--format", "json").json()
        assert time.process_time() - began < ANSWERS
        return found

    def run_folder(self) -> Path:
        """Of the federation that was begun last."""
        return max((self.site / "coordinator" / "state").glob("run-*"), key=lambda path: path.stat().st_mtime)

    def begun(self, stage: str = "") -> int:
        """How many stages of sums, or of those with this name, have begun."""
        events = (self.run_folder() / "events.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in events if line.endswith("}")]
        return sum(each["event"] == "stage" and stage in ("", each["stage"]) for each in found)

    def stages(self, asked: Callable[[], object]) -> list[str]:
        """Names of the stages that follow from this."""
        events = self.run_folder() / "events.jsonl"
        before = len(events.read_text().splitlines())
        asked()
        found = [json.loads(line) for line in events.read_text().splitlines()[before:]]
        return [each["stage"] for each in found if each["event"] == "stage"]

    def labels(self) -> list[str]:
        """Ids of all queries that were charged, by every ledger of the coordinator."""
        found = []
        for path in (self.site / "coordinator" / "state").glob("run-*/ledger.db"):
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
                found += [row[0] for row in ledger.execute("SELECT query_id FROM releases")]
        return found

    def close(self, *students: str) -> None:
        """`node close`, everybody stops, and the audit finds nothing."""
        command("node", "close", self.site / "coordinator")
        assert self.coordinator.ended(), self.coordinator.said[-3000:]
        for service in self.services.values():
            service.stop()
        for student in students:
            self.audit(student)

    def audit(self, student: str) -> None:
        """The run is what it claims to be."""
        done = consilium("audit", self.site / "coordinator", "--student", self.site / student, "--format", "json")
        assert done.exit_code == 0, done.output
        assert done.json()["holds"]


@contextlib.contextmanager
def running(site: Path, names: Iterable[str]) -> Iterator[Federation]:
    """Nodes of a site, started in this order, and ended with the context."""
    federation = Federation(site)
    try:
        federation.start(*names)
        yield federation
    finally:
        for process in federation.students:
            process.kill()
        for service in federation.services.values():
            with contextlib.suppress(AssertionError):
                service.power_off()
