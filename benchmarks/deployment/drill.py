"""The drill of an IT department, from kits to the report: what docs/deploy.md says, done, timed and judged.

Federations one after another, each node in a network namespace of its own, with CSV exports none like another, by the
commands of the page alone:

- `first-label`: five hospitals, the straight way to the first label, as a stranger types it.
- `distributed`: four hospitals and what goes wrong for others: a policy that forbids, an update too early, a node that
  is killed, a full disk; the operator's machine is lost, another authority takes over; a fifth hospital joins, one is
  revoked.
- `verified`: with a second aggregator: all kills, cuts, full disk, clock, restored state, new keys, another one.
- `secure`: secure votes, all kills and cuts.
- `from-0.8`, `from-0.9`: begun by that version, upgraded while it is open; `closed-0.9`: exact sums, which end there.

Exit status 1 if a step is not as it should be, or the pages have a command that nothing runs.

    python -m benchmarks.deployment.drill [FEDERATION ...] [--loopback] [--keep FOLDER]

Namespaces need Linux, root and iproute2; --loopback needs none of them. FOLDER keeps all files, and transcript.txt:
every command with all that it printed. RECORD_FIGURES=1 records the tables, beside rows of federations not run now.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.deployment import other_votes, pages, upgrades
from benchmarks.deployment.exports import EXPORTS
from benchmarks.deployment.machines import Machine, machines
from benchmarks.deployment.record import DrillEnded, Record
from benchmarks.deployment.site import PASSWORDS, POOL, Site
from docs.figures import figure, read
from docs.marked import DOCS
from tests.deploy import netns

FIRST, FIFTH, REVOKED, OWN_KEYS = tuple(EXPORTS)[:4], "basel", "zurich", "cleveland"
STUDENTS = ("university", "institute")
QUERIES = 12
"""Rows that each student asks: each session of secure sums takes as long for few as for many."""
FORGOTTEN = {
    "cleveland": [(', codes = { "> 89" = 90 }', 3, "PROBLEM +age.*hold text that is no number.*Map it with codes")],
    "budapest": [(", factor = 0.01131", 0, "DOUBT +creatinine.*Another unit[?] Set factor")],
}
"""What a data manager leaves out of party.toml at first, and the exit status and the line that tell."""


def make_kits(site: Site) -> None:
    """Steps 0 and 1 of the page: keys, provisioning, sealed kits."""
    record, operator = site.record, site.operator
    own = site.party(OWN_KEYS)
    record.run(own, f"node keys {OWN_KEYS} --out keys", says="fingerprint", needed=True)
    site.write_plan(FIRST, [OWN_KEYS])
    (operator.folder / f"{OWN_KEYS}.enrol.json").write_bytes(
        (own.folder / "keys" / f"{OWN_KEYS}.enrol.json").read_bytes()
    )
    # a pool with a code and a hole: named by cell, not "is no table of numbers"
    pool = operator.folder / "pool.csv"
    good = pool.read_text()
    header, second, third, *rest = good.splitlines()
    pool.write_text("\n".join([header, f"> 89,{second.split(',', 1)[1]}", f",{third.split(',', 1)[1]}", *rest]) + "\n")
    cells = r"line 2, '> 89'\).*line 3"
    record.run(operator, "provision federation.toml --out kits", code=3, says=cells, never="Traceback")
    pool.write_text(good)
    command = f"provision federation.toml --out kits --seal {PASSWORDS}"
    record.run(operator, command, says="epsilon promised", needed=True)
    site.send_and_open(
        [
            (site.coordinator, "coordinator"),
            *((site.party(name), f"party-{name}") for name in FIRST),
            (site.student, f"student-{STUDENTS[0]}"),
        ]
    )
    site.at(own, "doctor .", code=1, says="consilium node join", never="Traceback")
    site.at(own, "node join . --keys ../keys", needed=True)
    for name in FIRST:
        site.at(site.party(name), "node fingerprint .", says=r"roster +(\S{4} ){15}\S{4}")


def bring_data(site: Site, name: str) -> None:
    """A hospital's CSV: every problem at once, then none; `party dry-run --data-only` and the dry run."""
    machine = site.party(name)
    site.export(name)
    site.say_file(name)
    site.at(machine, "party dry-run . federation.json --data-only", code=3, says="PROBLEM", never="Traceback")
    for left_out, code, says in FORGOTTEN.get(name, ()):
        with site.without(name, left_out):
            site.at(machine, "party dry-run . federation.json --data-only", code=code, says=says)
    site.say_columns(name)
    site.at(machine, "party dry-run . federation.json --data-only", says=r"The data fit", needed=True)
    if name == FIRST[0]:
        site.at(machine, "party dry-run . federation.json", says="would send")


def bring_all_data(site: Site) -> None:
    """CSV exports of the first four hospitals: every problem at once, then none; what would be sent."""
    for name in FIRST:
        bring_data(site, name)


def policies(site: Site) -> None:
    """Nothing starts before a hospital has said what it allows; and rules that used to surface in the middle of a sum
    are known to doctor before anything is spent."""
    machine = site.party(FIRST[1])
    site.at(machine, "node start .", code=2, says="not accepted yet")
    site.accept(FIRST)
    for key, value, says in (("most_queries", 100, "most-queries"), ("least_parties", 4, "wrong +roster.*policy")):
        before = site.policy(machine.name, **{key: value})
        site.at(machine, "doctor .", code=1, says=says)
        site.policy(machine.name, **{name: float(text) for name, text in before.items()})


def start_all(site: Site) -> None:
    """The coordinator waits for all of the roster, by name; then all take part."""
    *early, last = FIRST
    coordinator = site.coordinator
    site.at(coordinator, "doctor .", says="parties may connect")
    after = site.start_coordinator()
    site.heard(coordinator, "until it waits for parties", after, "waiting for")
    for name in early:
        site.at(site.party(name), "doctor .", says="ok +coordinator")
        said = site.start_party(name)
        site.heard(site.party(name), "until connected", said, "connected to the coordinator")
    site.heard(coordinator, "enough are there, and one is waited for by name", after, f"waiting for {last}, at most")
    site.at(coordinator, "status .", says=rf"{last}: awaited, not connected")
    said = site.start_party(last)
    site.heard(site.party(last), "until connected", said, "connected to the coordinator")
    site.serving(after)
    all_in(site, len(FIRST))
    site.at(site.party(last), "status .", says="standing +takes part")
    waited = coordinator.said(after)
    quiet = "failed:" not in waited and waited.count("parties connected") <= 2 * len(FIRST)
    site.record.check("coordinator", "its log while it waited", f"{waited.count('failed:')} lines of failure", quiet)


def all_in(site: Site, count: int) -> None:
    """Status names as many parties as take part, and the federation that runs."""
    shown = site.status()
    taking = [name for name, state in shown.get("parties", {}).items() if state.startswith("takes part, connected")]
    site.record.check("coordinator", "`consilium status .`: who takes part", ", ".join(taking), len(taking) == count)


def students(site: Site) -> None:
    """Two students, one pool."""
    machine = site.student
    site.at(machine, "doctor . --public ../pool.csv", says=f"{POOL} rows")
    site.ask(STUDENTS[0], "student-1", QUERIES, says=f"asked {QUERIES}, answered {QUERIES}")
    made = site.record.run(
        site.operator, f"provision add --kind student kits {STUDENTS[1]} --seal {PASSWORDS}", says="update", needed=True
    )
    site.send_and_open([(machine, f"student-{STUDENTS[1]}")])
    site.open_update(site.coordinator, made)
    # as many new rows again; what the first one asked is free
    site.ask(STUDENTS[1], "student-2", 2 * QUERIES, says=f"asked {2 * QUERIES}, answered {2 * QUERIES}")
    left = site.status().get("queries_left")
    site.record.check("coordinator", "charged for both students", f"{left} of 200 left", left == 200 - 2 * QUERIES)
    site.at(site.coordinator, "audit .", says="its ledger so far holds")


def faults(site: Site) -> None:
    """A hospital loses power, and the coordinator is restarted: everybody knows, and is back without help."""
    coordinator, victim = site.coordinator, site.party(FIRST[3])

    def state(word: str) -> Callable[[], str]:
        def seen() -> str:
            told = site.status().get("parties", {}).get(victim.name, "")
            return told if word in told else ""

        return seen

    victim.kill()
    site.record.wait("coordinator", f"kill -9 at {victim.name}, until status says so", state("not connected now"), 300)
    if not site.loopback:  # a small file system of its own, which only root can make
        victim.small_disk(site.kit(victim) / "state")
    said = site.start_party(victim.name)
    site.heard(victim, "started again, until connected", said, "connected to the coordinator")
    site.record.wait("coordinator", "until status says that it is back", state("takes part, connected"), 300)
    if not site.loopback:
        full_disk(site, victim)
    positions = {name: site.party(name).position() for name in FIRST}
    begun = time.monotonic()
    code = coordinator.stop()
    site.record.add("coordinator", "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)
    site.heard(site.party(FIRST[0]), "the loss is in its log", positions[FIRST[0]], "connection", 120, needed=False)
    after = site.start_coordinator()
    site.serving(after)
    for name in FIRST:
        words = "connection to the coordinator is back|connected to the coordinator"
        site.heard(site.party(name), "and so is that it is back", positions[name], words)
    all_in(site, len(FIRST))


def full_disk(site: Site, victim: Machine) -> None:
    """Nothing is left to write to at a hospital, and then there is again."""
    after = victim.position()
    ballast = site.kit(victim) / "state" / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while file.write(bytes(1_000_000)):
            pass
    site.heard(victim, "its disk is full, until it says so", after, "free at|disk is full", 120, needed=False)
    site.at(victim, "doctor .", code=1, says="wrong +disk", never="Traceback")
    ballast.unlink()
    site.heard(victim, "there is room, until it says so", after, "there is room again", 120, needed=False)
    once = victim.said(after).count("free at")
    site.record.check(victim.name, "how often it was said", f"{once} times", once <= 1)


def renew(site: Site) -> None:
    """A new certificate for the coordinator, shown without a restart."""
    coordinator = site.coordinator
    assert coordinator.node is not None
    after, before = coordinator.position(), coordinator.node.pid
    made = site.record.run(site.operator, "provision renew kits coordinator", says="update", needed=True)
    site.open_update(coordinator, made)
    site.at(site.party(FIRST[0]), "doctor .", says="ok +coordinator")  # the next connection, which is shown the new one
    site.heard(coordinator, "until it is shown", after, "renewed certificate is in use", 120, needed=False)
    same = coordinator.node.poll() is None and coordinator.node.pid == before
    site.record.check("coordinator", "nothing was restarted", "the same process", same)


def hand_over(site: Site) -> None:
    """The operator's machine is lost: two of three holders bring its folder back, and another authority takes over."""
    record, operator = site.record, site.operator
    command = "provision escrow kits basel board registry --threshold 2"
    record.run(operator, command, says="sealed", needed=True)
    for name in ("basel", "board"):
        shutil.copy(site.kits / "escrow" / f"{name}.share.json", operator.folder)
    shutil.copy(site.kits / "escrow" / "operator.escrow", operator.folder)
    site.kits.rename(operator.folder / "lost")
    command = "provision recover operator.escrow --share basel.share.json --share board.share.json --out kits"
    record.run(operator, command, says="authority", needed=True)
    asked = 2 * QUERIES
    for command in ("provision handover kits", "provision handover kits --finish"):
        made = record.run(operator, command, says="authority", needed=True)
        site.open_everywhere(made, STUDENTS)
        stop_all(site)
        if "--finish" in command:
            site.accept(site.parties)  # the coordinator's new keys made it another federation
        after = site.start_coordinator()
        for name in site.parties:
            said = site.start_party(name)
            site.heard(site.party(name), "until connected", said, "connected to the coordinator")
        site.serving(after)
        all_in(site, len(site.parties))
        site.at(site.party(site.parties[0]), "doctor .", says="ok +coordinator")
        if "--finish" not in command:
            rows = asked = asked + QUERIES
            site.ask(STUDENTS[1], "student-of-both", rows, says=f"asked {rows}, answered {rows}")
            site.close(asked)
            new_keys(site)
    site.ask(STUDENTS[1], "student-handed-over", QUERIES, says=f"asked {QUERIES}, answered {QUERIES}")


def stop_all(site: Site) -> None:
    """Every node that runs: SIGTERM."""
    for machine in site.nodes:
        if machine.node is not None and machine.node.poll() is None:
            begun = time.monotonic()
            code = machine.stop()
            site.record.add(machine.name, "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)


def add_fifth(site: Site) -> None:
    """The plan first; an update that came too early; close, audit, report; then a new federation of five."""
    record, coordinator = site.record, site.coordinator
    asked = 200 - site.status().get("queries_left", 0)
    record.run(site.operator, f"provision plan kits --add {FIFTH} {site.asked()}", says="result", needed=True)
    made = site.add_party(FIFTH)
    site.join(FIFTH)
    site.send_and_open([(site.party(FIFTH), f"party-{FIFTH}")])
    bring_data(site, FIFTH)

    site.open_update(coordinator, made)  # too early: the old federation is open
    site.at(coordinator, "status .", says=r"next +the kit holds another federation")
    site.at(coordinator, "doctor .", code=1, says="is open, and the kit holds another one")
    site.close(asked)
    for name in FIRST:
        site.open_update(site.party(name), made)
    site.at(site.party(FIRST[0]), "doctor .", code=1, says="than was accepted: most_epsilon, most_queries")
    site.accept([*FIRST, FIFTH])
    for name in FIRST:
        site.at(site.party(name), "doctor .", says="ok +policy", code=1)  # the coordinator is not there yet
    site.at(coordinator, "doctor .", says="5 parties may connect")
    after = site.start_coordinator()
    said = site.start_party(FIFTH)
    site.heard(site.party(FIFTH), "until connected", said, "connected to the coordinator")
    site.serving(after)
    all_in(site, len(FIRST) + 1)
    output = site.ask(STUDENTS[0], "student-3", QUERIES, says=f"asked {QUERIES}, answered {QUERIES}")
    told = "earlier federation" in output
    record.check("student", "rows of the federation before", "named as spent" if told else "not told", told)


def revoke(site: Site) -> None:
    """A hospital is shut out; the next federation is without it."""
    record, coordinator, out = site.record, site.coordinator, site.party(REVOKED)
    record.run(site.operator, f"provision plan kits --revoke {REVOKED} {site.asked()}", says="result", needed=True)
    said = out.position()
    made = record.run(site.operator, f"provision revoke kits {REVOKED}", says="result", needed=True)
    site.open_update(coordinator, made)

    def shut_out() -> str:
        told = site.status().get("parties", {}).get(REVOKED, "")
        return told if "revoked" in told else ""

    record.wait("coordinator", f"until {REVOKED} is shut out", shut_out, 60)
    site.heard(
        out, "until its own log says so", said, "refused this node: its key is not registered", 120, needed=False
    )
    site.at(out, "status .", says="connection +.*refused this node")
    begun = time.monotonic()
    code = out.stop()
    record.add(REVOKED, "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)
    site.close(QUERIES)
    site.parties.remove(REVOKED)
    for name in site.parties:
        site.open_update(site.party(name), made)
    site.accept(site.parties)
    after = site.start_coordinator()
    site.serving(after)
    all_in(site, len(site.parties))
    site.ask(STUDENTS[1], "student-4", QUERIES, says=f"asked {QUERIES}, answered {QUERIES}")
    site.close(QUERIES)


def new_keys(site: Site) -> None:
    """The coordinator's own, before the handover's end would certify those that the former operator made."""
    record, coordinator = site.record, site.coordinator
    told = record.run(
        coordinator, "node keys coordinator --kind coordinator --out new", says="fingerprint", needed=True
    )
    shutil.copy(coordinator.folder / "new" / "coordinator.enrol.json", site.operator.folder)
    read_out = "".join(told.partition("fingerprint")[2].splitlines()[0].split())
    command = "provision renew kits coordinator --keys coordinator.enrol.json"
    record.run(site.operator, command, code=2, says="--lost", never="Traceback")
    made = record.run(site.operator, f"{command} --lost {read_out}", says="coordinator made its own", needed=True)
    site.open_everywhere(made, STUDENTS)
    site.at(coordinator, "doctor .", code=1, says="node join .* --keys", never="Traceback")
    site.at(coordinator, "node join . --keys ../new", says="consilium doctor", needed=True)
    site.at(coordinator, "doctor .", says="ok +own keys")


def end(site: Site) -> None:
    """Who took part is written down, and nothing is left running."""
    kit = site.kit(site.coordinator)
    runs = sorted((kit / "state").glob("run-*/coordinator.json"), key=lambda path: path.stat().st_mtime)
    took_part = [json.loads(run.read_text())["parties"] for run in runs]
    told = "; ".join(", ".join(names) for names in took_part)
    wanted = [sorted(FIRST), sorted(FIRST), sorted([*FIRST, FIFTH]), sorted(site.parties)]
    site.record.check("coordinator", "`coordinator.json` of the four federations", told, took_part == wanted)
    for name in site.parties:
        begun, machine = time.monotonic(), site.party(name)
        code = machine.stop()
        site.record.add(name, "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)
    left = {machine.name: len(machine.processes()) for machine in site.machines.all.values()}
    site.record.check("all", "processes that are left", str(sum(left.values())), not any(left.values()))
    traces = [machine.name for machine in site.nodes if "Traceback" in machine.said()]
    site.record.check("all", "tracebacks in the nodes' own logs", ", ".join(traces) or "none", not traces)


PARTS: tuple[Callable[[Site], None], ...] = (
    make_kits,
    bring_all_data,
    policies,
    start_all,
    students,
    faults,
    renew,
    hand_over,
    add_fifth,
    revoke,
    end,
)


def straight(site: Site) -> None:
    """Five CSV exports on five machines, the commands of the page in their order, to the first label."""
    record, begun = site.record, time.monotonic()
    site.write_plan(site.parties, [], {"minimum_parties": 3})
    record.run(site.operator, f"provision federation.toml --out kits --seal {PASSWORDS}", needed=True)
    site.send_and_open([(site.coordinator, "coordinator")])
    site.at(site.coordinator, "doctor .", says="parties may connect")
    after = site.start(site.coordinator)
    site.heard(site.coordinator, "until it waits for parties", after, "waiting for")
    for name in site.parties:
        machine = site.party(name)
        site.send_and_open([(machine, f"party-{name}")])
        site.export(name)
        site.say_columns(name)
        site.at(machine, "party dry-run . federation.json --data-only", says="The data fit", needed=True)
        site.at(machine, "party dry-run . federation.json", says="would send")
        site.at(machine, "node accept . --print", says="in words")
        site.accept([name])
        site.at(machine, "doctor .", says="ok +coordinator")
        site.start(machine)
    site.serving(after)
    site.send_and_open([(site.student, f"student-{STUDENTS[0]}")])
    site.at(site.student, "doctor . --public ../pool.csv", says=f"{POOL} rows")
    site.ask(STUDENTS[0], "student-1", QUERIES, says=f"asked {QUERIES}, answered {QUERIES}")
    record.check("all", "from the first command to the first label", f"{time.monotonic() - begun:.0f} s", True)
    site.close(QUERIES)


@dataclass(frozen=True)
class Scenario:
    """One federation of the drill: its parts, the hospitals that are in from the start, whether there is a second
    aggregator."""

    parts: tuple[Callable[[Site], None], ...]
    first: tuple[str, ...] = FIRST
    second: bool = False


SCENARIOS: Mapping[str, Scenario] = {
    "first-label": Scenario((straight,), tuple(EXPORTS)),
    "distributed": Scenario(PARTS),
    "verified": Scenario(other_votes.VERIFIED, FIRST[:3], second=True),
    "secure": Scenario(other_votes.SECURE),
    "from-0.8": Scenario((upgrades.from_0_8,)),
    "from-0.9": Scenario((upgrades.from_0_9,)),
    "closed-0.9": Scenario((upgrades.closed_0_9,)),
}


def drill(folder: Path, loopback: bool, name: str = "distributed") -> Record:
    """One federation, in a folder that is there. A step that all others rest on ends it when it fails."""
    record, scenario = Record(folder / "transcript.txt", [str(folder)]), SCENARIOS[name]
    with machines(folder, loopback) as made:
        site = Site(made, record, scenario.first, scenario.second)
        try:
            for part in scenario.parts:
                record.begin(part.__doc__.splitlines()[0] if part.__doc__ else part.__name__)
                part(site)
        except (DrillEnded, subprocess.TimeoutExpired, OSError) as error:
            record.check("drill", "it could not go on", str(error)[-2000:], False)
            print(error, file=sys.stderr)
    return record


def earlier_rows(name: str) -> list[tuple[str, ...]]:
    """Of a figure, as it was recorded last."""
    path = DOCS / "figures" / f"{name}.json"
    return list(read(path).rows) if path.exists() else []


COMMAND = "python -m benchmarks.deployment.drill"
SPLIT = "no data but made-up exports"


def write_steps(records: Mapping[str, Record]) -> None:
    """The table of parts: of what was run now, and of the other federations what was there."""
    columns = ("federation", "part", "steps", "seconds", "not as it should be")
    before = [row for row in earlier_rows("deployment-results/drill") if row[0] not in records]
    with figure("deployment-results/drill", COMMAND, columns, split=SPLIT, timings=columns[3:4], quick=False) as table:
        for name in SCENARIOS:
            for row in before:
                if row[0] == name:
                    table.add(*row)
            if name in records:
                for row in records[name].summary():
                    table.add(name, *row)


def lacking(records: Mapping[str, Record]) -> list[str]:
    """Commands of the pages that neither these federations nor anything else ran."""
    found = pages.run_by((name, text) for name, record in records.items() for _, text in record.commands)
    return [f"{page}: {command}" for (page, command), by in found.items() if not by]


def main() -> None:
    """Entry point of `python -m benchmarks.deployment.drill`."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    given.add_argument("federations", nargs="*", metavar="FEDERATION", help=f"of {', '.join(SCENARIOS)}; none for all")
    given.add_argument("--loopback", action="store_true", help="without namespaces, and so without root")
    given.add_argument("--keep", type=Path, help="new folder for all files and the transcripts")
    options = given.parse_args()
    if unknown := {*options.federations} - {*SCENARIOS}:
        given.error(f"no federation {', '.join(sorted(unknown))}: {', '.join(SCENARIOS)}")
    if not options.loopback and (why := netns.why_not()):
        sys.exit(f"not run: {why}. Run it as root, or with --loopback, where all nodes share this machine's addresses")
    begun, records = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=options.keep is None)
        for name in options.federations or SCENARIOS:
            print(f"== {name}: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
            place = folder.resolve() / name
            place.mkdir()
            records[name] = drill(place, options.loopback, name)
            if options.keep:
                (place / "table.md").write_text(records[name].table() + "\n", encoding="utf-8")
        write_steps(records)
    nobody = [] if options.federations else lacking(records)
    steps, failed = (
        sum(counts) for counts in zip(*((len(each.steps), each.failed) for each in records.values()), strict=True)
    )
    print(f"\n{steps} steps, {failed} not as they should be, {time.monotonic() - begun:.0f} s")
    print(*(f"nothing runs {command}" for command in nobody), sep="\n")
    sys.exit(1 if failed or nobody else 0)


if __name__ == "__main__":
    main()
