"""Do labels that pass a private check teach better than as many that nobody protects? (2018, section 5)

    python -m benchmarks.private_labels [--seeds 6] [--trainers NAME ...] [--out FILE]

The votes of 250 MNIST teachers published with Papernot et al. 2018. For each seed 640 of the 9,000 images are asked by
lot with Confident GNMax. As many images as were answered, by lot from the same 640, get the plurality without noise,
GNMax's label, or the true one; and the answered ones get their plurality or their true label too: what does the choice
do, and what the noise? Students learn from each on wavelet scattering and are judged on the last 1,000 images. Paired
differences to the private labels over the seeds, with Student's 95 % interval. C = 10 is that of `benchmarks.glyphs`,
all else a default: nothing was chosen here. Needs the MNIST files; FILE keeps what was measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.cells import command_of
from benchmarks.composition import mnist_truth
from benchmarks.exact import published_votes
from benchmarks.papers import Kept, Place, student
from consilium.coordinator.mechanisms import Confident, GNMax
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from docs.figures import figure

ASKED = 640
MECHANISMS = {
    "(200, 150, 40), the paper's": Confident(threshold=200, sigma1=150.0, sigma2=40.0),
    "(200, 40, 40), a sharper check": Confident(threshold=200, sigma1=40.0, sigma2=40.0),
}
TRAINERS = {"logistic_regression": ("C=10.0",), "graph": ()}
PRIVATE = "private: passed, with noise"
"""The labels that all others are compared with."""

Labels = tuple[np.ndarray, np.ndarray]


def label_sets(mechanism: Confident, votes: np.ndarray, truth: np.ndarray, seed: int) -> dict[str, Labels]:
    """Rows and labels, int64 (answered,) each, by what they are. votes : int64 (queries, classes); 640 are asked."""
    generator, noise = np.random.default_rng([seed, ASKED]), SeededNoise(1000 * seed + ASKED)
    asked = generator.permutation(len(votes))[:ASKED]
    labels = mechanism.draw(votes[asked], noise).labels
    passed = labels != NO_LABEL
    rows, lot = asked[passed], generator.permutation(asked)[: passed.sum()]
    plurality = votes.argmax(axis=1)
    return {
        PRIVATE: (rows, labels[passed]),
        "passed, plurality": (rows, plurality[rows]),
        "passed, true": (rows, truth[rows]),
        "by lot, GNMax": (lot, GNMax(sigma=mechanism.sigma2).draw(votes[lot], noise).labels),
        "by lot, plurality": (lot, plurality[lot]),
        "by lot, true": (lot, truth[lot]),
    }


def measure(kept: Kept, seeds: int, trainers: Sequence[str]) -> None:
    """Students of all label sets."""
    votes = published_votes("mnist")
    truth = mnist_truth()
    for trainer in trainers:
        for seed in range(seeds):
            place = None
            for name, mechanism in MECHANISMS.items():
                for labels, (rows, told) in label_sets(mechanism, votes, truth, seed).items():
                    keys: dict[str, object] = {"mechanism": name, "labels": labels, "trainer": trainer, "seed": seed}
                    if kept.has(**keys):
                        continue
                    place = place or Place("mnist-250", seed, changes(trainer))
                    right = float((told == truth[rows]).mean())
                    kept.add(**keys, count=len(rows), right=right, **student(place, trainer, rows, told))


def changes(trainer: str) -> tuple[str, ...]:
    """Of the scenario, as `--set` takes them."""
    return (f"student.trainer={{name='{trainer}'}}", *(f"student.trainer.{setting}" for setting in TRAINERS[trainer]))


def interval(differences: Sequence[float]) -> str:
    """Mean and half of Student's 95 % interval, in points.

    >>> interval([0.01, 0.02, 0.03])
    '+2.00 ± 2.48'
    """
    values = 100 * np.asarray(differences)
    half = (
        stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    )
    return f"{values.mean():+.2f} ± {half:.2f}"


def table(kept: Kept, trainers: Sequence[str], seeds: int, command: str) -> None:
    """Mean accuracy by labels, and what they have more than the private ones of the same seeds."""
    of_trainers = [column for trainer in trainers for column in (f"{trainer}, %", "more than the private")]
    columns = ("check", "labels", "number", "right, %", *of_trainers)
    split = "judged on the last 1,000 test images; C was chosen elsewhere"
    with figure("papers/private-labels", command, columns, split=split, seeds=range(seeds)) as rows:
        rows.seconds = kept.seconds
        for name in MECHANISMS:
            mine = [item for item in kept.found if item["mechanism"] == name and item["trainer"] in trainers]
            for labels in dict.fromkeys(item["labels"] for item in mine):
                of = [item for item in mine if item["labels"] == labels]
                cells = [
                    f"{np.mean([item['count'] for item in of]):.0f}",
                    f"{100 * np.mean([item['right'] for item in of]):.2f}",
                ]
                for trainer in trainers:
                    found = {item["seed"]: item["accuracy"] for item in of if item["trainer"] == trainer}
                    base = {item["seed"]: item["accuracy"] for item in mine
                            if (item["labels"], item["trainer"]) == (PRIVATE, trainer)}  # fmt: skip
                    cells.append(f"{100 * np.mean(list(found.values())):.2f}")
                    cells.append("" if labels == PRIVATE else interval([found[seed] - base[seed] for seed in found]))
                rows.add(name, labels, *cells)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Private labels against as many that are not.")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--trainers", nargs="*", default=list(TRAINERS), choices=list(TRAINERS))
    parser.add_argument("--out", type=Path, default=Path("private-labels.jsonl"))
    chosen = parser.parse_args(arguments or [])
    kept = Kept(chosen.out)
    measure(kept, chosen.seeds, chosen.trainers)
    table(kept, chosen.trainers, chosen.seeds, command_of("benchmarks.private_labels", arguments or ()))


if __name__ == "__main__":
    main(sys.argv[1:])
