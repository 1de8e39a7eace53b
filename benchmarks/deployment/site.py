"""The people of a drill: operator, coordinator, hospitals and students, and what each does with its kit.

Kits travel as files, sealed; passwords and updates as the operator would send them. Nothing is done but by commands.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.deployment.exports import EXPORTS, map_columns, patients, write_public
from benchmarks.deployment.machines import LOOPBACK, Machine, Machines
from benchmarks.deployment.record import Record
from tests.deploy.kits import free_ports
from tests.docs.pages import blocks

OPERATOR, COORDINATOR, STUDENT, SECOND = "operator", "coordinator", "student", "board"
POOL, ROWS = 200, 620
"""Rows that may ever be asked, and patients of a hospital: 12 teachers and 20 rows for the smallest of their shards."""
STUDENT_FILE = "student.toml"
PASSWORDS = "kits/operator/passwords.txt"


class Site:
    """All of them, and the record of what they do.

    first: hospitals that are in from the start; the others get their machines when they join. second: with a second
    aggregator.
    """

    def __init__(self, machines: Machines, record: Record, first: Sequence[str], second: bool = False) -> None:
        self.machines, self.record = machines, record
        self.loopback = machines.network is None
        self.operator = Machine(OPERATOR, machines.folder / OPERATOR, LOOPBACK)  # offline: on no switch
        self.operator.folder.mkdir()
        self.coordinator = machines.add(COORDINATOR)
        self.student = machines.add(STUDENT)
        self.second: Machine | None = machines.add(SECOND) if second else None
        self.parties: list[str] = []
        self.kits = self.operator.folder / "kits"
        names = [*EXPORTS, SECOND]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True)) if self.loopback else {}
        for name in first:
            self.join(name)

    def join(self, name: str) -> Machine:
        """A hospital's machine."""
        self.parties.append(name)
        return self.machines.add(name)

    def party(self, name: str) -> Machine:
        """Of a hospital that has joined."""
        return self.machines[name]

    @property
    def nodes(self) -> list[Machine]:
        """The coordinator, all hospitals that have joined, and the second aggregator."""
        second = [] if self.second is None else [self.second]
        return [self.coordinator, *(self.machines[name] for name in self.parties), *second]

    def kit(self, machine: Machine, name: str = "university") -> Path:
        """Where it has its kit; name: of a student."""
        if machine is self.coordinator:
            return machine.folder / COORDINATOR
        if machine is self.second:
            return machine.folder / f"aggregator-{machine.name}"
        return machine.folder / (f"student-{name}" if machine is self.student else f"party-{machine.name}")

    def write_plan(
        self, first: Sequence[str], own_keys: Sequence[str], changes: Mapping[str, Any] | None = None
    ) -> None:
        """federation.toml as docs/deploy.md shows it, with this site's addresses and rows, beside its public rows.

        changes: other values of `[federation]`.
        """
        shown = next(block for block in blocks() if block.page.name == "deploy.md" and block.language == "toml")
        plan = tomllib.loads(shown.text)
        plan["federation"] |= changes or {}
        plan["rows"]["queries"] = "pool.csv"
        plan["coordinator"] = {"hosts": [self.coordinator.address]}
        if self.loopback:
            ports = dict(zip(("superlink_port", "label_port", "internal_port"), free_ports(3), strict=True))
            plan["coordinator"] |= {"listen": LOOPBACK, **ports}
        named: list[dict[str, Any]] = [{"name": name} for name in first]
        for party in named:
            if party["name"] in own_keys:
                party["keys"] = f"{party['name']}.enrol.json"
            if self.loopback:
                party["port"] = self._ports[party["name"]]
        plan["party"] = named
        if self.second is not None:
            ports = {"port": self._ports[SECOND]} if self.loopback else {}
            plan["aggregator"] = {"name": self.second.name, "keys": f"{self.second.name}.enrol.json", **ports}
        (self.operator.folder / "federation.toml").write_text(tomli_w.dumps(plan), encoding="utf-8")
        write_public(self.operator.folder, POOL)
        for file in ("pool.csv", "test.csv"):
            shutil.copy(self.operator.folder / file, self.student.folder)

    def make_keys(self, machine: Machine, out: str = "keys", replaces: str = "") -> None:
        """A hospital, or the second aggregator, makes its own, and sends the operator what is for it."""
        old = f" --replaces {replaces}" if replaces else ""
        if machine is self.second:
            command = f"node keys --kind aggregator {machine.name} --out {out}" + old
        elif replaces:
            command = f"node keys {machine.name} --out {out} --replaces {replaces}"
        else:
            command = f"node keys {machine.name} --out {out}"
        self.record.run(machine, command, says="fingerprint", needed=True)
        shutil.copy(machine.folder / out / f"{machine.name}.enrol.json", self.operator.folder)

    def prepare(self, changes: Mapping[str, Any]) -> None:
        """Keys, kits, data and policies of everybody, by the commands of the page; nothing goes wrong on the way."""
        names, second = list(self.parties), [] if self.second is None else [self.second]
        for machine in second:
            self.make_keys(machine)
        self.write_plan(names, [], changes)
        self.record.run(self.operator, f"provision federation.toml --out kits --seal {PASSWORDS}", needed=True)
        nodes = [self.coordinator, *map(self.party, names), *second, self.student]
        self.send_and_open([(machine, self.kit(machine).name) for machine in nodes])
        for machine in second:
            self.at(machine, "node join . --keys ../keys", needed=True)
        for name in names:
            self.export(name)
            self.say_columns(name)
        self.accept([*names, *(machine.name for machine in second)])

    def send_and_open(self, targets: Sequence[tuple[Machine, str]]) -> None:
        """Sealed kits, by machine and name without .tar.gz: sent, and opened with the password that was told."""
        told = (self.kits / "operator" / "passwords.txt").read_text(encoding="utf-8").splitlines()
        passwords = dict(line.split(maxsplit=1) for line in told)
        for machine, name in targets:
            sealed = f"{name}.tar.gz.sealed"
            shutil.copy(self.kits / sealed, machine.folder)
            (machine.folder / "password.txt").write_text(passwords[sealed], encoding="utf-8")
            command = f"node join {name}.tar.gz.sealed --into . --password-file password.txt"
            self.record.run(machine, command, says=r"kit +\S+: .*version", needed=True)
            (machine.folder / "password.txt").unlink()

    def open_update(self, machine: Machine, made: str, says: str = "updated", student: str = "university") -> None:
        """The update for this node of a change, by what the change printed; nothing where it has none."""
        kit = self.kit(machine, student)
        for path in re.findall(r"^update +(\S+)", made, re.MULTILINE):
            if Path(path).name == f"{kit.name}.tar.gz":
                shutil.copy(self.operator.folder / path, machine.folder)
                self.record.run(machine, f"node join {kit.name}.tar.gz --into {kit.name}", says=says, needed=True)

    def open_everywhere(self, made: str, students: Sequence[str]) -> None:
        """The updates of a change, at all nodes and students."""
        for machine in self.nodes:
            self.open_update(machine, made)
        for student in students:
            self.open_update(self.student, made, student=student)

    def export(self, name: str) -> None:
        """A hospital's rows, as it happens to have them."""
        kit, seed = self.kit(self.party(name)), 10 + list(EXPORTS).index(name)
        EXPORTS[name].write(kit / "patients.csv", patients(ROWS, seed))

    def say_file(self, name: str) -> None:
        """The first thing that anybody does: name the file, and nothing else."""
        settings = self.kit(self.party(name)) / "party.toml"
        text = settings.read_text(encoding="utf-8").replace('data = "data.npz"', 'data = "patients.csv"')
        settings.write_text(text, encoding="utf-8")

    @contextlib.contextmanager
    def without(self, name: str, left_out: str) -> Iterator[None]:
        """The same for a while, with something that was forgotten."""
        settings = self.kit(self.party(name)) / "party.toml"
        before = settings.read_text(encoding="utf-8")
        self.say_columns(name)
        settings.write_text(settings.read_text(encoding="utf-8").replace(left_out, ""), encoding="utf-8")
        try:
            yield
        finally:
            settings.write_text(before, encoding="utf-8")

    def say_columns(self, name: str) -> None:
        """What the data manager writes then."""
        map_columns(self.kit(self.party(name)), EXPORTS[name], "patients.csv")

    def policy(self, name: str, **values: float) -> dict[str, str]:
        """Set keys of a policy, of a hospital or the second aggregator; returns what stood there."""
        settings, before = self.kit(self.machines[name]) / "policy.toml", {}
        text = settings.read_text(encoding="utf-8")
        for key, value in values.items():
            found = re.search(rf"^{key} = (\S+)", text, re.MULTILINE)
            assert found is not None, key
            before[key] = found[1]
            text = text[: found.start(1)] + f"{value:g}" + text[found.end(1) :]
        settings.write_text(text, encoding="utf-8")
        return before

    def accept(self, names: Sequence[str]) -> None:
        """Each hospital, or the second aggregator, allows what is asked of it, line by line."""
        for name in names:
            machine = self.machines[name]
            page = self._json(machine, "node accept . --print --format json")
            keys = [line["key"] for line in page.get("lines", []) if line["looser"]]
            command = " ".join(["node accept .", *(f"--yes {key}" for key in keys)])
            self.at(machine, command, says="accepted", needed=True)

    def asked(self) -> str:
        """What the coordinator's status says was asked, as `provision` takes it."""
        told = self.status().get("asked", {})
        return " ".join(f"--asked {name}:{rows}" for name, rows in told.items()) or "--asked 0"

    def status(self) -> dict[str, Any]:
        """`consilium status` at the coordinator, as JSON; {} while it cannot be read."""
        return self._json(self.coordinator, "status . --format json")

    def party_status(self, name: str) -> dict[str, Any]:
        """`consilium status` at a hospital, as JSON."""
        return self._json(self.party(name), "status . --format json")

    def start_coordinator(self) -> int:
        """Start it; the position in its log where what it says now begins."""
        return self.start(self.coordinator)

    def start(self, machine: Machine) -> int:
        """Start a node; the position in its log as above."""
        after = machine.position()
        self.record.commands.append((machine.name, "node start ."))
        machine.start("node", "start", ".", cwd=self.kit(machine))
        return after

    def start_party(self, name: str) -> int:
        """The same, by a hospital's name."""
        return self.start(self.party(name))

    def heard(
        self, machine: Machine, what: str, after: int, words: str, seconds: float = 900, needed: bool = True
    ) -> str:
        """Wait until a node's own log has a pattern; needed: whether all that follows rests on it."""

        def line() -> str:
            found = re.search(rf"^.*(?:{words}).*$", machine.said(after), re.MULTILINE)
            return "" if found is None else re.sub(r"^\d\d:\d\d:\d\d +", "", found[0])

        return self.record.wait(machine.name, what, line, seconds, [machine], needed)

    def serving(self, after: int) -> None:
        """Wait until students may ask."""
        self.heard(self.coordinator, "until students may ask", after, "students may ask")

    def ask(self, student: str, out: str, queries: int, code: int = 0, says: str = r"asked \d+, answered \d+") -> str:
        """A student asks so many rows of the pool; `out` is new."""
        command = self.question(out, queries)
        return self.record.run(self.student, command, cwd=self.kit(self.student, student), code=code, says=says)

    def question(self, out: str, queries: int) -> str:
        """The command of a student that asks so many rows of the pool."""
        (self.student.folder / STUDENT_FILE).write_text(f"queries = {queries}\n", encoding="utf-8")
        return (
            f"student run . --public ../pool.csv --test ../test.csv --label outcome --config ../{STUDENT_FILE}"
            f" --wait 100 --out ../{out}"
        )

    def events(self) -> list[dict[str, Any]]:
        """Of the federation that is served, in order."""
        text = self._run_file("events.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def charged(self) -> list[str]:
        """Ids of the queries that its ledger has, in order."""
        path = self._run_file("ledger.db")
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as ledger:
            return [query for (query,) in ledger.execute("SELECT query_id FROM releases")]

    def _run_file(self, name: str) -> Path:
        state = self.kit(self.coordinator) / "state"
        return state / (state / "serving").read_text(encoding="utf-8").strip() / name

    def at(self, machine: Machine, command: str, **how: Any) -> str:
        """A command in the node's kit, as the page has it."""
        return self.record.run(machine, command, cwd=self.kit(machine), **how)

    def close(self, asked: int | None = None) -> None:
        """Close the federation, and what is checked and drawn then. asked: queries that were, where that is known."""
        coordinator, count = self.coordinator, r"\d+" if asked is None else asked
        self.at(coordinator, "node close . --wait 300", says=f"closed: {count} queries asked", needed=True)
        assert coordinator.node is not None
        begun = time.monotonic()
        code = coordinator.node.wait(120)
        self.record.add("coordinator", "its process ends", time.monotonic() - begun, f"exit {code}", code == 0)
        self.at(coordinator, "audit .", says="the run is what it claims to be")
        self.at(coordinator, "report .", says="html")

    def port(self, name: str) -> int:
        """Loopback port of a node, where all nodes are on loopback."""
        return self._ports[name]

    def add_party(self, name: str) -> str:
        """`provision add`; what it printed."""
        port = f" --port {self._ports[name]}" if self.loopback else ""
        command = f"provision add kits {name}{port} --seal {PASSWORDS}"
        return self.record.run(self.operator, command, says="result", needed=True)

    def _json(self, machine: Machine, command: str) -> dict[str, Any]:
        done = machine.consilium(*command.split(), cwd=self.kit(machine))
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}
