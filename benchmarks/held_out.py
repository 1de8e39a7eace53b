"""A scenario's student with each thousand of the 10,000 public images held out in turn: accuracy on all of them.

    python -m benchmarks.held_out [--scenario mnist-250] [--seeds 0 1 2] [--folds 0 ... 9] [--out F]

The papers hold out the last thousand, of which one image is 0.1 percent, and which need not be like the others. Here
the teachers of each seed are trained and asked once; for each fold, the scenario's queries are chosen among the other
9,000 images, answered by its mechanism with seeded noise, and learned. For mnist-250, fashion-250 and mnist-writers.
One JSON line for each fold stands in F; the script goes on from there. It has the threads of OMP_NUM_THREADS, or one.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from benchmarks.papers import Kept, Place, Row, queries, shares, spread, student, teachers_votes, worst_case
from consilium.accounting.units import Neighbouring, Unit
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import SeededNoise

FOLDS = 10
NORMAL = 1.96
"""Standard deviations on each side of an interval that covers 95 in 100."""


def measure(name: str, seed: int, folds: list[int], kept: Kept) -> None:
    """Some folds for one seed."""
    place = Place(name, seed)
    spec = place.scenario.student
    row = Row(place.scenario.federation.mechanism, spec.queries, "", (), spec.selection)
    asked = teachers_votes(place, kept.path)
    votes, rows = np.concatenate([asked.pool, asked.test]), np.concatenate([place.pool, place.test])
    truth = np.concatenate([place.pool_truth, place.truth])
    for fold, held_out in enumerate(np.array_split(np.arange(len(rows)), FOLDS)):
        keys = {"scenario": name, "seed": seed, "fold": fold}
        if fold in folds and not kept.has(**keys):
            pool = np.setdiff1d(np.arange(len(rows)), held_out)
            place.pool, place.test, place.truth = rows[pool], rows[held_out], truth[held_out]
            plurality = float((votes[held_out].argmax(axis=1) == place.truth).mean())
            kept.add(**keys, rows=len(held_out), plurality=plurality, **fit(place, row, votes[pool], truth[pool], fold))


def fit(place: Place, row: Row, votes: np.ndarray, truth: np.ndarray, fold: int) -> dict[str, float]:
    """Accuracy of the scenario's own student on the held-out rows, the share of its labels that are right, epsilon."""
    chosen = queries(place, row)
    drawn = row.mechanism.draw(votes[chosen], SeededNoise(1000 * place.seed + fold))
    known = drawn.labels != NO_LABEL
    event = row.mechanism.event(
        asked=len(chosen),
        answered=len(chosen),
        unit=Unit.PARTY,
        neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1,
    )
    right = float((drawn.labels[known] == truth[chosen][known]).mean())
    trainer, told = place.scenario.student.trainer.name, shares(drawn, votes[chosen], row.mechanism)
    found = student(place, trainer, chosen[known], drawn.labels[known], told)
    return {"right": right, "epsilon": worst_case(event), **found}


def wilson(right: float, rows: int) -> tuple[float, float]:
    """95 percent interval of a share `right` of so many rows (Wilson, JASA 1927).

    >>> [round(100 * end, 2) for end in wilson(0.994, 1000)]
    [98.7, 99.73]
    """
    square = NORMAL**2 / rows
    middle = (right + square / 2) / (1 + square)
    half = NORMAL / (1 + square) * math.sqrt(right * (1 - right) / rows + square / (4 * rows))
    return middle - half, middle + half


def table(kept: Kept) -> None:
    """Accuracy on the public rows by seed, with binomial intervals, and by fold over the seeds."""
    for scenario in dict.fromkeys(item["scenario"] for item in kept.found):
        found = [item for item in kept.found if item["scenario"] == scenario]
        print(f"\n{scenario}, worst-case epsilon {max(item['epsilon'] for item in found):.3f}")
        print("| seed, folds | rows | student, % | 95 % interval | labels right, % | plurality, % | seconds |")
        print("|---|---|---|---|---|---|---|")
        whole = []
        for seed in dict.fromkeys(item["seed"] for item in found):
            mine = [item for item in found if item["seed"] == seed]
            rows = sum(item["rows"] for item in mine)
            means = {
                key: sum(item[key] * item["rows"] for item in mine) / rows
                for key in ("accuracy", "right", "plurality", "seconds")
            }
            whole.append(means)
            low, high = wilson(means["accuracy"], rows)
            cells = [f"{100 * means['accuracy']:.2f}", f"{100 * low:.2f} to {100 * high:.2f}"]
            cells += [f"{100 * means[key]:.2f}" for key in ("right", "plurality")] + [f"{means['seconds']:.0f}"]
            print(f"| {seed}, {len(mine)} | {rows} | " + " | ".join(cells) + " |")
        print(f"\nOver the seeds: student {spread(whole, 'accuracy', 100)} %\n")
        print("| fold | student, % |")
        print("|---|---|")
        for fold in sorted({item["fold"] for item in found}):
            print(f"| {fold} | {spread([item for item in found if item['fold'] == fold], 'accuracy', 100)} |")


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Every thousand of the public images held out in turn.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(FOLDS)), choices=range(FOLDS))
    parser.add_argument("--scenario", default="mnist-250")
    parser.add_argument("--out", type=Path, default=Path("held-out.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        measure(chosen.scenario, seed, chosen.folds, kept)
    table(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
