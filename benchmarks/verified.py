"""What verified votes cost a party and each aggregator, and a whole session with liars in it.

One process on one core (OMP_NUM_THREADS=1). Times are processor time: of a party for its one upload, of an aggregator
for taking, checking and adding one, means over twenty. The lower limit is numpy drawing and adding as many bytes as a
share has, in the same run. CONSILIUM_VERIFIED_SHAPES (queries x classes, x teachers of a party; default "10000x10
10000x10x5 12000x150"), CONSILIUM_VERIFIED_PARTIES ("250") and CONSILIUM_VERIFIED_LIARS ("1", in a hundred parties)
choose sizes.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from benchmarks.cells import command_of
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.leader import Leader
from consilium.sums.aggregators.proof import Prover, soundness_error
from docs.figures import figure
from tests.protocol.verified.federation import VerifiedFederation, make_votes
from tests.protocol.verified.liars import Forger

MEASURED = 20


@dataclass
class Clock:
    """Processor seconds by what they were spent on."""

    spent: dict[str, float] = field(default_factory=dict)

    def __call__(self, what: str, action: Callable):
        start = time.process_time()
        result = action()
        self.spent[what] = self.spent.get(what, 0.0) + time.process_time() - start
        return result


def floor_ms(cells: int, least: float = 0.2) -> float:
    """Milliseconds in which numpy draws so many numbers of 16 bits and adds them to a total."""
    rng, total = np.random.default_rng(0), np.zeros(cells, dtype=np.uint32)
    count, start = 0, time.process_time()
    while (spent := time.process_time() - start) < least or not count:
        np.add(total, rng.integers(0, 2**16, cells, dtype=np.uint16), out=total)
        count += 1
    return 1000 * spent / count


@dataclass
class VerifiedRun:
    """One session: clock, bytes, and whether its sum is right and its liars are named."""

    clock: Clock
    up: int = 0
    between: int = 0
    right: bool = False
    named: int = 0


def settle(clock: Clock, leader: Leader, helper: Helper, run: VerifiedRun) -> None:
    """All batches that wait."""
    while (batch := clock("leader", leader.batch)) is not None:
        reply = clock("helper", lambda sent=batch: helper.check(sent))
        clock("leader", lambda got=reply: leader.settle(got))
        run.between += len(batch) + len(reply)


class NoNoise:
    """Noise that terms ask for and nobody draws: their sums need the larger field, and are exact."""

    simulated = True

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


LARGER = {"leader_sigma": 1_500.0, "helper_sigma": 1_500.0}
"""Terms whose sums need the larger field, of however few parties."""


def make(parties: int, shape: tuple[int, ...], larger: bool = False) -> VerifiedFederation:
    """A federation whose votes are made when they are needed."""
    queries, classes, teachers = (*shape, 1)[:3]
    terms = LARGER if larger else {}
    return VerifiedFederation(parties, queries=queries, classes=classes, teachers=teachers, no_votes=True, terms=terms)


def session(parties: int, shape: tuple[int, ...], liars: int, larger: bool = False) -> VerifiedRun:
    """So many parties, one after another; every upload is forgotten when it is taken. larger: in the larger field."""
    federation = make(parties, shape, larger)
    queries, classes, teachers = federation.queries, federation.classes, federation.teachers
    grid, names = federation.session.grid, federation.names
    lying = set(names[:: max(1, parties // liars)][:liars]) if liars else set()
    run = VerifiedRun(Clock())
    clock, helper, prover = run.clock, federation.helper(noise=NoNoise()), Prover(grid)
    keys = clock("helper", lambda: helper.keys(federation.helper_identity))
    clock("leader", lambda: keys.check(federation.session.ctx, parties, federation.helper_identity.public))
    run.between += len(keys.content)
    leader, total = federation.leader(noise=NoNoise()), np.zeros((queries, classes), dtype=np.int64)
    for place, name in enumerate(names):
        votes = make_votes(place, queries, classes, teachers)
        if name in lying:
            matrix = np.eye(classes, dtype=np.int64)[grid.picks(votes)]
            matrix[place % grid.rows, 0] += 1
            upload = Forger(federation, name)(matrix)
        else:
            total += votes
            client = clock("party", lambda name=name: federation.client(name, prover=prover))
            upload = clock("party", lambda client=client, votes=votes: client.upload(votes))
        run.up = len(upload)
        clock("leader", lambda name=name, upload=upload: leader.accept(name, upload))
        if leader.waiting == 32:
            settle(clock, leader, helper, run)
    settle(clock, leader, helper, run)
    asked = clock("leader", leader.ask)
    given = clock("helper", lambda: helper.give(asked))
    result = clock("leader", lambda: leader.finish(given))
    run.right = np.array_equal(result.sums, total)
    run.named = len(result.left_out) if set(result.left_out) == lying == set(helper.left_out) else -1
    return run


def named(shape: tuple[int, ...]) -> str:
    """For the tables."""
    return " x ".join(f"{each:,}" for each in shape[:2]) + (f", {shape[2]} teachers" if len(shape) > 2 else "")


COLUMNS = (
    "queries x classes", "party, ms", "coordinator, ms a party", "second aggregator, ms a party", "limit, ms",
    "up, kB", "between the two, kB a party", "a forged vote passes, 2^",
)  # fmt: skip


def shapes() -> list[tuple[int, ...]]:
    """Of CONSILIUM_VERIFIED_SHAPES."""
    return [tuple(map(int, each.split("x"))) for each in _setting("SHAPES", "10000x10 10000x10x5 12000x150")]


def rows() -> Iterator[list[str]]:
    """Of each shape, by the party."""
    for shape in shapes():
        session(3, shape, 0)
        run = session(MEASURED, shape, 0)
        grid = make(2, shape).session.grid
        milliseconds = [1000 * run.clock.spent[name] / MEASURED for name in ("party", "leader", "helper")]
        yield [
            named(shape),
            *(f"{each:.1f}" for each in milliseconds),
            f"{floor_ms(grid.cells):.2f}",
            f"{run.up / 1000:,.0f}",
            f"{run.between / MEASURED / 1000:.1f}",
            f"{np.log2(soundness_error(grid, 2.0**60)):.0f}",
        ]


def main() -> None:
    """Print both tables."""
    command = command_of("benchmarks.verified", variables=["CONSILIUM_VERIFIED_SHAPES"])
    split = "made-up votes; the limit is numpy drawing and adding as many bytes"
    with figure("results/verified", command, COLUMNS, split=split, timings=COLUMNS[1:5]) as table:
        for row in rows():
            table.add(*row)
    shape = shapes()[0]
    print(f"\n{'parties':>8}{'queries x classes':>19}{'liars':>7}{'left out':>10}", end="")
    print("".join(f"{head:>12}" for head in ("sum", "parties s", "leader s", "helper s", "all s", "peak MB")))
    for parties in map(int, _setting("PARTIES", "250")):
        liars = parties * int(_setting("LIARS", "1")[0]) // 100
        start = time.perf_counter()
        run = session(parties, shape, liars)
        everything = time.perf_counter() - start
        spent, peak = run.clock.spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{parties:8d}{named(shape):>19}{liars:7d}{run.named:10d}{'right' if run.right else 'WRONG':>12}"
            f"{spent['party']:12.1f}{spent['leader']:12.1f}{spent['helper']:12.1f}{everything:12.1f}{peak:12.0f}",
            flush=True,
        )


def _setting(name: str, default: str) -> list[str]:
    return os.environ.get(f"CONSILIUM_VERIFIED_{name}", default).split()


if __name__ == "__main__":
    main()
