"""The scenario `digits` over five divisions: what the student reaches, and what stands beside it.

    RECORD=1 python -m benchmarks.digits [--seeds 0 1 2 3 4]

A seed says who of the 295 writers is a party, who is public and who is tested, and draws the noise. What the scenario
chose was chosen on images of other writers (simulations/scenarios/digits.toml).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.results import spread, student_interval, table
from consilium.report.disclosure import epsilon_text
from consilium.report.words import STUDENT, many
from consilium.simulations.report.models import LABELS
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

SPLIT = (
    "accuracy on 1,000 images of 13 writers who are neither parties nor public; 250 parties x 80, 2,500 public images;"
    " values were chosen on images of other writers"
)
COLUMNS = ("", "accuracy", "student less this, division by division")


def measure(seed: int) -> tuple[dict[str, float], float]:
    """One run in a temporary folder: accuracy of each method, a private rival's in the mean over draws of its noise;
    and the guarantee."""
    with tempfile.TemporaryDirectory() as folder:
        summary = run_scenario("digits", load_scenario("digits"), "local", seed, Path(folder) / "run")
    reached = summary["worth"]["released"]
    methods = {STUDENT: summary["student"], many(reached["labels"], "manual label"): reached}
    methods |= {LABELS[name]: of for name, of in summary["baselines"].items() if name in LABELS}
    return {name: of["accuracy"] for name, of in methods.items()}, summary["privacy"]["epsilon_guaranteed"]


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    seeds = parser.parse_args(arguments).seeds
    runs, epsilons = zip(*map(measure, seeds), strict=True)
    with table("digits", "python -m benchmarks.digits", COLUMNS, split=SPLIT, seeds=seeds) as rows:
        rows.add("guarantee", epsilon_text(max(epsilons)), None)
        student = np.array([run[STUDENT] for run in runs])
        for name in runs[0]:
            values = np.array([run[name] for run in runs])
            low, high = student_interval((student - values).tolist())
            apart = None if name == STUDENT else f"{(student - values).mean():+.3f} ({low:+.3f} to {high:+.3f})"
            rows.add(name, spread(values.tolist()), apart)


if __name__ == "__main__":
    main(sys.argv[1:])
