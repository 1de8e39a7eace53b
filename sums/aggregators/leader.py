"""The leader: takes uploads, has them checked together with the helper in batches, adds up who is accepted.

    leader.accept(name, upload)         as uploads come; None, or why this one is not taken
    leader.settle(helper.check(leader.batch()))     whenever some wait
    leader.finish(helper.give(leader.ask()))

What `batch` and `ask` return is sent after `state` is on disk; a leader made from it goes on and sends the same again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.noise import NoiseSource
from consilium.sums.aggregators.half import (
    ASKED,
    BATCH,
    CHECKED,
    FAULT_CODES,
    GIVEN,
    VerifiedSum,
    VoteAggregator,
    add_up,
    fault_code,
    opened_state,
    restored,
)
from consilium.sums.aggregators.messages import (
    MOST_BATCH,
    body_digest,
    read_checked,
    read_given,
    write_asked,
    write_batch,
)
from consilium.sums.aggregators.proof import ProofShare, holds, opening_elements
from consilium.sums.aggregators.sealing import HelperKeys
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import PART_BYTES, HelperPart, Upload
from consilium.sums.agreement import public_of
from consilium.sums.errors import SHOWN, AggregatorsDisagree, RosterMismatch, StageOrder, TooManyWaiting, VoteFault
from consilium.sums.packing import pack
from consilium.sums.roster import VerifiedRoster

BATCH_SIZE = 32
HELPER = "the second aggregator"
OWN_WORD = frozenset({VoteFault.FALSE_VOTES, VoteFault.TWICE})
"""What the helper may say and need not show: that the openings of both do not fit, which the leader sees, or that it
has another part of this party. Whatever else would be wrong with a part the leader has seen before."""


@dataclass(frozen=True)
class ShownFault:
    """That a party lied, for whoever has the roster: its signed part, and the private key of the helper's key that
    stands in it, under which the seal does not open, or holds another seed."""

    fault: VoteFault
    part: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def holds(self) -> bool:
        """Whether part and key bear it out."""
        part = HelperPart.read(self.part)
        return public_of(self.key) == part.helper_key and part.opened(self.key) is self.fault


@dataclass(frozen=True)
class _Waiting:
    """An upload that the helper has not answered: its part, the leader's share of the votes, what the leader opens."""

    part: HelperPart
    share: np.ndarray = field(repr=False)
    opened: np.ndarray = field(repr=False)


class Leader(VoteAggregator):
    """See `VoteAggregator`.

    fresh: private key of the session's `leader_key`. keys: the helper's of this session, which were checked.
    batch_size: uploads that are sent together; twice as many may wait, each with its share of the votes.
    """

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        private: bytes,
        fresh: bytes,
        keys: HelperKeys,
        noise: NoiseSource,
        batch_size: int = BATCH_SIZE,
        *,
        state: bytes | None = None,
    ) -> None:
        if public_of(fresh).hex() != terms.leader_key:
            raise RosterMismatch("the session has another key of the leader than this node")
        super().__init__(terms, roster, private, (fresh, keys.link), (), noise, leads=True)
        self._keys = keys
        if not 1 <= batch_size <= MOST_BATCH:
            raise ValueError(f"batch_size {batch_size} must be from 1 to {MOST_BATCH}")
        self._batch_size = batch_size
        self._waiting: list[_Waiting] = []
        self._out = 0  # of the waiting, from the first on, which are with the helper
        self._taken: dict[int, bytes] = {}  # part by place, of all that were taken
        self._question = b""  # sealed, once the sum is asked for: the same bytes get the same answer
        self.shown: dict[str, ShownFault] = {}
        """Of those who lied, by name, what shows it. Of others who are left out only the two aggregators know why."""
        if state is not None:
            self._restore(state)

    @property
    def waiting(self) -> int:
        """Uploads that the helper has not answered."""
        return len(self._waiting)

    def accept(self, name: str, content: bytes) -> VoteFault | None:
        """An upload that came from this party. None: it is taken, or was before. A fault: it is left out, unless it
        sends a good one.

        Raises
        ------
        TooManyWaiting : a batch has to be settled first; nothing was taken.
        StageOrder : the sum has been asked for.
        """
        self._still_open()
        fault = self._take(name, content)
        place = self.roster.places.get(name)
        if fault is not None and place is not None and place not in self._taken:
            self.left_out[name] = fault
        return fault

    def _take(self, name: str, content: bytes) -> VoteFault | None:
        if name not in self.roster.places:
            return VoteFault.UNKNOWN
        upload = Upload.read(content, self.terms.grid)
        if upload is None:
            return VoteFault.MALFORMED
        part, place = upload.part, self.roster.place(name)
        fault = part.fault(self.terms.ctx, self.roster, lambda place: self._keys.place(place).public)
        if fault is not None:
            return fault
        if part.place != place:
            return VoteFault.OTHER_PARTY
        if place in self._taken:
            return None if self._taken[place] == part.content else VoteFault.TWICE
        if not upload.is_bound():
            return VoteFault.COMMITMENT
        if len(self._waiting) >= 2 * self._batch_size:
            raise TooManyWaiting(len(self._waiting), 2 * self._batch_size)
        proof = ProofShare.read(self.terms.grid, upload.proof)
        opened = self._open(upload.share, proof, self._challenge(part))
        self._waiting.append(_Waiting(part, upload.share, opened))
        self._taken[place] = part.content
        self.left_out.pop(name, None)
        return None

    def batch(self) -> bytes | None:
        """For `Helper.check`: what waits, or what is out and not settled; None if nothing waits."""
        self._out = self._out or min(len(self._waiting), self._batch_size)
        return self._link.seal(BATCH, self._batch_body()) if self._out else None

    def settle(self, reply: bytes) -> None:
        """The helper's answer to the batch that is out: the good are added up, the others left out by name.

        Raises
        ------
        BadLink : it is not that; nothing has changed.
        AggregatorsDisagree : the helper's verdicts are not what its own openings, or the keys that it shows, say.
        """
        out, grid = self._waiting[: self._out], self.terms.grid
        if not out:
            raise StageOrder("no batch is with the helper")
        body = self._link.open(CHECKED, reply)
        faults, opened, reasons = read_checked(body, grid, body_digest(self._batch_body()), len(out), FAULT_CODES)
        self._check_reasons(out, faults, reasons)
        checked = [fault in (None, VoteFault.FALSE_VOTES) for fault in faults]
        good = [
            of_proof and holds(grid, upload.opened, other)
            for upload, other, of_proof in zip(out, opened, checked, strict=True)
        ]
        pairs = list(zip(out, faults, good, strict=True))
        doubtful = [upload.part.place for upload, fault, fine in pairs if fine != (fault is None)]
        if doubtful:
            raise AggregatorsDisagree(map(self.roster.name, doubtful))
        for upload, fault, _ in pairs:
            if fault is None:
                self._add(upload.part.place, upload.share)
            else:
                self.left_out[self.roster.name(upload.part.place)] = fault
        del self._waiting[: self._out]
        self._out = 0

    def _check_reasons(
        self, out: list[_Waiting], faults: Sequence[VoteFault | None], reasons: dict[int, bytes]
    ) -> None:
        """Raise AggregatorsDisagree for what the helper says of a part and does not show."""
        shown: dict[str, ShownFault] = {}
        lies: list[str] = []
        for row, (waiting, fault) in enumerate(zip(out, faults, strict=True)):
            name = self.roster.name(waiting.part.place)
            if fault in SHOWN and fault is not None:
                shown[name] = ShownFault(fault, waiting.part.content, reasons[row])
                if not shown[name].holds():
                    lies.append(name)
            elif fault is not None and fault not in OWN_WORD:
                lies.append(name)
        if lies:
            raise AggregatorsDisagree(lies, HELPER)
        self.shown |= shown

    def ask(self) -> bytes:
        """For `Helper.give`: who is accepted, and what binds this aggregator to its total before it sees the other
        one's. From now on no upload is taken. The same bytes each time.

        Raises
        ------
        StageOrder : uploads wait. ThresholdNotMet : too few are accepted.
        """
        if self._waiting:
            raise StageOrder(f"{len(self._waiting)} uploads wait for the helper")
        half = self._close()
        if not self._question:
            commitment = half.commitment(self.terms.ctx, leads=True)
            self._question = self._link.seal(ASKED, self._question_body(commitment))
        return self._question

    def finish(self, reply: bytes) -> VerifiedSum:
        """The sum, from the helper's total.

        Raises
        ------
        BadLink : the reply is none to `ask`. StageOrder : nothing was asked.
        """
        if not self.closed:
            raise StageOrder("the helper's total was not asked for")
        mine = self._close()
        question = body_digest(self._question_body(mine.commitment(self.terms.ctx, leads=True)))
        other = read_given(self._link.open(GIVEN, reply), self.terms.grid, question)
        votes = len(self._places()) * self.terms.teachers
        sums = add_up(self._field, mine.total, other.total, votes, self.terms.tail)
        return VerifiedSum(sums, self.accepted, dict(self.left_out), mine, other)

    def state(self) -> bytes:
        """All that is needed to go on after a restart. It holds shares of the votes of each party that waits."""
        taken = b"".join(self._taken.values())
        grid = self.terms.grid
        return pack(
            {
                **self._common_state(),
                "out": self._out,
                "question": np.frombuffer(self._question, dtype=np.uint8),
                "shown": json.dumps(
                    {name: [upload.part.hex(), upload.key.hex()] for name, upload in self.shown.items()}
                ),
                "taken": np.frombuffer(taken, dtype=np.uint8).reshape(-1, PART_BYTES),
                "waiting": np.array([upload.part.place for upload in self._waiting], dtype=np.uint32),
                "shares": self._stacked([upload.share for upload in self._waiting], grid.cells),
                "opened": self._stacked([upload.opened for upload in self._waiting], opening_elements(grid)),
            }
        )

    def _restore(self, content: bytes) -> None:
        state, grid = opened_state(content, self.terms), self.terms.grid
        self._restore_common(state)
        parts = [HelperPart.read(row.tobytes()) for row in restored(state, "taken", (-1, PART_BYTES), "uint8")]
        self._taken = {part.place: part.content for part in parts}
        places = restored(state, "waiting", (-1,), "uint32").tolist()
        shares = restored(state, "shares", (len(places), grid.cells), grid.field.dtype)
        opened = restored(state, "opened", (len(places), opening_elements(grid)), grid.field.dtype)
        self._waiting = [
            _Waiting(HelperPart.read(self._taken[place]), share, opening)
            for place, share, opening in zip(places, shares, opened, strict=True)
        ]
        self._out = int(str(state["out"]))
        self._question = restored(state, "question", (-1,), "uint8").tobytes()
        self.shown = {
            name: ShownFault(self.left_out[name], *map(bytes.fromhex, row))
            for name, row in json.loads(str(state["shown"])).items()
        }

    def _question_body(self, commitment: bytes) -> bytes:
        left_out = sorted((self.roster.place(name), fault_code(fault)) for name, fault in self.left_out.items())
        return write_asked(self._places(), left_out, commitment)

    def _batch_body(self) -> bytes:
        out = self._waiting[: self._out]
        return write_batch(self._field, [upload.part.content for upload in out], [upload.opened for upload in out])

    def _stacked(self, rows: list[np.ndarray], width: int) -> np.ndarray:
        return np.array(rows, dtype=self._field.dtype).reshape(len(rows), width)
