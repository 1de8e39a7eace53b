"""The leader: has uploads checked together with the helper in batches, and adds up who is accepted.

    leader.settle(helper.check(leader.batch(uploads)))     until all are checked
    question = leader.ask(noise)                           kept before it is sent
    leader.finish(question, helper.give(question.sealed))

One that stopped before it asked is made anew, and checks the same uploads again: the helper says of each what it said
before. After that the question that was kept is sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.identity import SealingKey
from consilium.protocol.noise import NoiseSource
from consilium.sums.errors import AggregatorsDisagree, RosterMismatch, StageOrder, VoteFault
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.field import MOST_REACH, PRIME
from consilium.sums.verified.half import VoteAggregator
from consilium.sums.verified.messages import (
    ACCEPTED,
    ASKED,
    BATCH,
    CHECKED,
    GIVEN,
    Half,
    code_of,
    faults_of,
    read_checked,
    read_given,
)
from consilium.sums.verified.proof import hold
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.uploads import Upload

HELPER = "the second aggregator"
FALSE = code_of(VoteFault.FALSE_VOTES)
OWN_WORD = {ACCEPTED, *map(code_of, (VoteFault.FALSE_VOTES, VoteFault.TWICE, VoteFault.NOT_FOR_US))}
OWN_WORD |= {code_of(VoteFault.COMMITMENT)}
"""What the helper may say of a part. Whatever else would be wrong with one the leader has seen before."""


@dataclass(frozen=True)
class Question:
    """By which the leader asks for the helper's half. From then on it takes no upload: the same question is sent again.

    codes: one for each party. half: the leader's own. sealed: the message.
    """

    codes: bytes
    half: Half
    sealed: bytes = field(repr=False)

    def body(self, ctx: bytes) -> bytes:
        """What is sealed: what binds the leader to its half before it sees the other one's, and who is accepted."""
        return self.half.commitment(ctx, leads=True) + self.codes


@dataclass(frozen=True)
class VerifiedSum:
    """sums: int64 (queries, classes), with both aggregators' noise. accepted: places of those whose votes are in it.
    leader, helper: the halves that it is of."""

    sums: np.ndarray = field(repr=False)
    accepted: tuple[int, ...]
    leader: Half
    helper: Half


def add_up(one: np.ndarray, other: np.ndarray, votes: int, tail: int) -> np.ndarray:
    """Totals modulo the prime, (queries, classes) each -> what so many votes on a query and the noise can give, int64.

    tail: how far noise may carry a count.

    An aggregator can move a count to wherever it likes, also to the edge of what is possible. If that were an error, it
    would tell whether the honest count was below a number of its choice. So nothing is raised: the map goes round the
    field, is the identity where counts can be, and is nowhere steeper than one for one. One vote moved then moves each
    count by one at most, which is what the mechanisms' noise is sized for.
    """
    around, width = (one.astype(np.int64) + other + tail) % PRIME, votes + 2 * tail
    folded = np.where(around <= MOST_REACH, np.minimum(around, width), np.maximum(width - (around - MOST_REACH), 0))
    return folded - tail


class Leader(VoteAggregator):
    """See `VoteAggregator`. fresh: of the session's `leader_key`. helper_key: the helper's of this session, which was
    checked."""

    def __init__(
        self, terms: VerifiedTerms, roster: VerifiedRoster, own: SealingKey, fresh: SealingKey, helper_key: bytes
    ) -> None:
        if fresh.public.hex() != terms.leader_key:
            raise RosterMismatch("the session has another key of the leader than this node")
        super().__init__(terms, roster, own, fresh, helper_key, leads=True)
        self._out: list[Upload] = []
        self._opened = np.zeros((0, 0))
        self._body = b""

    @property
    def left_out(self) -> dict[str, VoteFault]:
        """Why, by name; who sent nothing is not in it."""
        return {self.roster.name(place): fault for place, fault in faults_of(self.codes).items()}

    def batch(self, uploads: Mapping[int, bytes]) -> bytes | None:
        """For `Helper.check`: what the parties at these places sent, at most `MOST_BATCH` of them; None if nothing of
        it can be used. Who is at fault is in `left_out`."""
        self._out = []
        for place, content in uploads.items():
            upload = self._read(place, content)
            if isinstance(upload, Upload):
                self._out.append(upload)
            elif self.codes[place] != ACCEPTED:
                self.codes[place] = code_of(upload)
        if not self._out:
            return None
        shares, proofs = (np.stack([getattr(each, name) for each in self._out]) for name in ("share", "proof"))
        self._opened = self._open(shares, proofs, [each.part.challenge_key for each in self._out])
        self._body = b"".join(each.part.content for each in self._out) + self._opened.tobytes()
        return self._link.seal(BATCH, self._body)

    def _read(self, place: int, content: bytes) -> Upload | VoteFault:
        upload = Upload.read(content, self.terms.grid)
        if upload is None:
            return VoteFault.MALFORMED
        fault = upload.part.fault(self.terms.ctx, self.roster)
        if fault is not None:
            return fault
        if upload.part.place != place:
            return VoteFault.OTHER_PARTY
        if self.codes[place] == ACCEPTED:
            return VoteFault.TWICE
        return upload if upload.is_bound() else VoteFault.COMMITMENT

    def settle(self, reply: bytes) -> None:
        """The helper's answer to the batch that is out: the good are added up, the others left out by name.

        Raises
        ------
        BadLink : it is not that; nothing has changed.
        AggregatorsDisagree : the helper's verdicts are not what its own openings say, or not its to give.
        """
        if not self._out:
            raise StageOrder("no batch is with the helper")
        grid, places = self.terms.grid, [each.part.place for each in self._out]
        codes, opened = read_checked(self._link.open(CHECKED, reply), grid, self._body, len(places))
        lies = [place for place, code in zip(places, codes, strict=True) if code not in OWN_WORD]
        if lies:
            raise AggregatorsDisagree(self._names(lies), HELPER)
        good = [
            fine and code in (ACCEPTED, FALSE)
            for fine, code in zip(hold(grid, self._opened, opened), codes, strict=True)
        ]
        doubtful = [place for place, code, fine in zip(places, codes, good, strict=True) if fine != (code == ACCEPTED)]
        if doubtful:
            raise AggregatorsDisagree(self._names(doubtful))
        for place, code in zip(places, codes, strict=True):
            self.codes[place] = code
        shares = [each.share for each, fine in zip(self._out, good, strict=True) if fine]
        self.total += grid.summed(np.array(shares).reshape(len(shares), grid.cells))
        self._out = []

    def ask(self, noise: NoiseSource) -> Question:
        """For `Helper.give`, once; from now on no upload is taken. Raises ThresholdNotMet: too few are accepted."""
        question = Question(bytes(self.codes), self._close(noise), b"")
        return Question(question.codes, question.half, self._link.seal(ASKED, question.body(self.terms.ctx)))

    def finish(self, question: Question, reply: bytes) -> VerifiedSum:
        """The sum, from the helper's total. Raises BadLink: the reply is none to this question."""
        body = question.body(self.terms.ctx)
        other = read_given(self._link.open(GIVEN, reply), self.terms.grid, body)
        accepted = tuple(place for place, code in enumerate(question.codes) if code == ACCEPTED)
        votes = len(accepted) * self.terms.teachers
        return VerifiedSum(
            add_up(question.half.total, other.total, votes, self.terms.tail), accepted, question.half, other
        )
