"""Clear, secure and distributed votes on the default scenario over five seeds: AUC, epsilon towards whom, seconds."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np

from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

SEEDS = range(5)
DISTRIBUTED = "federation.votes=distributed"
SETTINGS = {
    "clear": [],
    "secure": ["federation.votes=secure"],
    "distributed, all answered": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed', threshold=0, sigma=92.0, noise_shares=139}",
        "federation.caps={queries=300, answers=300}",
    ],
    "distributed, threshold": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed', threshold=30, sigma=92.0, noise_shares=139}",
        "federation.caps={queries=300, answers=300}",
    ],
    "distributed, two phases": [
        DISTRIBUTED,
        "federation.mechanism={name='distributed_two_phase', threshold=30, sigma1=168, sigma2=90, noise_shares=139}",
        "federation.caps={queries=300, answers=150}",
    ],
}


def main() -> None:
    """Print one row for each mode: mean and standard deviation over the seeds."""
    columns = ("student AUC", "to student", "to coordinator", "answered", "labels right", "seconds", "votes, s")
    print(f"{'seeds ' + str(list(SEEDS)):28}" + "".join(f"{name:>16}" for name in columns))
    with tempfile.TemporaryDirectory() as folder:
        for index, (name, overrides) in enumerate(SETTINGS.items()):
            rows = []
            for seed in SEEDS:
                out = Path(folder) / f"{index}-{seed}"
                scenario = load_scenario("stroke-labels", overrides)
                summary = run_scenario("stroke", scenario, "local", seed, out, lambda _: contextlib.nullcontext())
                privacy = summary["privacy"]
                epsilon = float(privacy["epsilon_worst_case"])
                rows.append(
                    [
                        summary["student"]["auc"],
                        epsilon,
                        epsilon if scenario.federation.votes == "distributed" else np.inf,
                        summary["queries"]["answered"],
                        privacy["released_label_accuracy"],
                        summary["seconds"]["total"],
                        summary["seconds"]["vote"],
                    ]
                )
            table = np.array(rows)
            cells = [
                "none" if np.isinf(column).any() else f"{column.mean():.3f} ± {column.std(ddof=1):.3f}"
                for column in table.T
            ]
            print(f"{name:28}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
