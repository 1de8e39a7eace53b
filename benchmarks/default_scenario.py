"""The default scenario over ten seeds: what the student reaches, at which epsilon, and what stands beside it.

    python -m benchmarks.default_scenario [--settings NAME ...] [--seeds 0 1 ...] [--out F]

One JSON line for each run stands in F; the script goes on from there. Of the setting that ships a second table has each
run, with what its student is worth in manual labels.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Kept, command_of, spread, table
from consilium.report.disclosure import epsilon_text
from consilium.report.words import NOISY_AVERAGE, PRIVATE_GRADIENT
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

PRIVATE = {"noisy_average": NOISY_AVERAGE, "private_gradient": PRIVATE_GRADIENT}
"""Rivals of the same guarantee, by their names in a summary."""
SHIPPED = "as shipped"
QUIET = "simulation.manual_labels=none"
SETTINGS = {
    SHIPPED: ("stroke", ()),
    "votes for the likeliest class": ("stroke", ("federation.voting_rule={rule='top'}", QUIET)),
    "hospitals with 20 patients or more": ("stroke", ("data.least_rows=20", QUIET)),
}
"""Name -> scenario, and what is changed in it. benchmarks/releases.py compares labels, counts and rounds."""
SPLIT = "AUC on patients of hospitals that took no part; values were chosen on development hospitals"
COLUMNS = ("setting", "promised", "released", "student", "mean teacher", "plurality", "pooled")
OTHERS = ("mean_teacher", "plurality", "pooled")
RUN_COLUMNS = (
    "seed", "student", "noisy average of weights", "private gradient descent", "as many manual labels",
    "worth in manual labels",
)  # fmt: skip


def measure(setting: str, seed: int) -> dict[str, Any]:
    """One run in a temporary folder: what the tables need of its summary."""
    base, changes = SETTINGS[setting]
    with tempfile.TemporaryDirectory() as folder:
        out, scenario = Path(folder) / "run", load_scenario(base, changes)
        summary = run_scenario(base, scenario, "local", seed, out, lambda _: contextlib.nullcontext())
    worth, baselines = summary.get("worth"), summary["baselines"]
    manual = {} if worth is None else {key: worth[key] for key in ("manual_labels", "low", "high")}
    return {
        "promised": summary["privacy"]["epsilon_guaranteed"],
        "released": summary["queries"]["answered"],
        "student": summary["student"]["auc"],
        **{name: baselines[name]["auc"] for name in OTHERS},
        **{rival: baselines.get(rival, {}).get("auc") for rival in PRIVATE},
        "manual": None if worth is None else worth["released"]["auc"],
        **manual,
    }


def row(setting: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    """Mean and standard deviation over the seeds, under COLUMNS."""
    of = {key: [run[key] for run in runs] for key in ("released", "student", *OTHERS)}
    promised = epsilon_text(max(run["promised"] for run in runs))
    return [setting, promised, *(spread(values, 0 if key == "released" else 3) for key, values in of.items())]


def each_run(runs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Of the setting that ships, under RUN_COLUMNS; the last row has means, and of numbers of labels the medians."""
    keys = ("student", *PRIVATE, "manual")
    lines = [[str(run["seed"]), *(spread([run[key]]) for key in keys), _labels([run])] for run in runs]
    means = [spread([run[key] for run in runs]) for key in keys]
    return [*lines, ["all", *means, _labels(runs)]]


def _labels(runs: Sequence[dict[str, Any]]) -> str:
    """Medians; that no number of labels was enough counts as more than any."""
    low, middle, high = (
        float(np.median([math.inf if run[key] is None else run[key] for run in runs]))
        for key in ("low", "manual_labels", "high")
    )
    return f"{middle:,.0f} ({low:,.0f} to {high:,.0f})".replace("inf", "more than all")


def main(arguments: list[str] | None = None) -> None:
    """Measure what F does not hold yet, and print the tables."""
    parser = argparse.ArgumentParser(description="The default scenario over ten seeds.")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--out", type=Path, default=Path("default-scenario.jsonl"))
    chosen = parser.parse_args(arguments or [])
    command, kept = command_of("benchmarks.default_scenario", arguments or []), Kept(chosen.out)
    runs: dict[str, list[dict[str, Any]]] = {}
    with table("stroke", command, COLUMNS, seeds=chosen.seeds, split=SPLIT) as rows:
        for setting in chosen.settings:
            for seed in chosen.seeds:
                if not kept.has(setting=setting, seed=seed):
                    kept.add(setting=setting, seed=seed, **measure(setting, seed))
            mine = {item["seed"]: item for item in kept.found if item["setting"] == setting}
            runs[setting] = [mine[seed] for seed in chosen.seeds]
            rows.add(*row(setting, runs[setting]))
    if SHIPPED in runs:
        with table("stroke-runs", command, RUN_COLUMNS, seeds=chosen.seeds, split=SPLIT) as rows:
            for line in each_run(runs[SHIPPED]):
                rows.add(*line)


if __name__ == "__main__":
    main(sys.argv[1:])
