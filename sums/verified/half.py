"""What the two aggregators have in common: their link, what they open, and a total that nobody holds without noise."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from consilium.protocol.identity import SealingKey
from consilium.protocol.noise import NoiseSource
from consilium.sums.errors import RosterMismatch, ThresholdNotMet
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.field import TOTAL_DTYPE, to_wire
from consilium.sums.verified.messages import ACCEPTED, Half
from consilium.sums.verified.proof import NONCE_BYTES, Opener, reading_point
from consilium.sums.verified.sealing import Link
from consilium.sums.verified.terms import VerifiedTerms


class VoteAggregator:
    """One of the two, in one session.

    total: its share of the votes of all that are accepted, `TOTAL_DTYPE` (queries, classes). It never overflows: all
    votes of a session are at most half of the prime, and the square of the prime fits into its type. codes: one byte
    for each party of the roster, see `messages`.

    Parameters
    ----------
    terms : of the session, from `VerifiedTerms.open`.
    roster : its own copy.
    own, fresh : its keys: the pinned one, and that of the session.
    other_fresh : the other one's of the session.
    leads : whether it is the leader.

    Raises
    ------
    RosterMismatch : the key is not the one in the roster, or the session is of another roster.
    BadKey : a key is of low order.
    """

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        own: SealingKey,
        fresh: SealingKey,
        other_fresh: bytes,
        leads: bool,
    ) -> None:
        terms.check(roster)
        mine, other = (roster.leader, roster.helper) if leads else (roster.helper, roster.leader)
        if own.public.hex() != mine.x25519_pk:
            raise RosterMismatch("the roster has another X25519 key for this aggregator than this node")
        self.terms, self.roster = terms, roster
        self._link = Link(own, bytes.fromhex(other.x25519_pk), fresh, other_fresh, terms.ctx)
        self._open = Opener(terms.grid, reading_point(self._link.secret(), terms.ctx), leads)
        self.total: np.ndarray = np.zeros(terms.shape, dtype=TOTAL_DTYPE)
        self.codes = bytearray(roster.n)

    @property
    def accepted(self) -> tuple[int, ...]:
        """Places of those whose votes are in the total, rising."""
        return tuple(place for place, code in enumerate(self.codes) if code == ACCEPTED)

    def _close(self, noise: NoiseSource) -> Half:
        """The total as it is given, with this aggregator's noise. Raises ThresholdNotMet where too few are accepted."""
        names = self._names([place for place, code in enumerate(self.codes) if code != ACCEPTED])
        if self.roster.n - len(names) < self.roster.least:
            raise ThresholdNotMet("sum", self.roster.n - len(names), self.roster.least, names)
        noisy = self.total + noise.gaussian(self.terms.sigma, self.terms.shape)
        return Half(secrets.token_bytes(NONCE_BYTES), to_wire(noisy))

    def _names(self, places: Sequence[int]) -> list[str]:
        return list(map(self.roster.name, places))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(session={self.terms.sid}, accepted={len(self.accepted)})"
