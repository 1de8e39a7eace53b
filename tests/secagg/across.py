"""What happens from one session to the next, with synthetic votes through the real state machines: attacks of a lying
coordinator, and what blocks cost an honest one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from consilium.sums.errors import BrokenBlock, SecAggError
from consilium.sums.masks.machine import drive
from consilium.sums.roster import Blocks, assigned, blocks_of, whole
from tests.secagg.adversary import keeps_pairs
from tests.secagg.network import Federation, Network


class PairsOnly:
    """The rule of pairs in place of blocks: any two sets are the same, or differ by `least` on each side. One
    account is enough, since all parties would have the same."""

    def __init__(self, least: int) -> None:
        self._least = least
        self.sets: list[frozenset[int]] = []

    def check(self, blocks: Blocks, summed: Collection[int]) -> None:
        """In place of `check_whole`."""
        if not keeps_pairs(frozenset(summed), self.sets, self._least):
            raise BrokenBlock("too close to an earlier set")


@contextmanager
def pairs_only(least: int, *where: str) -> Iterator[PairsOnly]:
    """Nodes that keep the rule of pairs. where: modules that look."""
    rule = PairsOnly(least)
    patches = [patch(f"{module}.check_whole", rule.check) for module in where]
    for each in patches:
        each.start()
    try:
        yield rule
    finally:
        for each in patches:
            each.stop()


def moved(queries: np.ndarray, ulps: int) -> np.ndarray:
    """The same questions with other bytes: one feature moved by so many units in the last place of float32."""
    copy = queries.copy()
    for _ in range(ulps):
        copy[:, 0] = np.nextafter(copy[:, 0], np.float32(np.inf))
    return copy


def unmasked(federation: Federation, places: Collection[int], **changes) -> np.ndarray | None:
    """The sum over exactly these, as a coordinator asks for it that does not look at blocks; None if parties refuse."""
    invited = [federation.roster.name(place) for place in sorted(places)]
    try:
        machine = federation.machine(federation.terms(**changes), invited=invited, choose=lambda answered: answered)
        return drive(machine, Network(federation).send).sums
    except SecAggError:
        return None


def differencing(federation: Federation, left_out: Sequence[str]) -> dict[str, float]:
    """The fraction of each party's votes that a coordinator reads that sums over all, and then over all but one.

    Each sum is on the same questions, one unit in the last place further, so that to the parties they are new ones.
    Votes move with no question (`Federation.votes`), as they hardly do with real teachers.
    """
    queries, everybody = federation.queries, range(federation.roster.n)
    whole_sum = unmasked(federation, everybody)
    read = dict.fromkeys(left_out, 0.0)
    for step, name in enumerate(left_out, 1):
        federation.queries = moved(queries, step)
        without = unmasked(federation, {*everybody} - {federation.roster.place(name)})
        if whole_sum is not None and without is not None:
            read[name] = float((whole_sum - without == federation.votes[name]).all(axis=1).mean())
    return read


def combined(federation: Federation, sets: Sequence[frozenset[int]], signs: Sequence[int]) -> tuple[int, np.ndarray]:
    """How many of these sums parties unmask, on the same questions moved by steps, and their combination."""
    queries, total, given = federation.queries, np.zeros((len(federation.queries), federation.classes), dtype=int), 0
    for step, (places, sign) in enumerate(zip(sets, signs, strict=True)):
        federation.queries = moved(queries, step)
        found = unmasked(federation, places)
        if found is not None:
            given += 1
            total += sign * found
    return given, total


def sums_given(
    parties: int, least_sum: int, size: int, sessions: int, share: float, rng: np.random.Generator
) -> list[int]:
    """Parties in each exact sum that comes about, of `sessions` of which each lacks round(share * parties) at random.

    size: least parties of a block. least_sum: u_min.
    """
    blocks = blocks_of(assigned([str(place) for place in range(parties)], size))
    sizes = []
    for _ in range(sessions):
        lost = rng.choice(parties, round(share * parties), replace=False).tolist()
        there = whole(blocks, set(range(parties)) - set(lost))
        if len(there) >= least_sum:
            sizes.append(len(there))
    return sizes
