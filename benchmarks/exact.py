"""Rows of the PATE papers, accounted for by every bound: published, exact, worst case before and now.

    python -m benchmarks.exact [--rows ROW ...] [--speed | --promises]

The published votes of 250 MNIST teachers, and made-up ones of the papers' sizes where theirs are not at hand (golden
sets beside the repository); a row whose votes are not there is left out and named. Worst cases are at the query budget:
all queries asked, and the expected answers, rounded up; the Renyi curve, numerical composition, and the least of what
is claimed. `--speed` times exact curves beside the published bound on the same votes, in the same run. `--promises`: of
shipped scenarios with the labels that they release, or released in version 0.3, before and now, with the same noise.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import results
from consilium import accounting
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, REFERENCE_ORDERS, Method, rdp_to_epsilon
from consilium.accounting.events import Mechanism
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp
from consilium.accounting.outcome.argmax import computed
from consilium.accounting.target import worst_case, worst_case_as_histogram
from consilium.accounting.units import Noise
from consilium.coordinator.privacy import promised
from consilium.report.disclosure import epsilon_text
from consilium.simulations.scenario import load_scenario

LABELLED = {
    "stroke": ("Confident, at most 300", ()),
    **{
        name: (
            f"GNMax, {queries:,}",
            (
                f"federation.mechanism={{name='gnmax', sigma={sigma}}}",
                f"federation.query_budget={{queries={queries}, answers={queries}}}",
            ),
        )
        for name, queries, sigma in (
            ("adult-250", 500, 60),
            ("diabetes-rf", 1000, 120),
            ("pneumonia", 100, 20),
            ("mnist-250", 30, 55),
            ("fashion-250", 100, 53),
        )
    },
}
"""Scenarios with the labels that they release, or released in version 0.3."""
SHARED = Path(__file__).resolve().parents[1].parent / "shared"
SOURCES = {
    "mnist": SHARED / "data" / "pate2018_votes_mnist.npz",
    "mnistlike": SHARED / "golden" / "accounting" / "mnistlike.npz",
    "glyphlike": SHARED / "golden" / "accounting" / "glyphlike.npz",
}
"""Votes of 250 MNIST teachers, published; made-up ones of 250 and of 5,000 teachers."""


@dataclass(frozen=True)
class Row:
    """A row of a paper: whose votes stand in for it, how many queries, and what the paper prints."""

    mechanism: Mechanism
    votes: str
    queries: int
    delta: float
    paper: str


ROWS = {
    "2018 MNIST Confident": Row(accounting.Confident(200, 150, 40), "mnist", 640, 1e-5, "1.97"),
    "2017 MNIST LNMax 100": Row(accounting.LNMax(0.05), "mnist", 100, 1e-5, "2.04"),
    "2017 MNIST LNMax 1,000": Row(accounting.LNMax(0.05), "mnist", 1000, 1e-5, "8.03"),
    "2018 SVHN Confident": Row(accounting.Confident(300, 200, 40), "mnistlike", 8500, 1e-6, "5.34"),
    "2017 SVHN LNMax 500": Row(accounting.LNMax(0.05), "mnistlike", 500, 1e-6, "5.04"),
    "2017 SVHN LNMax 1,000": Row(accounting.LNMax(0.05), "mnistlike", 1000, 1e-6, "8.19"),
    "2018 Glyph Confident 3000": Row(accounting.Confident(3000, 1500, 100), "glyphlike", 12000, 1e-8, "1.02"),
    "2018 Glyph Confident 1000": Row(accounting.Confident(1000, 500, 100), "glyphlike", 12000, 1e-8, "2.03"),
}
"""2018: the first version's figure 5, and for MNIST the table of the final one. 2017: figure 4. Only `mnist` are votes
that were published; figures on the others are not to be compared with the paper's."""

COLUMNS = (
    "answers",
    "paper",
    "classic",
    "CKS",
    "exact",
    "worst before, Renyi",
    "worst before, least",
    "worst now, Renyi",
    "worst now, least",
)


def load(name: str, queries: int | None = None) -> np.ndarray | None:
    """First so many queries of a set, int64 (queries, classes); None if it is not beside the repository."""
    path = SOURCES[name]
    return np.load(path)["votes"][:queries].astype(np.int64) if path.exists() else None


def batch_of(mechanism: Mechanism, votes: np.ndarray, noise: Noise) -> VoteBatch:
    """What is charged for these votes, with expected answers."""
    event, teachers = mechanism.event(len(votes), noise=noise), int(votes[0].sum())
    return VoteBatch(event, votes, np.exp(event.log_p_answered(votes, teachers)))


def exact(batch: VoteBatch) -> np.ndarray | None:
    """The exact curve; None where a bound would stand for a label whose law is not computed."""
    event, label = batch.event, batch.event.label
    if label is None or not computed(batch.votes, label.scale, event.noise, label.law, event.votes_moved).all():
        return None
    return exact_rdp(batch)


def figures(row: Row, votes: np.ndarray, noise: Noise) -> list[float | None]:
    """Of COLUMNS, without the paper's."""
    batch = batch_of(row.mechanism, votes, noise)
    event, answers = batch.event, float(batch.answered.sum())
    cap = event.with_counts(event.asked, min(event.asked, math.ceil(answers - 1e-9)))

    def converted(curve: np.ndarray | None, method: Method = "cks") -> float | None:
        return None if curve is None else rdp_to_epsilon(curve, DEFAULT_ORDERS, row.delta, method).epsilon

    published = published_rdp(batch)
    return [
        answers,
        converted(published, "classic"),
        converted(published),
        converted(exact(batch)),
        converted(cap.histogram_rdp(DEFAULT_ORDERS)),
        worst_case_as_histogram([cap], row.delta),
        converted(cap.worst_case_rdp(DEFAULT_ORDERS)),
        worst_case([cap], row.delta).epsilon,
    ]


def table(rows: list[str]) -> None:
    """Print every figure of these rows, with both kinds of noise."""
    for name in rows:
        row = ROWS[name]
        votes = load(row.votes, row.queries)
        if votes is None:
            print(f"{name}: the votes {row.votes} are not beside the repository")
            continue
        stand_in = "" if row.votes == "mnist" else f" (made-up votes: {row.votes})"
        print(f"\n{name}{stand_in}: {row.mechanism}, {row.queries:,} queries, delta {row.delta:g}")
        both = [figures(row, votes, noise) for noise in (Noise.CONTINUOUS, Noise.DISCRETE)]
        print(f"{'':24}{'continuous':>12}{'discrete':>12}")
        print(f"{'printed in the paper':24}{row.paper:>12}")
        for title, continuous, discrete in zip([c for c in COLUMNS if c != "paper"], *both, strict=True):
            shown = ["-" if value is None else f"{value:.3f}" for value in (continuous, discrete)]
            print(f"{title:24}{shown[0]:>12}{shown[1]:>12}")


SPEED = {"8,500 x 10": ("mnistlike", 8500, accounting.GNMax(40))}


def timed(call: Callable[[], object], runs: int = 3) -> float:
    """Least seconds of a few runs, tables made before."""
    call()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def speed() -> None:
    """Print seconds of whole curves, 297 orders, one core."""
    print(f"{'297 orders':16}{'noise':>12}{'published':>12}{'exact':>12}{'ratio':>8}")
    for title, (name, queries, mechanism) in SPEED.items():
        votes = load(name, queries)
        if votes is None:
            print(f"{title}: the votes {name} are not beside the repository")
            continue
        for noise in Noise:
            batch = batch_of(mechanism, votes, noise)
            published = timed(lambda: published_rdp(batch, REFERENCE_ORDERS))  # noqa: B023
            computing = timed(lambda: exact_rdp(batch, REFERENCE_ORDERS), 1)  # noqa: B023
            print(f"{title:16}{noise:>12}{published:12.3f}{computing:12.3f}{computing / published:8.1f}")


PROMISES = ("scenario", "labels", "as a whole histogram", "as labels")


def promises() -> Iterator[list[str]]:
    """What the scenarios promise for labels, charged as histograms and as labels; a row for each, under PROMISES."""
    for name, (labels, changes) in LABELLED.items():
        federation = load_scenario(name, changes).federation
        (event,) = federation.promised_events()
        before = worst_case_as_histogram([event], federation.privacy.delta)
        yield [name, labels, epsilon_text(before), epsilon_text(promised(federation).epsilon)]


def main(arguments: list[str] | None = None) -> None:
    """Print the tables, or the times."""
    parser = argparse.ArgumentParser(description="The papers' rows by every bound.")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--promises", action="store_true")
    chosen = parser.parse_args(arguments or [])
    if chosen.speed:
        speed()
    elif chosen.promises:
        command = "python -m benchmarks.exact --promises"
        with results.table("label-cost", command, PROMISES, split="a function of public settings alone") as made:
            for row in promises():
                made.add(*row)
    else:
        table(chosen.rows)


if __name__ == "__main__":
    main(sys.argv[1:])
