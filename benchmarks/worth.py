"""What students are worth in labels by hand, at a scenario's epsilon and at half of it: a row for each, over the seeds.

    python -m benchmarks.worth [SCENARIO ...] [--seeds 0 1 2 3 4] [--set KEY=VALUE ...] [--hand-labels full] [--out F]

`python -m benchmarks worth` is the same for `stroke`. Half of the epsilon is more noise: every sigma of the mechanism
by the same factor, all else unchanged. One JSON line for each run stands in F; the script goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import Kept
from consilium.coordinator.ledger.privacy import promised
from consilium.simulations.report.worth import METRIC_NAMES
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario

BASELINES = ("mean_teacher", "noisy_average", "plurality", "pooled")
HEADER = (
    "scenario", "seeds", "epsilon", "metric", "released", "student", "as many labels by hand", "mean teacher",
    "noisy average", "plurality", "pooled", "worth in hand labels", "of public rows",
)  # fmt: skip
_MOST_FACTOR = 64.0


def half_epsilon(name: str, overrides: list[str]) -> list[str]:
    """`overrides`, and those that multiply each sigma so that the promised epsilon is half, rounded down."""
    federation = load_scenario(name, overrides).federation
    target = promised(federation).epsilon / 2
    sigmas = {key: value for key, value in federation.mechanism.model_dump().items() if key.startswith("sigma")}

    def changes(factor: float) -> list[str]:
        return [*overrides, *(f"federation.mechanism.{key}={value * factor:.4g}" for key, value in sigmas.items())]

    low, high = 1.0, _MOST_FACTOR
    while high > low * 1.002:
        middle = math.sqrt(low * high)
        too_dear = promised(load_scenario(name, changes(middle)).federation).epsilon > target
        low, high = (middle, high) if too_dear else (low, middle)
    return changes(high)


def measure(name: str, overrides: list[str], half: bool, seed: int) -> dict[str, Any]:
    """One run in a temporary folder: what the table needs of its summary."""
    scenario = load_scenario(name, half_epsilon(name, overrides) if half else overrides)
    with tempfile.TemporaryDirectory() as folder:
        summary = run_scenario(name, scenario, "local", seed, Path(folder) / "run")
    worth, baselines = summary["worth"], summary["baselines"]
    metric = worth["metric"]
    return {
        "epsilon": summary["privacy"]["epsilon_promised"],
        "metric": metric,
        "released": summary["queries"]["answered"],
        "student": summary["student"][metric],
        "by_hand": worth["released"][metric],
        **{baseline: baselines[baseline].get(metric) for baseline in BASELINES},
        **{key: worth[key] for key in ("hand_labels", "low", "high", "public_rows")},
    }


def table(found: list[dict[str, Any]]) -> None:
    """Markdown; means and standard deviations over the seeds, of numbers of labels the medians."""
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    for name, half in dict.fromkeys((item["scenario"], item["half"]) for item in found):
        rows = [item for item in found if (item["scenario"], item["half"]) == (name, half)]
        first = rows[0]
        low, middle, high = (_labels(rows, key) for key in ("low", "hand_labels", "high"))
        cells = (
            name, str(len(rows)), f"{first['epsilon']:.3f}", METRIC_NAMES[first["metric"]],
            f"{np.mean([row['released'] for row in rows]):.0f}",
            *(_spread(rows, key) for key in ("student", "by_hand", *BASELINES)),
            f"{middle} ({low} to {high})", f"{np.median([row['public_rows'] for row in rows]):.0f}",
        )  # fmt: skip
        print("| " + " | ".join(cells) + " |", flush=True)


def _spread(rows: list[dict[str, Any]], key: str) -> str:
    values = [row[key] for row in rows if row[key] is not None]
    if not values:
        return "–"
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def _labels(rows: list[dict[str, Any]], key: str) -> str:
    """The median; that no number of labels was enough counts as more than any."""
    middle = float(np.median([math.inf if row[key] is None else row[key] for row in rows]))
    return "more than all" if math.isinf(middle) else f"{middle:.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="What students are worth in labels by hand.")
    parser.add_argument("scenarios", nargs="*", default=["stroke"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    parser.add_argument("--hand-labels", default="quick", choices=["quick", "full"])
    parser.add_argument("--out", type=Path, default=Path("worth.jsonl"))
    chosen = parser.parse_args(arguments or [])
    overrides = [*chosen.overrides, f"simulation.hand_labels={chosen.hand_labels}"]
    kept = Kept(chosen.out)
    wanted = [
        {"scenario": name, "half": half, "seed": seed, "set": json.dumps(overrides)}
        for name in chosen.scenarios
        for half in (False, True)
        for seed in chosen.seeds
    ]
    for keys in wanted:
        if not kept.has(**keys):
            kept.add(**keys, **measure(keys["scenario"], overrides, keys["half"], keys["seed"]))
    table([item for item in kept.found if any(keys.items() <= item.items() for keys in wanted)])


if __name__ == "__main__":
    main(sys.argv[1:])
