"""The engine `ray` on two machines without a common folder, against the local engine: seconds, bytes, and whether the
labels are the same; also when one machine loses power in the middle. Linux, root, a quarter of an hour.

The machines are namespaces of this one and share its processors, one each: seconds show what the engine costs, not what
a cluster gains. Bytes there are what nodes fetched of parties' homes, packed, bytes back what parties wrote; those of
the run's own machine cross no wire. Messages and replies are not counted: they are those of any engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from tests.simulations.engines.cluster.test_two_machines import SABOTAGE
from tests.simulations.engines.cluster.two_machines import TwoMachines, why_not

CHANGES = [
    "data.least_rows=120", "federation.minimum_parties=10", "federation.mechanism.threshold=20",
    "federation.query_budget.queries=100", "federation.query_budget.answers=60",
]  # fmt: skip
KINDS = {
    "logistic regression, clear": ["federation.collection=plaintext"],
    "forest of 50 trees, secure": [
        "federation.collection=secure", "federation.teacher.model=random_forest", "federation.teacher.trees=50",
    ],
}  # fmt: skip
HEAD = """\
| engine | seconds | parties | bytes there | of them over the wire | bytes back | over the wire | lost | labels |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """A table for each kind of teacher and votes."""
    if reason := why_not():
        sys.exit(f"no two machines: {reason}")
    with tempfile.TemporaryDirectory() as name, TwoMachines([Path(name)]) as machines:
        folder = Path(name)
        dying = {"POWER_FAILS_AT": "train.teacher", "PYTHONPATH": f"{SABOTAGE}:{machines.environment()['PYTHONPATH']}"}
        for number, (kind, changes) in enumerate(KINDS.items()):
            print(f"\n{kind}")
            print(HEAD)
            far = ["--engine", "ray", "--address", machines.address]
            local = run(machines, folder / f"{number}-local", changes, "local", [])
            run(machines, folder / f"{number}-own", changes, "ray of its own", ["--engine", "ray"], local)
            run(machines, folder / f"{number}-far", changes, "ray, two machines", far, local)
            machines.add(f"dies{number}", **dying)
            run(machines, folder / f"{number}-dies", changes, "ray, three, of which one dies", far, local)


def run(
    machines: TwoMachines, out: Path, changes: list[str], engine: str, options: list[str], local: Path | None = None
) -> Path:
    """One run of the command line, whose row is printed."""
    keys = [word for change in [*CHANGES, *changes] for word in ("--set", change)]
    log = out.with_suffix(".log")
    start = time.perf_counter()
    code = machines.start(log, "run", "stroke", *options, *keys, "--quiet", "--out", str(out)).wait()
    seconds = time.perf_counter() - start
    if code:
        raise subprocess.CalledProcessError(code, engine, log.read_text())
    parties = json.loads((out / "summary.json").read_text())["parties"]
    print(f"| {engine} | {seconds:.1f} | {parties} | {travelled(out)} | {alike(out, local)} |", flush=True)
    return out


def travelled(out: Path) -> str:
    """Cells of a row: bytes and actors lost."""
    if not (path := out / "private" / "cluster.json").exists():
        return "- | - | - | - | -"
    table: dict[str, Any] = json.loads(path.read_text())
    nodes = table["nodes"]
    cells = []
    for key in ("bytes_there", "bytes_back"):
        cells += [sum(node[key] for node in nodes), sum(node[key] for node in nodes if not node["of_the_run"])]
    return " | ".join(f"{cell:,}" for cell in [*cells, table["lost"]])


def alike(out: Path, local: Path | None) -> str:
    """Whether the labels are those of the local engine."""
    if local is None:
        return "-"
    same = pl.read_parquet(out / "labels.parquet").equals(pl.read_parquet(local / "labels.parquet"))
    return "the same" if same else "OTHERS"
