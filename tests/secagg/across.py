"""From one session to the next, with synthetic votes through the real state machines: what a lying coordinator does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from consilium.sums.errors import SecAggError
from consilium.sums.masks.machine import drive
from tests.secagg.network import Federation, Network


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
