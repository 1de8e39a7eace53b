"""Tables 1 and 2 and the constants of the near-zero-cost paper, with what each row really costs.

    python -m benchmarks.near_zero [--students [--rows ROW ...] [--seeds 0] [--out FILE]]

Its 250 MNIST teachers are those of Papernot et al. 2017, so the votes published with Papernot et al. 2018 stand in
for them (9,000 test images): labels and costs are from votes alone. --students trains, for each row, a plain network
on that row's labels (trainer `cnn` of the scenario mnist-250, 2,000 steps) and judges it on the last 1,000 images; and
it trains the 5 teachers (CNN on pixels, 12,000 images each). It takes minutes a seed and needs the MNIST files; FILE
keeps what was measured. SVHN's half of the tables cannot be had here: neither images nor votes are at hand. The tables
are those of docs/laboratory/papers.md (docs/figures.py).
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cells import Cell, Table, power, show_tables
from benchmarks.composition import costs, mnist_truth
from benchmarks.exact import published_votes
from benchmarks.label_accuracy import pr_label_laplace
from benchmarks.papers import Kept, Place, spread, student, teachers_votes
from consilium import accounting
from consilium.accounting.curves.immutable import (
    actual_epsilon,
    claimed_epsilon,
    claimed_epsilon_gaussian,
    constant_for_gaussian,
    constant_for_laplace,
    log_pr_flip,
)
from consilium.coordinator.mechanisms import AnyMechanism, Immutable, ImmutableGaussian, LNMax
from consilium.protocol.noise import SeededNoise
from docs.figures import figure

DELTA = 1e-5
FIVE = ("data.parties=5", "federation.minimum_parties=5", "federation.teacher.model=cnn", "data.representation=none",
        "data.standardise=false", "student.trainer={name='cnn', augment='digits'}",
        "federation.mechanism={name='gnmax', sigma=40}")  # fmt: skip
"""Five parties of 12,000 images, with networks on pixels."""

PAPER = {
    "LNMax 100": ("2.04", "63.5"),
    "LNMax 500": ("", ""),
    "LNMax 1,000": ("8.03", "89.8"),
    "LNMax 5,000": ("> 8.03", "94.1"),
    "LNMax 9,000": ("> 8.03", "93.4"),
    "NZC 9,000": ("about 0", "95.1"),
    "NZC Gaussian 9,000": ("", ""),
    "clean votes 9,000": ("", "94.5"),
    "5 teachers 9,000": ("about 0", "97.8"),
    "truth 9,000": ("", "98.1"),
}
"""Row -> epsilon and student's accuracy in percent, as table 1 prints them. 500 queries are of the first version of
Papernot et al. 2017 (4.2), which prints no figure of them."""

IMMUTABLE: dict[str, tuple[AnyMechanism, float]] = {
    "NZC 9,000": (
        Immutable(gamma=1e-10, constant=10**12, unsafe_not_private=True),
        actual_epsilon(10**12, 1e-10, "laplace", "continuous"),
    ),
    "NZC Gaussian 9,000": (
        ImmutableGaussian(sigma=1e5, constant=10**7, unsafe_not_private=True),
        actual_epsilon(10**7, 1e5, "gaussian", "continuous"),
    ),
}
"""Mechanism, and the least that one query at a tie costs. c is a hundred times the noise. The paper's c = 1e100 is
beyond any integer here and swallows the counts in doubles; its "gamma = 1e10" is a scale, else the noise would be 1e-10
of a vote."""


def labels_of(row: str, votes: np.ndarray, truth: np.ndarray, seed: int) -> np.ndarray:
    """Labels that a row's mechanism releases for the first so many queries, int64; noise is seeded."""
    queries = int(row.split()[-1].replace(",", ""))
    noise = SeededNoise(1000 * seed + queries)
    if row.startswith("LNMax"):
        return LNMax(gamma=0.05).draw(votes[:queries], noise).labels
    if row in IMMUTABLE:
        return IMMUTABLE[row][0].draw(votes[:queries], noise).labels
    return truth[:queries] if row.startswith("truth") else votes[:queries].argmax(axis=1)


def truly(row: str, votes: np.ndarray) -> str:
    """What a row costs, in words: of LNMax bounds, of the rest the least that one query at a tie costs."""
    queries = int(row.split()[-1].replace(",", ""))
    if row.startswith("LNMax"):
        exact = queries <= 1000
        _, classic, cks, computed, worst = costs(accounting.LNMax(0.05), votes[:queries], DELTA, exact)
        known = f", exact {computed:.2f}" if exact else ""
        return f"bound {classic:.2f} (classic), {cks:.2f} (CKS){known}; worst case {worst:.2f}"
    if row.startswith("truth"):
        return "labels by hand"
    if row not in IMMUTABLE:
        return "the bare plurality: unbounded"
    mechanism, least = IMMUTABLE[row]
    claim = mechanism.claimed_epsilon(queries, DELTA)
    return f"claimed {claim:.3f}; at least {least:.0f} for one query at a tie, and unbounded in c"


def labels_and_costs() -> Table:
    """Table 1, MNIST, delta 1e-5: labels that are right, the noise drawn with seed 0, and what they cost."""
    votes, truth = published_votes("mnist"), mnist_truth()

    def rows() -> Iterator[Sequence[Cell]]:
        for row, (epsilon, _) in PAPER.items():
            if not row.startswith("5 teachers"):
                labels = labels_of(row, votes, truth, 0)
                right = f"{100 * (labels == truth[: len(labels)]).mean():.2f}"
                yield row, epsilon or None, right, truly(row, votes)

    return ("row", "paper: epsilon", "labels right, %", "what it costs"), rows()


def labels_right() -> Table:
    """Table 2, MNIST: labels of 250 teachers that are right, in expectation over the noise."""
    votes, truth = published_votes("mnist"), mnist_truth()
    clean, noisy = (votes.argmax(axis=1) == truth).mean(), pr_label_laplace(votes, 0.05, truth).mean()
    right = [f"{100 * share:.2f}" for share in (noisy, clean, clean)]
    return ("", "LNMax", "NZC", "clean"), iter([("paper, %", "93.02", "94.33", "94.37"), ("here, %", *right)])


def constants() -> Table:
    """The constants, 10 classes, tau 1e-5: what they bound, and what happens at a tie."""
    header = ("noise", "c", "a noise is larger", "label turns at a tie", "claimed, 9,000 queries", "one query at a tie")

    def rows() -> Iterator[Sequence[Cell]]:
        for kind, scale in (("laplace", 0.05), ("laplace", 1e-10), ("gaussian", 40.0), ("gaussian", 1e5)):
            of = constant_for_laplace if kind == "laplace" else constant_for_gaussian
            c = math.ceil(of(10, scale, 1e-5))
            turned = 9 * math.exp(log_pr_flip(c - 1, scale, kind, "continuous"))
            claim = (claimed_epsilon if kind == "laplace" else claimed_epsilon_gaussian)(9000, scale, DELTA).epsilon
            least = actual_epsilon(c, scale, kind, "continuous")
            yield (
                f"{kind} {power(scale)}",
                power(c, 3) if c > 1e6 else c,
                "at most 1e-5",
                power(turned, 1),
                claim,
                f"at least {least:.2f}",
            )

    return header, rows()


def distances() -> Table:
    """Figure 2 (b): queries whose plurality leads by more than n votes, %; 250 teachers."""
    gap = np.diff(np.sort(published_votes("mnist"), axis=1)[:, -2:], axis=1)[:, 0]
    leads = (0, 2, 5, 10, 20, 50, 100, 150, 200)
    shares = [f"{100 * float((gap > least).mean()):.1f}" for least in leads]
    mean = f"{100 * float(gap.mean()) / 250:.1f}"
    return ("votes", "mean, % of the teachers", *(f"> {n}" for n in leads)), iter([("published", mean, *shares)])


TABLES = {each.__name__: each for each in (labels_and_costs, labels_right, constants, distances)}


def measure(kept: Kept, seeds: list[int], rows: list[str]) -> None:
    """Students on the labels of these rows."""
    votes = published_votes("mnist")
    for seed in seeds:
        place = Place("mnist-250", seed)
        for row in rows:
            if kept.has(row=row, seed=seed):
                continue
            if row.startswith("5 teachers"):
                five = teachers_votes(Place("mnist-250", seed, FIVE), kept.path.with_name(f"five-{kept.path.name}"))
                labels = five.pool.argmax(axis=1)
            else:
                labels = labels_of(row, votes, place.pool_truth, seed)
            right = float((labels == place.pool_truth[: len(labels)]).mean())
            digest = hashlib.sha256(labels.astype(np.int64).tobytes()).hexdigest()[:16]
            same = [item for item in kept.found if item["seed"] == seed and item.get("labels") == digest]
            taught = (
                {key: same[0][key] for key in ("accuracy", "seconds")}
                if same
                else student(place, "cnn", np.arange(len(labels)), labels)
            )
            kept.add(row=row, seed=seed, right=right, labels=digest, **taught)


def students(kept: Kept) -> None:
    """Table 1, MNIST: students on those labels, mean and standard deviation of the seeds."""
    command = "python -m benchmarks.near_zero --students --seeds 0 1 2"
    split = "judged on the last 1,000 test images, which all seeds share; nothing was chosen on them"
    seeds = sorted({item["seed"] for item in kept.found})
    columns = ("row", "paper, %", "labels right, %", "student, %")
    with figure("papers/near-zero-students", command, columns, split=split, seeds=seeds) as table:
        table.seconds = kept.seconds
        for row, (_, accuracy) in PAPER.items():
            if mine := [item for item in kept.found if item["row"] == row]:
                table.add(row, accuracy or None, spread(mine, "right", 100), spread(mine, "accuracy", 100))


def main(arguments: list[str] | None = None) -> None:
    """Print the tables of votes, or that of the students."""
    parser = argparse.ArgumentParser(description="The near-zero-cost paper's tables, and what they cost.")
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--students", action="store_true")
    parser.add_argument("--rows", nargs="*", default=list(PAPER), choices=list(PAPER), help="that get a student")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--out", type=Path, default=Path("near-zero.jsonl"))
    chosen = parser.parse_args(arguments or [])
    if not chosen.students:
        show_tables({name: TABLES[name] for name in chosen.tables}, "benchmarks.near_zero", ())
        return
    kept = Kept(chosen.out)
    measure(kept, chosen.seeds, chosen.rows)
    students(kept)


if __name__ == "__main__":
    main(sys.argv[1:])
