"""What verified votes cost a party and each aggregator, and a whole session with liars in it.

One process on one core (OMP_NUM_THREADS=1). Times are processor time: of a party for its one upload, of an aggregator
for taking, checking and adding one, means over twenty. The lower limit is numpy drawing and adding as many bytes as a
share has, in the same run. CONSILIUM_VERIFIED_SHAPES (default "10000x10 12000x150"), CONSILIUM_VERIFIED_PARTIES ("250")
and CONSILIUM_VERIFIED_LIARS ("1", in a hundred parties) choose sizes.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.verified.client import VoteClient
from consilium.protocol.verified.helper import Helper
from consilium.protocol.verified.leader import Leader
from consilium.protocol.verified.proof import Prover, soundness_error
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


def session(parties: int, queries: int, classes: int, liars: int) -> VerifiedRun:
    """So many parties, one after another; every upload is forgotten when it is taken."""
    federation = VerifiedFederation(parties, queries=queries, classes=classes, no_votes=True)
    grid, names = federation.session.grid, federation.names
    lying = set(names[:: max(1, parties // liars)][:liars]) if liars else set()
    leader, helper, prover = federation.leader(), federation.helper(), Prover(grid)
    total, run = np.zeros((queries, classes), dtype=np.int64), VerifiedRun(Clock())
    clock = run.clock
    for place, name in enumerate(names):
        votes = make_votes(place, queries, classes, 1)
        if name in lying:
            matrix = votes.copy()
            matrix[place % queries] = 0
            matrix[place % queries, 0] = 2
            upload = Forger(federation, name)(matrix)
        else:
            total += votes
            client = VoteClient(federation.session, federation.roster, name, federation.identities[name], prover=prover)
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


def main() -> None:
    """Print both tables."""
    shapes = [
        (int(queries), int(classes))
        for queries, classes in (each.split("x") for each in _setting("SHAPES", "10000x10 12000x150"))
    ]
    heads = ("party ms", "leader ms", "helper ms", "limit ms", "up, kB", "between, kB", "error, 2^")
    print(f"{'queries x classes':>18}" + "".join(f"{head:>13}" for head in heads))
    for queries, classes in shapes:
        session(3, queries, classes, 0)
        run = session(MEASURED, queries, classes, 0)
        grid = VerifiedFederation(2, queries=queries, classes=classes, no_votes=True).session.grid
        spent = {what: 1000 * seconds / MEASURED for what, seconds in run.clock.spent.items()}
        print(
            f"{f'{queries} x {classes}':>18}{spent['party']:13.2f}{spent['leader']:13.2f}{spent['helper']:13.2f}"
            f"{floor_ms(grid.cells):13.2f}{run.up / 1000:13.1f}{run.between / MEASURED / 1000:13.1f}"
            f"{np.log2(soundness_error(grid, 2.0**60)):13.1f}",
            flush=True,
        )
    print(f"\n{'parties':>8}{'queries x classes':>19}{'liars':>7}{'left out':>10}", end="")
    print("".join(f"{head:>12}" for head in ("sum", "parties s", "leader s", "helper s", "all s", "peak MB")))
    for parties in map(int, _setting("PARTIES", "250")):
        liars = parties * int(_setting("LIARS", "1")[0]) // 100
        start = time.perf_counter()
        run = session(parties, *shapes[0], liars)
        everything = time.perf_counter() - start
        spent, peak = run.clock.spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        shape = f"{shapes[0][0]} x {shapes[0][1]}"
        print(
            f"{parties:8d}{shape:>19}{liars:7d}{run.named:10d}{'right' if run.right else 'WRONG':>12}"
            f"{spent['party']:12.1f}{spent['leader']:12.1f}{spent['helper']:12.1f}{everything:12.1f}{peak:12.0f}",
            flush=True,
        )


def _setting(name: str, default: str) -> list[str]:
    return os.environ.get(f"CONSILIUM_VERIFIED_{name}", default).split()


if __name__ == "__main__":
    main()
