"""Five machines in network namespaces, made from kits, and what can be seen and done there."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision import kits
from consilium.protocol.config_files import load
from tests.deploy import netns
from tests.deploy.kits import STUDENT, accept_all, write_data, write_plan, write_pool

PARTIES = ("ward-a", "ward-b", "ward-c", "ward-d")
FAULTY = PARTIES[-1]
COORDINATOR, STUDENT_HOST = "coordinator", "student"
ADDRESS = "10.77.0.1"
BATCH = 10
CLEAR = {"name": "confident", "threshold": 7, "sigma1": 1.0, "sigma2": 0.5}
DISTRIBUTED = {"name": "distributed", "threshold": 0, "sigma": 6.0, "noise_shares": 3}


class Federation:
    """Four parties, a coordinator and a student, each on a machine of its own."""

    def __init__(self, folder: Path, network: netns.Network, votes: str = "secure", **changes: Any) -> None:
        self.folder, self.network = folder, network
        self.out = folder / "kits"
        plan = {
            "collection": votes,
            "minimum_parties": len(PARTIES),
            "mechanism": DISTRIBUTED if votes == "distributed" else CLEAR,
            "query_budget": {"queries": 200, "answers": 200},
            "timeouts": {"enrol": 60, "train": 60, "vote": 60, "secure": 60, "student": 3600},
            "coordinator": {"hosts": [ADDRESS]},
            "party": [{"name": name} for name in PARTIES],
            **changes,
        }
        kits.make(write_plan(folder, **plan), self.out)
        for seed, name in enumerate(PARTIES):
            write_data(self.kit(name), seed)
        accept_all(self.out)
        self.hosts = {name: network.add(name) for name in (COORDINATOR, *PARTIES, STUDENT_HOST)}
        assert self.hosts[COORDINATOR].address == ADDRESS
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.asked = 0
        config = load(self.kit(COORDINATOR) / "federation.json", FederationConfig)
        self.digest = config.digest()
        self.run = self.kit(COORDINATOR) / "state" / f"run-{self.digest[:12]}"
        self.earlier: list[tuple[str, int]] = []

    def kit(self, name: str) -> Path:
        """The node's kit."""
        kind = {COORDINATOR: COORDINATOR, STUDENT_HOST: f"student-{STUDENT}"}
        return self.out / kind.get(name, f"party-{name}")

    def log(self, name: str) -> IO[bytes]:
        """What a node says, added to what it said before."""
        return open(self.logs / name, "ab")

    def start(self, *names: str) -> None:
        """Start nodes, or start them again."""
        for name in names:
            kind = COORDINATOR if name == COORDINATOR else "party"
            with self.log(name) as log:
                self.nodes[name] = self.hosts[name].start(log, kind, "start", str(self.kit(name)))

    def start_all(self) -> None:
        """The coordinator, and the parties once their keys are registered."""
        self.start(COORDINATOR)
        begun = time.monotonic()
        while self.said(COORDINATOR).count("may connect") < len(PARTIES):
            if time.monotonic() - begun > 200 or self.nodes[COORDINATOR].poll() is not None:
                raise TimeoutError(f"keys are not registered:\n{self.said(COORDINATOR)}")
            time.sleep(0.2)
        self.start(*PARTIES)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """SIGKILL to all processes of a machine, or SIGTERM to the node's command."""
        if number == signal.SIGKILL:
            self.hosts[name].kill()
        else:
            self.nodes[name].send_signal(number)
        self.nodes[name].wait(90)

    def said(self, name: str, after: int = 0) -> str:
        """What a node said after a position."""
        path = self.logs / name
        return path.read_bytes()[after:].decode() if path.exists() else ""

    def position(self, name: str) -> int:
        """Where what a node says from now on begins."""
        path = self.logs / name
        return path.stat().st_size if path.exists() else 0

    def events(self) -> list[dict[str, Any]]:
        """Of the run, in order."""
        path = self.run / "events.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait_event(self, after: int, seconds: float, **wanted: Any) -> dict[str, Any]:
        """The first event after the first `after` ones that has these fields."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events()[after:]:
                if all(event.get(key) == value for key, value in wanted.items()):
                    return event
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {wanted} within {seconds:g} s; the coordinator said:\n{self.said(COORDINATOR)}")
            time.sleep(0.01)

    def serving(self, start: int = 0) -> float:
        """Wait until students may ask; returns the seconds that it took."""
        begun = time.monotonic()
        self.wait_event(start, 300, event="serving")
        return time.monotonic() - begun

    def ask(self, pool: Path, name: str) -> subprocess.Popen[bytes]:
        """A student with a batch."""
        (self.logs / name).unlink(missing_ok=True)
        with self.log(name) as log:
            return self.hosts[STUDENT_HOST].start(
                log, "student", "start", str(self.kit(STUDENT_HOST)), "--wait", "100", "--format", "json",
                "--public", str(pool), "--out", str(self.folder / f"out-{name}"),
            )  # fmt: skip

    def batch(self) -> Path:
        """A pool of queries that nobody has asked yet."""
        self.asked += 1
        return write_pool(self.folder / f"pool-{self.asked}.npz", first=BATCH * self.asked, count=BATCH)

    def ledger(self) -> list[tuple[str, int]]:
        """Queries and labels that are charged, with the hash chain followed."""
        if not (self.run / "ledger.db").exists():
            return []
        ledger = Ledger(self.run / "ledger.db", self.digest, "", read_only=True)
        try:
            batches = ledger.batches()
        finally:
            ledger.close()
        return [
            (query, int(label)) for batch in batches for query, label in zip(batch.query_ids, batch.labels, strict=True)
        ]

    def checked(self, more: int) -> str:
        """What the ledger says after a fault: how much was charged, and whether anything changed that was there."""
        charged = self.ledger()
        queries = [query for query, _ in charged]
        problems = []
        if charged[: len(self.earlier)] != self.earlier:
            problems.append("EARLIER LABELS CHANGED")
        if len(set(queries)) != len(queries):
            problems.append("CHARGED TWICE")
        if len(charged) - len(self.earlier) != more:
            problems.append(f"{len(charged) - len(self.earlier)} CHARGED, NOT {more}")
        self.earlier = charged
        return "; ".join(problems) or f"{more} charged, once; earlier labels unchanged; chain whole"

    def finish(self, student: subprocess.Popen[bytes], name: str, seconds: float = 300) -> str:
        """The outcome of a student."""
        code = student.wait(seconds)
        said = self.said(name).strip().splitlines()
        if code:
            return f"student exits with {code}: {told(said)}"
        result = json.loads(said[-1])
        return f"student has {result['answered']} labels of {result['asked']}"

    def left_out(self, after: int) -> str:
        """Who was left out, as the coordinator recorded it."""
        found = [
            f"{event['party']} left out of {event['stage']}: {event['reason']}"
            for event in self.events()[after:]
            if event["event"] == "left-out"
        ]
        sums = [event["parties"] for event in self.events()[after:] if event["event"] == "released"]
        return "; ".join(dict.fromkeys([*found, *(f"{count} parties in the sum" for count in sums)]))

    def connected(self, name: str, after: int, seconds: float = 150) -> float:
        """Wait until a node says that it is connected; returns the seconds that it took."""
        begun = time.monotonic()
        while "connected to the coordinator" not in self.said(name, after):
            if time.monotonic() - begun > seconds:
                raise TimeoutError(f"{name} did not connect:\n{self.said(name, after)}")
            time.sleep(0.1)
        return time.monotonic() - begun


def told(lines: list[str]) -> str:
    """The last thing said, without the time and the machine's paths."""
    return re.sub(r"/\S+/", "", re.sub(r"^\d\d:\d\d:\d\d ", "", lines[-1] if lines else "nothing"))[:240]


def row(fault: str, outcome: str, begun: float) -> None:
    """One line of the table."""
    print(f"| {fault} | {outcome} | {time.monotonic() - begun:.0f} |", flush=True)


@contextlib.contextmanager
def federation(votes: str = "secure", **changes: Any) -> Iterator[Federation]:
    """A federation on a network of its own, all of which goes afterwards."""
    with tempfile.TemporaryDirectory() as folder, netns.Network() as network:
        yield Federation(Path(folder), network, votes, **changes)


def timed_batch(these: Federation, fault: str) -> None:
    """A batch, and how long its exchanges took."""
    begun, count, pool = time.monotonic(), len(these.events()), these.batch()
    name = f"batch-{these.asked}"
    outcome = these.finish(these.ask(pool, name), name)
    events = these.events()[count:]
    stages = [event["at"] for event in events if event["event"] in ("stage", "released")]
    spent = datetime.fromisoformat(stages[-1]) - datetime.fromisoformat(stages[0]) if stages else timedelta()
    row(fault, f"{outcome} in {spent.total_seconds():.0f} s; {these.left_out(count)};"
        f" {these.checked(BATCH if 'has' in outcome else 0)}", begun)  # fmt: skip


def wrong(doctor: str) -> str:
    """What a doctor found wrong."""
    lines = [line.strip() for line in doctor.splitlines() if re.match(r"\s*(wrong|advice|✗|!)", line)]
    return re.sub(r"/\S+/", "", " / ".join(lines) or doctor[-300:].replace("\n", " / "))[:400]
