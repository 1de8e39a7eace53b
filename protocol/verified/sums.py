"""The sum of the accepted parties' votes, from the totals of both aggregators."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.verified.binder import commit_total
from consilium.protocol.verified.errors import VoteFault
from consilium.protocol.verified.field import PRIME


@dataclass(frozen=True)
class Half:
    """What one aggregator gives: total uint16 (queries, classes), with its noise, and the nonce by which it is bound to
    it."""

    nonce: bytes = field(repr=False)
    total: np.ndarray = field(repr=False)

    def commitment(self, ctx: bytes, leads: bool) -> bytes:
        """See `binder.commit_total`."""
        return commit_total(ctx, leads, self.nonce, self.total.tobytes())


@dataclass(frozen=True)
class VerifiedSum:
    """sums: int64 (queries, classes), with the aggregators' noise where the session has it. clipped: bool (queries,),
    rows of an exact sum that no votes give and that were made to fit. accepted: names of those whose votes are in it.
    left_out: why, by name; who sent nothing is in neither. leader, helper: the halves that it is of."""

    sums: np.ndarray = field(repr=False)
    clipped: np.ndarray = field(repr=False)
    accepted: tuple[str, ...]
    left_out: dict[str, VoteFault]
    leader: Half
    helper: Half


def add_up(one: np.ndarray, other: np.ndarray, votes: int, tail: int) -> tuple[np.ndarray, np.ndarray]:
    """Totals modulo the prime, (queries, classes) each -> what so many votes on a query and the noise can give.

    tail: how far noise may carry a count; 0 for an exact sum.

    An aggregator can move a count to wherever it likes, also to the edge of what is possible. If that were an error, it
    would tell whether the honest count was below a number of its choice. So nothing is raised: the map goes round the
    field, is the identity where counts can be, and is nowhere steeper than one for one. One vote moved then moves each
    count by one at most, which is what the mechanisms' noise is sized for.

    Returns
    -------
    int64 (queries, classes), and bool (queries,): rows of an exact sum that were changed, or whose total is not that of
    the parties' votes. A noisy row may have any total.
    """
    around, width = (one.astype(np.int64) + other + tail) % PRIME, votes + 2 * tail
    half = PRIME // 2
    kept = np.where(around <= half, np.minimum(around, width), np.maximum(width - (around - half), 0))
    clipped = (kept != around).any(axis=1) | (kept.sum(axis=1) != votes) if tail == 0 else np.zeros(len(kept), bool)
    return kept - tail, clipped
