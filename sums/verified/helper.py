"""The helper: an independent node that checks each upload together with the leader, and has its own list of who is
accepted.

It answers once for each party: what it opens of an upload is a function of that upload alone, and of a second one of
the same party it opens nothing. What `check` and `give` return is sent once what has changed here is on disk; after
`give` its key of the session is deleted, so that what was recorded is opened by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.protocol.identity import SealingKey
from consilium.protocol.noise import NoiseSource
from consilium.sums.errors import AggregatorsDisagree, VoteFault
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.field import DTYPE, elements
from consilium.sums.verified.half import VoteAggregator
from consilium.sums.verified.messages import (
    ABSENT,
    ACCEPTED,
    ASKED,
    BATCH,
    CHECKED,
    GIVEN,
    GivenRecord,
    body_digest,
    code_of,
    ids_digest,
    read_asked,
    read_batch,
)
from consilium.sums.verified.proof import DIGEST_BYTES, hold, opening_elements, proof_elements, seed_key
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import HelperPart

AT_ONCE = 2**22
"""Numbers of the helper's shares that are drawn at once: a batch names a thousand uploads of any size."""


class Helper(VoteAggregator):
    """See `VoteAggregator`. met: digest of the first part of each party, uint8 (parties, 32); of those without one
    zeros. Whoever keeps a session writes down `total`, `codes` and `met`, and puts them back."""

    def __init__(self, terms: VerifiedTerms, roster: VerifiedRoster, own: SealingKey, fresh: SealingKey) -> None:
        super().__init__(terms, roster, own, fresh, bytes.fromhex(terms.leader_key), leads=False)
        self._fresh = fresh
        self.met = np.zeros((roster.n, DIGEST_BYTES), dtype=np.uint8)

    def check(self, batch: bytes) -> bytes:
        """For `Leader.settle`. Raises BadLink: it is no batch of the leader; nothing has changed."""
        grid = self.terms.grid
        body = self._link.open(BATCH, batch)
        contents, theirs = read_batch(body, grid)
        parts = list(map(HelperPart.read, contents))
        found = [self._seed(part) for part in parts]
        seeds = {row: seed for row, seed in enumerate(found) if isinstance(seed, bytes)}
        codes = bytearray(code_of(seed) if isinstance(seed, VoteFault) else ABSENT for seed in found)
        opened = np.zeros((len(parts), opening_elements(grid)), dtype=DTYPE)
        rows, size = list(seeds), AT_ONCE // grid.cells + 1
        for start in range(0, len(rows), size):
            few = rows[start : start + size]
            shares, proofs = (
                elements([seed_key(self.terms.ctx, parts[row].place, seeds[row], purpose) for row in few], count)
                for purpose, count in (("votes", grid.cells), ("proof", proof_elements(grid)))
            )
            opened[few] = self._open(shares, proofs, [parts[row].challenge_key for row in few])
            new = []
            for at, (row, fine) in enumerate(zip(few, hold(grid, theirs[few], opened[few]), strict=True)):
                place = parts[row].place
                if self.codes[place] == ABSENT:
                    self.codes[place] = code_of(None if fine else VoteFault.FALSE_VOTES)
                    new += [at] if fine else []
                codes[row] = self.codes[place]
            self.total += grid.summed(shares[new])
        return self._link.seal(CHECKED, body_digest(body) + codes + opened.tobytes())

    def _seed(self, part: HelperPart) -> bytes | VoteFault:
        """From which the shares of this party come, or why there are none."""
        fault = part.fault(self.terms.ctx, self.roster)
        if fault is not None:
            return fault  # nobody has signed this: nothing is opened
        met = np.frombuffer(body_digest(part.content), dtype=np.uint8)
        if not self.met[part.place].any():
            self.met[part.place] = met
        elif (self.met[part.place] != met).any():
            return VoteFault.TWICE
        seed = part.opened(self._fresh)
        if isinstance(seed, VoteFault):
            self.codes[part.place] = code_of(seed)
        return seed

    def give(self, question: bytes, ids: Sequence[str], noise: NoiseSource) -> tuple[bytes, GivenRecord]:
        """For `Leader.finish`: this aggregator's total, once; and what it signs of it. ids: of the queries.

        Raises
        ------
        BadLink : it is no question of the leader. AggregatorsDisagree : the leader has accepted others.
        ThresholdNotMet : too few are accepted.
        """
        body = self._link.open(ASKED, question)
        commitment, theirs = read_asked(body, self.roster.n)
        pairs = list(zip(theirs, self.codes, strict=True))
        differ = [place for place, (one, other) in enumerate(pairs) if (one == ACCEPTED) != (other == ACCEPTED)]
        if differ:
            raise AggregatorsDisagree(self._names(differ))
        half, ctx = self._close(noise), self.terms.ctx
        record = GivenRecord(
            session=ctx.hex(),
            ids=ids_digest(ids),
            accepted=self.accepted,
            left_out=sum(max(pair) > ACCEPTED for pair in pairs),
            commitment=commitment.hex(),
            half=half.commitment(ctx, leads=False).hex(),
        )
        return self._link.seal(GIVEN, body_digest(body) + half.nonce + half.total.tobytes()), record
