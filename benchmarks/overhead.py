"""What the federation costs: the local engine against a plain loop with the same teachers and votes.

The loop has no messages, no files, no processes, no ledger. Its votes must equal those of the run, or the comparison is
worth nothing: that is checked. How much two processes at once gain over one is measured too, since "two cores" of a
shared machine may be two threads of one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from consilium.coordinator.collection.clear import kept_votes
from consilium.data.private_rows import Rows
from consilium.party.teach import train, vote
from consilium.protocol.digests import canonical_digest
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.simulations.datasets.source import load_dataset
from consilium.simulations.divide import federation_config
from consilium.simulations.population.partition import natural_partition
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

ROUNDS = 5
KINDS = {
    "logistic regression (default)": [],
    "random forest, 50 trees": ["federation.teacher.model=random_forest", "federation.teacher.depth=6"],
}


def plain_loop(overrides: list[str], seed: int = 0) -> tuple[float, np.ndarray, list[str]]:
    """Seconds, votes (parties, queries, classes) and ids of the queries, without Flower."""
    scenario, data = load_scenario("stroke-labels", overrides), load_dataset("stroke")
    parts = natural_partition(data, scenario.data.public_rule, scenario.data.rows_needed, 200, seed)
    schema = federation_config(scenario, data, parts, seed).rows
    pool = canonical_queries(data.x[parts.queries], len(schema.features))
    generator = np.random.default_rng([seed, 0x617368, 0])  # the student's own draw
    chosen = generator.permutation(np.arange(len(pool)))[: scenario.federation.query_budget.queries]
    queries = schema.standardise(pool[chosen])
    start = time.perf_counter()
    votes = np.zeros((len(parts.parties), len(chosen), 2), dtype=np.int64)
    with threadpool_limits(1):
        for index, (name, rows) in enumerate(parts.parties.items()):
            digest = int(canonical_digest(f'["{name}", "teacher"]'), 16)
            estimator_seed = np.random.SeedSequence([seed, digest]).spawn(2)[1].spawn(1)[0].generate_state(1)[0]
            own = Rows(schema.standardise(data.x[rows]), data.y[rows])
            teacher = train(own, scenario.federation.teacher, np.arange(len(rows)), int(estimator_seed), 2)
            votes[index] = vote([teacher], queries, 2)
    return time.perf_counter() - start, votes, query_ids(pool[chosen])


def seconds_of(_: int) -> float:
    """The plain loop alone, for a process of its own."""
    return plain_loop([])[0]


def two_at_once() -> float:
    """How many times faster two processes get two loops done than one process."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(seconds_of, range(2), chunksize=1)
        alone = min(pool.apply(seconds_of, (0,)) for _ in range(3))
        both = min(max(pool.map(seconds_of, range(2), chunksize=1)) for _ in range(3))
    return 2 * alone / both


COLUMNS = (
    "teachers", "plain loop, one process", "federation, train and vote", "times the loop", "enrolment", "whole run",
)  # fmt: skip


def rows(rounds: int = ROUNDS) -> Iterator[list[str]]:
    """A row for each kind of teacher: medians of seconds over rounds that alternate between loop and federation."""
    for kind, overrides in KINDS.items():
        scenario = load_scenario("stroke-labels", overrides)
        seconds = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(rounds):
                plain, votes, ids = plain_loop(overrides)
                out = Path(folder) / str(number)
                summary = run_scenario("stroke", scenario, "local", 0, out, lambda _: contextlib.nullcontext())
                (file,) = (out / "private").glob("votes-*.npz")
                with kept_votes(file) as kept:
                    said = np.stack([kept.votes(party) for party in sorted(kept.weights)])
                    assert (said == votes[:, [ids.index(i) for i in kept.query_ids]]).all()
                took = summary["seconds"]
                seconds.append((plain, took["train"] + took["vote"], took["enrol"], took["total"]))
        plain, work, enrol, total = np.median(np.array(seconds), axis=0)
        yield [kind, f"{plain:.2f} s", f"{work:.2f} s", f"{work / plain:.2f}", f"{enrol:.2f} s", f"{total:.2f} s"]


def main() -> None:
    """Print the table."""
    split = f"stroke, 207 parties, 800 queries, the same votes in both; medians of {ROUNDS} rounds"
    note = f"Two processes at once do the work of {two_at_once():.2f} on this machine"
    name, command = "results/overhead", "python -m benchmarks.overhead"
    with figure(name, command, COLUMNS, split=split, timings=COLUMNS[1:], note=note, quick=False) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
