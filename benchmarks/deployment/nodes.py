"""Nodes that should not be let in as they are: key, roster, clock, certificates."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.deployment.federation import ADDRESS, COORDINATOR, PARTIES, Federation, federation, row, told, wrong
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.authority import Authority
from consilium.node.keys import NodeKey
from tests.deploy import netns

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
        NodeKey.generate().save(these.kit(stranger) / "node.key")
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


def false_clock(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of processes whose clock is so much ahead; nothing where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(seconds)}


def clock_fault(these: Federation) -> None:
    """A SuperNode whose clock is ahead; needs a C compiler."""
    begun, party = time.monotonic(), PARTIES[0]
    false = false_clock(these.folder, 60)
    if not false:
        row("party's clock 60 s ahead", "not tried: no C compiler for a false clock", begun)
        return
    these.kill(party, signal.SIGTERM)
    position = these.position(party)
    host = these.hosts[party]
    prefix = [*host.prefix(), "env", *(f"{key}={value}" for key, value in false.items())]
    with these.log(party) as log:
        these.nodes[party] = subprocess.Popen(
            [*prefix, sys.executable, "-m", "consilium", "node", "start", str(these.kit(party))],
            cwd=netns.ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    time.sleep(25)
    said = these.said(party, position)
    checked = host.run("env", *(f"{key}={value}" for key, value in false.items()), sys.executable, "-m", "consilium",
                       "doctor", str(these.kit(party)))  # fmt: skip
    row("party's clock 60 s ahead", f"connected: {'connected to' in said};"
        f" party: {told([line for line in said.splitlines() if 'clock' in line][-1:])};"
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
