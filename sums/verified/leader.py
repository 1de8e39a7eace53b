"""The leader: has uploads checked together with the helper in batches, and adds up who is accepted.

    leader.settle(helper.check(leader.batch(uploads)))     until all are checked
    leader.finish(helper.give(leader.ask()))

What `ask` returns is sent after `state` is on disk; a leader made from it sends the same again. One that stopped before
is made anew, and checks the same uploads again: the helper says of each what it said before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.noise import NoiseSource
from consilium.sums.agreement import public_of
from consilium.sums.errors import AggregatorsDisagree, RosterMismatch, StageOrder, VoteFault
from consilium.sums.packing import pack
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.half import (
    ASKED,
    BATCH,
    CHECKED,
    GIVEN,
    VerifiedSum,
    VoteAggregator,
    add_up,
    fault_code,
    fault_of,
    opened_state,
    restored,
)
from consilium.sums.verified.messages import body_digest, read_checked, read_given, write_asked, write_batch
from consilium.sums.verified.proof import holds
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import HelperPart, Upload

HELPER = "the second aggregator"
OWN_WORD = frozenset({VoteFault.FALSE_VOTES, VoteFault.TWICE, VoteFault.NOT_FOR_US, VoteFault.COMMITMENT})
"""What the helper may say of a part. Whatever else would be wrong with one the leader has seen before."""


@dataclass(frozen=True)
class _Waiting:
    """An upload that the helper has not answered: its part, the leader's share of the votes, what the leader opens."""

    part: HelperPart
    share: np.ndarray = field(repr=False)
    opened: np.ndarray = field(repr=False)


class Leader(VoteAggregator):
    """See `VoteAggregator`. fresh: private key of the session's `leader_key`. helper_key: the helper's of this session,
    which was checked."""

    def __init__(
        self,
        terms: VerifiedTerms,
        roster: VerifiedRoster,
        private: bytes,
        fresh: bytes,
        helper_key: bytes,
        noise: NoiseSource,
        *,
        state: bytes | None = None,
    ) -> None:
        if public_of(fresh).hex() != terms.leader_key:
            raise RosterMismatch("the session has another key of the leader than this node")
        super().__init__(terms, roster, private, (fresh, helper_key), noise, leads=True)
        self._out: list[_Waiting] = []
        self._batch = self._question = b""
        if state is not None:
            fields = opened_state(state, terms)
            self._restore_common(fields)
            self._question = restored(fields, "question", (-1,), "uint8").tobytes()

    def batch(self, uploads: Mapping[str, bytes]) -> bytes | None:
        """For `Helper.check`: what these parties sent, at most `MOST_BATCH` of them; None if nothing of it can be used.
        Who is at fault is in `left_out`."""
        self._still_open()
        self._out = []
        for name, content in uploads.items():
            fault = self._take(name, content)
            if fault is not None and name not in self.accepted:
                self.left_out[name] = fault
        if not self._out:
            return None
        self._batch = write_batch([each.part.content for each in self._out], [each.opened for each in self._out])
        return self._link().seal(BATCH, self._batch)

    def _take(self, name: str, content: bytes) -> VoteFault | None:
        if name not in self.roster.places:
            return VoteFault.UNKNOWN
        upload, place = Upload.read(content, self.terms.grid), self.roster.place(name)
        if upload is None:
            return VoteFault.MALFORMED
        part = upload.part
        fault = part.fault(self.terms.ctx, self.roster)
        if fault is not None:
            return fault
        if part.place != place:
            return VoteFault.OTHER_PARTY
        if self._accepted[place]:
            return VoteFault.TWICE
        if not upload.is_bound():
            return VoteFault.COMMITMENT
        self._out.append(_Waiting(part, upload.share, self._opened(part, upload.share, upload.proof)))
        return None

    def settle(self, reply: bytes) -> None:
        """The helper's answer to the batch that is out: the good are added up, the others left out by name.

        Raises
        ------
        BadLink : it is not that; nothing has changed.
        AggregatorsDisagree : the helper's verdicts are not what its own openings say, or not its to give.
        """
        out, grid = self._out, self.terms.grid
        if not out:
            raise StageOrder("no batch is with the helper")
        body = self._link().open(CHECKED, reply)
        codes, opened = read_checked(body, grid, body_digest(self._batch), len(out))
        faults = list(map(fault_of, codes))
        lies = [each.part.place for each, fault in zip(out, faults, strict=True) if fault not in (None, *OWN_WORD)]
        if lies:
            raise AggregatorsDisagree(map(self.roster.name, lies), HELPER)
        good = [
            fault in (None, VoteFault.FALSE_VOTES) and holds(grid, upload.opened, other)
            for upload, other, fault in zip(out, opened, faults, strict=True)
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
        self._out = []

    def ask(self) -> bytes:
        """For `Helper.give`: who is accepted, and what binds this aggregator to its total before it sees the other
        one's. From now on no upload is taken. The same bytes each time.

        Raises
        ------
        ThresholdNotMet : too few are accepted.
        """
        if not self._question:
            self._check_enough()
            self._question = self._link().seal(ASKED, self._question_body())
        return self._question

    def finish(self, reply: bytes) -> VerifiedSum:
        """The sum, from the helper's total.

        Raises
        ------
        BadLink : the reply is none to `ask`. StageOrder : nothing was asked.
        """
        if not self.closed:
            raise StageOrder("the helper's total was not asked for")
        mine, question = self._close(), body_digest(self._question_body())
        other = read_given(self._link().open(GIVEN, reply), self.terms.grid, question)
        votes = len(self._places()) * self.terms.teachers
        sums = add_up(mine.total, other.total, votes, self.terms.tail)
        return VerifiedSum(sums, self.accepted, dict(self.left_out), mine, other)

    def state(self) -> bytes:
        """Once the helper was asked for its total: all that is needed to go on."""
        return pack({**self._common_state(), "question": np.frombuffer(self._question, dtype=np.uint8)})

    def _question_body(self) -> bytes:
        commitment = self._close().commitment(self.terms.ctx, leads=True)
        places = self.roster.places
        left_out = sorted((places[name], fault_code(fault)) for name, fault in self.left_out.items() if name in places)
        return write_asked(self._places(), left_out, commitment)
