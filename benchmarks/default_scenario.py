"""The default scenario over ten seeds: what the student reaches, at which epsilon, and what stands beside it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

SEEDS = range(10)
LABELS = "federation.mechanism={name='gnmax', sigma=112.1}"
LESS_NOISE = "federation.mechanism={name='gnmax', sigma=94.17}"
CONFIDENT = ("federation.mechanism={name='confident', threshold=150}", "federation.privacy.epsilon=0.8")
SETTINGS = {
    "as shipped": [],
    "labels with the same noise": [LABELS],
    "labels at the same epsilon": [LESS_NOISE],
    "votes for the likeliest class": ["federation.ballot={rule='top'}"],
    "hospitals with 20 patients or more": ["data.least_rows=20"],
    "stroke-labels, at the same epsilon": [*CONFIDENT],
}
QUIET = ("simulation.hand_labels=none",)
COLUMNS = ("promised", "released", "student", "mean teacher", "plurality", "pooled")


def main() -> None:
    """Print one row for each setting: mean and standard deviation over the seeds."""
    print("| setting | " + " | ".join(COLUMNS) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, overrides) in enumerate(SETTINGS.items()):
            scenario = load_scenario(name.partition(",")[0] if "," in name else "stroke", [*overrides, *QUIET])
            rows = []
            for seed in SEEDS:
                out = Path(folder) / f"{index}-{seed}"
                summary = run_scenario("stroke", scenario, "local", seed, out, lambda _: contextlib.nullcontext())
                others = [summary["baselines"][name]["auc"] for name in ("mean_teacher", "plurality", "pooled")]
                promised, released = summary["privacy"]["epsilon_promised"], summary["queries"]["answered"]
                rows.append([promised, released, summary["student"]["auc"], *others])
            mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
            cells = [f"{mean[0]:.3f}", f"{mean[1]:.0f}"]
            cells += [f"{m:.3f} ± {d:.3f}" for m, d in zip(mean[2:], deviation[2:], strict=True)]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
