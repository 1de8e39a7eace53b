"""Federations one after another on the same nodes, with a node killed in each: what grows, what is left, what is lost.

Four hospitals on loopback, from kits; with --second three, verified votes and a second aggregator. A guest is added and
revoked in turn, which makes a new roster, and so a new federation, each time. The nodes run on through all of them, as
docs/deploy.md has it. In each, a student asks, and one node, by lot, is killed with SIGKILL at a moment by lot and
started again. After its close it is audited, and the nodes' memory, open files, listening ports, processes and bytes of
state are counted.

    python -m benchmarks.deployment.soak [--second] [--federations 50] [--minutes 600] [--seed 0] [--keep FOLDER]

Needs no root. About two minutes for each federation on two idle cores. Exit status 1 if something is lost or left
over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from scipy.stats import kendalltau

from benchmarks.deployment.exports import EXPORTS
from benchmarks.deployment.machines import Machine, machines
from benchmarks.deployment.record import DrillEnded, Record
from benchmarks.deployment.site import PASSWORDS, STUDENT_FILE, Site
from docs.figures import figure

FIRST = tuple(EXPORTS)[:4]
QUERIES, TRIES, LATEST, MOST_SECONDS = 4, 8, 60.0, 1800.0
"""Rows that each federation is asked; times that the student asks again; seconds from the start until the kill and
until the end, at most."""
SMALL = {
    "teachers_per_party": 2,
    "query_budget": {"queries": QUERIES, "answers": QUERIES},
    "timeouts": {"join": 1, "student": 36_000},
}
PAGE = os.sysconf("SC_PAGE_SIZE")
CHANCE, RISE = 0.01, 0.05
"""A trend is a rise in order that chance gives once in a hundred, and of 5 % in all."""


@dataclass(frozen=True)
class Count:
    """What the nodes hold after a federation. memory, state: bytes. files: open. ports: that somebody listens at."""

    processes: int
    memory: int
    files: int
    ports: int
    state: int


@dataclass(frozen=True)
class Round:
    """One federation: who was killed, what was asked, and what the hospitals and the coordinator hold after it."""

    killed: str
    tries: int
    asked: int
    audited: bool
    parties: Count
    coordinator: Count
    seconds: float


def count(listed: list[Machine], kits: list[Path]) -> Count:
    """Of all processes on these machines, and below `state` of these kits."""
    running = [pid for machine in listed for pid in machine.processes()]
    memory = files = 0
    sockets: set[str] = set()
    for pid in running:
        with contextlib.suppress(OSError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
            files += len(links)
            sockets |= {link[8:-1] for link in links if link.startswith("socket:[")}
    state = sum(path.stat().st_size for kit in kits for path in (kit / "state").rglob("*") if path.is_file())
    return Count(len(running), memory, files, len(sockets & _listening()), state)


def _listening() -> set[str]:
    """Inodes of sockets that listen."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}


class Soak:
    """The site, its lot, and the federations so far."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.lot = site, random.Random(seed)
        self.rounds: list[Round] = []

    def begin(self) -> None:
        """Kits of the first federation, data, policies that allow all that are to come, and the hospitals' nodes."""
        site = self.site
        site.prepare(SMALL | {"collection": "distributed" if site.second is None else "verified"})
        for machine in site.nodes[1:]:
            site.policy(machine.name, most_epsilon=1e4, most_queries=1e6, least_parties=2)
            site.start(machine)

    def change(self, number: int) -> None:
        """Updates for a new roster at all nodes."""
        site, guest = self.site, f"guest-{(number - 1) // 2}"
        command = (
            f"provision add kits {guest} --new-patients --seal {PASSWORDS}"
            if number % 2
            else f"provision revoke kits {guest}"
        )
        made = site.record.run(site.operator, command, needed=True)
        for machine in site.nodes:
            site.open_update(machine, made)

    def federation(self, number: int) -> Round:
        """One: begun, asked, somebody killed, closed, audited, counted."""
        begun, site = time.monotonic(), self.site
        if number:
            self.change(number)
        after = site.start_coordinator()
        victim = self.lot.choice(site.nodes)
        due = time.monotonic() + self.lot.uniform(0, LATEST)
        tries, killed, deadline = 0, False, time.monotonic() + MOST_SECONDS
        asking: subprocess.Popen[bytes] | None = None
        while True:
            if not killed and time.monotonic() > due:
                self._kill(victim)
                killed = True
            if asking is None and "students may ask" in site.coordinator.said(after):
                asking = self._ask(number, tries)
                tries += 1
            if asking is not None and asking.poll() is not None:
                if asking.returncode == 0 or tries == TRIES:
                    break
                asking = None
            if time.monotonic() > deadline or not self._coordinator_runs():
                said = site.coordinator.said(after)[-2000:]
                raise DrillEnded(f"federation {number}: no end within {MOST_SECONDS:g} s, {victim.name} killed\n{said}")
            time.sleep(0.2)
        if not killed:
            self._kill(victim)
        site.at(site.coordinator, "node close . --wait 600", needed=True)
        assert site.coordinator.node is not None
        site.coordinator.node.wait(300)
        told = json.loads(site.at(site.coordinator, "audit . --format json", needed=True))
        run = (
            site.kit(site.coordinator)
            / "state"
            / (site.kit(site.coordinator) / "state" / "serving").read_text().strip()
        )
        asked = json.loads((run / "coordinator.json").read_text())["asked"]
        nodes = site.nodes[1:]
        return Round(
            victim.name, tries, asked, not told.get("failed"),
            count(nodes, [site.kit(machine) for machine in nodes]),
            count([site.coordinator], [site.kit(site.coordinator)]), time.monotonic() - begun,
        )  # fmt: skip

    def _coordinator_runs(self) -> bool:
        node = self.site.coordinator.node
        return node is not None and node.poll() is None

    def _kill(self, victim: Machine) -> None:
        victim.kill()
        if victim is self.site.coordinator:
            self.site.start_coordinator()
        else:
            self.site.start(victim)

    def _ask(self, number: int, tries: int) -> subprocess.Popen[bytes]:
        folder = self.site.student.folder
        (folder / STUDENT_FILE).write_text(f"queries = {QUERIES}\n", encoding="utf-8")
        self.site.student.start(
            "student", "run", ".", "--public", "../pool.csv", "--config", f"../{STUDENT_FILE}", "--wait", "100",
            "--out", f"../student-{number}-{tries}", cwd=self.site.kit(self.site.student),
        )  # fmt: skip
        assert self.site.student.node is not None
        return self.site.student.node

    def lost(self) -> list[str]:
        """Federations in which something is wrong, and why."""
        found = []
        for number, done in enumerate(self.rounds):
            if done.asked != QUERIES or not done.audited:
                found.append(f"federation {number}: {done.asked} of {QUERIES} asked, audit passed: {done.audited}")
            if done.coordinator.processes or done.coordinator.ports:
                found.append(f"federation {number}: the coordinator left {done.coordinator.processes} processes")
        return found


def trend(values: list[int]) -> str:
    """Whether they rise with the order: in words.

    >>> trend([100, 101, 100, 99, 101, 100, 100, 101]), trend([100, 102, 104, 106, 108, 110, 112, 114])
    ('no trend', 'rises by 2.0 each')
    """
    if len(values) < 6:
        return f"{len(values)} are too few to tell"
    rise = (values[-1] - values[0]) / (len(values) - 1)
    order, chance = cast(tuple[float, float], kendalltau(range(len(values)), values))
    if order > 0 and chance < CHANCE and rise * len(values) > RISE * values[0]:
        return f"rises by {rise:.1f} each"
    return "no trend"


def table(rounds: list[Round]) -> str:
    """Every federation, and what is a trend."""
    lines = [
        "| federation | killed | student asked | s | hospitals' processes | MB | open files | ports | state MB"
        " | coordinator left over | its state MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, done in enumerate(rounds):
        of, left = done.parties, done.coordinator
        lines.append(
            f"| {number} | {done.killed} | {done.tries} times | {done.seconds:.0f} | {of.processes}"
            f" | {of.memory / 1e6:.0f} | {of.files} | {of.ports} | {of.state / 1e6:.2f}"
            f" | {left.processes} processes, {left.ports} ports | {left.state / 1e6:.2f} |"
        )
    for name in ("processes", "memory", "files", "ports", "state"):
        lines.append(f"\nhospitals' {name}: {trend([getattr(done.parties, name) for done in rounds])}")
    lines.append(f"\ncoordinator's state: {trend([done.coordinator.state for done in rounds])}")
    return "\n".join(lines)


def soak(folder: Path, federations: int, seed: int, second: bool = False, seconds: float = math.inf) -> Soak:
    """All of them, in a folder that is there; none is begun after so many seconds. second: with a second aggregator."""
    begun = time.monotonic()
    record = Record(folder / "transcript.txt", [str(folder)], quiet=True)
    with machines(folder, loopback=True) as made:
        going = Soak(Site(made, record, FIRST[:3] if second else FIRST, second), seed)
        try:
            going.begin()
            for number in range(federations):
                if time.monotonic() > begun + seconds:
                    break
                going.rounds.append(going.federation(number))
                done = going.rounds[-1]
                print(f"{number}: {done.killed} killed, asked {done.tries} times, {done.seconds:.0f} s", flush=True)
        except (DrillEnded, subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            print(f"it could not go on: {error!r}", file=sys.stderr)
    return going


def write(going: Soak, second: bool, seed: int) -> None:
    """The table: what all nodes but the coordinator hold after the first, some and the last federation."""
    columns = (
        "federation",
        "killed",
        "student asked",
        "s",
        "processes",
        "MB",
        "open files",
        "ports",
        "state MB",
        "left over",
    )
    kept = [at for at in range(len(going.rounds)) if at % 10 == 0 or at == len(going.rounds) - 1]
    words = f"{len(going.rounds)} federations, {'; '.join(going.lost()) or 'nothing lost, nothing left over'}; "
    words += "; ".join(
        f"{name}: {trend([getattr(done.parties, name) for done in going.rounds])}"
        for name in ("processes", "memory", "files", "ports")
    )
    name, option = ("soak-verified", " --second") if second else ("soak", "")
    with figure(
        f"deployment-results/{name}", f"python -m benchmarks.deployment.soak{option}", columns, seeds=[seed],
        split=f"made-up exports; {words}", timings=columns[1:], quick=False,
    ) as made:  # fmt: skip
        for at in kept:
            done = going.rounds[at]
            of, left = done.parties, done.coordinator
            made.add(
                at, done.killed, f"{done.tries} times", round(done.seconds), of.processes, f"{of.memory / 1e6:.0f}",
                of.files, of.ports, f"{of.state / 1e6:.2f}", f"{left.processes} processes, {left.ports} ports",
            )  # fmt: skip


def main() -> None:
    """Entry point of `python -m benchmarks.deployment.soak`."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    given.add_argument("--federations", type=int, default=50)
    given.add_argument("--seed", type=int, default=0)
    given.add_argument("--second", action="store_true", help="verified votes, three hospitals and a second aggregator")
    given.add_argument("--minutes", type=float, default=600, help="after which none is begun")
    given.add_argument("--keep", type=Path, help="new folder for all files")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=options.keep is None)
        going = soak(folder.resolve(), options.federations, options.seed, options.second, options.minutes * 60)
        write(going, options.second, options.seed)
        lost = going.lost()
        print(f"{table(going.rounds)}\n\n{len(going.rounds)} of {options.federations} federations;"
              f" {'; '.join(lost) or 'nothing lost, nothing left over'}")  # fmt: skip
        missing = options.federations - len(going.rounds)
        print(f"\n{options.federations} federations, {missing + len(lost)} not as they should be")
    sys.exit(1 if lost or len(going.rounds) < options.federations else 0)


if __name__ == "__main__":
    main()
