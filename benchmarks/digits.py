"""The scenario `digits` over five divisions: what the student reaches, and what stands beside it, as JSON.

    RECORD_FIGURES=1 python -m benchmarks.digits [--seeds 0 1 2 3 4]

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
from docs.figures import figure

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


def tabled(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of `measure`d runs: `spread` of each method, and of the student less it, division by division."""
    names = list(runs[0]["accuracy"])
    of = {name: np.array([run["accuracy"][name] for run in runs]) for name in names}
    less = {name: spread(list(of["student"] - of[name])) for name in names if name != "student"}
    return {"split": SPLIT, "accuracy": {name: spread(list(of[name])) for name in names}, "student_less": less}


def record(runs: list[dict[str, Any]]) -> None:
    """The table as a figure of the pages."""
    table, seeds = tabled(runs), [run["seed"] for run in runs]
    columns = ("method", "accuracy, mean", "sd", "95 %", "student less this", "95 %, paired")
    command = f"python -m benchmarks.digits --seeds {' '.join(map(str, seeds))}"
    with figure("results/digits", command, columns, seeds=seeds, split=SPLIT, quick=False) as made:
        for name, of in table["accuracy"].items():
            less = table["student_less"].get(name, {"mean": 0.0, "interval": [0.0, 0.0]})
            ends = ["{:.3f} to {:.3f}".format(*each["interval"]) for each in (of, less)]
            made.add(name, f"{of['mean']:.3f}", f"{of['sd']:.3f}", ends[0], f"{less['mean']:+.3f}", ends[1])


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    runs = [measure(seed) for seed in parser.parse_args().seeds]
    print(json.dumps({**tabled(runs), "runs": runs}, indent=2))
    record(runs)


if __name__ == "__main__":
    main()
