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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import command_of, spread
from benchmarks.papers import Kept
from consilium.coordinator.privacy import promised
from consilium.report.disclosure import epsilon_text
from consilium.simulations.report.models import METRICS
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

BASELINES = ("mean_teacher", "noisy_average", "plurality", "pooled")
HEADER = (
    "scenario", "seeds", "epsilon", "metric", "released", "student", "as many labels by hand", "mean teacher",
    "noisy average", "plurality", "pooled", "worth in labels by hand", "of public rows",
)  # fmt: skip
SPLIT = "On public test rows; how the settings of a scenario were chosen stands in its file"
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
        "epsilon": summary["privacy"]["epsilon_guaranteed"],
        "metric": metric,
        "released": summary["queries"]["answered"],
        "student": summary["student"][metric],
        "by_hand": worth["released"][metric],
        **{baseline: baselines[baseline].get(metric) for baseline in BASELINES},
        **{key: worth[key] for key in ("hand_labels", "low", "high", "public_rows")},
    }


def row(runs: list[dict[str, Any]]) -> list[str]:
    """Of one scenario and epsilon: means and standard deviations over the seeds, of numbers of labels the medians."""
    low, middle, high = (_labels(runs, key) for key in ("low", "hand_labels", "high"))
    return [
        runs[0]["scenario"],
        str(len(runs)),
        epsilon_text(runs[0]["epsilon"]),
        METRICS[runs[0]["metric"]],
        f"{np.mean([run['released'] for run in runs]):,.0f}",
        *(_present(runs, key) for key in ("student", "by_hand", *BASELINES)),
        f"{middle} ({low} to {high})",
        f"{np.median([run['public_rows'] for run in runs]):,.0f}",
    ]


def rows(names: Iterable[str], seeds: Sequence[int], overrides: list[str], kept: Kept) -> Iterator[list[str]]:
    """Two rows for each scenario, from `kept` or measured."""
    for name in names:
        for half in (False, True):
            runs = []
            for seed in seeds:
                keys = {"scenario": name, "half": half, "seed": seed, "set": json.dumps(overrides)}
                if not kept.has(**keys):
                    kept.add(**keys, **measure(name, overrides, half, seed))
                runs += [item for item in kept.found if keys.items() <= item.items()]
            yield row(runs)


def _present(runs: list[dict[str, Any]], key: str) -> str:
    values = [run[key] for run in runs if run[key] is not None]
    return spread(values) if values else "–"


def _labels(rows: list[dict[str, Any]], key: str) -> str:
    """The median; that no number of labels was enough counts as more than any."""
    middle = float(np.median([math.inf if row[key] is None else row[key] for row in rows]))
    return "more than all" if math.isinf(middle) else f"{middle:,.0f}"


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
    command = command_of("benchmarks.worth", arguments or [])
    with figure("results/worth", command, HEADER, seeds=chosen.seeds, split=SPLIT, quick=False) as table:
        for row in rows(chosen.scenarios, chosen.seeds, overrides, kept):
            table.add(*row)
        table.seconds = kept.seconds


if __name__ == "__main__":
    main(sys.argv[1:])
