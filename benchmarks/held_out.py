"""The student of mnist-250 with each thousand of the 10,000 public images held out in turn: accuracy on all of them.

    python -m benchmarks.held_out [--seeds 0 1 2] [--scenario mnist-250] [--row typical-30] [--threads N] [--out F]

The papers hold out the last thousand, of which one image is 0.1 percent, and which need not be like the others. Here
the teachers of each seed are trained and asked once; for each fold, queries are chosen among the other 9,000 images,
labelled by the row's mechanism with seeded noise, and learned. One JSON line for each fold stands in F; the script goes
on from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.papers import ROWS, Kept, Place, Row, queries, spread, student, teachers_votes
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import SeededNoise
from consilium.student.trainers.images import network

FOLDS = 10


def measure(name: str, seed: int, row_name: str, kept: Kept) -> None:
    """All folds for one seed."""
    place, row = Place(name, seed), ROWS[row_name]
    asked = teachers_votes(place, kept.path)
    votes, rows = np.concatenate([asked.pool, asked.test]), np.concatenate([place.pool, place.test])
    truth = np.concatenate([place.pool_truth, place.truth])
    for fold, held_out in enumerate(np.array_split(np.arange(len(rows)), FOLDS)):
        keys = {"scenario": name, "seed": seed, "row": row_name, "fold": fold}
        if not kept.has(**keys):
            pool = np.setdiff1d(np.arange(len(rows)), held_out)
            place.pool, place.test, place.truth = rows[pool], rows[held_out], truth[held_out]
            plurality = float((votes[held_out].argmax(axis=1) == place.truth).mean())
            kept.add(**keys, plurality=plurality, **fit(place, row, votes[pool], truth[pool], fold))


def fit(place: Place, row: Row, votes: np.ndarray, truth: np.ndarray, fold: int) -> dict[str, float]:
    """Accuracy of the scenario's own student on the held-out rows, and the share of its labels that are right."""
    chosen = queries(place, row)
    labels = row.mechanism.draw(votes[chosen], SeededNoise(1000 * place.seed + fold)).labels
    known = labels != NO_LABEL
    right = float((labels[known] == truth[chosen][known]).mean())
    return {"right": right, **student(place, place.scenario.student.trainer.name, chosen[known], labels[known])}


def table(kept: Kept) -> None:
    """Accuracy on all public rows by seed, and by fold over the seeds."""
    print("| seed | student, % | labels right, % | plurality, % |")
    print("|---|---|---|---|")
    whole = []
    for seed in dict.fromkeys(item["seed"] for item in kept.found):
        mine = [item for item in kept.found if item["seed"] == seed]
        means = {key: float(np.mean([item[key] for item in mine])) for key in ("accuracy", "right", "plurality")}
        whole.append(means)
        print(f"| {seed}, {len(mine)} folds | " + " | ".join(f"{100 * value:.2f}" for value in means.values()) + " |")
    print("| all | " + " | ".join(spread(whole, key, 100) for key in ("accuracy", "right", "plurality")) + " |")
    print("\n| fold | student, % |")
    print("|---|---|")
    for fold in range(FOLDS):
        print(f"| {fold} | {spread([item for item in kept.found if item['fold'] == fold], 'accuracy', 100)} |")


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Every thousand of the public images held out in turn.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--scenario", default="mnist-250")
    parser.add_argument("--row", default="typical-30", choices=list(ROWS))
    parser.add_argument("--threads", type=int, default=network.THREADS, help="of a student, as a run has them")
    parser.add_argument("--out", type=Path, default=Path("held-out.jsonl"))
    chosen = parser.parse_args(arguments or [])
    network.THREADS = chosen.threads
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        measure(chosen.scenario, seed, chosen.row, kept)
    table(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
