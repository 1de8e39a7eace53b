"""Small, unequal and skewed parties: is the student at least the majority class and a party by itself? Five seeds.

    python -m benchmarks.skewed [CASE ...] [--seeds 0 1 2 3 4] [--out F]

Shares of the classes are declared from what is published about the sets, where votes are relative. One JSON line for
each run stands in F; the script goes on from there. Nothing is chosen on these runs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cells import command_of, spread
from benchmarks.papers import Kept
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

LINEAR = ("federation.teacher.model=logistic_regression", "federation.teacher.C=0.03")
"""Teachers that are trained in milliseconds."""
EARLY = ("data.set=diabetes-early", 'data.classes=["not within 30 days","within 30 days"]')


@dataclass(frozen=True)
class Case:
    """A scenario and what is changed in it."""

    scenario: str
    overrides: tuple[str, ...] = ()


def declared(*shares: float) -> tuple[str, ...]:
    """Votes relative to known shares of the classes, for which the student's probabilities are shifted as well."""
    known = list(shares)
    return (f"federation.voting_rule={{rule='relative', shares={known}}}", f"student.prevalence={known}")


SKEWED = ("data.partition=dirichlet", "data.alpha=0.1", "data.sizes=1")
CASES = {
    "stroke, all 371 hospitals": Case("stroke"),
    "early readmission, 250 parties": Case("diabetes-rf", (*EARLY, *LINEAR, *declared(0.89, 0.11))),
    "early readmission, 250 unequal": Case(
        "diabetes-rf",
        (*EARLY, *LINEAR, *declared(0.89, 0.11), "data.partition=dirichlet", "data.alpha=100", "data.sizes=1"),
    ),
    "Adult, Dirichlet .1": Case("adult-250", (*SKEWED, *declared(0.76, 0.24))),
    "Adult, Dirichlet .1, likeliest class": Case("adult-250", SKEWED),
    "MNIST, Dirichlet .1": Case("mnist-250", SKEWED),
}
SPLIT = "AUC and accuracy on public test rows; nothing was chosen on these runs"
COLUMNS = (
    "case", "epsilon", "parties", "student", "mean teacher", "plurality", "accuracy", "majority",
    "runs below mean teacher, below majority", "worth", "warned of (runs)",
)  # fmt: skip


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
        "epsilon": summary["privacy"]["epsilon_guaranteed"],
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


def rows(cases: Iterable[str], seeds: Iterable[int], kept: Kept) -> Iterator[list[str]]:
    """A row for each case, from `kept` or measured: means over the seeds, and how many of them were warned of what."""
    for name in cases:
        runs = []
        for seed in seeds:
            if not kept.has(case=name, seed=seed):
                kept.add(case=name, seed=seed, **measure(CASES[name], seed))
            runs += [item for item in kept.found if (item["case"], item["seed"]) == (name, seed)]
        of = {key: [run[key] for run in runs] for key in runs[0]}
        worth = np.median([np.inf if each is None else each for each in of["hand_labels"]])
        codes = Counter(code for codes in of["warnings"] for code in set(codes))
        below = sum(run["student"] < run["mean teacher"] for run in runs)
        fewer = sum(run["accuracy"] < run["majority"] for run in runs)
        yield [
            name,
            spread(of["epsilon"]),
            spread(of["parties"], 0),
            spread(of["student"]),
            *(spread(of[key], deviation=False) for key in ("mean teacher", "plurality", "accuracy", "majority")),
            f"{below}, {fewer}",
            f"{worth:,.0f}",
            ", ".join(f"`{code}` ({count})" for code, count in codes.most_common()),
        ]


def main(arguments: list[str] | None = None) -> None:
    """Measure what F does not hold yet, and print the table."""
    parser = argparse.ArgumentParser(description="Small, unequal and skewed parties.")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("skewed.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    command = command_of("benchmarks.skewed", arguments or [])
    with figure("results/skewed-parties", command, COLUMNS, seeds=chosen.seeds, split=SPLIT, quick=False) as table:
        for row in rows(chosen.cases, chosen.seeds, kept):
            table.add(*row)
        table.seconds = kept.seconds


if __name__ == "__main__":
    main(sys.argv[1:])
