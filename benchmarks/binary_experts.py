"""Binary experts that say what to ask, as the first version of Papernot et al. 2017 tried (appendix C.2), on MNIST.

    python -m benchmarks.binary_experts [--seeds 0 1 2] [--labels 300 1700] [--out FILE]

After a first batch of labels each class has an expert, a network that says whether an image is of the class. Images
whose best expert is below .9 while at least four others are above .1 are in doubt (their rule; on SVHN it found about
500 after 1,700 labels). On MNIST hardly any image is, so that here one other expert above .1 is enough; column "four
others" counts what their rule finds. Images in doubt are labelled, and a plain network learns from all labels. Beside
it, with exactly as many labels: rows by lot, and the least confident rows of the plain network of the first batch
(their third attempt). "labels" is what a row of the table costs.

Labels are those of LNMax with the noise of 2017 (scale 20) on the votes published with Papernot et al. 2018. Of 9,000
images 5,000 by lot may be asked; the others and the held-out thousand judge. Needs the MNIST files and the votes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.cells import command_of
from benchmarks.cnn_teachers import cnn_place
from benchmarks.exact import published_votes
from benchmarks.near_zero import labels_of
from benchmarks.papers import Kept, spread
from benchmarks.plain_network import accuracy, learn, one_hot
from consilium.student.selection import choose
from docs.figures import figure

CLASSES = 10
SURE, POSSIBLE, OTHERS = 0.9, 0.1, 4
"""Their rule: the best expert below, others above, and how many."""

OPEN = 5000
EXPERT_STEPS = 150
WAYS = ("first batch", "by lot", "experts", "least confident")
"""Where the labels of a row of the table are."""

_LOT = 0x65787074


def expert_scores(x: np.ndarray, labels: np.ndarray, rows: np.ndarray, seed: int, classes: int = CLASSES,
                  steps: int = EXPERT_STEPS) -> np.ndarray:  # fmt: skip
    """One expert for each class, on pixels `x` float (n, pixels) with `labels` int64 (n,): the probability of its class
    for `rows` (m, pixels), float64 (m, classes)."""
    found = np.empty((len(rows), classes))
    for label in range(classes):
        expert = learn(x, one_hot((labels == label).astype(np.int64), 2), seed + label, steps=steps)
        found[:, label] = expert.predict_proba(rows)[:, 1]
    return found


def in_doubt(scores: np.ndarray, others: int = OTHERS) -> np.ndarray:
    """Rows of `scores` float (n, classes) by their rule, with so many other experts: their numbers, int64.

    >>> in_doubt(np.array([[0.8, 0.2, 0.2, 0.2, 0.2], [0.95, 0.2, 0.2, 0.2, 0.2], [0.8, 0.2, 0.2, 0.2, 0.0]])).tolist()
    [0]
    """
    possible = (scores > POSSIBLE).sum(axis=1) - (scores.max(axis=1) > POSSIBLE)
    return np.flatnonzero((scores.max(axis=1) < SURE) & (possible >= others))


def measure(kept: Kept, seed: int, sizes: list[int], votes: np.ndarray) -> None:
    """All rows of the table for one seed."""
    place = cnn_place(seed)
    labels = labels_of("LNMax 9,000", votes, place.pool_truth, seed)
    generator = np.random.default_rng([seed, _LOT])
    order = generator.permutation(len(place.pool))
    judges = order[OPEN:]
    x, y = np.concatenate([place.pool[judges], place.test]), np.concatenate([place.pool_truth[judges], place.truth])
    for size in sizes:
        if kept.has(seed=seed, first=size, way=WAYS[-1]):
            continue
        asked, rest = order[:size], order[size:OPEN]
        first = learn(place.pool[asked], one_hot(labels[asked], CLASSES), seed)
        scores = expert_scores(place.pool[asked], labels[asked], place.pool[rest], seed)
        found = in_doubt(scores, others=1)
        more, probabilities = len(found), first.predict_proba(place.pool[rest])
        none = np.empty(0, dtype=np.int64)
        doubted = choose(
            "least_confident",
            np.arange(len(rest)),
            more,
            place.pool[rest],
            none,
            probabilities,
            generator,
            np.arange(len(rest)),
        )
        chosen = {"by lot": np.arange(more), "experts": found, "least confident": doubted}
        for way in WAYS:
            rows = np.concatenate([asked, rest[chosen.get(way, none)]])
            model = first if way == "first batch" else learn(place.pool[rows], one_hot(labels[rows], CLASSES), seed)
            kept.add(seed=seed, first=size, way=way, labels=len(rows), four=len(in_doubt(scores)),
                     right=float((labels[rows] == place.pool_truth[rows]).mean()),
                     accuracy=accuracy(model, x, y))  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Binary experts that say what to ask.")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--labels", type=int, nargs="*", default=[300, 1700], help="of the first batch")
    parser.add_argument("--out", type=Path, default=Path("binary-experts.jsonl"))
    chosen = parser.parse_args(arguments or [])
    votes = published_votes("mnist")
    kept = Kept(chosen.out)
    for seed in chosen.seeds:
        measure(kept, seed, chosen.labels, votes)
    columns = ("first batch", "then", "labels", "four others", "of them right, %", "student, %")
    command = command_of("benchmarks.binary_experts", arguments or ())
    split = "judged on test images that nobody asks about"
    with figure("papers/binary-experts", command, columns, split=split, seeds=chosen.seeds) as table:
        table.seconds = kept.seconds
        for size in chosen.labels:
            for way in WAYS:
                mine = [item for item in kept.found if (item["first"], item["way"]) == (size, way)]
                cells = [spread(mine, "labels"), spread(mine, "four"), spread(mine, "right", 100)]
                table.add(size, way, *cells, spread(mine, "accuracy", 100))


if __name__ == "__main__":
    main(sys.argv[1:])
