"""Where the seconds of the default run go, phase by phase, beside a plain scikit-learn loop in the same round.

    python -m benchmarks.phases [--rounds 5] [--scenario stroke] [--set KEY=VALUE ...]

Each round starts `consilium run` and `benchmarks.plain_pate` (same rows, same number of queries) as processes of their
own, one after the other; medians over rounds. "start" is what a process takes beside its phases: the interpreter,
imports, the first and the last line. The loop enrols nobody, keeps no ledger and compares nothing, so that these phases
stand beside nothing. "memory, MB" is the most that the command's own process held; its workers are others.
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

from benchmarks.cells import command_of
from benchmarks.papers import Place
from docs.figures import figure

PHASES = ("start", "prepare", "enrol", "train", "vote", "student", "engine", "analysis", "report")
"""`engine`: what the coordinator does between its own stages."""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

NAME, SPLIT = "results/time-and-memory", "of the scenario; nothing is chosen"
COLUMNS = ("phase", "consilium run, s", "plain loop, s", "times")
ALL = ("total", "memory, MB")

Costs = Mapping[str, float]


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


def costs_of(command: Sequence[str]) -> Costs:
    """Of a command that prints JSON with its seconds by phase: those, "start", "total" and "memory, MB"."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as progress:
        process = subprocess.Popen([sys.executable, "-m", *command], env=ENVIRONMENT, stdout=told, stderr=progress)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            progress.seek(0)
            raise SystemExit(f"{' '.join(command)} failed: {progress.read().decode()}")
        whole = time.perf_counter() - began
        told.seek(0)
        phases = {name: took for name, took in json.load(told)["seconds"].items() if name != "total"}
    start = phases.get("start", 0.0) + whole - sum(phases.values())
    return {**phases, "start": start, "total": whole, "memory, MB": used.ru_maxrss / 1024}


def table(runs: Sequence[Costs], loops: Sequence[Costs]) -> list[list[str]]:
    """phase, medians of the run and of the loop, and their ratio; what a phase is not in stands as a dash."""
    rows = []
    for phase in (*PHASES, *ALL):
        run, loop = (_median([each[phase] for each in side if phase in each]) for side in (runs, loops))
        ratio = None if run is None or not loop else run / loop
        digits = 0 if phase.endswith("MB") else 2
        texts = ["-" if value is None else f"{value:.{digits}f}" for value in (run, loop)]
        rows.append([phase, *texts, "-" if ratio is None else f"{ratio:.2f}"])
    return rows


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def main(arguments: list[str] | None = None) -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description="Seconds of a run by phase, beside a plain loop.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scenario", default="stroke")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    chosen = parser.parse_args(arguments or [])
    changes = [part for change in chosen.changes for part in ("--set", change)]
    runs, loops = [], []
    command = command_of("benchmarks.phases", arguments or [])
    place = Place(chosen.scenario, 0, chosen.changes)
    note = f"{chosen.rounds} rounds, {len(place.partition.parties)} parties, {os.cpu_count()} cores."
    with (
        figure(NAME, command, COLUMNS, seeds=[0], split=SPLIT, timings=COLUMNS[1:], note=note, quick=False) as made,
        tempfile.TemporaryDirectory() as folder,
    ):
        rows = Path(folder) / "rows.npz"
        write_rows(place, rows)
        for number in range(chosen.rounds):
            out = str(Path(folder) / f"run-{number}")
            runs.append(costs_of(["consilium", "run", chosen.scenario, "--out", out, "--format", "json", *changes]))
            loops.append(costs_of(["benchmarks.plain_pate", str(rows)]))
        for row in table(runs, loops):
            made.add(*row)


if __name__ == "__main__":
    main(sys.argv[1:])
