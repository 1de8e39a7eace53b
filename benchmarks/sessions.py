"""What a lying coordinator reads from several secure sums, before and now, and what the rule against it costs.

Synthetic votes through the real state machines of parties and coordinator. The first table: a sum over all, then, on
the same questions with one feature moved by one float32 ulp, a sum over all but one party; the difference is held
against that party's votes. The second: twenty sums of 100 labels each, a tenth of the parties lost at random in each,
mean over TRIALS histories of the coordinator's own choices; seconds are those of the sums that were given and of those
that were refused after the masked stage, each measured once. The last row of each n is of a federation whose first sum
had everybody in it. CONSILIUM_SESSIONS_PARTIES (default "10 50 207") chooses the numbers of parties.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from consilium.coordinator.secagg.drive import drive
from consilium.protocol.secagg.stages import Stage
from tests.secagg.across import choices, differencing, sets_unchecked
from tests.secagg.network import Federation, Network, make_queries, run_until

LABELS, SESSIONS, LOST, TRIALS = 100, 20, 0.1, 50
DIFFERENCES = (2, 5, 10)


def attack(n: int, checked: bool) -> float:
    """Fraction of the votes of the party that is left out."""
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder), n, teachers=1, queries=make_queries(500))
        victim = federation.names[n // 2]
        if checked:
            return differencing(federation, [victim])[victim]
        with sets_unchecked():
            return differencing(federation, [victim])[victim]


def seconds(n: int) -> tuple[float, float]:
    """Of a sum with a tenth of the parties lost, and of one that ends after the masked stage; all parties in turn."""
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder), n, teachers=1, queries=make_queries(LABELS, seed=1))
        network = Network(federation, lost={Stage.SHARE: federation.names[: round(LOST * n)]})
        start = time.perf_counter()
        run_until(federation, Stage.CONSISTENCY, network)
        refused = time.perf_counter() - start
        start = time.perf_counter()
        drive(federation.machine(), network.send)
        return time.perf_counter() - start, refused


def availability(n: int, least: int, spare: int, everybody_first: bool = False) -> tuple[float, float, float]:
    """Sums given, sums refused, and parties in a sum; means."""
    with tempfile.TemporaryDirectory() as folder:
        roster = Federation(Path(folder), n, least_difference=least).roster
    rng = np.random.default_rng(n + least)
    found = [
        choices(roster, SESSIONS, LOST, spare, rng, [frozenset(range(n))] if everybody_first else [])
        for _ in range(TRIALS)
    ]
    sizes = [size for sequel in found for size in sequel.given]
    return (
        float(np.mean([len(sequel.given) for sequel in found])),
        float(np.mean([sequel.refused for sequel in found])),
        float(np.mean(sizes)) if sizes else 0.0,
    )


def main() -> None:
    """Print both tables."""
    sizes = [int(n) for n in os.environ.get("CONSILIUM_SESSIONS_PARTIES", "10 50 207").split()]
    print("fraction of the left-out party's votes that the coordinator reads")
    print(f"{'parties':>8}{'sets unchecked':>16}{'now':>8}")
    for n in (sizes[0], sizes[-1]):
        print(f"{n:8d}{attack(n, checked=False):16.3f}{attack(n, checked=True):8.3f}", flush=True)
    print(f"\n{SESSIONS} sums of {LABELS} labels, {LOST:.0%} of the parties lost in each")
    heads = ("labels", "sums given", "refused", "in a sum", "seconds")
    print(f"{'parties':>8}{'difference':>12}{'spare':>7}" + "".join(f"{head:>12}" for head in heads))
    for n in sizes:
        full, part = seconds(n)
        rows = [(least, spare, False) for least in DIFFERENCES for spare in (0, least, 2 * least)]
        for least, spare, first in [*rows, (2, 0, True), (2, 2, True), (2, 4, True)]:
            given, refused, parties = availability(n, least, spare, first)
            print(
                f"{n:8d}{least:12d}{spare:7d}{LABELS * given:12.0f}{given:12.1f}{refused:12.1f}{parties:12.1f}"
                f"{given * full + refused * part:12.1f}" + ("   after a sum over all" if first else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
