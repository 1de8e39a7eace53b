"""Where the seconds of the default run go, phase by phase, beside a plain scikit-learn loop in the same round.

    python -m benchmarks.phases [--rounds 5] [--scenario stroke] [--set KEY=VALUE ...]

Each round starts `consilium run` and `benchmarks.plain_pate` (same rows, same number of queries) as processes of their
own, one after the other; medians over rounds. "start" is what a process takes beside its phases: the interpreter,
imports, the first and the last line. The loop enrols nobody, keeps no ledger and compares nothing, so that these phases
stand beside nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers import Place

PHASES = ("start", "prepare", "enrol", "train", "vote", "student", "engine", "analysis", "report")
"""`engine`: what the coordinator does between its own stages."""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Seconds = Mapping[str, float]


def write_rows(place: Place, path: Path) -> None:
    """What the plain loop reads."""
    parts = list(place.partition.parties.values())
    members = np.concatenate(parts)
    np.savez(
        path,
        x=place.schema.inputs(place.dataset.x[members]),
        y=place.dataset.y[members],
        party=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        pool=place.schema.inputs(place.pool),
        test=place.schema.inputs(place.test),
        truth=place.truth,
    )


def seconds_of(command: Sequence[str]) -> Seconds:
    """Of a command whose last line, or whole output, is JSON with its seconds by phase: those, "start" and "total"."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], env=ENVIRONMENT, check=True, capture_output=True, text=True)
    whole = time.perf_counter() - began
    phases = {name: took for name, took in json.loads(done.stdout)["seconds"].items() if name != "total"}
    return {**phases, "start": phases.get("start", 0.0) + whole - sum(phases.values()), "total": whole}


def table(runs: Sequence[Seconds], loops: Sequence[Seconds]) -> list[list[str]]:
    """phase, median seconds of the run and of the loop, and their ratio; what a phase is not in stands as a dash."""
    rows = []
    for phase in (*PHASES, "total"):
        run, loop = (_median([each[phase] for each in side if phase in each]) for side in (runs, loops))
        ratio = None if run is None or not loop else run / loop
        rows.append([phase, *("-" if value is None else f"{value:.2f}" for value in (run, loop, ratio))])
    return rows


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Seconds of a run by phase, beside a plain loop.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenario", default="stroke")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    chosen = parser.parse_args(arguments or [])
    changes = [part for change in chosen.changes for part in ("--set", change)]
    runs, loops = [], []
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        place = Place(chosen.scenario, 0, chosen.changes)
        write_rows(place, rows)
        for number in range(chosen.rounds):
            out = str(Path(folder) / f"run-{number}")
            runs.append(seconds_of(["consilium", "run", chosen.scenario, "--out", out, "--format", "json", *changes]))
            loops.append(seconds_of(["benchmarks.plain_pate", str(rows)]))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{len(place.partition.parties)} parties, {chosen.rounds} rounds, {os.cpu_count()} cores, load {load}\n")
    print("| phase | consilium run, s | plain loop, s | times |\n|---|---|---|---|")
    for row in table(runs, loops):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
