"""Thousands of parties on a Ray cluster of one node and of two that share no folder. Linux, root.

Nodes are namespaces of this machine with one processor each, as in `benchmarks.ray_cluster`; a second one is a second
processor. The parties are those of `benchmarks.scale.population`. Train and vote are the coordinator's clock. The
driver is the one process that Flower's simulation has for all nodes, with the coordinator and the student in it: its
processor time, by the number of parties. CONSILIUM_NODES_PARTIES (default "1000 5000 20000") chooses how many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cells import command_of
from benchmarks.scale.population import Population
from docs.figures import figure
from tests.simulations.engines.cluster.two_machines import TwoMachines, why_not

PARTIES, DRIVER, EVERY = "1000 5000 20000", b"flwr-simulation", 0.2
COLUMNS = ("parties", "nodes", "train + vote", "ms a party", "against one node", "driver, ms a party")


@contextmanager
def driver_seconds() -> Iterator[dict[int, float]]:
    """Processor seconds of each driver that lives while the context is open, by its process."""
    seconds: dict[int, float] = {}
    ended = threading.Event()

    def watch() -> None:
        tick = os.sysconf("SC_CLK_TCK")
        while not ended.wait(EVERY):
            for folder in Path("/proc").iterdir():
                try:
                    if folder.name.isdigit() and DRIVER in (folder / "cmdline").read_bytes():
                        fields = (folder / "stat").read_text().rpartition(")")[2].split()
                        seconds[int(folder.name)] = (int(fields[11]) + int(fields[12])) / tick
                except OSError:
                    continue  # it has just ended

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()


def measured(machines: TwoMachines, folder: Path, count: int, nodes: int) -> tuple[float, float]:
    """Seconds of train and vote of one run, and of the driver's processor."""
    out = folder / f"run-{count}-{nodes}"
    data = folder / f"data-{count}"
    data.mkdir(exist_ok=True)
    keys = [word for change in Population.of(count).overrides(data, "plaintext") for word in ("--set", change)]
    log = out.with_suffix(".log")
    with driver_seconds() as driver:
        options = ["--engine", "ray", "--address", machines.address, "--quiet", "--out", str(out)]
        code = machines.start(log, "run", "stroke", *keys, *options).wait()
    if code:
        raise subprocess.CalledProcessError(code, "run", log.read_text())
    seconds = json.loads((out / "summary.json").read_text())["seconds"]
    return seconds["train"] + seconds["vote"], sum(driver.values())


def main() -> None:
    """Print the table."""
    if reason := why_not():
        sys.exit(f"no machines: {reason}")
    command = command_of("benchmarks.scale.nodes", variables=["CONSILIUM_NODES_PARTIES"])
    counts = [int(count) for count in os.environ.get("CONSILIUM_NODES_PARTIES", PARTIES).split()]
    alone: dict[int, float] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        TwoMachines([Path(name)], alone=True) as machines,
        figure("scale/nodes", command, COLUMNS, split="made-up parties", timings=COLUMNS[2:]) as table,
    ):
        for nodes in (1, 2):
            if nodes > 1:
                machines.add("other")
            for count in counts:
                took, driver = measured(machines, Path(name), count, nodes)
                alone.setdefault(count, took)
                table.add(
                    f"{count:,}",
                    str(nodes),
                    f"{took:.1f} s",
                    f"{1000 * took / count:.2f}",
                    f"{took / alone[count]:.2f}",
                    f"{1000 * driver / count:.2f}",
                )


if __name__ == "__main__":
    main()
