"""The helper: an independent node that checks each upload together with the leader, and has its own list of who is
accepted.

It answers once for each party: what it opens of an upload is a function of that upload alone, and of a second one of
the same party it opens nothing. What `check` and `give` return is sent after `state` is on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import NoiseSource
from consilium.protocol.secagg.agreement import Agreement
from consilium.protocol.secagg.packing import pack
from consilium.protocol.verified.aggregator import (
    ASKED,
    BATCH,
    CHECKED,
    FAULT_CODES,
    GIVEN,
    VoteAggregator,
    opened_state,
    restored,
)
from consilium.protocol.verified.binder import DIGEST_BYTES, commit_helper, expand_seed
from consilium.protocol.verified.errors import AggregatorsDisagree, VoteFault
from consilium.protocol.verified.messages import (
    body_digest,
    read_asked,
    read_batch,
    write_checked,
    write_given,
)
from consilium.protocol.verified.proof import ProofShare, holds, opening_elements, proof_elements
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.rules import AggregatorRule
from consilium.protocol.verified.session import VerifiedSession
from consilium.protocol.verified.uploads import HelperPart


class Helper(VoteAggregator):
    """See `VoteAggregator`."""

    def __init__(
        self,
        session: VerifiedSession,
        roster: VerifiedRoster,
        private: bytes,
        rules: Sequence[AggregatorRule] = (),
        noise: NoiseSource | None = None,
        *,
        state: bytes | None = None,
    ) -> None:
        super().__init__(session, roster, private, rules, noise, leads=False)
        self._agreement, self._key = Agreement(private), bytes.fromhex(roster.helper.x25519_pk)
        self._seen: dict[int, tuple[bytes, int]] = {}  # digest of the part, and the code that was answered, by place
        if state is None:
            self._admit()
        else:
            self._restore(state)

    def check(self, batch: bytes) -> bytes:
        """For `Leader.settle`.

        Raises
        ------
        BadLink : it is no batch of the leader; nothing has changed.
        """
        grid = self.session.grid
        body = self._link.open(BATCH, batch)
        parts, theirs = read_batch(body, grid)
        opened = np.zeros((len(parts), opening_elements(grid)), dtype=np.uint16)
        codes = bytearray(len(parts))
        for at, content in enumerate(parts):
            codes[at] = self._look(HelperPart.read(content), theirs[at], opened[at])
        return self._link.seal(CHECKED, write_checked(body_digest(body), bytes(codes), opened))

    def _look(self, part: HelperPart, theirs: np.ndarray, opened: np.ndarray) -> int:
        """The code of one upload; what is opened of it is written into `opened`."""
        fault = part.fault(self.session.ctx, self.roster)
        if fault is not None:
            return _code(fault)  # nobody has signed this: it says nothing of the party
        name, met = self.roster.name(part.place), body_digest(part.content)
        before = self._seen.get(part.place)
        if before is not None and before[0] != met:
            return _code(VoteFault.TWICE)
        if before is None:
            self._still_open()
        fault, share = self._open_part(part, opened)
        if before is not None:
            return before[1]
        if fault is None and not holds(self.session.grid, theirs, opened):
            fault = VoteFault.FALSE_VOTES
        self._seen[part.place] = met, _code(fault)
        if fault is None:
            self._add(part.place, share)
        else:
            self.left_out[name] = fault
        return _code(fault)

    def _open_part(self, part: HelperPart, opened: np.ndarray) -> tuple[VoteFault | None, np.ndarray]:
        grid, nothing = self.session.grid, np.zeros(0, dtype=np.uint16)
        seed = part.seed(self._agreement, self._key)
        if seed is None:
            return VoteFault.NOT_FOR_US, nothing
        if commit_helper(part.ctx, part.place, seed) != part.to_helper:
            return VoteFault.COMMITMENT, nothing
        share = expand_seed(part.ctx, part.place, seed, "votes", grid.cells)
        proof = ProofShare.read(grid, expand_seed(part.ctx, part.place, seed, "proof", proof_elements(grid)))
        opened[:] = self._open(share, proof, self._challenge(part))
        return None, share

    def give(self, asked: bytes) -> bytes:
        """For `Leader.finish`: this aggregator's total, the same each time. From now on no new upload is checked.

        Raises
        ------
        BadLink : it is no question of the leader. AggregatorsDisagree : the leader has accepted others.
        ThresholdNotMet : too few are accepted. Others : what the helper's rules raise.
        """
        body = self._link.open(ASKED, asked)
        theirs, mine = read_asked(body), self._places()
        if theirs != mine:
            differ = sorted(set(theirs).symmetric_difference(mine))
            raise AggregatorsDisagree(self.roster.name(place) for place in differ if place < self.roster.n)
        return self._link.seal(GIVEN, write_given(body_digest(body), self._close()))

    def state(self) -> bytes:
        """All that is needed to go on after a restart; its total is a share, which alone says nothing."""
        places = sorted(self._seen)
        seen = b"".join(self._seen[place][0] for place in places)
        return pack(
            {
                **self._common_state(),
                "places": np.array(places, dtype=np.uint32),
                "seen": np.frombuffer(seen, dtype=np.uint8).reshape(-1, DIGEST_BYTES),
                "codes": np.array([self._seen[place][1] for place in places], dtype=np.uint8),
            }
        )

    def _restore(self, content: bytes) -> None:
        state = opened_state(content, self.session)
        self._restore_common(state)
        places = restored(state, "places", (-1,), "uint32").tolist()
        seen = restored(state, "seen", (len(places), DIGEST_BYTES), "uint8")
        codes = restored(state, "codes", (len(places),), "uint8").tolist()
        if any(code > len(FAULT_CODES) for code in codes):
            raise MalformedMessage("saved state is damaged or of another version")
        self._seen = {place: (row.tobytes(), code) for place, row, code in zip(places, seen, codes, strict=True)}


def _code(fault: VoteFault | None) -> int:
    return 0 if fault is None else FAULT_CODES.index(fault) + 1
