"""How many of twenty sums come out with a tenth of the parties away at random in each, and one party that lies in all.

    nice python -m benchmarks.availability

Up to PLAYED parties through the coordinator's collectors and real parties (`tests.availability`), one history each; of
more, by the rules alone: who is left out, whole blocks in exact sums, and the parties that must be in a sum.
The liar deals false shares, gives false shares at the end, sends rubbish for its votes, or one vote too many in each
row; the last two alone where there are no shares. A sum that is spoiled is asked again in the same request, as often as
the collector does.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from consilium.coordinator.collection.history import Block, narrowed, set_aside
from consilium.coordinator.collection.secure import MOST_SESSIONS
from consilium.sums.roster import Blocks, assigned, blocks_of, least_sum, whole
from docs.figures import figure
from tests.availability import AWAY, NOBODY, SUMS, play

PARTIES, PLAYED, SEEDS = (10, 20, 36, 50, 207), 20, range(3)
MODES = ("distributed", "verified", "secure")
LIES = (NOBODY, "false shares", "false shares at the end", "rubbish for votes", "false votes")
OF_SHARES = frozenset({"false shares", "false shares at the end"})
LEFT_OUT = frozenset({"false shares", "rubbish for votes"})
"""Lies that keep a party out of the very sum."""
COLUMNS = ("parties", "votes", "must be in a sum", *LIES, "in a sum", "how")


def by_rule(votes: str, n: int, lie: str, seed: int) -> list[int]:
    """Parties in each of the sums that come out, of SUMS."""
    rng, least = np.random.default_rng([seed, n]), least_sum(n, 0)
    liar, found, suspects, out = int(rng.integers(1, n)), [], [], frozenset()
    blocks = blocks_of(assigned([str(place) for place in range(n)], [1] * n, 2))
    for _ in range(SUMS):
        gone = rng.choice([place for place in range(n) if place != liar], round(AWAY * n), replace=False)
        there = frozenset(range(n)) - {*gone.tolist()} - out
        if lie in LEFT_OUT or (lie == "false votes" and votes == "verified"):
            there -= {liar}
        if votes == "secure":
            spoils = lie == "false votes"
            there, suspects, out = _exact(blocks, there, liar if spoils else None, least, suspects, out, rng)
        if len(there) >= least:
            found.append(len(there))
    return found


def _exact(
    blocks: Blocks,
    there: frozenset[int],
    liar: int | None,
    least: int,
    suspects: list[Block],
    out: frozenset[int],
    rng: np.random.Generator,
) -> tuple[frozenset[int], list[Block], frozenset[int]]:
    """Who is summed in one request (nobody, where there is no sum), who is suspected then, and who is out for good."""
    for _ in range(MOST_SESSIONS):
        able = whole(blocks, there - out)
        summed = able - set_aside(suspects, able, least, rng)
        if len(summed) < least:
            break
        if liar not in summed:
            return summed, suspects, out
        suspects = narrowed(suspects, [block for block in blocks if block <= summed])
        if len(suspects) == 1:
            suspects, out = [], out | suspects[0]
    return frozenset(), suspects, out


def sizes(votes: str, n: int, lie: str) -> list[list[int]] | None:
    """Parties in each sum that came out, by history; None where there are no such lies."""
    if votes == "verified" and lie in OF_SHARES:
        return None
    if n > PLAYED:
        return [by_rule(votes, n, lie, seed) for seed in SEEDS]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        return [[len(parties) for parties in play(Path(folder), votes, n, [lie]).summed]]


def main(parties: Sequence[int] = PARTIES, modes: Sequence[str] = MODES) -> None:
    """Print the table: sums that came out, the mean of the histories; parties in them, fewest to most."""
    command, note = "python -m benchmarks.availability", "`secure` is exact sums, which need whole blocks"
    with figure(
        "results/availability",
        command,
        COLUMNS,
        seeds=SEEDS,
        split="made-up rows and votes, nothing is judged",
        note=note,
        quick=False,
    ) as table:
        for n in parties:
            for votes in modes:
                found = {lie: sizes(votes, n, lie) for lie in LIES}
                cells = [
                    None if each is None else f"{np.mean([len(one) for one in each]):.3g}" for each in found.values()
                ]
                all_sizes = [size for each in found.values() for one in each or () for size in one]
                between = f"{min(all_sizes)} to {max(all_sizes)}" if all_sizes else None
                table.add(str(n), votes, str(least_sum(n, 0)), *cells, between, "played" if n <= PLAYED else "by rule")


if __name__ == "__main__":
    main()
