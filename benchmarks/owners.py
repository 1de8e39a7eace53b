"""Every natural division with nothing but defaults: what the planned student gives, beside its forecast and its rivals.

    python -m benchmarks.owners [--seeds 5] [--units party record] [--before]

The divisions are those of the study `naturals`; nothing was chosen on them: what a plan rests on was chosen on the
development divisions of `benchmarks.voting_rules`. Each run leaves mechanism, queries, voting rule and student to the
plan, at epsilon 1 and delta 1e-5, and with a record as the unit the number of teachers of an owner, too. Seeds are of
division, teachers and noise together. `--before`: as version 0.9 had it, the top rule and one teacher an owner.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import command_of, spread
from consilium.protocol.errors import ConsiliumError
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import planned_scenario
from docs.figures import figure

COLUMNS = (
    "division", "unit", "owners", "student", "noise alone", "forecast", "within", "refused", "noisy average",
    "private gradient", "teachers alone", "exact plurality", "pooled", "labels by hand", "accuracy",
    "of the majority",
)  # fmt: skip


OTHERS = ("noisy_average", "private_gradient", "mean_teacher", "plurality", "pooled")


def divisions() -> dict[str, dict[str, Any]]:
    """The tables `[data]` of the study's divisions, by name."""
    text = files("consilium.simulations.study").joinpath("shipped", "naturals.toml").read_text(encoding="utf-8")
    (axis,) = (axis for axis in tomllib.loads(text)["axis"] if axis["name"] == "division")
    return {name: point["data"] for name, point in axis["points"].items()}


def run(data: dict[str, Any], unit: str, seed: int, before: bool) -> dict[str, Any]:
    """One run's figures; None where there is none."""
    federation = {
        "name": "a natural division",
        "collection": "plaintext",
        "minimum_parties": 2,
        "privacy": {"unit": unit, "epsilon": 1.0, "delta": 1e-5},
        **({"voting_rule": {"rule": "top"}, "teachers_per_party": 1} if before else {}),
    }
    table = {"data": data, "federation": federation, "simulation": {"noise": "seeded", "hand_labels": "quick"}}
    scenario, planned = planned_scenario(table, "owners", seed)
    with tempfile.TemporaryDirectory() as folder:
        summary = run_scenario("owners", scenario, "local", seed, Path(folder) / "run")
    baselines, forecast, by_hand = summary["baselines"], planned.forecast, summary["worth"]

    def of(name: str) -> float:
        return float((baselines.get(name) or {}).get("auc") or np.nan)

    return {
        "owners": summary["parties"],
        "student": summary["student"]["auc"],
        "accuracy": summary["student"]["accuracy"],
        "majority": baselines["majority"]["accuracy"],
        "low": forecast.student.low,
        "median": forecast.student.median,
        "high": forecast.student.high,
        "hopeless": planned.expects_nothing,
        "noise": ((summary["noise_spread"].get("metrics") or {}).get("auc") or {}).get("sd", np.nan),
        "labels": np.inf if by_hand["hand_labels"] is None else by_hand["hand_labels"],
        **{name: of(name) for name in OTHERS},
    }


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table, and what holds over all of its runs."""
    parser = argparse.ArgumentParser(description="Natural divisions by defaults alone.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--units", nargs="+", default=["party", "record"], choices=["party", "record"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--before", action="store_true")
    chosen = parser.parse_args(arguments)
    name = "results/owners-before" if chosen.before else "results/owners"
    split = "owners held out whole judge; nothing was chosen on them, and what plans rest on on other data sets"
    command = command_of("benchmarks.owners", arguments)
    every: dict[str, list[dict[str, Any]]] = {unit: [] for unit in chosen.units}
    with figure(name, command, COLUMNS, seeds=range(chosen.seeds), split=split, quick=False) as table:
        for unit in chosen.units:
            for division, data in divisions().items():
                if chosen.only and division not in chosen.only:
                    continue
                runs = []
                for seed in range(chosen.seeds):
                    try:
                        runs.append(run(data, unit, seed, chosen.before))
                    except ConsiliumError as error:
                        print(f"{division}, {unit}, seed {seed}: {error.what}", file=sys.stderr)
                if runs:
                    every[unit] += runs
                    table.add(division, unit, *_cells(runs))
        for unit, runs in every.items():
            if runs:
                table.add("**all**", unit, *_cells(runs))
    for unit, runs in every.items():
        print(_sentence(unit, runs))


def _cells(runs: Sequence[dict[str, Any]]) -> list[str]:
    of = {key: [run[key] for run in runs] for key in runs[0]}
    middle = {key: np.median(of[key]) for key in ("owners", "low", "median", "high", "labels")}
    within = sum(run["low"] <= run["student"] <= run["high"] for run in runs)
    return [
        f"{middle['owners']:.0f}",
        spread(of["student"]),
        f"{np.nanmean(of['noise']):.3f}",
        f"{middle['median']:.2f} ({middle['low']:.2f} to {middle['high']:.2f})",
        f"{within} of {len(runs)}",
        f"{sum(of['hopeless'])} of {len(runs)}",
        *("–" if np.isnan(of[key]).all() else f"{np.nanmean(of[key]):.3f}" for key in OTHERS),
        "all and more" if np.isinf(middle["labels"]) else f"{middle['labels']:.0f}",
        f"{np.mean(of['accuracy']):.3f}",
        f"{np.mean(of['majority']):.3f}",
    ]


def _sentence(unit: str, runs: Sequence[dict[str, Any]]) -> str:
    sides = {side: [run["student"] for run in runs if run["hopeless"] is side] for side in (False, True)}
    said = {side: f"{len(of)} with mean AUC {np.mean(of):.3f}" if of else "none" for side, of in sides.items()}
    errors = np.array([run["student"] - run["median"] for run in runs])
    near = np.mean([run["pooled"] - run["student"] <= 0.02 for run in runs])
    return (
        f"{unit}: accepted {said[False]}; refused {said[True]}; student less forecast median {errors.mean():+.3f};"
        f" within .02 of pooled in {near:.0%} of the runs"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
