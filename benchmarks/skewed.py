"""Small, unequal and skewed parties: is the student at least the majority class and a party by itself? Five seeds.

    python -m benchmarks.skewed [CASE ...] [--seeds 0 1 2 3 4] [--out F]

Shares of the classes are declared from what is published about the sets, where ballots are relative. One JSON line for
each run stands in F; the script goes on from there. Nothing is chosen on these runs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.forecast import EARLY, LINEAR
from benchmarks.papers import Kept
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario


@dataclass(frozen=True)
class Case:
    """A scenario and what is changed in it."""

    scenario: str
    overrides: tuple[str, ...] = ()


def declared(*shares: float) -> tuple[str, ...]:
    """Votes relative to known shares of the classes, for which the student's probabilities are shifted as well."""
    known = list(shares)
    return (f"federation.ballot={{rule='relative', shares={known}}}", f"student.prevalence={known}")


SKEWED = ("data.partition=dirichlet", "data.alpha=0.1", "data.sizes=1")
CASES = {
    "all 371 hospitals": Case("stroke"),
    "early readmission, 250 parties": Case("diabetes-rf", (*EARLY, *LINEAR, *declared(0.89, 0.11))),
    "early readmission, 250 unequal": Case(
        "diabetes-rf",
        (*EARLY, *LINEAR, *declared(0.89, 0.11), "data.partition=dirichlet", "data.alpha=100", "data.sizes=1"),
    ),
    "Adult, Dirichlet .1": Case("adult-250", (*SKEWED, *declared(0.76, 0.24))),
    "Adult, Dirichlet .1, likeliest class": Case("adult-250", SKEWED),
    "MNIST, Dirichlet .1": Case("mnist-250", SKEWED),
}


def measure(case: Case, seed: int) -> dict[str, object]:
    """One run in a temporary folder: what the table needs of its summary."""
    scenario = load_scenario(case.scenario, [*case.overrides, "federation.minimum_parties=2"])
    with tempfile.TemporaryDirectory() as folder:
        summary = run_scenario(
            case.scenario, scenario, "local", seed, Path(folder) / "run", lambda _: contextlib.nullcontext()
        )
    metric = summary["worth"]["metric"]
    alone, majority = summary["baselines"]["mean_teacher"], summary["baselines"]["majority"]
    return {
        "epsilon": summary["privacy"]["epsilon_promised"],
        "parties": summary["parties"],
        "metric": metric,
        "student": summary["student"][metric],
        "mean teacher": alone[metric],
        "plurality": summary["baselines"]["plurality"][metric],
        "accuracy": summary["student"]["accuracy"],
        "majority": majority["accuracy"],
        "hand_labels": summary["worth"]["hand_labels"],
        "warnings": [each["code"] for each in summary["warnings"]],
    }


def table(kept: Kept) -> None:
    """Markdown: means and standard deviations over the seeds, and how often a student fell below."""
    columns = ("student", "mean teacher", "plurality", "accuracy", "majority")
    head = (
        "case",
        "epsilon",
        "parties",
        "metric",
        *columns,
        "below mean teacher",
        "below majority",
        "worth",
        "warnings",
    )
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for name in dict.fromkeys(item["case"] for item in kept.found):
        rows = [item for item in kept.found if item["case"] == name]
        spread = (_spread([row[column] for row in rows]) for column in columns)
        below = sum(row["student"] < row["mean teacher"] for row in rows)
        fewer = sum(row["accuracy"] < row["majority"] for row in rows)
        worth = np.median([np.inf if row["hand_labels"] is None else row["hand_labels"] for row in rows])
        codes = sorted({code for row in rows for code in row["warnings"]})
        told = (f"{code} ({sum(code in row['warnings'] for row in rows)})" for code in codes)
        cells = (name, f"{rows[0]['epsilon']:.3f}", str(rows[0]["parties"]), rows[0]["metric"], *spread)
        cells += (f"{below} of {len(rows)}", f"{fewer} of {len(rows)}", f"{worth:.0f}", ", ".join(told))
        print("| " + " | ".join(cells) + " |")


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def main(arguments: list[str] | None = None) -> None:
    """Measure what F does not hold yet, and print the table."""
    parser = argparse.ArgumentParser(description="Small, unequal and skewed parties.")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("skewed.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    for name in chosen.cases:
        for seed in chosen.seeds:
            if not kept.has(case=name, seed=seed):
                kept.add(case=name, seed=seed, **measure(CASES[name], seed))
    table(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
