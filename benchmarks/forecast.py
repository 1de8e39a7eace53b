"""How often a student lies in the range that was forecast for it, on the divisions on which the forecast was chosen.

    python -m benchmarks.forecast [--seeds 3] [--epsilons 0.5 1] [--out F]

Each run is a `Council` with nothing but defaults, on a development division of `benchmarks.voting_rules`: the plan
chooses everything, real teachers vote, and owners held out whole judge the student. The ranges of made-up tasks
(`coordinator.planning.tasks.PRIOR`) were chosen on these divisions; `benchmarks.owners` judges them on others. One JSON
line for each run stands in F; the script goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import command_of, spread
from benchmarks.papers import Kept
from benchmarks.voting_rules import DEVELOPMENT
from consilium.simulations.council.estimator import Council
from docs.figures import figure

COLUMNS = ("division", "unit", "epsilon", "owners", "student", "forecast", "in the range", "noise alone", "nothing")
UNITS = ("party", "record")


def measure(name: str, unit: Any, epsilon: float, seed: int) -> dict[str, Any]:
    """One run: the forecast, and what came out."""
    frame = DEVELOPMENT[name].frame()
    council = Council(
        unit=unit, epsilon=epsilon, random_state=seed, noise="seeded", hand_labels="none", if_hopeless="warn"
    )
    council.fit(frame, "y", owners="owner")
    plan: Any = council.plan_
    return {
        "owners": council.n_owners_,
        "student": council.run_.summary["student"]["auc"],
        **plan["forecast"]["student"],
        "noise": plan["forecast"]["noise_deviation"],
        "nothing": any(warning["code"] == "expect-nothing" for warning in plan["warnings"]),
    }


def cells(runs: Sequence[dict[str, Any]]) -> list[str]:
    """A row of several runs, under COLUMNS from the fourth on."""
    middle = {key: float(np.median([run[key] for run in runs])) for key in ("owners", "low", "median", "high", "noise")}
    inside = sum(run["low"] <= run["student"] <= run["high"] for run in runs)
    return [
        f"{middle['owners']:.0f}",
        spread([run["student"] for run in runs]),
        f"{middle['median']:.2f} ({middle['low']:.2f} to {middle['high']:.2f})",
        f"{inside} of {len(runs)}",
        f"{middle['noise']:.2f}",
        f"{sum(run['nothing'] for run in runs)} of {len(runs)}",
    ]


def main(arguments: Sequence[str] = ()) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="How often students lie in the range of their forecast.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--out", type=Path, default=Path("forecast.jsonl"))
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    kept = Kept(chosen.out)
    for name in DEVELOPMENT:
        for unit in UNITS:
            for epsilon in chosen.epsilons:
                for seed in range(chosen.seeds):
                    keys = {"division": name, "unit": unit, "epsilon": epsilon, "seed": seed}
                    if not kept.has(**keys):
                        kept.add(**keys, **measure(name, unit, epsilon, seed))
    split = "owners held out whole judge; the ranges of made-up tasks were chosen on these divisions"
    command = command_of("benchmarks.forecast", arguments)
    with figure("planning/forecast", command, COLUMNS, seeds=range(chosen.seeds), split=split, quick=False) as table:
        for epsilon in chosen.epsilons:
            for unit in UNITS:
                mine = [run for run in kept.found if run["unit"] == unit and run["epsilon"] == epsilon]
                for name in DEVELOPMENT:
                    if runs := [run for run in mine if run["division"] == name]:
                        table.add(name, unit, f"{epsilon:g}", *cells(runs))
                if mine:
                    table.add("**all**", unit, f"{epsilon:g}", *cells(mine))
        table.seconds = kept.seconds


if __name__ == "__main__":
    main(sys.argv[1:])
