"""Whole simulated runs of thousands of parties: a federation from its data to its report, and the audit of its folder.

Parties have 6 to 20 rows of the International Stroke Trial, drawn with replacement; the student asks 300 of 2,000
public rows and is judged on 2,000 others. Beside each run stands a plain scikit-learn loop in the same process: the
same teachers fitted one after the other, each asked the same rows, nothing else done. CONSILIUM_POPULATION (default
"371 5000") chooses the numbers of parties, CONSILIUM_POPULATION_VOTES (default "plaintext") how votes are collected.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import command_of
from benchmarks.scale.measured import answering, in_own_process, peak_mb
from consilium.protocol.teachers import LogisticRegressionSpec
from consilium.simulations.datasets.embedded import load_stroke
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

PARTIES, VOTES, MODES = "371 5000", "plaintext", ("plaintext", "verified", "distributed")
VARIABLES = ("CONSILIUM_POPULATION", "CONSILIUM_POPULATION_VOTES")
POOL, ASKED = 2_000, 300
FEWEST, MOST = 6, 20
LOOP = 2_000
"""Most parties of the plain loop; its time for more is in proportion."""


@dataclass(frozen=True)
class Population:
    """x float32 (rows, features), y int64 (rows,), owner int64 (rows,) of the parties, one after the other; likewise of
    the public rows that are asked, and of those that judge."""

    parts: dict[str, dict[str, np.ndarray]]

    @classmethod
    def of(cls, count: int) -> Population:
        """So many parties."""
        stroke, lot = load_stroke(), np.random.default_rng(0)
        sizes = lot.integers(FEWEST, MOST + 1, size=count)
        names = {"features": np.array(stroke.features), "classes": np.array(stroke.classes)}
        parts = {}
        for name, owner in (
            ("rows", np.repeat(np.arange(count), sizes)),
            ("pool", np.full(POOL, count)),
            ("test", np.full(POOL, count + 1)),
        ):
            rows = lot.integers(len(stroke.y), size=len(owner))
            parts[name] = {"x": stroke.x[rows], "y": stroke.y[rows], "owner": owner, **names}
        return cls(parts)

    def overrides(self, folder: Path, votes: str) -> list[str]:
        """Of the default scenario: these rows, written to the folder, and noise that grows with the parties."""
        for name, arrays in self.parts.items():
            np.savez(folder / f"{name}.npz", allow_pickle=True, **arrays)
        count = int(self.parts["pool"]["owner"][0])
        public = f"{{by='file', file='{folder / 'pool.npz'}', test='{folder / 'test.npz'}'}}"
        data = ["data.set=npz", f"data.path={folder / 'rows.npz'}", f"data.public={public}"]
        noise = [f"federation.mechanism.sigma={0.3 * count}", f"federation.minimum_parties={count // 2}"]
        return [*data, *noise, f"federation.collection={votes}"]


def whole_run(count: int, mode: int) -> dict[str, Any]:
    """Seconds of each phase of a run, of its audit, and the most memory of this process and of a worker."""
    from consilium.simulations.audit import audit_path
    from consilium.simulations.run import run_scenario

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        scenario = load_scenario("stroke", Population.of(count).overrides(Path(folder), MODES[mode]))
        start = time.monotonic()
        summary = run_scenario("population", scenario, "local", 0, run)
        ran = time.monotonic()
        if wrong := [finding for finding in audit_path(run).findings if not finding.holds]:
            raise SystemExit(f"the audit found {wrong}")
        audited = time.monotonic()
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    return {
        "seconds": summary["seconds"],
        "run": ran - start,
        "audit": audited - ran,
        "memory": peak_mb(),
        "worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "folder": size / 1e6,
    }


def plain_loop(count: int) -> dict[str, Any]:
    """Seconds of fitting and asking one scikit-learn teacher after the other."""
    from sklearn.linear_model import LogisticRegression

    some = min(count, LOOP)
    parts = Population.of(some).parts
    mean, scale = parts["pool"]["x"].mean(axis=0), np.maximum(parts["pool"]["x"].std(axis=0), 1e-9)
    x, asked = (((parts[name]["x"] - mean) / scale).astype(np.float64) for name in ("rows", "pool"))
    y, owner = parts["rows"]["y"], parts["rows"]["owner"]
    spec = load_scenario("stroke").federation.teacher
    assert isinstance(spec, LogisticRegressionSpec)
    start = time.monotonic()
    for first, end in itertools.pairwise(np.searchsorted(owner, np.arange(some + 1))):
        if len(np.unique(y[first:end])) > 1:
            teacher = LogisticRegression(C=spec.C, class_weight="balanced", max_iter=spec.iterations)
            teacher.fit(x[first:end], y[first:end]).predict(asked[:ASKED])
    return {"seconds": (time.monotonic() - start) * count / some}


COLUMNS = (
    "parties", "votes", "plain loop", "train + vote", "ratio", "whole run", "audit", "memory, a worker", "folder",
)  # fmt: skip


def main() -> None:
    """Print the table."""
    command = command_of(
        "benchmarks.scale.population", variables=["CONSILIUM_POPULATION", "CONSILIUM_POPULATION_VOTES"]
    )
    with figure("scale/population", command, COLUMNS, split="made-up parties", timings=COLUMNS[2:]) as table:
        for count in map(int, os.environ.get("CONSILIUM_POPULATION", PARTIES).split()):
            loop = in_own_process(__spec__.name, "plain_loop", count)["seconds"]
            for votes in os.environ.get("CONSILIUM_POPULATION_VOTES", VOTES).split():
                done = in_own_process(__spec__.name, "whole_run", count, MODES.index(votes))
                both = done["seconds"]["train"] + done["seconds"]["vote"]
                table.add(
                    f"{count:,}",
                    votes,
                    f"{loop:.1f} s",
                    f"{both:.1f} s",
                    f"{both / loop:.2f}",
                    f"{done['run']:.0f} s",
                    f"{done['audit']:.0f} s",
                    f"{done['memory']:,.0f} MB, {done['worker']:,.0f} MB",
                    f"{done['folder']:,.0f} MB",
                )
                print({name: round(seconds, 1) for name, seconds in done["seconds"].items()}, file=sys.stderr)


if __name__ == "__main__":
    answering({"whole_run": whole_run, "plain_loop": plain_loop}) if len(sys.argv) > 1 else main()
