"""The terms of one verified sum, signed by the leader. CTX, their hash, enters every commitment, challenge, signature
and seal: what was made for another session, other queries or another roster fits nowhere here."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from consilium.protocol.digests import Hash
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity, canonical_json, verify
from consilium.protocol.models import Strict
from consilium.protocol.parties.messages import MOST_BATCHES, MOST_CLASSES, MOST_RELEASES, MOST_TEACHERS, LedgerPosition
from consilium.protocol.rows.queries import query_ids, query_set_hash
from consilium.sums.aggregators.field import PRIME
from consilium.sums.aggregators.proof import MOST_ROWS, SPACE, VERSION, VoteGrid
from consilium.sums.agreement import check_order
from consilium.sums.errors import BadSignature, OtherVersion, RosterMismatch, SumTooLarge, UnsafeSession
from consilium.sums.masks.ring import TAIL
from consilium.sums.masks.terms import MOST_SIGMA, NO_LEDGER, SID_BYTES, SessionId
from consilium.sums.roster import VerifiedRoster

MOST_CELLS = 2**28
"""Elements of one share, half a gigabyte: a bound of what a message may ask of a node."""
MOST_REACH = PRIME // 2
"""Values that a count may have (`reach_of`): what lies beyond is brought back without a jump, which takes as many."""


class VerifiedSession(Strict):
    """Terms of one session.

    sid: 16 random bytes, hex. federation: digest of the federation's configuration. roster: digest of the roster.
    query_set: hash of the ordered queries. queries, classes: shape of the sum.
    leader_key: the leader's X25519 key of this session's link to the helper, made for it, hex.
    teachers: of each party; each gives one vote to each query, and each of these votes is proved.
    leader_sigma, helper_sigma: standard deviation of the noise that each aggregator adds to one count of its total;
    0.0 for none.
    phase, release, ledger, batch, head: as in `sums.masks.terms.SessionDescriptor`.
    """

    version: Literal[2] = VERSION
    sid: SessionId
    federation: Hash
    roster: Hash
    leader_key: Hash
    query_set: Hash
    queries: int = Field(ge=1, le=10_000_000)
    classes: int = Field(ge=2, le=MOST_CLASSES)
    teachers: int = Field(ge=1, le=MOST_TEACHERS)
    leader_sigma: float = Field(default=0.0, ge=0, le=MOST_SIGMA, allow_inf_nan=False)
    helper_sigma: float = Field(default=0.0, ge=0, le=MOST_SIGMA, allow_inf_nan=False)
    phase: Literal[1, 2] = 1
    release: int = Field(default=1, ge=1, le=MOST_RELEASES)
    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash

    @model_validator(mode="after")
    def _is_bounded(self) -> VerifiedSession:
        rows = self.queries * self.teachers
        if rows > MOST_ROWS or rows * self.classes > MOST_CELLS:
            raise ValueError(f"{rows} votes for {self.classes} classes are more than one session takes")
        return self

    @classmethod
    def create(
        cls,
        roster: VerifiedRoster,
        federation: str,
        queries: np.ndarray,
        classes: int,
        teachers: int,
        leader_key: bytes,
        *,
        position: LedgerPosition = NO_LEDGER,
        leader_sigma: float = 0.0,
        helper_sigma: float = 0.0,
        phase: Literal[1, 2] = 1,
        release: int = 1,
    ) -> VerifiedSession:
        """A new session with a fresh sid.

        `queries` is canonical float32 (queries, features) (`protocol.rows.queries.canonical_queries`).

        Raises
        ------
        SumTooLarge : sums do not fit into half of the field.
        UnsafeSession : a query stands twice.
        """
        if len(set(query_ids(queries))) < len(queries):
            raise UnsafeSession("a query stands twice in the set: it would be answered twice")
        made = cls(
            sid=secrets.token_hex(SID_BYTES),
            federation=federation,
            roster=roster.digest,
            leader_key=leader_key.hex(),
            query_set=query_set_hash(queries),
            queries=len(queries),
            classes=classes,
            teachers=teachers,
            leader_sigma=float(leader_sigma),
            helper_sigma=float(helper_sigma),
            phase=phase,
            release=release,
            **position.model_dump(),
        )
        made.check(roster)
        return made

    def check(self, roster: VerifiedRoster) -> None:
        """Whether a node with this roster may take part; nobody trusts the leader's choice of terms.

        Raises
        ------
        RosterMismatch : the session names another roster.
        SumTooLarge : sums do not fit into half of the field.
        UnsafeSession : a second phase without noise. BadKey : the leader's key is of low order.
        """
        if self.roster != roster.digest:
            raise RosterMismatch(f"the session names roster {self.roster[:12]}, this node holds {roster.digest[:12]}")
        check_order(bytes.fromhex(self.leader_key), "the leader")
        if self.phase == 2 and self.sigma == 0:
            raise UnsafeSession("a second phase without noise would tell exact sums twice")
        reach = reach_of(roster.n, self.teachers, self.leader_sigma, self.helper_sigma)
        if reach > MOST_REACH:
            raise SumTooLarge(reach, MOST_REACH)

    @property
    def sigma(self) -> float:
        """Standard deviation of both aggregators' noise on one count."""
        return math.hypot(self.leader_sigma, self.helper_sigma)

    @property
    def tail(self) -> int:
        """How far noise may carry a count."""
        return tail_of(self.leader_sigma, self.helper_sigma)

    @cached_property
    def grid(self) -> VoteGrid:
        """Sizes of what is sent and proved."""
        return VoteGrid(self.queries, self.classes, self.teachers)

    def canonical(self) -> bytes:
        """The bytes that are signed, hashed and sent: JSON with sorted keys and no spaces."""
        return canonical_json(self.model_dump(mode="json"))

    @cached_property
    def ctx(self) -> bytes:
        """CTX: SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical()).digest()

    def sign(self, leader: Identity) -> bytes:
        """The leader's signature, 64 bytes."""
        return leader.sign(SPACE + "session", self.canonical())


def tail_of(leader_sigma: float, helper_sigma: float) -> int:
    """How far both aggregators' noise may carry a count: nine standard deviations."""
    return math.ceil(TAIL * math.hypot(leader_sigma, helper_sigma))


def reach_of(parties: int, teachers: int, leader_sigma: float, helper_sigma: float) -> int:
    """How many different values a count of a sum may have: votes, and noise on both sides. At most MOST_REACH.

    >>> reach_of(1_000, 2, 0.0, 0.0), reach_of(1_000, 2, 3.0, 4.0)
    (2000, 2090)
    """
    return parties * teachers + 2 * tail_of(leader_sigma, helper_sigma)


def open_session(content: bytes, signature: bytes, roster: VerifiedRoster) -> VerifiedSession:
    """Bytes of a session's terms and their signature -> terms that this roster allows.

    Raises
    ------
    BadSignature : not signed by the roster's leader. OtherVersion : signed as that version does it.
    MalformedMessage : not the canonical bytes of a session.
    RosterMismatch, SumTooLarge, UnsafeSession : see `VerifiedSession.check`.
    """
    if not verify(bytes.fromhex(roster.leader.ed25519_pk), signature, SPACE + "session", content):
        version = _version(content)
        if version != VERSION:
            raise OtherVersion("the session", version, VERSION)
        raise BadSignature("the leader", "terms of the session")
    try:
        session = VerifiedSession.model_validate_json(content)
    except ValidationError:
        raise MalformedMessage("terms of a session have not the form of this protocol") from None
    if session.canonical() != content:
        raise MalformedMessage("terms of a session are not in canonical form")
    session.check(roster)
    return session


def _version(content: bytes) -> object:
    """What unsigned bytes say that they are."""
    try:
        return json.loads(content).get("version")
    except (ValueError, AttributeError, RecursionError):
        return None
