"""A scenario's student with each thousand of the 10,000 public images held out in turn: accuracy on all of them.

    python -m benchmarks.held_out [--scenario mnist-250] [--seeds 0 1 2] [--folds 0 ... 9] [--out F]

The papers hold out the last thousand, of which one image is 0.1 percent, and which need not be like the others. Here
the teachers of each seed are trained and asked once; for each fold, the scenario's queries are chosen among the other
9,000 images, answered by its mechanism with seeded noise, and learned. For mnist-250, fashion-250 and mnist-writers.
One JSON line for each fold stands in F; the script goes on from there. It has the threads of OMP_NUM_THREADS, or one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers import Place, Row, queries, student, teachers_votes, told, worst_case
from benchmarks.results import Kept, command_of, spread, student_interval, table
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.draw import draw, exact
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise

FOLDS = 10


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
    drawn = draw(row.mechanism, exact(votes[chosen]), SeededNoise(1000 * place.seed + fold), room=len(chosen))
    known = drawn.labels != NO_LABEL
    event = row.mechanism.event(
        asked=len(chosen),
        answered=len(chosen),
        unit=Unit.PARTY,
        neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1,
    )
    right = float((drawn.labels[known] == truth[chosen][known]).mean())
    trainer, said = place.scenario.student.trainer.name, told(drawn, votes[chosen], row.mechanism)
    found = student(place, trainer, chosen, drawn.labels, said)
    return {"right": right, "epsilon": worst_case(event), **found}


COLUMNS = ("thousand", "student, %", "labels right, %", "plurality, %")
SPLIT = "each thousand judges a student of its own, which learnt from the nine others; all have the same teachers"


def over_thousands(values: Sequence[float]) -> str:
    """Mean of the thousands in percent, with the 95 % interval of Student's t, each thousand one observation.

    >>> over_thousands([0.98, 0.99, 0.985])
    '98.50 (97.26 to 99.74)'
    """
    low, high = student_interval(values)
    return f"{100 * np.mean(values):.2f} ({100 * low:.2f} to {100 * high:.2f})"


def rows(found: Sequence[dict[str, float]]) -> Iterator[list[str]]:
    """A row for each thousand of one scenario, over its seeds; the last is of all, with its interval."""
    keys = ("accuracy", "right", "plurality")
    folds = sorted({item["fold"] for item in found})
    each = {fold: [item for item in found if item["fold"] == fold] for fold in folds}
    for fold, mine in each.items():
        yield [str(fold), *(spread([100 * item[key] for item in mine], 1) for key in keys)]
    means = {key: [float(np.mean([item[key] for item in mine])) for mine in each.values()] for key in keys}
    rest = [f"{100 * np.mean(means[key]):.2f}" for key in keys[1:]]
    yield [f"all {len(folds)}", over_thousands(means["accuracy"]) if len(folds) > 1 else "", *rest]


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
    found = [item for item in kept.found if item["scenario"] == chosen.scenario]
    seeds = sorted({item["seed"] for item in found})
    command = command_of("benchmarks.held_out", arguments or [])
    with table(f"{chosen.scenario}-held-out", command, COLUMNS, seeds=seeds, split=SPLIT) as made:
        for row in rows(found):
            made.add(*row)


if __name__ == "__main__":
    main(sys.argv[1:])
