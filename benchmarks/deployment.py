"""Faults of machines and networks, one after another, with what was observed; seconds and memory of a deployment.

Every node is in a network namespace of its own, from kits, over TLS: Linux, root and iproute2 are needed. Killing
a node kills every process of its machine, as a power cut does. About half an hour in all; one part at a time:

    python -m benchmarks.deployment [coordinator | parties | links | nodes | timing] ...
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import numpy as np

from coordinator.config import FederationConfig
from coordinator.ledger import Ledger
from coordinator.provision import kits
from coordinator.provision.authority import Authority, node_key
from protocol.config_files import load
from protocol.deploy.files import write_private
from protocol.errors import ConsiliumError
from tests.deploy import netns
from tests.deploy.kits import STUDENT, write_data, write_plan, write_pool

PARTIES = ("ward-a", "ward-b", "ward-c", "ward-d")
FAULTY = PARTIES[-1]
COORDINATOR, STUDENT_HOST = "coordinator", "student"
ADDRESS = "10.77.0.1"
STAGES = ("advertise", "share", "masked", "consistency", "unmask")
BATCH = 10
SLOW_DELAY_MS, SLOW_BITS = 300, 1_000_000
CLEAR = {"name": "confident", "threshold": 7, "sigma1": 1.0, "sigma2": 0.5}
DISTRIBUTED = {"name": "distributed", "threshold": 0, "sigma": 6.0, "noise_shares": 3}
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME && getenv("CLOCK_AHEAD")) now->tv_sec += atoi(getenv("CLOCK_AHEAD"));
  return result;
}
"""
"""A wrong clock for the processes of one node: the kernel has one clock of the day for all namespaces."""


class Federation:
    """Four parties, a coordinator and a student, each on a machine of its own."""

    def __init__(self, folder: Path, network: netns.Network, votes: str = "secure", **changes: Any) -> None:
        self.folder, self.network = folder, network
        self.out = folder / "kits"
        plan = {
            "votes": votes,
            "minimum_parties": len(PARTIES),
            "mechanism": DISTRIBUTED if votes == "distributed" else CLEAR,
            "caps": {"queries": 200, "answers": 200},
            "timeouts": {"enrol": 60, "train": 60, "vote": 60, "secure": 60, "student": 3600},
            "coordinator": {"hosts": [ADDRESS]},
            "parties": [{"name": name} for name in PARTIES],
            **changes,
        }
        kits.make(write_plan(folder, **plan), self.out)
        for seed, name in enumerate(PARTIES):
            write_data(self.kit(name), seed)
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
                log, "student", "start", str(self.kit(STUDENT_HOST)), "--wait", "100",
                "--pool", str(pool), "--out", str(self.folder / f"out-{name}"),
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


def coordinator_faults() -> None:
    """SIGKILL of the coordinator's machine at every step of one batch, each time started again."""
    with federation() as these:
        these.start_all()
        for stage in ("enrol", "train"):
            begun, count = time.monotonic(), len(these.events())
            these.wait_event(count if stage == "train" else 0, 200, event="stage", stage=stage)
            these.kill(COORDINATOR)
            count = len(these.events())
            these.start(COORDINATOR)
            if stage == "train":
                these.serving(count)
            else:
                these.wait_event(count, 200, event="stage", stage="enrol")
            row(f"coordinator killed at {stage}", "started again: goes on from enrolment", begun)
        begun, pool = time.monotonic(), these.batch()
        count = len(these.events())
        outcome = these.finish(these.ask(pool, "baseline"), "baseline")
        row("none: a batch in peace", f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)
        pool = these.batch()
        steps = [*(f"secure sum: {stage}" for stage in STAGES), "after votes, before labels", "after labels"]
        for number, step in enumerate(steps):
            begun, count, name = time.monotonic(), len(these.events()), f"try-{number}"
            student = these.ask(pool, name)
            with before_commit(these.run / "ledger.db") if step.startswith("after votes") else contextlib.nullcontext():
                if step == "after labels":
                    these.wait_event(count, 300, event="released")
                elif step.startswith("after votes"):
                    these.wait_event(count, 300, event="progress", stage="secure sum: unmask", done=len(PARTIES))
                    time.sleep(2)  # the sum is known, and its labels wait for the ledger that we hold
                else:
                    these.wait_event(count, 300, event="stage", stage=step)
                these.kill(COORDINATOR)
            student.wait(150)
            count = len(these.events())
            these.start(COORDINATOR)
            these.serving(count)
            after = these.checked(BATCH if step == "after labels" else 0)
            row(f"coordinator killed at {step}", f"student: {these.finish(student, name)}; restarted: {after}", begun)
        begun, count = time.monotonic(), len(these.events())
        outcome = these.finish(these.ask(pool, "again"), "again")
        resumed = [event["stage"] for event in these.events() if event["event"] == "resumed-session"]
        lost = [event["reason"] for event in these.events() if event["event"] == "session-lost"]
        row(
            "the same student asks again after all these",
            f"{outcome}; {these.checked(0)}; sessions resumed at {resumed}, lost {lost}",
            begun,
        )


@contextlib.contextmanager
def before_commit(ledger: Path) -> Iterator[None]:
    """Hold the ledger's write lock, so that a batch is decided but cannot be charged."""
    import sqlite3

    connection = sqlite3.connect(ledger, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def party_faults() -> None:
    """SIGKILL and SIGTERM of one party of four, and of the student."""
    with federation() as these:
        these.start_all()
        before_training(these, signal.SIGKILL, 0)
        begun, count, pool = time.monotonic(), len(these.events()), these.batch()
        student = these.ask(pool, "killed")
        these.wait_event(count, 200, event="stage", stage="secure sum: masked")
        these.hosts[STUDENT_HOST].kill()
        student.wait(30)
        outcome = these.finish(these.ask(pool, "killed-again"), "killed-again")
        row("student SIGKILL while it waits for labels, then again",
            f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
        for number in (signal.SIGKILL, signal.SIGTERM):
            for stage, words in (("masked", "while voting"), ("consistency", "between masked votes and unmasking")):
                begun, count, pool = time.monotonic(), len(these.events()), these.batch()
                name = f"{stage}-{number.name}"
                student = these.ask(pool, name)
                these.wait_event(count, 200, event="stage", stage=f"secure sum: {stage}")
                position = strike(these, number)
                outcome = these.finish(student, name)
                row(f"party {number.name} {words}, started again",
                    f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
                these.connected(FAULTY, position)
        these.kill(COORDINATOR, signal.SIGTERM)
        count = len(these.events())
        these.start(COORDINATOR)
        before_training(these, signal.SIGTERM, count)


def before_training(these: Federation, number: signal.Signals, count: int) -> None:
    """End the faulty party as the others are asked to train, after the first `count` events, and start it again."""
    begun = time.monotonic()
    these.wait_event(count, 200, event="stage", stage="train")
    strike(these, number)
    these.serving(count)
    attempts = sum(event["event"] == "failed" for event in these.events()[count:])
    row(
        f"party {number.name} before training, started again",
        f"{these.left_out(count) or 'nobody left out'}; {attempts} runs ended for want of parties; then served by all",
        begun,
    )


def strike(these: Federation, number: signal.Signals) -> int:
    """End the faulty party and start it again at once; returns where what it says begins."""
    position = these.position(FAULTY)
    these.kill(FAULTY, number)
    these.start(FAULTY)
    return position


def link_faults() -> None:
    """One party with a slow link, without a link, and with a full disk."""
    with federation() as these, small_disk(these.kit(FAULTY) / "state"):
        these.start_all()
        these.serving()
        timed_batch(these, "none: a batch in peace")
        these.network.slow(FAULTY, SLOW_DELAY_MS, SLOW_BITS)
        time.sleep(5)
        timed_batch(these, f"one party's link {SLOW_DELAY_MS} ms late each way, {SLOW_BITS / 1e6:g} Mbit/s")
        these.network.fast(FAULTY)
        time.sleep(5)
        begun, count, pool = time.monotonic(), len(these.events()), these.batch()
        student = these.ask(pool, "cut")
        these.wait_event(count, 200, event="stage", stage="secure sum: share")
        these.network.cut(FAULTY)
        outcome = these.finish(student, "cut")
        row("one party's cable cut while shares are sent",
            f"{outcome}; {these.left_out(count)}; {these.checked(BATCH)}", begun)  # fmt: skip
        these.network.mend(FAULTY)
        time.sleep(40)
        timed_batch(these, "the cable mended 40 s ago, nothing restarted")
        filler = fill(these.kit(FAULTY) / "state")
        position = these.position(FAULTY)
        timed_batch(these, "one party's disk full")
        log = (these.kit(FAULTY) / "state" / "logs" / "supernode.log").read_text(errors="replace")
        named = sorted(set(re.findall(r"(?:No space left|disk is full|disk I/O error)[^\n]{0,60}", log)))
        row("  what that party says", f"{told(these.said(FAULTY, position).splitlines())}; log: {named}",
            time.monotonic())  # fmt: skip
        checked = these.hosts[FAULTY].command("doctor", str(these.kit(FAULTY)))
        row("  its doctor", wrong(checked.stdout), time.monotonic())
        filler.unlink()
        timed_batch(these, "room made, nothing restarted")


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


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 40 MB as a folder."""
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk to the last byte; removing the file makes room."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


def wrong(doctor: str) -> str:
    """What a doctor found wrong."""
    lines = [line.strip() for line in doctor.splitlines() if re.match(r"\s*(wrong|advice|✗|!)", line)]
    return re.sub(r"/\S+/", "", " / ".join(lines) or doctor[-300:].replace("\n", " / "))[:400]


def node_faults() -> None:
    """Nodes that should not be let in as they are: key, roster, clock, certificates."""
    with federation(timeouts={"enrol": 40, "train": 45, "vote": 45, "secure": 45, "student": 3600}) as these:
        stranger, behind = PARTIES[3], PARTIES[2]
        # the roster that everybody has but one node
        updates = kits.add_party(these.out, "ward-e").updates
        for archive in updates:
            node = archive.name.removesuffix(".tar.gz")
            if node != f"party-{behind}":
                subprocess.run(["tar", "-xzf", str(archive), "-C", str(these.out / node)], check=True)
        (these.kit(stranger) / "node.key").unlink()
        write_private(these.kit(stranger) / "node.key", node_key()[0])
        begun = time.monotonic()
        these.start(COORDINATOR, *PARTIES)
        deadline = time.monotonic() + 300
        while "again in" not in these.said(COORDINATOR) and time.monotonic() < deadline:
            time.sleep(1)
        lines = these.said(COORDINATOR).splitlines()
        own = (these.kit(behind) / "state" / "logs" / "supernode.log").read_text(errors="replace")
        row("party with an old roster",
            f"coordinator: {told([line for line in lines if 'roster-mismatch' in line])};"
            f" party's log: {told([line for line in own.splitlines() if 'roster-mismatch' in line])}",
            begun)  # fmt: skip
        refused = [line for line in these.said(stranger).splitlines() if "refused" in line]
        row("party with a key that is not registered", f"party: {told(refused[-1:])}; never connected: "
            f"{'connected to' not in these.said(stranger)}", begun)  # fmt: skip
        clock_fault(these)
        certificate_faults(these)


def clock_fault(these: Federation) -> None:
    """A SuperNode whose clock is ahead; needs a C compiler."""
    begun, party = time.monotonic(), PARTIES[0]
    compiler = shutil.which("cc")
    if compiler is None:
        row("party's clock 60 s ahead", "not tried: no C compiler for a false clock", begun)
        return
    source, library = these.folder / "clock.c", these.folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    these.kill(party, signal.SIGTERM)
    position = these.position(party)
    false = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": "60"}
    host = these.hosts[party]
    prefix = [*host.prefix(), "env", *(f"{key}={value}" for key, value in false.items())]
    with these.log(party) as log:
        these.nodes[party] = subprocess.Popen(
            [*prefix, sys.executable, "-m", "cli", "party", "start", str(these.kit(party))],
            cwd=netns.ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    time.sleep(25)
    said = these.said(party, position)
    checked = host.run("env", *(f"{key}={value}" for key, value in false.items()), sys.executable, "-m", "cli",
                       "doctor", str(these.kit(party)))  # fmt: skip
    row("party's clock 60 s ahead", f"connected: {'connected to' in said};"
        f" party: {told([line for line in said.splitlines() if 'refused' in line][-1:])};"
        f" doctor: {wrong(checked.stdout)}", begun)  # fmt: skip
    these.kill(party, signal.SIGTERM)


def certificate_faults(these: Federation) -> None:
    """Certificates that expired yesterday, at the coordinator."""
    begun, party = time.monotonic(), PARTIES[1]
    authority = Authority.load(these.out / "operator")
    past = datetime.now(UTC) - timedelta(days=3)
    for name in (COORDINATOR, party):
        these.kill(name, signal.SIGTERM)
    (these.kit(COORDINATOR) / "server.key").unlink()
    authority.server([ADDRESS], days=1, now=past).save(these.kit(COORDINATOR), "server")
    checked = these.hosts[COORDINATOR].command("doctor", str(these.kit(COORDINATOR)))
    positions = {name: these.position(name) for name in (COORDINATOR, party)}
    these.start(COORDINATOR, party)
    time.sleep(30)
    asked = these.hosts[party].command("doctor", str(these.kit(party)))
    row("coordinator's certificate expired",
        f"coordinator's doctor: {wrong(checked.stdout)};"
        f" party: {told(these.said(party, positions[party]).splitlines())};"
        f" party's doctor: {wrong(asked.stdout)}; coordinator:"
        f" {told(these.said(COORDINATOR, positions[COORDINATOR]).splitlines())}", begun)  # fmt: skip


def timing() -> None:
    """Seconds from the kits to "connected", for a round in each mode, and memory of every process."""
    for votes in ("clear", "secure", "distributed"):
        caps = {"caps": {"queries": 200, "answers": 200}}
        begun = time.monotonic()
        with federation(votes, **caps) as these:
            row(f"{votes}: kits made", "", begun)
            begun = time.monotonic()
            these.start_all()
            seconds = [these.connected(name, 0) + 0 * begun for name in PARTIES]
            row(f"{votes}: from start to all four parties connected", f"the last waited {max(seconds):.0f} s", begun)
            these.serving()
            row(f"{votes}: from start to serving students", "enrolled and trained", begun)
            timed_batch(these, f"{votes}: {BATCH} queries")
            for name in (COORDINATOR, PARTIES[0]):
                for process, megabytes in memory(these.hosts[name]).items():
                    row(f"{votes}: memory, {name}: {process}", f"{megabytes:.0f} MB", time.monotonic())


def memory(host: netns.Host) -> dict[str, float]:
    """Resident MB of a machine's processes, by program."""
    found: dict[str, float] = {}
    for pid in host.pids():
        with contextlib.suppress(OSError, AttributeError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            assert resident is not None
            name = program(command)
            found[name] = max(found.get(name, 0.0), int(resident[1]) / 1000)
    return found


def program(command: str) -> str:
    """A process's name, from its command line."""
    known = ("flower-superlink", "flower-supernode", "flwr-serverapp", "flwr-clientapp", "coordinator.deploy.gateway",
             "flwr run", "coordinator start", "party start")  # fmt: skip
    return next((name for name in known if name in command), re.sub(r"/\S+/", "", command)[:50])


PARTS: dict[str, Callable[[], None]] = {
    "coordinator": coordinator_faults,
    "parties": party_faults,
    "links": link_faults,
    "nodes": node_faults,
    "timing": timing,
}


def main(parts: list[str] | None = None) -> None:
    """Print the table; a part that breaks does not keep the others from running."""
    why = netns.why_not()
    if why:
        print(f"not run: {why}")
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, numpy {np.__version__}")
    print("| fault | observed | seconds |\n|---|---|---|")
    for name in parts or list(PARTS):
        begun = time.monotonic()
        try:
            PARTS[name]()
        except (TimeoutError, subprocess.SubprocessError, OSError, ConsiliumError) as error:
            row(f"{name}: the script stopped", f"{type(error).__name__}: {str(error)[-1500:]}", begun)


if __name__ == "__main__":
    main(sys.argv[1:])
