"""Orders, in both senses: of the Renyi curve that gives epsilon, and of the queries. Votes only.

    python -m benchmarks.orders [--tables NAME ...]

renyi   : for each row of the papers the order at which epsilon is least, on the eight moments of 2017, on the grid of
          the code of 2018 and on ours; "edge" where the grid ends there, so that a wider one might give less
narrow  : the same queries on grids that are cut, and what that costs
queries : the same 9,000 queries in several orders under a cap of answers: what is asked, and what it costs
missed  : what the queries cost whose label the plurality misses (2018, section 4.3, of mislabelled inputs)
whole   : all 9,000 by every bound; takes a minute

Votes as in `benchmarks.composition`. In an order by the votes itself lies private knowledge: it is shown as what no
student can have, the least and the most that any order could make of these queries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.cells import Cell, Table, power, show_tables
from benchmarks.composition import DELTA, costs, votes_and_truth
from benchmarks.exact import ROWS, batch_of, load
from benchmarks.label_accuracy import pr_label
from consilium import accounting
from consilium.accounting.aggregators import Aggregator
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, REFERENCE_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.laplace import PAPER_MOMENTS
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.label_costs import VoteBatch, published_rdp
from consilium.accounting.units import Noise

GRIDS = {"8 moments": PAPER_MOMENTS + 1.0, "2018": REFERENCE_ORDERS, "ours": DEFAULT_ORDERS}
"""Orders at which the papers' bound is evaluated, by whose they are."""
CAP = 283
"""Answers that Confident expects of the first 640 queries."""


def at_edge(order: float, grid: np.ndarray) -> bool:
    """Whether epsilon is least at an end of the grid.

    >>> at_edge(9.0, GRIDS["8 moments"]), at_edge(8.0, GRIDS["8 moments"])
    (True, False)
    """
    return bool(order in (grid[0], grid[-1]))


def _least(curve: np.ndarray | None, grid: np.ndarray, delta: float, classic: bool = True) -> tuple[float, str]:
    """Epsilon, and the order in words."""
    if curve is None:
        return float("nan"), ""
    found = rdp_to_epsilon(curve, grid, delta, "classic" if classic else "cks")
    return found.epsilon, f"{found.order:.3g}{' (edge)' if at_edge(found.order, grid) else ''}"


def renyi() -> Table:
    """Least epsilon of the papers' bound (classic conversion) and its order, by grid; and of the worst case (CKS)."""
    header = ("row", "queries", "delta", *(f"{name}: {what}" for name in GRIDS for what in ("epsilon", "order")),
              "worst case", "its order")  # fmt: skip

    def rows() -> Iterator[Sequence[Cell]]:
        for name, row in ROWS.items():
            votes = load(row.votes, row.queries)
            if votes is None:
                continue
            event, batch = batch_of(row.mechanism, votes, Noise.CONTINUOUS)
            found = [
                cell for grid in GRIDS.values() for cell in _least(published_rdp(event, batch, grid), grid, row.delta)
            ]
            worst = _promised(event, batch, row.delta)
            yield name, row.queries, power(row.delta), *found, *worst

    return header, rows()


def _promised(event: ReleaseEvent, batch: VoteBatch, delta: float) -> tuple[float, str]:
    cap = event.with_counts(event.asked, int(np.ceil(batch.weights.sum() - 1e-9)))
    return _least(cap.worst_case_rdp(DEFAULT_ORDERS), DEFAULT_ORDERS, delta, classic=False)


def narrow() -> Table:
    """LNMax, gamma .05, on the published votes: orders up to so many, and from so many on."""
    tops, bottoms = (3, 5, 9, 17, 33, 65, 500), (1.01, 2, 5, 10)
    header = ("queries", *(f"to {top}" for top in tops), *(f"from {bottom}" for bottom in bottoms), "best order")
    votes = load("mnist")

    def rows() -> Iterator[Sequence[Cell]]:
        if votes is None:
            return
        for queries in (1, 10, 100, 1000, 9000):
            event, batch = batch_of(accounting.LNMax(0.05), votes[:queries], Noise.CONTINUOUS)
            curve = published_rdp(event, batch)
            assert curve is not None
            at = [slice(0, np.searchsorted(DEFAULT_ORDERS, top, "right")) for top in tops]
            at += [slice(np.searchsorted(DEFAULT_ORDERS, bottom), None) for bottom in bottoms]
            cut = [rdp_to_epsilon(curve[part], DEFAULT_ORDERS[part], DELTA, "classic").epsilon for part in at]
            yield queries, *cut, _least(curve, DEFAULT_ORDERS, DELTA)[1]

    return header, rows()


def sequences(votes: np.ndarray) -> dict[str, np.ndarray]:
    """Orders of the queries, by name: int64 (queries,) each."""
    top = np.sort(votes, axis=1)
    lead = top[:, -1] - top[:, -2]
    return {
        "MNIST's": np.arange(len(votes)),
        "MNIST's, from the end": np.arange(len(votes))[::-1],
        "by lot": np.random.default_rng(0).permutation(len(votes)),
        "clearest first (secret)": np.argsort(-lead, kind="stable"),
        "most disputed first (secret)": np.argsort(lead, kind="stable"),
    }


def queries() -> Table:
    """Until Confident (200, 150, 40) has given 283 answers, in expectation; and 283 queries of GNMax (40)."""
    header = ("mechanism", "order", "asked", "labels right, %", "published, classic", "exact", "worst case")
    found = votes_and_truth("mnist", 9000)

    def rows() -> Iterator[Sequence[Cell]]:
        if found is None:
            return
        votes, truth = found
        for name, order in sequences(votes).items():
            _, batch = batch_of(accounting.GNMax(40), votes[order[:CAP]], Noise.CONTINUOUS)
            yield "GNMax", name, CAP, *_sequence(accounting.GNMax(40), votes, truth, order[:CAP], batch.weights)
        for name, order in sequences(votes).items():
            mechanism = accounting.Confident(200, 150, 40)
            _, batch = batch_of(mechanism, votes[order], Noise.CONTINUOUS)
            asked = int(np.searchsorted(np.cumsum(batch.weights), CAP)) + 1
            yield "Confident", name, asked, *_sequence(mechanism, votes, truth, order[:asked], batch.weights[:asked])

    return header, rows()


def _sequence(
    mechanism: Aggregator, votes: np.ndarray, truth: np.ndarray, order: np.ndarray, weights: np.ndarray
) -> tuple[float, float, float, float]:
    right = pr_label(votes[order], 40.0, truth[order])
    _, classic, _, exact, worst = costs(mechanism, votes[order], DELTA)
    return 100 * float(np.average(right, weights=weights)), classic, exact, worst


def missed() -> Table:
    """Queries whose label the plurality misses: how many, and their part of the labels' Renyi curve."""
    header = ("mechanism", "queries", "missed, %", "of the answers, %", "of the labels' cost, %",
              "one costs, times another")  # fmt: skip
    found = votes_and_truth("mnist", 9000)

    def rows() -> Iterator[Sequence[Cell]]:
        if found is None:
            return
        votes, truth = found
        misses = votes.argmax(axis=1) != truth
        for mechanism in (accounting.LNMax(0.05), accounting.GNMax(40), accounting.Confident(200, 150, 40)):
            event, batch = batch_of(mechanism, votes, Noise.CONTINUOUS)
            curves = [published_rdp(event, batch._replace(weights=batch.weights * part)) for part in (1, misses, 0)]
            total, of_misses, check = (np.asarray(curve) for curve in curves)
            order = rdp_to_epsilon(total, DEFAULT_ORDERS, DELTA, "classic").order
            at = int(np.flatnonzero(order == DEFAULT_ORDERS)[0])
            cost = float((of_misses - check)[at] / (total - check)[at])
            answers = float(batch.weights[misses].sum() / batch.weights.sum())
            times = cost / answers / ((1 - cost) / (1 - answers))
            yield repr(mechanism), len(votes), 100 * float(misses.mean()), 100 * answers, 100 * cost, times

    return header, rows()


def whole() -> Table:
    """All published queries, by every bound."""
    header = ("mechanism", "queries", "answers", "classic", "CKS", "exact", "worst")
    votes = load("mnist")

    def rows() -> Iterator[Sequence[Cell]]:
        for mechanism in (accounting.LNMax(0.05), accounting.GNMax(40), accounting.Confident(200, 150, 40)):
            if votes is not None:
                answers, *bounds = costs(mechanism, votes, DELTA)
                yield repr(mechanism), len(votes), round(answers), *bounds

    return header, rows()


TABLES: dict[str, Callable[[], Table]] = {each.__name__: each for each in (renyi, narrow, queries, missed, whole)}


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    show_tables(TABLES, "benchmarks.orders", arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
