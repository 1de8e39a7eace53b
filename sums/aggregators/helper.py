"""The helper: an independent node that checks each upload together with the leader, and has its own list of who is
accepted.

It answers once for each party: what it opens of an upload is a function of that upload alone, and of a second one of
the same party it opens nothing. What `check` and `give` return is sent after `state` is on disk.

All its keys of the session come from one seed, which is in its state until the total is given, and no longer: what was
recorded is opened by nobody then. The one key that it ever shows is that of a party whose signed part does not open
under it, or holds another seed than the party is bound to: so that the leader sees it for itself. An honest party's
part is never one of these, and what its key has not signed gets no answer at all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity
from consilium.protocol.noise import NoiseSource
from consilium.sums.aggregators.half import (
    ASKED,
    BATCH,
    CHECKED,
    FAULT_CODES,
    GIVEN,
    AggregatorRule,
    Half,
    VoteAggregator,
    fault_code,
    opened_state,
    restored,
    restored_bytes,
)
from consilium.sums.aggregators.messages import body_digest, read_asked, read_batch, write_checked, write_given
from consilium.sums.aggregators.proof import (
    DIGEST_BYTES,
    ProofShare,
    expand_seed,
    holds,
    opening_elements,
    proof_elements,
)
from consilium.sums.aggregators.sealing import KEY_BYTES, HelperKeys, link_key, place_key
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import HelperPart
from consilium.sums.agreement import public_of
from consilium.sums.errors import SHOWN, AggregatorsDisagree, VoteFault
from consilium.sums.packing import Value, pack
from consilium.sums.roster import VerifiedRoster


class Helper(VoteAggregator):
    """See `VoteAggregator`. entropy: so many random bytes; the operating system's but in tests."""

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        private: bytes,
        rules: Sequence[AggregatorRule],
        noise: NoiseSource,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        *,
        state: bytes | None = None,
    ) -> None:
        before = None if state is None else opened_state(state, terms)
        self._seed = entropy(KEY_BYTES) if before is None else restored_bytes(before, "seed")
        fresh = (link_key(self._seed, terms.ctx), bytes.fromhex(terms.leader_key)) if self._seed else None
        super().__init__(terms, roster, private, fresh, rules, noise, leads=False)
        self._seen: dict[int, tuple[bytes, int]] = {}  # digest of the part, and the code that was answered, by place
        self._answer = b"", b""  # digest of the message that asked for the half, and what was said to it
        self.commitments = "", ""
        """The leader's to its total, and this one's to its own, hex, once it is given."""
        if before is None:
            self._admit()
        else:
            self._restore(before)

    def keys(self, identity: Identity) -> HelperKeys:
        """For the leader, and by it for each party its own; the same each time. identity: of this node.

        Raises
        ------
        StageOrder : they are deleted.
        """
        self._kept_secrets()
        return HelperKeys.make(self._seed, self.terms.ctx, self.roster.n, identity)

    def check(self, batch: bytes) -> bytes:
        """For `Leader.settle`.

        Raises
        ------
        BadLink : it is no batch of the leader; nothing has changed. StageOrder : the keys are deleted.
        """
        grid = self.terms.grid
        body = self._link.open(BATCH, batch)
        parts, theirs = read_batch(body, grid)
        opened = np.zeros((len(parts), opening_elements(grid)), dtype=grid.field.dtype)
        codes, reasons = bytearray(len(parts)), []
        for row, content in enumerate(parts):
            part = HelperPart.read(content)
            codes[row] = self._look(part, theirs[row], opened[row])
            if codes[row] and FAULT_CODES[codes[row] - 1] in SHOWN:
                reasons.append(place_key(self._seed, self.terms.ctx, part.place))
        return self._link.seal(CHECKED, write_checked(grid.field, body_digest(body), bytes(codes), opened, reasons))

    def _public(self, place: int) -> bytes:
        return public_of(place_key(self._seed, self.terms.ctx, place))

    def _look(self, part: HelperPart, theirs: np.ndarray, opened: np.ndarray) -> int:
        """The code of one upload; what is opened of it is written into `opened`."""
        fault = part.fault(self.terms.ctx, self.roster, self._public)
        if fault is not None:
            return fault_code(fault)  # nobody has signed this, or for another key: nothing is opened, nothing is shown
        name, met = self.roster.name(part.place), body_digest(part.content)
        before = self._seen.get(part.place)
        if before is not None and before[0] != met:
            return fault_code(VoteFault.TWICE)
        if before is None:
            self._still_open()
        fault, share = self._open_part(part, opened)
        if before is not None:
            return before[1]
        if fault is None and not holds(self.terms.grid, theirs, opened):
            fault = VoteFault.FALSE_VOTES
        self._seen[part.place] = met, fault_code(fault)
        if fault is None:
            self._add(part.place, share)
        else:
            self.left_out[name] = fault
        return fault_code(fault)

    def _open_part(self, part: HelperPart, opened: np.ndarray) -> tuple[VoteFault | None, np.ndarray]:
        grid, nothing = self.terms.grid, np.zeros(0, dtype=self._field.dtype)
        seed = part.opened(place_key(self._seed, self.terms.ctx, part.place))
        if isinstance(seed, VoteFault):
            return seed, nothing
        share = expand_seed(grid.field, part.ctx, part.place, seed, "votes", grid.cells)
        proof = expand_seed(grid.field, part.ctx, part.place, seed, "proof", proof_elements(grid))
        opened[:] = self._open(share, ProofShare.read(grid, proof), self._challenge(part))
        return None, share

    def give(self, question: bytes) -> bytes:
        """For `Leader.finish`: this aggregator's total, and the end of the session: all its keys are deleted. The same
        message gets the same bytes again.

        Raises
        ------
        BadLink : it is no question of the leader. AggregatorsDisagree : the leader has accepted others.
        ThresholdNotMet : too few are accepted. StageOrder : another message got the half. Others : what the helper's
        rules raise.
        """
        met = body_digest(question)
        if self.closed and met == self._answer[0]:
            return self._answer[1]
        body = self._link.open(ASKED, question)
        theirs, left_out, commitment = read_asked(body, len(FAULT_CODES))
        mine = self._places()
        if theirs != mine or not left_out.keys().isdisjoint(mine):
            differ = sorted(set(theirs).symmetric_difference(mine) | left_out.keys() & set(mine))
            raise AggregatorsDisagree(self.roster.name(place) for place in differ if place < self.roster.n)
        half = self._close()
        for place, code in left_out.items():  # whom the leader left out before it came here
            if place < self.roster.n:
                self.left_out.setdefault(self.roster.name(place), FAULT_CODES[code - 1])
        self.commitments = commitment.hex(), half.commitment(self.terms.ctx, leads=False).hex()
        self._answer = met, self._link.seal(GIVEN, write_given(self._field, body_digest(body), half))
        self._forget()
        return self._answer[1]

    def _forget(self) -> None:
        """All by which anything of this session could be opened; that it is closed stays known."""
        self._seed, self._secrets, self._seen = b"", None, {}
        self._total = np.zeros_like(self._total)
        self._half = Half(b"", np.zeros_like(self._total, dtype=self._field.dtype))

    def state(self) -> bytes:
        """All that is needed to go on after a restart: the seed of the keys, and a total that is a share, which alone
        says nothing. After `give` only who is in the sum, and the sealed answer."""
        places = sorted(self._seen)
        seen = b"".join(self._seen[place][0] for place in places)
        return pack(
            {
                **self._common_state(),
                "seed": self._seed,
                "places": np.array(places, dtype=np.uint32),
                "seen": np.frombuffer(seen, dtype=np.uint8).reshape(-1, DIGEST_BYTES),
                "codes": np.array([self._seen[place][1] for place in places], dtype=np.uint8),
                "asked": self._answer[0],
                "answer": np.frombuffer(self._answer[1], dtype=np.uint8),
            }
        )

    def _restore(self, state: dict[str, Value]) -> None:
        self._restore_common(state)
        places = restored(state, "places", (-1,), "uint32").tolist()
        seen = restored(state, "seen", (len(places), DIGEST_BYTES), "uint8")
        codes = restored(state, "codes", (len(places),), "uint8").tolist()
        if any(code > len(FAULT_CODES) for code in codes):
            raise MalformedMessage("saved state is damaged or of another version")
        self._seen = {place: (row.tobytes(), code) for place, row, code in zip(places, seen, codes, strict=True)}
        self._answer = restored_bytes(state, "asked"), restored(state, "answer", (-1,), "uint8").tobytes()
