"""Tables 1 and 2 and the constants of the near-zero-cost paper, with what each row really costs.

    python -m benchmarks.near_zero [--tables NAME ...]

Its 250 MNIST teachers are those of Papernot et al. 2017, so the votes published with Papernot et al. 2018 stand in
for them (9,000 test images). Nothing is trained: its students are those of `consilium run near-zero`. SVHN's half of
the tables cannot be had here: neither images nor votes are at hand. The tables are those of docs/laboratory/papers.md
(docs/figures.py).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.cells import Cell, Table, power, show_tables
from benchmarks.composition import costs, mnist_truth
from benchmarks.exact import published_votes
from benchmarks.label_accuracy import pr_label_laplace
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

DELTA = 1e-5
PAPER = {
    "LNMax 100": "2.04",
    "LNMax 500": "",
    "LNMax 1,000": "8.03",
    "LNMax 5,000": "> 8.03",
    "LNMax 9,000": "> 8.03",
    "NZC 9,000": "about 0",
    "NZC Gaussian 9,000": "",
    "clean votes 9,000": "",
    "truth 9,000": "",
}
"""Row -> epsilon, as table 1 prints it. 500 queries are of the first version of Papernot et al. 2017 (4.2), which
prints no figure of them."""

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
        for row, epsilon in PAPER.items():
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


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="The near-zero-cost paper's tables, and what they cost.")
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    chosen = parser.parse_args(arguments or [])
    show_tables({name: TABLES[name] for name in chosen.tables}, "benchmarks.near_zero", ())


if __name__ == "__main__":
    main(sys.argv[1:])
