"""Seconds from the kits to "connected", for a round in each mode, and memory of every process."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

from benchmarks.deployment.federation import BATCH, COORDINATOR, PARTIES, federation, row, timed_batch
from tests.deploy import netns

MODES = ("plaintext", "secure", "distributed")
ROUNDS = 3


def timing() -> None:
    """Seconds from the kits to "connected", for a round in each mode, and memory of every process."""
    for votes in MODES:
        query_budget = {"query_budget": {"queries": 200, "answers": 200}}
        begun = time.monotonic()
        with federation(votes, **query_budget) as these:
            row(f"{votes}: kits made", "", begun)
            begun = time.monotonic()
            these.start_all()
            for name in PARTIES:
                these.connected(name, 0)
            row(f"{votes}: from start to all four parties connected", "keys registered first", begun)
            these.serving()
            row(f"{votes}: from start to serving students", "enrolled and trained", begun)
            for number in range(1, ROUNDS + 1):
                timed_batch(these, f"{votes}: {BATCH} queries, round {number}")
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
             "flwr run", "node start", "node start")  # fmt: skip
    return next((name for name in known if name in command), re.sub(r"/\S+/", "", command)[:50])
