"""The helper: an independent node that checks each upload together with the leader, and has its own list of who is
accepted.

It answers once for each party: what it opens of an upload is a function of that upload alone, and of a second one of
the same party it opens nothing. What `check` and `give` return is sent after `state` is on disk.

Its key of the session comes from a seed, which is in its state until the total is given, and no longer: what was
recorded is opened by nobody then.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

import numpy as np

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.noise import NoiseSource
from consilium.sums.agreement import public_of
from consilium.sums.errors import AggregatorsDisagree, VoteFault
from consilium.sums.field import FIELD
from consilium.sums.packing import Value, pack
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.half import (
    ASKED,
    BATCH,
    CHECKED,
    FAULT_CODES,
    GIVEN,
    Half,
    VoteAggregator,
    fault_code,
    fault_of,
    opened_state,
    restored,
    restored_bytes,
)
from consilium.sums.verified.messages import body_digest, read_asked, read_batch, write_checked, write_given
from consilium.sums.verified.proof import DIGEST_BYTES, expand_seed, holds, opening_elements, proof_elements
from consilium.sums.verified.sealing import KEY_BYTES, session_key
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import HelperPart


class HelperRules(Protocol):
    """What this node refuses on its own, by a typed error. `accepted` are places in the roster."""

    def admit(self, terms: VerifiedTerms) -> None:
        """Raise if no upload of this session may be taken."""

    def remember(self, terms: VerifiedTerms) -> None:
        """The total is about to be given: raise if it may not, else keep in mind that it was."""


class Helper(VoteAggregator):
    """See `VoteAggregator`. rules: what it refuses on its own. entropy: so many random bytes; the operating system's
    but in tests."""

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        private: bytes,
        rules: HelperRules,
        noise: NoiseSource,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        *,
        state: bytes | None = None,
    ) -> None:
        before = None if state is None else opened_state(state, terms)
        self._seed = entropy(KEY_BYTES) if before is None else restored_bytes(before, "seed")
        self._private = session_key(self._seed, terms.ctx) if self._seed else b""
        fresh = (self._private, bytes.fromhex(terms.leader_key)) if self._seed else None
        super().__init__(terms, roster, private, fresh, noise, leads=False)
        self._rules = rules
        self._seen: dict[int, tuple[bytes, int]] = {}  # digest of the part, and the code that was answered, by place
        self._answer = b"", b""  # digest of the message that asked for the half, and what was said to it
        self.commitments = "", ""
        """The leader's to its total, and this one's to its own, hex, once it is given."""
        if before is None:
            rules.admit(terms)
        else:
            self._restore(before)

    @property
    def key(self) -> bytes:
        """Its public key of this session; empty once it is deleted."""
        return public_of(self._private) if self._private else b""

    def check(self, batch: bytes) -> bytes:
        """For `Leader.settle`.

        Raises
        ------
        BadLink : it is no batch of the leader; nothing has changed. StageOrder : the keys are deleted.
        """
        grid = self.terms.grid
        body = self._link().open(BATCH, batch)
        parts, theirs = read_batch(body, grid)
        opened = np.zeros((len(parts), opening_elements(grid)), dtype=FIELD.dtype)
        codes = bytes(
            self._look(HelperPart.read(content), theirs[row], opened[row]) for row, content in enumerate(parts)
        )
        return self._link().seal(CHECKED, write_checked(body_digest(body), codes, opened))

    def _look(self, part: HelperPart, theirs: np.ndarray, opened: np.ndarray) -> int:
        """The code of one upload; what is opened of it is written into `opened`."""
        fault = part.fault(self.terms.ctx, self.roster)
        if fault is not None:
            return fault_code(fault)  # nobody has signed this: nothing is opened
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
        grid, seed = self.terms.grid, part.opened(self._private)
        if isinstance(seed, VoteFault):
            return seed, np.zeros(0, dtype=FIELD.dtype)
        share = expand_seed(part.ctx, part.place, seed, "votes", grid.cells)
        proof = expand_seed(part.ctx, part.place, seed, "proof", proof_elements(grid))
        opened[:] = self._opened(part, share, proof)
        return None, share

    def give(self, question: bytes) -> bytes:
        """For `Leader.finish`: this aggregator's total, and the end of the session: its key is deleted. The same
        message gets the same bytes again.

        Raises
        ------
        BadLink : it is no question of the leader. AggregatorsDisagree : the leader has accepted others.
        ThresholdNotMet : too few are accepted. StageOrder : another message got the half. Others : what the rules
        raise.
        """
        met = body_digest(question)
        if self.closed and met == self._answer[0]:
            return self._answer[1]
        body = self._link().open(ASKED, question)
        theirs, left_out, commitment = read_asked(body)
        mine = self._places()
        if theirs != mine or not left_out.keys().isdisjoint(mine):
            differ = sorted(set(theirs).symmetric_difference(mine) | left_out.keys() & set(mine))
            raise AggregatorsDisagree(self.roster.name(place) for place in differ if place < self.roster.n)
        self._check_enough()
        self._rules.remember(self.terms)
        half = self._close()
        for place, code in left_out.items():  # whom the leader left out before it came here
            fault = fault_of(code)
            if place < self.roster.n and fault is not None:
                self.left_out.setdefault(self.roster.name(place), fault)
        self.commitments = commitment.hex(), half.commitment(self.terms.ctx, leads=False).hex()
        self._answer = met, self._link().seal(GIVEN, write_given(body_digest(body), half))
        self._forget()
        return self._answer[1]

    def _forget(self) -> None:
        """All by which anything of this session could be opened; that it is closed stays known."""
        self._seed, self._private, self._secrets, self._seen = b"", b"", None, {}
        self._total = np.zeros_like(self._total)
        self._half = Half(b"", np.zeros_like(self._total, dtype=FIELD.dtype))

    def state(self) -> bytes:
        """All that is needed to go on after a restart: the seed of the key, and a total that is a share, which alone
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
