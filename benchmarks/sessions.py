"""What a lying coordinator reads from several exact sums, under the rules of before and now, and what blocks cost.

`attacks`: votes of the party that is meant, through the real state machines, on synthetic votes and the same questions
moved by float32 ulps. `histories`: HISTORIES of random rosters and sums against the rule alone
(`tests.secagg.adversary`), 10 to 207 parties. `availability`: of 20 exact sums how many come about, a tenth of the
parties lost at random in each, mean over TRIALS histories. Without a word: all three.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from consilium.sums.roster import least_sum
from docs.figures import figure
from tests.secagg.across import combined, differencing, pairs_only, sums_given, unmasked
from tests.secagg.adversary import ByRoster, Kept, MayGrow, Pairs, four_sums, play
from tests.secagg.network import Federation, blocks_unchecked, make_queries

HISTORIES = 100_000
SESSIONS, LOST, TRIALS = 20, 0.1, 500
PARTIES, SIZES = (10, 50, 207), (2, 3, 5)
RULES: dict[str, Callable] = {
    "blocks, by key and for ever": Kept,
    "blocks that may grow": MayGrow,
    "blocks, by the roster's hash": ByRoster,
    "pairs of sets, by the roster's hash (0.9)": Pairs,
}
SPLIT = "synthetic votes; nothing is trained"


def _federation(folder: str, n: int) -> Federation:
    return Federation(Path(folder), n, teachers=1, queries=make_queries(500))


def all_but_one(n: int, checked: bool) -> float:
    """Fraction of the votes of the party that is left out."""
    with tempfile.TemporaryDirectory() as folder:
        federation = _federation(folder, n)
        victim = federation.names[n // 2]
        if checked:
            return differencing(federation, [victim])[victim]
        with blocks_unchecked():
            return differencing(federation, [victim])[victim]


def four(n: int, checked: bool) -> float:
    """The same by A + B - C - D."""
    sets, signs = four_sums(range(n), 2), (1, 1, -1, -1)
    with tempfile.TemporaryDirectory() as folder:
        federation = _federation(folder, n)
        if checked:
            given, read = combined(federation, sets, signs)
        else:
            given, read = 0, np.zeros_like(federation.total([]))
            with pairs_only(2, "consilium.party.masked_session") as rule:
                for places, sign in zip(sets, signs, strict=True):
                    if (found := unmasked(federation, places)) is not None:
                        rule.sets.append(places)
                        given, read = given + 1, read + sign * found
        right = (read == federation.votes[federation.names[0]]).all(axis=1).mean()
        return float(right) if given == len(sets) else 0.0


def attacks() -> None:
    """Each attack, without the rule that is against it, and with blocks."""
    columns = ["attack", "parties", "votes read without blocks, %", "with blocks, %"]
    with figure("secure-aggregation/attacks", "python -m benchmarks.sessions attacks", columns, split=SPLIT) as table:
        for name, attack, sizes in (("all, and all but one", all_but_one, (10, 207)), ("four sums", four, (20, 207))):
            for n in sizes:
                table.add(name, n, *(f"{100 * attack(n, checked):.1f}" for checked in (False, True)))


def histories(count: int = HISTORIES) -> None:
    """What random histories tell, rule by rule."""
    columns = ["rule", "histories", "sums asked for", "sums given", "histories that tell a vote", "votes told"]
    command = "python -m benchmarks.sessions histories"
    note = "Rank modulo a prime, of every history; the seeds are the numbers of the histories."
    with figure("secure-aggregation/histories", command, columns, split=SPLIT, note=note, quick=False) as table:
        for name, rule in RULES.items():
            many = count if rule is Kept else count // 10
            played = [play(seed, rule) for seed in range(many)]
            asked, passed = (sum(getattr(each, what) for each in played) for what in ("asked", "passed"))
            won, read = sum(each.read > 0 for each in played), sum(each.read for each in played)
            assert rule is not Kept or all(each.twins for each in played)
            table.add(name, many, asked, passed, won, read)


def availability() -> None:
    """Sums that come about, and parties in one."""
    columns = [
        "parties",
        "least in a sum",
        *(f"{what}, blocks of {size}" for size in SIZES for what in ("sums", "in a sum")),
    ]
    command = "python -m benchmarks.sessions availability"
    with figure("secure-aggregation/availability", command, columns, split=SPLIT) as table:
        for n in PARTIES:
            row = []
            for size in SIZES:
                rng = np.random.default_rng(n)
                given = [sums_given(n, least_sum(n, 0), size, SESSIONS, LOST, rng) for _ in range(TRIALS)]
                sizes = [size for each in given for size in each]
                row += [f"{np.mean([len(each) for each in given]):.1f}", f"{np.mean(sizes):.1f}" if sizes else None]
            table.add(n, least_sum(n, 0), *row)


PARTS = {"attacks": attacks, "histories": histories, "availability": availability}


def main(*parts: str) -> None:
    """The tables of the parts that are named, or of all."""
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
