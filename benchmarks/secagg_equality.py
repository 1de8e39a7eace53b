"""Secure sums against plain ones, cell by cell: no, 10 % and 30 % of the parties lost, from every stage on.

On the votes of the default scenario (207 hospitals), and on 10,000 x 10 random votes of 250 parties.
CONSILIUM_SECAGG_LARGE=0 leaves the second out.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.clear import kept_votes
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import STAGES, Stage
from tests.secagg.network import Federation, Network, make_queries

SHARES = (0.0, 0.1, 0.3)


def check(federation: Federation, share: float, stage: Stage) -> tuple[int, float]:
    """Parties in the sum, and seconds; AssertionError if it is not the plain sum of their votes."""
    gone = federation.names[: round(share * federation.n)]
    network = Network(federation, mute={later: gone for later in STAGES[STAGES.index(stage) :]})
    for path in federation.folder.glob("*.db"):
        path.unlink()  # each session is asked the same queries, which no party would answer twice
    start = time.perf_counter()
    result = drive(federation.machine(), network.send)
    expected = federation.n - (len(gone) if STAGES.index(stage) <= STAGES.index(Stage.MASKED) else 0)
    assert len(result.survivors) == expected, f"{len(result.survivors)} parties in the sum instead of {expected}"
    assert np.array_equal(result.sums, federation.total(result.survivors)), "the sum is not that of the votes"
    return expected, time.perf_counter() - start


def table(title: str, federation: Federation) -> None:
    """All shares and stages on one federation's votes."""
    print(f"{title}: {federation.n} parties, t = u_min = {federation.roster.t}")
    for share in SHARES:
        for stage in STAGES if share else STAGES[:1]:
            counted, seconds = check(federation, share, stage)
            lost = f"{share:.0%} lost from {stage} on" if share else "none lost"
            print(f"  {lost:28} equal, {counted} parties in the sum, {seconds:.1f} s", flush=True)


def main() -> None:
    """Print a line per share and stage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_scenario(
            "stroke", load_scenario("stroke", []), "local", 0, folder / "run", lambda _: contextlib.nullcontext()
        )
        (file,) = (folder / "run" / "private").glob("votes-*.npz")
        with kept_votes(file) as kept:
            votes = np.stack([kept.votes(party).astype(np.uint16) for party in kept.weights])
        (folder / "a").mkdir()
        stroke = Federation(folder / "a", len(votes), 2, teachers=1, queries=make_queries(votes.shape[1]))
        stroke.votes = dict(zip(stroke.names, votes, strict=True))
        table(f"default scenario, {votes.shape[1]} x 2", stroke)
        if os.environ.get("CONSILIUM_SECAGG_LARGE", "1") != "0":
            (folder / "b").mkdir()
            table("10000 x 10", Federation(folder / "b", 250, 10, teachers=1, queries=make_queries(10_000, 10)))


if __name__ == "__main__":
    main()
