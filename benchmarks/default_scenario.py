"""The default scenario over five seeds: what the student reaches, at which epsilon, and what stands beside it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

SEEDS = range(5)
SETTINGS = {
    "as shipped (epsilon at most 1)": [],
    "epsilon at most 1.5": ["federation.mechanism.sigma1=210", "federation.mechanism.sigma2=75"],
    "self-training student": ["student.self_training=true", "student.self_training_confidence=0.6"],
    "small MLP student": ["student.trainer.name=mlp", "student.trainer.epochs=20"],
    "GNMax, all 300 queries answered": [
        "federation.mechanism={name='gnmax', sigma=100}",
        "federation.caps={queries=300, answers=300}",
    ],
}


def main() -> None:
    """Print one row for each setting: mean and standard deviation over the seeds."""
    columns = (
        "promised",
        "worst case",
        "data-dep.",
        "asked",
        "answered",
        "labels right",
        "student",
        "plurality",
        "pooled",
    )
    print(f"{'seeds ' + str(list(SEEDS)):34}" + "".join(f"{name:>15}" for name in columns))
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, overrides) in enumerate(SETTINGS.items()):
            scenario = load_scenario("stroke", overrides)
            rows = []
            for seed in SEEDS:
                out = Path(folder) / f"{index}-{seed}"
                summary = run_scenario("stroke", scenario, "local", seed, out, lambda _: contextlib.nullcontext())
                privacy, baselines = summary["privacy"], summary["baselines"]
                rows.append(
                    [
                        privacy["epsilon_promised"],
                        privacy["epsilon_worst_case"],
                        privacy["epsilon_data_dependent"],
                        summary["queries"]["asked"],
                        summary["queries"]["answered"],
                        privacy["released_label_accuracy"],
                        summary["student"]["auc"],
                        baselines["plurality"]["auc"],
                        baselines["pooled"]["auc"],
                    ]
                )
            mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
            cells = (
                f"{m:.3f} ± {d:.3f}" if m < 10 else f"{m:.0f} ± {d:.0f}" for m, d in zip(mean, deviation, strict=True)
            )
            print(f"{name:34}" + "".join(f"{cell:>15}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
