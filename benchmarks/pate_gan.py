"""PATE-G on MNIST as in 2017: the student `feature_matching` on the published labels, on true ones and on our own.

    python -m benchmarks.pate_gan [--labels NAME ...] [--counts 100 1000] [--seeds 0 1 2] [--epochs 300 ...]
                                  [--bfloat16] [--out pate-gan.jsonl]

`published`: the noisy labels that Papernot et al. 2017 gave to the student, of the images that their script drew for
it (the 100 are published, the 1,000 follow from the same draw); `truth`: the true classes of the same images, as if
labelled by hand; `own`: LNMax of the same noise on the votes of the scenario mnist-250's teachers. The first two have
the first 8,000 test images of MNIST as pool, as in their script, `own` has 9,000, as in the paper. The judges are the
last 1,000 (the paper's), and the last 2,000 (the script's) where those were not in the pool.

All settings are the published ones, of which the number of epochs is the only one that may be changed: a student is
judged after each of `--epochs` (300 is the script's own number, 600 that of the one published command, for 500 labels).
While it trains, every `--look` epochs, accuracy on the pool's images without a label is kept: a curve, on rows that
judge nothing. Training goes on where it was stopped (checkpoints in a folder beside the file), also to more epochs, and
what is in the file is not measured again. `--bfloat16`: matrix products in 16 bits, half the time where the processor
has them. Intervals are 95 %: Wilson's, for the mean of the seeds with as many rows as one judge has, since all seeds
are judged on the same ones.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cells import command_of
from benchmarks.papers import ROWS, Kept, Place, queries, spread, teachers_votes
from consilium.models.base import Job
from consilium.models.images.feature_matching import BATCH, EPOCHS, ImprovedGanTrainer, ImprovedGanTraining
from consilium.models.specs import FeatureMatchingStudent
from consilium.protocol.noise import SeededNoise
from consilium.simulations.datasets.folder import data_folder
from consilium.simulations.metrics import wilson
from docs.figures import figure

POOL = 8000
OWN_POOL = 9000
CLASSES = 10
RUN = ("labels", "count", "seed", "bfloat16")
PAPER = {100: 0.9800, 1000: 0.9810}


@dataclass(frozen=True)
class Task:
    """What a student learns from: images float32 (n, 784), `rows` of the `pool` with `labels`; and what judges it.

    truth: of the pool. judges: images and true classes, by name.
    """

    pool: np.ndarray
    truth: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    judges: dict[str, tuple[np.ndarray, np.ndarray]]


def mnist_test() -> tuple[np.ndarray, np.ndarray]:
    """MNIST's test images float32 (10000, 784) from 0 to 255, and their classes int64."""

    def content(name: str, header: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((data_folder("") / "mnist" / name).read_bytes()), np.uint8, offset=header)

    images = content("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32)
    return images, content("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)


def drawn_in_2017(truth: np.ndarray, count: int) -> np.ndarray:
    """Rows of the pool that the script of 2017 labels, int64 (count,); `truth` int64 (8000,).

    It shuffles the pool and means to take as many of each class, but looks classes up in the order before: what it
    takes is drawn by lot. With 100 these are the published indices.
    """
    shuffled = np.random.RandomState(1).permutation(POOL)
    return np.concatenate([shuffled[truth == digit][: count // CLASSES] for digit in range(CLASSES)])


def task(labels: str, count: int, seed: int, kept: Kept) -> Task:
    """The material of one student."""
    row = ROWS[f"lnmax-{count}"]
    if labels == "own":
        place = Place("mnist-250", seed)
        chosen = queries(place, row)
        votes = teachers_votes(place, kept.path).pool[chosen]
        told = row.mechanism.draw(votes, SeededNoise(10_000 * seed + row.queries)).labels
        return Task(place.pool, place.pool_truth, chosen, told, {"last 1,000": (place.test, place.truth)})
    images, truth = mnist_test()
    chosen = drawn_in_2017(truth[:POOL], count)
    with np.load(data_folder("") / "pate2017_mnist_student.npz") as published:
        noisy = published["labels_lap20"].astype(np.int64)
    told = (noisy if labels == "published" else truth)[chosen]
    judges = {"last 1,000": slice(-1000, None), "last 2,000": slice(-2000, None)}
    return Task(
        images[:POOL], truth[:POOL], chosen, told, {name: (images[part], truth[part]) for name, part in judges.items()}
    )


def measure(labels: str, count: int, seed: int, asked: argparse.Namespace, kept: Kept) -> None:
    """Train one student, as far as it was not, and judge it after each number of epochs."""
    keys = {"labels": labels, "count": count, "seed": seed, "bfloat16": asked.bfloat16}
    left = [epochs for epochs in sorted(asked.epochs) if not kept.has(**keys, judged=True, epochs=epochs)]
    if not left:
        return
    given = task(labels, count, seed, kept)
    rest = np.setdiff1d(np.arange(len(given.pool)), given.rows)
    right = float((given.labels == given.truth[given.rows]).mean())
    folder = kept.path.with_suffix("") / "-".join(map(str, keys.values()))
    # the rate does not fall, so that a training for more epochs begins as one for fewer: they share checkpoints
    trainer = ImprovedGanTrainer(FeatureMatchingStudent(), left[-1], given.pool[rest], Job(folder))
    training = trainer.begun(given.pool[given.rows], given.labels, CLASSES, seed)
    per_epoch = training.steps // left[-1]
    for epochs in left:
        if training.step > epochs * per_epoch:
            print(f"{keys}: {training.step // per_epoch} epochs already, not judged at {epochs}: remove {folder} first")
            continue
        _train(training, epochs * per_epoch, asked.look * per_epoch, keys, given, rest, kept)
        found = {name: _right(training, *judge) for name, judge in given.judges.items()}
        kept.add(**keys, judged=True, epochs=epochs, labels_right=right, **found)


def _train(
    training: ImprovedGanTraining,
    steps: int,
    look: int,
    keys: dict[str, Any],
    given: Task,
    rest: np.ndarray,
    kept: Kept,
) -> None:
    while training.step < steps:
        begun = time.process_time()
        # without a cache: one step changes the weights and goes on with them
        with torch.autocast("cpu", torch.bfloat16, enabled=keys["bfloat16"], cache_enabled=False):
            training.advance(min(look - training.step % look, steps - training.step))
        seconds = round(time.process_time() - begun, 1)
        right = _right(training, given.pool[rest], given.truth[rest])
        kept.add(**keys, judged=False, step=training.step, pool=right, seconds=seconds)


def _right(training: ImprovedGanTraining, images: np.ndarray, truth: np.ndarray) -> float:
    return float((training.model().predict_proba(images).argmax(axis=1) == truth).mean())


COLUMNS = (
    "labels", "queries", "right, %", "epochs", "16 bits", "seeds", "last 2,000 (the script's)", "interval",
    "last 1,000 (the paper's)", "interval of the last 1,000", "paper",
)  # fmt: skip
SPLIT = "nothing was chosen, all settings are the published ones; intervals are of so many images, which seeds share"


def rows(found: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Accuracy in percent of finished students, under COLUMNS."""
    done = [item for item in found if item["judged"]]
    names = ("labels", "count", "epochs", "bfloat16")
    for key in dict.fromkeys(tuple(item[name] for name in names) for item in done):
        mine = [item for item in done if tuple(item[name] for name in names) == key]
        labels, count, epochs, short = key
        cells = [labels, f"{count:,}", spread(mine, "labels_right", 100), str(epochs), "yes" if short else "no"]
        cells += [", ".join(str(item["seed"]) for item in mine)]
        for judges in (2000, 1000):
            name = f"last {judges:,}"
            right = [item[name] for item in mine if name in item]
            low, high = wilson(float(np.mean(right)) * judges, judges) if right else (0.0, 0.0)
            cells += [spread(mine, name, 100), f"{100 * low:.2f} to {100 * high:.2f}" if right else ""]
        yield [*cells, f"{100 * PAPER[count]:.2f}"]


def curves(kept: Kept) -> None:
    """Print how the accuracy of each student rose."""
    print("\nAccuracy in % on the pool's images without a label, by epoch:")
    for key in dict.fromkeys(tuple(item[name] for name in RUN) for item in kept.found):
        points = [item for item in kept.found if not item["judged"] and tuple(item[name] for name in RUN) == key]
        per_epoch = (OWN_POOL if key[0] == "own" else POOL) // BATCH
        curve = [f"{item['step'] // per_epoch}: {100 * item['pool']:.2f}" for item in points]
        seconds = sum(item["seconds"] for item in points)
        print(f"{key[0]}, {key[1]} labels, seed {key[2]} ({seconds:.0f} processor seconds): " + ", ".join(curve))


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--labels", nargs="+", default=["published", "truth", "own"], choices=["published", "truth", "own"]
    )
    parser.add_argument("--counts", nargs="+", type=int, default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", nargs="+", type=int, default=[EPOCHS])
    parser.add_argument("--look", type=int, default=10, help="epochs between two points of the curve")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("pate-gan.jsonl"))
    asked = parser.parse_args(arguments or [])
    kept = Kept(asked.out)
    for labels in asked.labels:
        for count in asked.counts:
            for seed in asked.seeds:
                measure(labels, count, seed, asked, kept)
    command, seeds = command_of("benchmarks.pate_gan", arguments or []), asked.seeds
    with figure("results/pate-g", command, COLUMNS, seeds=seeds, split=SPLIT, quick=False) as table:
        for row in rows(kept.found):
            table.add(*row)
        table.seconds = kept.seconds
    curves(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
