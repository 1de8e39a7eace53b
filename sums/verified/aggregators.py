"""The two aggregators: the leader, which is the coordinator, and the helper, an independent node.

    leader.settle(helper.check(leader.batch(uploads)))     until all are checked
    question = leader.ask(noise)                           kept before it is sent
    leader.finish(question, helper.give(question.sealed))

The helper has its own list of who is accepted. It answers once for each party: what it opens of an upload is a function
of that upload alone, and of a second one of the same party it opens nothing. What `check` and `give` return is sent
once what has changed is on disk; after `give` its key of the session is deleted, so that what was recorded is opened by
nobody.

A leader that stopped before it asked is made anew, and checks the same uploads again: the helper says of each what it
said before. After that the question that was kept is sent again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import SealingKey, derive
from consilium.protocol.noise import NoiseSource
from consilium.sums.errors import AggregatorsDisagree, BadLink, RosterMismatch, StageOrder, ThresholdNotMet, VoteFault
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.field import DTYPE, MOST_REACH, PRIME, TOTAL_DTYPE, elements, to_wire
from consilium.sums.verified.messages import (
    ABSENT,
    ACCEPTED,
    ASKED,
    BATCH,
    CHECKED,
    CODES,
    GIVEN,
    GivenRecord,
    Half,
    body_digest,
    code_of,
    read_asked,
    read_batch,
    read_checked,
    read_given,
)
from consilium.sums.verified.proof import DIGEST_BYTES, NONCE_BYTES, SPACE, Opener, hold, reading_point, seed_key
from consilium.sums.verified.uploads import HelperPart, Upload, VerifiedTerms, agreed, tail_of

LINK_NONCE = 12


class Link:
    """Sealed messages between the two aggregators in one session, and the secret that only they have. Both come from
    their two pinned X25519 keys and from two that were made for this session: whoever learns the former later opens
    nothing. Each kind of message, which goes in one direction, has a key."""

    def __init__(self, own: SealingKey, other: bytes, own_fresh: SealingKey, other_fresh: bytes, ctx: bytes) -> None:
        """own, other: the pinned keys. own_fresh, other_fresh: those of the session."""
        pairs = (own, other), (own_fresh, other_fresh)
        both = b"".join(agreed(key, public, "the other aggregator") for key, public in pairs)
        self._secret, self._ctx = derive(both, SPACE + "agreed", ctx), ctx

    def secret(self) -> bytes:
        """32 bytes that the aggregators share in this session, and no party knows."""
        return derive(self._secret, SPACE + "shared", self._ctx)

    def seal(self, kind: str, body: bytes) -> bytes:
        """Bytes to send. kind: of message, see `messages`."""
        nonce = secrets.token_bytes(LINK_NONCE)
        return nonce + self._cipher(kind).encrypt(nonce, body, self._ctx)

    def open(self, kind: str, content: bytes) -> bytes:
        """The body of a message of this kind. Raises BadLink: another kind, another sender or session, or altered."""
        try:
            return self._cipher(kind).decrypt(content[:LINK_NONCE], content[LINK_NONCE:], self._ctx)
        except (InvalidTag, ValueError):  # a nonce that is too short
            raise BadLink("a message is not by the other aggregator, not of this session, or altered") from None

    def _cipher(self, kind: str) -> AESGCM:
        return AESGCM(derive(self._secret, SPACE + "link", self._ctx, kind.encode("ascii")))


class VoteAggregator:
    """One of the two, in one session. terms: from `VerifiedTerms.open`. roster: its own copy. own, fresh: its keys, the
    pinned one and that of the session. other_fresh: the other one's of the session. total: its share of the votes of
    all that are accepted, `TOTAL_DTYPE` (queries, classes). It never overflows: all votes of a session are at most half
    of the prime, and the square of the prime fits into its type. codes: one byte for each party of the roster, see
    `messages`. Raises RosterMismatch: the key is not the one in the roster, or the session is of another roster;
    BadKey: a key is of low order."""

    LEADS: ClassVar[bool]

    def __init__(
        self, terms: VerifiedTerms, roster: VerifiedRoster, own: SealingKey, fresh: SealingKey, other_fresh: bytes
    ) -> None:
        terms.check(roster)
        mine, other = (roster.leader, roster.helper) if self.LEADS else (roster.helper, roster.leader)
        if own.public.hex() != mine.x25519_pk:
            raise RosterMismatch("the roster has another X25519 key for this aggregator than this node")
        self.terms, self.roster = terms, roster
        self._link = Link(own, bytes.fromhex(other.x25519_pk), fresh, other_fresh, terms.ctx)
        self._open = Opener(terms.grid, reading_point(self._link.secret(), terms.ctx), self.LEADS)
        self.total: np.ndarray = np.zeros(terms.shape, dtype=TOTAL_DTYPE)
        self.codes = bytearray(roster.n)

    @property
    def accepted(self) -> tuple[int, ...]:
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


HELPER = "the second aggregator"
FALSE = code_of(VoteFault.FALSE_VOTES)
OWN_WORD = {*map(code_of, (None, VoteFault.FALSE_VOTES, VoteFault.TWICE, VoteFault.NOT_FOR_US, VoteFault.COMMITMENT))}
"""What the helper may say of a part. Whatever else would be wrong with one the leader has seen before."""


@dataclass(frozen=True)
class Question:
    """By which the leader asks for the helper's half. From then on it takes no upload: the same question is sent again.
    codes: one for each party. half: the leader's own. sealed: the message."""

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
    tail: how far noise may carry a count. An aggregator can move a count to wherever it likes, also to the edge of what
    is possible. If that were an error, it would tell whether the honest count was below a number of its choice. So
    nothing is raised: the map goes round the field, is the identity where counts can be, and is nowhere steeper than
    one for one. One vote moved then moves each count by one at most, which is what the mechanisms' noise is sized
    for."""
    around, width = (one.astype(np.int64) + other + tail) % PRIME, votes + 2 * tail
    folded = np.where(around <= MOST_REACH, np.minimum(around, width), np.maximum(width - (around - MOST_REACH), 0))
    return folded - tail


class Leader(VoteAggregator):
    """See `VoteAggregator`. helper_key: the helper's of this session, which was checked."""

    LEADS = True

    def __init__(
        self, terms: VerifiedTerms, roster: VerifiedRoster, own: SealingKey, fresh: SealingKey, helper_key: bytes
    ) -> None:
        if fresh.public.hex() != terms.leader_key:
            raise RosterMismatch("the session has another key of the leader than this node")
        super().__init__(terms, roster, own, fresh, helper_key)
        self._out: list[Upload] = []
        self._opened = np.zeros((0, 0))
        self._body = b""

    @property
    def left_out(self) -> dict[str, VoteFault]:
        faults = ((self.roster.name(place), CODES[code]) for place, code in enumerate(self.codes))
        return {party: fault for party, fault in faults if fault is not None}

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
        """The helper's answer to the batch that is out: the good are added up, the others left out by name. Raises
        BadLink where it is none, and AggregatorsDisagree where its verdicts are not what its own openings say, or not
        its to give; nothing has changed then."""
        if not self._out:
            raise StageOrder("no batch is with the helper")
        grid, places = self.terms.grid, [each.part.place for each in self._out]
        codes, opened = read_checked(self._link.open(CHECKED, reply), grid, self._body, len(places))
        lies = [place for place, code in zip(places, codes, strict=True) if code not in OWN_WORD]
        if lies:
            raise AggregatorsDisagree(self._names(lies), HELPER)
        verdicts = zip(places, codes, hold(grid, self._opened, opened), strict=True)
        doubtful = [place for place, code, fine in verdicts if code == (FALSE if fine else ACCEPTED)]
        if doubtful:
            raise AggregatorsDisagree(self._names(doubtful))
        for place, code in zip(places, codes, strict=True):
            self.codes[place] = code
        shares = [each.share for each, code in zip(self._out, codes, strict=True) if code == ACCEPTED]
        self.total += grid.summed(np.array(shares).reshape(len(shares), grid.cells))
        self._out = []

    def ask(self, noise: NoiseSource) -> Question:
        """For `Helper.give`, once; from now on no upload is taken. Raises ThresholdNotMet: too few are accepted."""
        question = Question(bytes(self.codes), self._close(noise), b"")
        return replace(question, sealed=self._link.seal(ASKED, question.body(self.terms.ctx)))

    def finish(self, question: Question, reply: bytes) -> VerifiedSum:
        """The sum, from the helper's total. Raises BadLink: the reply is none to this question."""
        body = question.body(self.terms.ctx)
        other = read_given(self._link.open(GIVEN, reply), self.terms.grid, body)
        accepted = tuple(place for place, code in enumerate(question.codes) if code == ACCEPTED)
        votes, tail = len(accepted) * self.terms.teachers, tail_of(self.terms.sigma)
        return VerifiedSum(add_up(question.half.total, other.total, votes, tail), accepted, question.half, other)


AT_ONCE = 2**22
"""Numbers of the helper's shares that are drawn at once: a batch names a thousand uploads of any size."""


class Helper(VoteAggregator):
    """See `VoteAggregator`. met: digest of the first part of each party, uint8 (parties, 32); of those without one
    zeros. Whoever keeps a session writes down `total`, `codes` and `met`, and puts them back."""

    LEADS = False

    def __init__(self, terms: VerifiedTerms, roster: VerifiedRoster, own: SealingKey, fresh: SealingKey) -> None:
        super().__init__(terms, roster, own, fresh, bytes.fromhex(terms.leader_key))
        self._fresh = fresh
        self.met = np.zeros((roster.n, DIGEST_BYTES), dtype=np.uint8)

    def check(self, batch: bytes) -> bytes:
        """For `Leader.settle`. Raises BadLink: it is no batch of the leader; nothing has changed."""
        grid = self.terms.grid
        body = self._link.open(BATCH, batch)
        contents, theirs = read_batch(body, grid)
        parts = list(map(HelperPart.read, contents))
        seeds, codes = dict[int, bytes](), bytearray(len(parts))
        for row, part in enumerate(parts):
            seed = self._seed(part)
            if isinstance(seed, bytes):
                seeds[row] = seed
            else:
                codes[row] = code_of(seed)
        opened = np.zeros((len(parts), grid.opening), dtype=DTYPE)
        rows, size = list(seeds), AT_ONCE // grid.cells + 1
        for start in range(0, len(rows), size):
            few = rows[start : start + size]
            shares, proofs = (
                elements([seed_key(self.terms.ctx, parts[row].place, seeds[row], purpose) for row in few], count)
                for purpose, count in (("votes", grid.cells), ("proof", grid.proof))
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
        """For `Leader.finish`: this aggregator's total, once; and what it signs of it. ids: of the queries. Raises
        BadLink (no question of the leader), AggregatorsDisagree (it has accepted others), ThresholdNotMet."""
        body = self._link.open(ASKED, question)
        commitment, theirs = read_asked(body, self.roster.n)
        pairs = enumerate(zip(theirs, self.codes, strict=True))
        differ = [place for place, (one, other) in pairs if (one == ACCEPTED) != (other == ACCEPTED)]
        if differ:
            raise AggregatorsDisagree(self._names(differ))
        half = self._close(noise)
        record = GivenRecord.of(self.terms.ctx, ids, self.accepted, commitment, half)
        return self._link.seal(GIVEN, body_digest(body) + half.nonce + half.total.tobytes()), record
