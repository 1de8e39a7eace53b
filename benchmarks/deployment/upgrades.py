"""A part of the drill: a federation that an older version began is upgraded while it is open, node after node.

With noise in the sums it goes on. Exact sums of version 0.9 were no sums of blocks: such a federation is refused, and
then closed and audited.

Each node runs the version of its machine; the kits are the older version's, and what its people type is what its own
page said. Afterwards a student asks, and the federation is closed and audited by this version.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import time
import tomllib
from pathlib import Path

import tomli_w

from benchmarks.deployment.exports import EXPORTS, write_public
from benchmarks.deployment.machines import Machine
from benchmarks.deployment.site import POOL, STUDENT_FILE, Site
from tests.deploy import netns
from tests.deploy.kits import free_ports

RELEASES = {"0.8.0": "Version 0.8.0:", "0.9.0": "Version 0.9.0:"}
"""Versions, and how the message of the commit begins that is each."""
PARTIES = tuple(EXPORTS)[:4]
ROWS = 2
CONNECTED = "connected to the coordinator"


def checkout(version: str, folder: Path) -> Path:
    """The files of a version, in a new folder. Raises OSError if this checkout does not have it."""
    found = subprocess.run(
        ["git", "-C", str(netns.ROOT), "log", "--format=%H", f"--grep=^{RELEASES[version]}", "-1"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    archive = subprocess.run(
        ["git", "-C", str(netns.ROOT), "archive", found or "none"], capture_output=True, check=False
    )
    if not found or archive.returncode:
        raise OSError(f"the history of this checkout does not have version {version}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(folder, filter="tar")
    described = folder / f"consilium_pate-{version}.dist-info"  # by which it knows its version
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: consilium-pate\nVersion: {version}\n")
    return folder


class Upgrade:
    """One federation, and the version that began it."""

    def __init__(self, site: Site, version: str, votes: str) -> None:
        self.site, self.version, self.votes = site, version, votes
        self.asked = 0

    def begin(self) -> None:
        """Kits, data and the start of all nodes, by the older version."""
        site, record = self.site, self.site.record
        source = checkout(self.version, site.machines.folder / f"version-{self.version}")
        every = [site.operator, site.student, *site.nodes]
        for machine in every:
            machine.source = source
        self._write_plan(source)
        record.run(site.operator, "provision federation.toml --out kits", says="kit ", needed=True)
        for machine in every[1:]:
            name = f"{site.kit(machine).name}.tar.gz"
            shutil.copy(site.kits / name, machine.folder)
            record.run(machine, f"kit open {name} --into .", says="kit", needed=True)
        for name in PARTIES:
            site.export(name)
            site.say_columns(name)
        after = self._start(site.coordinator, "coordinator")
        for name in PARTIES:
            self._start(site.party(name), "party")
        site.serving(after)
        self.ask("student start . --pool")

    def upgrade(self, machine: Machine) -> None:
        """One node: stopped, its kit copied, this version installed, started."""
        site, record = self.site, self.site.record
        record.add(machine.name, "SIGTERM", 0.0, f"exit {machine.stop()}", True)
        shutil.copytree(site.kit(machine), machine.folder / "backup", symlinks=True)
        machine.source = netns.ROOT
        if machine is not site.coordinator:
            site.at(machine, "node start .", code=2, says="not accepted yet")
            site.accept([machine.name])
            exact = self.votes == "secure"
            site.at(machine, "doctor .", code=int(exact), says="wrong +roster.*blocks" if exact else "ok +policy")
            site.heard(machine, "until connected", site.start(machine), CONNECTED)
        elif self.votes == "secure":
            site.at(machine, "node start .", code=2, says="whole blocks", never="Traceback")
        else:
            site.serving(site.start(machine))  # which ends the older version's app, if that still holds the port
            site.at(machine, "doctor .", says="ok +ledger")

    def ask(self, command: str) -> None:
        """A student asks new rows, by its own version's command."""
        student = self.site.student
        self.asked += ROWS
        (student.folder / STUDENT_FILE).write_text(f"queries = {self.asked}\n", encoding="utf-8")
        told = f"{command} ../pool.csv --config ../{STUDENT_FILE} --wait 100 --out ../student-{self.asked}"
        self.site.at(student, told, says=f"asked {self.asked}, answered {self.asked}")

    def _start(self, machine: Machine, kind: str) -> int:
        after = machine.position()
        machine.start(kind, "start", ".", cwd=self.site.kit(machine))
        return after

    def _write_plan(self, source: Path) -> None:
        page = (source / "docs" / "deploy.md").read_text(encoding="utf-8")
        plan = tomllib.loads(page.split("```toml\n", 1)[1].split("```", 1)[0])
        plan["federation"] |= {"teachers_per_party": 2, "timeouts": {"join": 1, "student": 36_000}, "votes": self.votes}
        if self.votes == "distributed":
            del plan["federation"]["spare"]
            plan["federation"]["mechanism"] = {"name": "distributed", "threshold": 0, "noise_shares": 3}
        plan["rows"]["pool"] = "pool.csv"
        plan["coordinator"] = {"hosts": [self.site.coordinator.address]}
        plan["party"] = [{"name": name} for name in PARTIES]
        if self.site.loopback:
            ports = free_ports(3 + len(PARTIES))
            names = ("superlink_port", "label_port", "internal_port")
            plan["coordinator"] |= {"listen": "127.0.0.1", **dict(zip(names, ports, strict=False))}
            plan["party"] = [{**party, "port": port} for party, port in zip(plan["party"], ports[3:], strict=True)]
        (self.site.operator.folder / "federation.toml").write_text(tomli_w.dumps(plan), encoding="utf-8")
        write_public(self.site.operator.folder, POOL)
        shutil.copy(self.site.operator.folder / "pool.csv", self.site.student.folder)


def _upgraded(site: Site, version: str) -> None:
    """All parties, then the coordinator, then the student; questions in between."""
    going, record = Upgrade(site, version, "distributed"), site.record
    going.begin()
    first = site.party(PARTIES[0])
    going.upgrade(first)
    going.ask("student start . --pool")
    for name in PARTIES[1:]:
        going.upgrade(site.party(name))
    going.upgrade(site.coordinator)
    site.student.source = site.operator.source = netns.ROOT
    going.ask("student run . --public")
    charged = site.charged()
    record.check("coordinator", "rows charged", f"{len(charged)}", len(charged) == len({*charged}) == going.asked)
    site.close()
    for machine in site.nodes[1:]:
        begun = time.monotonic()
        code = machine.stop()
        record.add(machine.name, "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)


def closed_0_9(site: Site) -> None:
    """Exact sums of version 0.9, open as it is upgraded: refused, closed by this version and audited."""
    going = Upgrade(site, "0.9.0", "secure")
    going.begin()
    for name in PARTIES:
        going.upgrade(site.party(name))
    going.upgrade(site.coordinator)
    site.operator.source = netns.ROOT
    site.at(site.coordinator, "node close .", says=f"closed: {ROWS} queries asked", needed=True)
    site.at(site.coordinator, "audit .", says="the run is what it claims to be")


def from_0_8(site: Site) -> None:
    """A federation of version 0.8.0 is upgraded while it is open."""
    _upgraded(site, "0.8.0")


def from_0_9(site: Site) -> None:
    """A federation of version 0.9.0 is upgraded while it is open."""
    _upgraded(site, "0.9.0")
