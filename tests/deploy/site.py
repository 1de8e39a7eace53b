"""A small federation, made by the commands that people type, with rows that a linear model can learn; its nodes as
processes of their own, kept as systemd keeps them, and what tests do to them.

Nodes' folders lie beside each other: site/coordinator, site/ward-a, ..., site/university; site/out is the operator's.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from tests.command_line import Done, consilium
from tests.coordinator.provision import desk
from tests.federation import CLASSES, FEATURES, make_rows

PARTIES, STUDENT, SECOND = desk.PARTIES, desk.STUDENT, desk.SECOND
NOISY: dict[str, Any] = {
    "collection": "secure",
    "mechanism": {"name": "gnmax", "sigma": 60.0},
    "query_budget": {"queries": 100, "answers": 100},
}
"""Sums with noise in them: they go on with whoever is left."""
LIMITS: dict[str, Any] = {
    "allowed_classes": list(CLASSES),
    "allowed_columns": list(FEATURES),
    "least_rows_per_teacher": 5,
    "most_teachers": 10,
    "most_queries": 10_000,
    "unit": "record",
    "neighbouring": "replace",
    "most_epsilon": 1e6,
    "delta": 1e-5,
    "collection": "plaintext",
    "least_parties": 2,
}
"""A policy.toml within which all lies that these federations ask: no yes is needed."""
OF_AGGREGATOR = ("most_queries", "unit", "neighbouring", "most_epsilon", "delta", "least_parties")

FIRST_PORT, PORTS = 12_000, 2_000
"""Below those that Linux gives to outgoing connections (32768 on), so that nobody takes one before it is listened on:
of each worker of xdist a range of its own."""
_turn = itertools.count(os.getpid())


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are free now, none of which another test was given lately."""
    first = FIRST_PORT + PORTS * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports: list[int] = []
    for place in itertools.islice(_turn, PORTS):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", first + place % PORTS))
            ports.append(first + place % PORTS)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports from {first} on")


def command(*arguments: object) -> Done:
    """One command that must succeed; in this process, since half of its time would go into its imports."""
    done = consilium(*arguments)
    assert done.exit_code == 0, f"consilium {' '.join(map(str, arguments))}\n{done.output}"
    return done


def plan_table(parties: Iterable[str] = PARTIES, listen: str = "127.0.0.1", **changes: Any) -> dict[str, Any]:
    """federation.toml as a table; of `changes`, keys of `[federation]` go there. listen: where the coordinator does."""
    node_port, label_port = free_ports(2)
    collection = changes.get("collection", "plaintext")
    queries = {"queries": "public.npz"} if collection != "plaintext" else {}
    second = [SECOND] if collection == "verified" else []
    place = {"hosts": ["127.0.0.1", "localhost"], "listen": listen, "node_port": node_port, "label_port": label_port}
    ours = {
        "ends": datetime.now(UTC).date() + timedelta(days=365),
        "enrolments": [f"{name}/{name}.enrol.json" for name in ("coordinator", *parties, *second, STUDENT)],
        "mechanism": {"name": "confident", "threshold": 7, "sigma1": 3.0, "sigma2": 3.0},
        "query_budget": {"queries": 100, "answers": 80},
        "timeouts": {"enrol": 250, "train": 250, "vote": 250, "secure": 250, "student": 1400},
        "rows": {"public": "public.csv", "classes": list(CLASSES), **queries},
        "coordinator": place,
    }
    return desk.plan_table(**{**ours, **changes})


def write_plan(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    x, _ = make_rows(100, 999)
    lines = [",".join(FEATURES), *(",".join(map(str, row)) for row in x)]
    (folder / "public.csv").write_text("\n".join(lines) + "\n")
    np.savez(folder / "public.npz", features=np.array(FEATURES), queries=make_rows(400, 1000)[0])
    path = folder / "federation.toml"
    path.write_text(tomli_w.dumps(plan_table(**changes)))
    return path


def make_site(folder: Path, parties: Sequence[str] = PARTIES, accepted: bool = True, **changes: Any) -> Path:
    """Folders of all nodes, which have joined. accepted: everybody has written a policy that allows what is asked."""
    site = folder / "site"
    plan = write_plan(site, parties=parties, **changes)
    second = [SECOND] if changes.get("collection") == "verified" else []
    keys(site, "coordinator")
    for name in parties:
        keys(site, name)
    for name in second:
        keys(site, name, "--kind", "aggregator")
    keys(site, STUDENT, "--kind", "student")
    command("provision", plan, "--out", site / "out")
    for number, name in enumerate(parties):
        write_rows(site / name, number)
    join_all(site, ("coordinator", *parties, *second, STUDENT))
    if accepted:
        for name in (*parties, *second):
            allow(site / name)
    return site


def keys(site: Path, name: str, *more: str) -> Path:
    command("node", "keys", name, *more, "--folder", site / name)
    return site / name / f"{name}.enrol.json"


def join_all(site: Path, names: Iterable[str]) -> None:
    """The operator's folder, as it is now, at each of these nodes."""
    for name in names:
        data = ["--data", site / name / "data.npz"] if (site / name / "data.npz").exists() else []
        command("node", "join", site / "out" / "federation", "--node", site / name, *data)


def allow(node: Path, **changes: Any) -> None:
    """A party's or second aggregator's people write a whole policy, as a script does."""
    limits = {**LIMITS, **changes}
    if node.name == SECOND:
        limits = {key: limits[key] for key in OF_AGGREGATOR}
    (node / "policy.toml").write_text(tomli_w.dumps(limits))


def write_rows(node: Path, seed: int) -> None:
    x, y = make_rows(240, seed)
    np.savez(node / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES))


def write_public(path: Path, first: int = 0, count: int = 40) -> Path:
    """Public rows `first`, `first` + 1, ... of those that may be asked, and test rows."""
    queries, _ = make_rows(400, 1000)
    x, y = make_rows(200, 1001)
    np.savez(path, features=np.array(FEATURES), queries=queries[first : first + count], test_x=x, test_y=y)
    return path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{old!r} not in {path}"
    path.write_text(text.replace(old, new))


ROOT = Path(__file__).resolve().parents[2]
SERVES = "students may ask"
"""What the coordinator says then."""
LONG = 600.0
"""No machine needs so long for one step."""


class Service:
    """A node that is started with a yes at hand, and 2 s after it ended other than cleanly again."""

    def __init__(self, node: Path) -> None:
        self.node = node
        self.name = node.name
        self.log = node.parent / f"{node.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._stop.is_set():
            with open(self.log, "ab") as output:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "consilium", "node", "start", str(self.node)],
                    cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output,
                )  # fmt: skip
                assert self.process.stdin is not None
                with contextlib.suppress(OSError):
                    self.process.stdin.write(b"yes\n")
                    self.process.stdin.close()
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
        """As the kernel does for want of memory. text: in the command lines of those that are meant; none: its own
        process, the one that systemd watches."""
        assert self.process is not None
        tree = self.tree()
        ids = [each for each, line in tree.items() if text in line] if text else [self.process.pid]
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
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


class Federation:
    def __init__(self, site: Path) -> None:
        self.site = site
        self.services: dict[str, Service] = {}
        self.students: list[subprocess.Popen[str]] = []

    def start(self, *names: str) -> None:
        """In this order; one that was started before is started again."""
        for name in names:
            self.services[name] = Service(self.site / name)

    def __getitem__(self, name: str) -> Service:
        return self.services[name]

    @property
    def coordinator(self) -> Service:
        return self.services["coordinator"]

    def wait(self, true: Callable[[], bool], what: str, pause: float = 0.2) -> None:
        """For what must come. pause: longer where looking takes as long."""
        deadline = time.monotonic() + LONG
        while not true():
            if time.monotonic() > deadline:
                pytest.fail(f"within {LONG:g} s not so: {what}\n{self.logs()}")
            time.sleep(pause)

    def logs(self) -> str:
        return "\n".join(f"== {name}\n{service.said[-4000:]}" for name, service in self.services.items())

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

    def answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        try:
            out, told = process.communicate(timeout=LONG)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"the student did not end\n{process.communicate()}\n{self.logs()}")
        assert process.returncode == 0, out + told + self.coordinator.said[-4000:]
        return json.loads(out.splitlines()[-1])

    def asked(self, out: str, first: int, count: int = 8) -> dict[str, Any]:
        return self.answer(self.asks(out, first, count))

    def status(self) -> dict[str, Any]:
        return command("status", self.site / "coordinator", "--format", "json").json()

    def run_folder(self) -> Path:
        return max((self.site / "coordinator" / "state").glob("run-*"), key=lambda path: path.stat().st_mtime)

    def begun(self, stage: str) -> int:
        events = (self.run_folder() / "events.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in events if line.endswith("}")]
        return sum(each["event"] == "stage" and stage == each["stage"] for each in found)

    def labels(self) -> list[str]:
        """Ids of all queries that were charged, by every ledger of the coordinator."""
        found = []
        for path in (self.site / "coordinator" / "state").glob("run-*/ledger.db"):
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
                found += [row[0] for row in ledger.execute("SELECT query_id FROM releases")]
        return found

    def close(self, student: str) -> None:
        """`node close`, everybody stops, and the audit finds nothing."""
        command("node", "close", self.site / "coordinator")
        assert self.coordinator.ended(), self.coordinator.said[-3000:]
        for service in self.services.values():
            service.stop()
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
