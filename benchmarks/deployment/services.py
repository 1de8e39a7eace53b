"""A federation of systemd services: installed offline, killed, stopped, upgraded, rolled back, restored; each timed.

A coordinator, three parties and a student, each on a machine with its own systemd (`deployment.systemd_machines`),
installed from a wheelhouse without any network, started by the units of their kits as docs/install.md has it. Needs
root, systemd-nspawn and a wheelhouse that was made from this very commit (`make wheelhouse`).

    python -m benchmarks.deployment.services --wheelhouse wheelhouse [--older REVISION] [--parts kills versions ...]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.deployment.other_versions import build, this_version
from benchmarks.deployment.systemd_machines import Layers, Machine, machines, why_not
from consilium.coordinator.provision import kits
from tests.deploy import netns
from tests.deploy.kits import PARTIES, STUDENT, request_of_kit, write_data, write_plan, write_pool

COORDINATOR, UNIVERSITY, KITS = "coordinator", "university", "/srv/consilium"
ADDRESS = "10.77.0.1"
BATCH = 10
NEWER_FORMAT = {"node/checks.py": ("STATE_FORMAT = 1", "STATE_FORMAT = 2")}
SECONDS = 600
NOTICED = r"went back|refused: ledger|left out"


class Drill:
    """The machines, and what is done to them."""

    def __init__(self, folder: Path, made: dict[str, Machine], wheels: dict[str, Path]) -> None:
        self.folder, self.machines, self.wheels = folder, made, wheels
        self.asked = 0

    @staticmethod
    def kit(name: str) -> str:
        """Where a node's kit is."""
        kind = {COORDINATOR: COORDINATOR, UNIVERSITY: f"student-{STUDENT}"}
        return f"{KITS}/{kind.get(name, f'party-{name}')}"

    @staticmethod
    def unit(name: str) -> str:
        """A node's unit."""
        return f"consilium-{COORDINATOR if name == COORDINATOR else 'party'}"

    def systemctl(self, verb: str, name: str, check: bool = True) -> str:
        """What systemctl says of a node's unit."""
        return self.machines[name].run(f"systemctl {verb} {self.unit(name)}", check)

    def shown(self, name: str, key: str) -> str:
        """A property of a node's unit."""
        return self.systemctl(f"show -P {key}", name)

    def said(self, name: str, since: str = "") -> str:
        """What a node wrote into the journal, after a cursor."""
        after = f"--after-cursor='{since}'" if since else ""
        return self.machines[name].run(f"journalctl -u {self.unit(name)} -o cat --no-pager {after}", check=False)

    def cursor(self, name: str) -> str:
        """Where the journal of a machine is now."""
        return self.machines[name].run("journalctl -n 0 --show-cursor -q").removeprefix("-- cursor: ").strip()

    def wait(self, true: Callable[[], bool], what: str, *names: str) -> None:
        """Raises TimeoutError, with the last lines of these nodes, and who listens there."""
        deadline = time.monotonic() + SECONDS
        while not true():
            if time.monotonic() > deadline:
                said = "\n".join(
                    f"== {name}\n{self.said(name)[-6000:]}\n{self.machines[name].run('ss -Hltnp', check=False)}"
                    for name in names
                )
                raise TimeoutError(f"{what} did not come\n{said}")
            time.sleep(0.5)

    def wait_said(self, name: str, text: str, since: str = "") -> None:
        """Until a node says it."""
        self.wait(lambda: text in self.said(name, since), f"{name}: {text!r}", name)

    def pool(self) -> Path:
        """Rows that nobody has asked yet."""
        self.asked += 1
        return write_pool(self.folder / f"pool-{self.asked}.npz", first=BATCH * self.asked, count=BATCH)

    def ask(self) -> str:
        """A student asks new rows, as a transient service: its outcome."""
        machine, number = self.machines[UNIVERSITY], self.asked + 1
        shutil.copy(self.pool(), machine.root / "srv" / f"pool-{number}.npz")
        kit = self.kit(UNIVERSITY)
        said = machine.run(
            f"systemd-run --quiet --wait --pipe --collect -p User=consilium -p UMask=0077 -p ProtectSystem=strict"
            f" -p ReadWritePaths={kit}/state -p WorkingDirectory={kit} /opt/consilium/bin/consilium student run {kit}"
            f" --wait 300 --public /srv/pool-{number}.npz --out {kit}/state/student-{number} --format json",
            check=False, seconds=SECONDS,
        )  # fmt: skip
        found = re.search(r"^\{.*\}$", said, re.MULTILINE)
        if found is None or "error" in (result := json.loads(found[0])):
            return f"the student got none: {(found[0] if found else said)[-400:]}"
        return f"{result['answered']} labels of {result['asked']}"

    def install(self, name: str, which: str) -> str:
        """Another version, as docs/install.md has it; the node is stopped."""
        wheel = self.wheels[which].name
        self.machines[name].run(f"/opt/consilium/bin/pip install --quiet --no-index --no-deps /srv/wheels/{wheel}")
        return self.machines[name].run("consilium --version")

    def start(self, name: str, ready: str, since: str) -> None:
        """Start a node, and wait for a line of it."""
        self.systemctl("start", name)
        self.wait_said(name, ready, since)


@contextlib.contextmanager
def step(title: str) -> Iterator[list[str]]:
    """A row of the table; what is put into the list is its outcome."""
    begun, outcome = time.monotonic(), []
    try:
        yield outcome
    except (OSError, TimeoutError) as error:
        outcome.append(f"FAILED: {str(error)[:200]}")
        raise
    finally:
        print(
            f"| {title} | {'; '.join(outcome).replace(chr(10), ' / ')} | {time.monotonic() - begun:.1f} |", flush=True
        )


def set_up(drill: Drill, out: Path) -> None:
    """Kits at their places, as IT would: unpacked, owned by the service's user, units copied."""
    for seed, name in enumerate(PARTIES):
        write_data(out / f"party-{name}", seed)
    for name, machine in drill.machines.items():
        kit = drill.kit(name)
        archive = out / f"{Path(kit).name}.tar.gz"
        shutil.copy(archive, machine.root / "srv" / archive.name)
        machine.run(f"chown consilium: /srv/{archive.name}")
        machine.as_node(f"consilium node join /srv/{archive.name} --into {KITS}")
        if name in PARTIES:
            shutil.copy(out / f"party-{name}" / "data.npz", machine.root / kit.lstrip("/") / "data.npz")
            machine.run(f"chown consilium: {kit}/data.npz")
            named = " ".join(f"--yes {line.key}" for line in request_of_kit(out / f"party-{name}").looser)
            machine.as_node(f"consilium node accept {kit} {named}")
        if name != UNIVERSITY:
            machine.run(f"cp {kit}/{drill.unit(name)}.service /etc/systemd/system/")


def first_start(drill: Drill) -> None:
    """Units, verified and started, until students may ask."""
    machine = drill.machines[PARTIES[0]]
    with step("`systemd-analyze verify`, `systemd-analyze security`: both units") as outcome:
        for name in (COORDINATOR, PARTIES[0]):
            unit = f"/etc/systemd/system/{drill.unit(name)}.service"
            outcome.append(drill.machines[name].run(f"systemd-analyze verify {unit}", check=False) or "verified")
            said = drill.machines[name].run(f"systemd-analyze security {drill.unit(name)} --no-pager", check=False)
            outcome.append(said.splitlines()[-1].strip("→ "))
    with step("`consilium party dry-run . federation.json --data-only`") as outcome:
        outcome.append(
            machine.as_node(f"cd {drill.kit(PARTIES[0])}; consilium party dry-run . federation.json --data-only")[:160]
        )
    with step("`systemctl enable --now`, until all take part and students may ask") as outcome:
        for name in (COORDINATOR, *PARTIES):
            drill.systemctl("enable --now", name)
        drill.wait_said(COORDINATOR, "students may ask")
        drill.wait(
            lambda: all(party in drill.said(COORDINATOR).partition("take part:")[2] for party in PARTIES),
            "all parties", COORDINATOR,
        )  # fmt: skip
        outcome.append(", ".join(f"{name} {drill.systemctl('is-active', name)}" for name in (COORDINATOR, *PARTIES)))
    with step("a student as a transient unit") as outcome:
        outcome.append(drill.ask())
    with step("`consilium doctor .` at the party") as outcome:
        said = machine.as_node(f"cd {drill.kit(PARTIES[0])}; consilium doctor .", check=False)
        outcome.append(said.splitlines()[-1])


def kills(drill: Drill) -> None:
    """kill -9 of the main process, and a stop."""
    for name, ready in ((PARTIES[1], "connected to the coordinator"), (COORDINATOR, "students may ask")):
        with step(f"kill -9 of the {'coordinator' if name == COORDINATOR else 'party'}'s main process") as outcome:
            since, pid, begun = drill.cursor(name), drill.shown(name, "MainPID"), time.monotonic()
            drill.machines[name].run(f"kill -9 {pid}")
            drill.wait(lambda name=name, pid=pid: drill.shown(name, "MainPID") not in ("0", pid), "a restart", name)
            outcome.append(f"restarted after {time.monotonic() - begun:.0f} s")
            drill.wait_said(name, ready, since)
            outcome.append(f"'{ready}' after {time.monotonic() - begun:.0f} s")
            outcome.append(drill.ask())
    for name in (PARTIES[1], COORDINATOR):
        with step(f"`systemctl stop` of {name}, then `start`") as outcome:
            since, begun = drill.cursor(name), time.monotonic()
            drill.systemctl("stop", name)
            left = drill.machines[name].run("pgrep -u consilium -c .", check=False)
            outcome.append(f"stopped in {time.monotonic() - begun:.1f} s, {left} processes left")
            outcome.append(f"Result={drill.shown(name, 'Result')}")
            drill.start(name, "students may ask" if name == COORDINATOR else "connected to the coordinator", since)
    with step("questions after that") as outcome:
        outcome.append(drill.ask())
    with step("a mistake in party.toml: `systemctl start`") as outcome:
        name = PARTIES[2]
        settings = f"{drill.kit(name)}/party.toml"
        drill.systemctl("stop", name)
        drill.machines[name].run(f"cp {settings} /srv/party.toml; echo 'most_epsilom = 1' >> {settings}")
        since = drill.cursor(name)
        drill.systemctl("start", name, check=False)
        outcome.append(f"{drill.systemctl('is-active', name, check=False)}, NRestarts={drill.shown(name, 'NRestarts')}")
        outcome.append(drill.said(name, since)[:300])
        drill.machines[name].run(f"cp -p /srv/party.toml {settings}")
        since = drill.cursor(name)
        drill.start(name, "connected to the coordinator", since)


def other_versions(drill: Drill) -> None:
    """Upgrades and rollbacks with the federation open."""
    party = PARTIES[2]
    ready = {party: "connected to the coordinator", COORDINATOR: "students may ask"}

    def change(name: str, which: str) -> tuple[str, str]:
        """Stop, back up, install, start. Returns the version and where the coordinator's journal was."""
        drill.systemctl("stop", name)
        drill.machines[name].run(f"rm -rf /srv/backup; cp -a {drill.kit(name)} /srv/backup")
        version = drill.install(name, which)
        since, there = drill.cursor(name), drill.cursor(COORDINATOR)
        drill.start(name, ready[name], since)
        return version, there

    for title, name, which in (
        ("party upgraded, coordinator not yet", party, "next"),
        ("coordinator upgraded too", COORDINATOR, "next"),
        ("party back to the version before", party, "this"),
        ("coordinator back too", COORDINATOR, "this"),
    ):
        with step(f"{title}") as outcome:
            version, there = change(name, which)
            outcome += [version, drill.ask()]
            told = [line for line in drill.said(COORDINATOR, there).splitlines() if "runs consilium-pate" in line]
            outcome.append(told[-1] if told else "nothing is said of versions")
    with step("a version with a newer format of the state, and back without restoring") as outcome:
        outcome.append(change(party, "newer")[0])
        drill.systemctl("stop", party)
        drill.install(party, "this")
        since = drill.cursor(party)
        drill.systemctl("start", party, check=False)
        code, again = drill.shown(party, "ExecMainStatus"), drill.shown(party, "NRestarts")
        outcome.append(f"{drill.systemctl('is-active', party, check=False)}, exit code {code}, NRestarts={again}")
        outcome.append(drill.said(party, since)[:420])
    with step("cure: restore the backup of before (no query was asked since)") as outcome:
        drill.machines[party].run(f"rm -rf {drill.kit(party)}; cp -a /srv/backup {drill.kit(party)}")
        since = drill.cursor(party)
        drill.start(party, ready[party], since)
        outcome.append(drill.ask())
    if "older" in drill.wheels:
        with step("a much older version at the party") as outcome:
            drill.systemctl("stop", party)
            outcome.append(drill.install(party, "older"))
            since, there = drill.cursor(party), drill.cursor(COORDINATOR)
            # it does not tell systemd that it is ready, as the unit of the newer kit expects
            drill.systemctl("start --no-block", party, check=False)
            time.sleep(30)
            outcome.append(drill.systemctl("is-active", party, check=False))
            outcome.append(f"party: {drill.said(party, since)[-300:]}")
            outcome.append(f"students meanwhile: {drill.ask()}")
            outcome.append(f"coordinator: {drill.said(COORDINATOR, there)[-400:]}")
            drill.systemctl("stop", party, check=False)
            drill.install(party, "this")
            since = drill.cursor(party)
            drill.systemctl("reset-failed", party, check=False)
            drill.start(party, ready[party], since)
            outcome.append(f"after going back: {drill.ask()}")


def restores(drill: Drill) -> None:
    """Old states put back, and the newest."""
    party = PARTIES[0]
    for name, ready in ((party, "connected to the coordinator"), (COORDINATOR, "taking part, or refused")):
        machine, kit = drill.machines[name], drill.kit(name)

        def put_back(backup: str, name: str = name, kit: str = kit) -> None:
            drill.systemctl("stop", name)
            drill.machines[name].run(f"rm -rf {kit}; cp -a {backup} {kit}")

        with step(f"{name}: state of two batches ago restored") as outcome:
            drill.systemctl("stop", name)
            machine.run(f"rm -rf /srv/old /srv/new; cp -a {kit} /srv/old")
            since = drill.cursor(name)
            drill.start(name, "students may ask" if name == COORDINATOR else ready, since)
            outcome += [drill.ask(), drill.ask()]
            drill.systemctl("stop", name)
            machine.run(f"cp -a {kit} /srv/new")
            put_back("/srv/old")
            since, there = drill.cursor(name), drill.cursor(COORDINATOR)
            drill.systemctl("start", name)
            drill.wait(
                lambda there=there: re.search(NOTICED, drill.said(COORDINATOR, there)) is not None,
                "a word about the old state", COORDINATOR,
            )  # fmt: skip
            outcome.append(first_line(drill.said(COORDINATOR, there), NOTICED))
            if name != COORDINATOR:
                outcome.append(f"meanwhile {drill.ask()}")
        with step(f"{name}: the newest restored") as outcome:
            put_back("/srv/new")
            since = drill.cursor(name)
            drill.start(name, "students may ask" if name == COORDINATOR else ready, since)
            outcome.append(drill.ask())


def first_line(text: str, pattern: str) -> str:
    """The first line with it."""
    return next(line for line in text.splitlines() if re.search(pattern, line))


def ends(drill: Drill) -> None:
    """Close, and what is left."""
    with step("`consilium node close .`, `consilium audit .`") as outcome:
        kit = drill.kit(COORDINATOR)
        outcome.append(drill.machines[COORDINATOR].as_node(f"cd {kit}; consilium node close . --wait 200")[-200:])
        drill.wait(lambda: drill.systemctl("is-active", COORDINATOR, check=False) == "inactive", "its end", COORDINATOR)
        outcome.append(f"the service is inactive, Result={drill.shown(COORDINATOR, 'Result')}")
        outcome.append(drill.machines[COORDINATOR].as_node(f"cd {kit}; consilium audit .", check=False)[-200:])


PARTS: dict[str, Callable[[Drill], None]] = {
    "kills": kills,
    "versions": other_versions,
    "restores": restores,
    "ends": ends,
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `python -m benchmarks.deployment.services`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheelhouse", type=Path, required=True)
    parser.add_argument("--older", default="", help="revision of an older version, such as that of 0.6.0")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    given = parser.parse_args(arguments)
    if why := why_not():
        print(f"not run: {why}")
        return
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as layer, netns.Network() as network:
        folder = Path(name)
        (folder / "wheels").mkdir()
        wheels = {
            "this": build(folder / "wheels", "HEAD"),
            "next": build(folder / "wheels", "HEAD", f"{this_version()}.post1"),
            "newer": build(folder / "wheels", "HEAD", f"{this_version()}.post2", NEWER_FORMAT),
        }
        if given.older:
            wheels["older"] = build(folder / "wheels", given.older)
        changes: dict[str, Any] = {
            "minimum_parties": 2,
            "query_budget": {"queries": 300, "answers": 300},
            "timeouts": {"join": 20, "student": 86400},
            "coordinator": {"hosts": [ADDRESS]},
            "party": [{"name": party} for party in PARTIES],
        }
        kits.make(write_plan(folder, **changes), folder / "kits")
        print("| step | outcome | seconds |\n|---|---|---|")
        with Layers(Path(layer)) as layers:
            with step("offline install, without any network") as outcome:
                spent = layers.install(given.wheelhouse, folder / "wheels")
                outcome.append(", ".join(f"{what} {seconds:.0f} s" for what, seconds in spent.items()))
            with machines(layers, network, [COORDINATOR, *PARTIES, UNIVERSITY]) as up:
                drill = Drill(folder, up, wheels)
                try:
                    set_up(drill, folder / "kits")
                    first_start(drill)
                    for part in given.parts:
                        PARTS[part](drill)
                except (OSError, TimeoutError) as error:
                    sys.exit(str(error))


if __name__ == "__main__":
    main()
