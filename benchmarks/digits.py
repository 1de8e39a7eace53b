"""The scenario `digits` over five divisions: what the student reaches, and what stands beside it, as JSON.

    python -m benchmarks.digits [--seeds 0 1 2 3 4] [--out docs/figures/results/digits.json]

A seed says who of the 295 writers is a party, who is public and who is tested, and draws the noise. What the scenario
chose was chosen on images of other writers (simulations/scenarios/digits.toml).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

SPLIT = (
    "accuracy on 1,000 images of 13 writers who are not parties and not public; 250 parties x 80, 2,500 public images"
)


def measure(seed: int) -> dict[str, Any]:
    """One run in a temporary folder: accuracy of each method, the guarantee, released labels that are right, seconds.

    A private rival's accuracy is the mean over draws of its noise.
    """
    with tempfile.TemporaryDirectory() as folder:
        summary = run_scenario("digits", load_scenario("digits"), "local", seed, Path(folder) / "run")
    baselines, worth = summary["baselines"], summary["worth"]
    methods = {"student": summary["student"]} | {name: of for name, of in baselines.items() if name != "local_only"}
    methods[f"{worth['released']['labels']} labels by hand, of the same rows"] = worth["released"]
    return {
        "seed": seed,
        "epsilon": summary["privacy"]["epsilon_guaranteed"],
        "labels_right": summary["privacy"]["released_label_accuracy"],
        "seconds": summary["seconds"]["total"],
        "accuracy": {name: round(metrics["accuracy"], 4) for name, metrics in methods.items()},
    }


def spread(values: list[float]) -> dict[str, Any]:
    """mean, sd over divisions, and the interval of 95 % of the mean by Student's t (writers are shared by divisions, so
    that it is narrow)."""
    mean, sd = float(np.mean(values)), float(np.std(values, ddof=1))
    half = float(stdtrit(len(values) - 1, 0.975)) * sd / math.sqrt(len(values))
    return {"mean": round(mean, 4), "sd": round(sd, 4), "interval": [round(mean - half, 4), round(mean + half, 4)]}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    runs = [measure(seed) for seed in arguments.seeds]
    table = {
        "command": f"python -m benchmarks.digits --seeds {' '.join(map(str, arguments.seeds))}",
        "split": SPLIT,
        "accuracy": {name: spread([run["accuracy"][name] for run in runs]) for name in runs[0]["accuracy"]},
        "student_less_rival": {
            name: spread([run["accuracy"]["student"] - run["accuracy"][name] for run in runs])
            for name in runs[0]["accuracy"]
            if name != "student"
        },
        "runs": runs,
    }
    text = json.dumps(table, indent=2) + "\n"
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
