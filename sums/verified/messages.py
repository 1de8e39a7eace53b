"""Verified votes on Flower's wire: the requests and replies, the bodies of what the two aggregators seal for each
other, and the record that the helper signs.

Whoever carries these bytes can lose them, and do nothing else. The bodies have a fixed layout; numbers are of 4 bytes,
little-endian:

batch     leader -> helper    for each upload its part, and what the leader opens of it
checked   helper -> leader    digest of the batch; for each upload a code, and what the helper opens of it
asked     leader -> helper    commitment to the leader's total; a code for each party of the roster
given     helper -> leader    digest of what asked; the nonce of the helper's commitment, and its total

A code is one byte: nothing was sent, accepted, or why it is not (`VoteFault`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from consilium.protocol.digests import Hash
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import SIGNATURE_BYTES, digest, verify
from consilium.protocol.messages import (
    MOST_BATCHES,
    Introduction,
    PartyName,
    PoolPlaces,
    Program,
    Proof,
    Queries,
    WireModel,
    array_of,
)
from consilium.sums.errors import BadLink, VoteFault
from consilium.sums.roster import MOST_VOTERS, VerifiedRoster
from consilium.sums.terms import Canonical, Sid, Signature, TermsBytes
from consilium.sums.verified.field import DTYPE, KEY_BYTES, from_wire
from consilium.sums.verified.proof import DIGEST_BYTES, NONCE_BYTES, SPACE, VoteGrid, commit_total
from consilium.sums.verified.uploads import PART_BYTES

MOST_BATCH = 1024
"""Uploads in one message between the aggregators."""
MOST_RECORD = 8_000_000
"""Bytes of a signed record: the places of the longest roster."""
Content = Annotated[np.ndarray, array_of(np.uint8, 1, "uint8 (bytes,)")]


def as_array(content: bytes) -> np.ndarray:
    """Bytes as a message carries them, uint8 (bytes,)."""
    return np.frombuffer(content, dtype=np.uint8)


class SessionOf(WireModel):
    """Base of what begins a session: its terms, signed by the coordinator, and its queries, canonical float32. places,
    proof: that these are rows of the pool, see `protocol.messages.VoteRequest`."""

    terms: TermsBytes
    signature: Signature
    queries: Queries
    places: PoolPlaces
    proof: Proof


class AggregatorRequest(Introduction):
    """To the helper: who are you, and would you serve in this federation?"""

    kind: ClassVar[str] = "query.va_hello"


class AggregatorReply(WireModel):
    """Its name, its Ed25519 key, hex, and its versions, for people."""

    kind: ClassVar[str] = "query.va_hello"
    name: PartyName
    key: Hash
    program: Program = ""


class OpenRequest(SessionOf):
    """To the helper: this session begins."""

    kind: ClassVar[str] = "query.va_open"


class OpenReply(WireModel):
    """It is open. signed: sums of this federation of which the helper gave its half, as far as it remembers. key,
    signature: its public key of this session; both empty once it is deleted."""

    kind: ClassVar[str] = "query.va_open"
    sid: Sid
    signed: int = Field(ge=0, le=MOST_BATCHES)
    key: Annotated[bytes, Field(max_length=KEY_BYTES)]
    signature: Annotated[bytes, Field(max_length=SIGNATURE_BYTES)]


class UploadRequest(SessionOf):
    """To a party: its votes on these queries, in two parts. helper_key, helper_signature: the helper's key of this
    session."""

    kind: ClassVar[str] = "query.va_upload"
    helper_key: Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    helper_signature: Signature


class UploadReply(WireModel):
    """`uploads.Upload` as bytes. Never printed."""

    kind: ClassVar[str] = "query.va_upload"
    sid: Sid
    party: PartyName
    upload: Content


class Sealed(WireModel):
    """Base of what the aggregators seal for each other, see above."""

    sid: Sid
    content: Content


class CheckRequest(Sealed):
    """To the helper: a batch of uploads."""

    kind: ClassVar[str] = "query.va_check"


class CheckReply(Sealed):
    """What it says of them."""

    kind: ClassVar[str] = "query.va_check"


class GiveRequest(Sealed):
    """To the helper: your half of the sum over those that are accepted."""

    kind: ClassVar[str] = "query.va_give"


class GiveReply(Sealed):
    """Its half. record, signature: see `GivenRecord`."""

    kind: ClassVar[str] = "query.va_give"
    record: Annotated[bytes, Field(max_length=MOST_RECORD)]
    signature: Signature


BATCH, CHECKED, ASKED, GIVEN = "batch", "checked", "asked", "given"
"""Kinds of sealed messages, in their order."""
ABSENT, ACCEPTED = 0, 1
CODES: tuple[VoteFault | None, ...] = (None, None, *VoteFault)
"""What a code says against an upload."""


def code_of(fault: VoteFault | None) -> int:
    """Of an upload that was sent: accepted, or its fault."""
    return ACCEPTED if fault is None else CODES.index(fault)


@dataclass(frozen=True)
class Half:
    """What one aggregator gives: its total with its noise, numbers below the prime (queries, classes), and the nonce by
    which it is bound to it."""

    nonce: bytes = field(repr=False)
    total: np.ndarray = field(repr=False)

    def commitment(self, ctx: bytes, leads: bool) -> bytes:
        return commit_total(ctx, leads, self.nonce, self.total.tobytes())


def body_digest(body: bytes) -> bytes:
    """SHA-256, by which an answer says what it answers."""
    return digest(SPACE + "body", body)


def read_batch(body: bytes, grid: VoteGrid) -> tuple[list[bytes], np.ndarray]:
    """Parts as bytes, and what the leader opens, numbers below the prime (n, opening). Raises BadLink."""
    count, rest = divmod(len(body), PART_BYTES + grid.opening * DTYPE.itemsize)
    if rest or not 1 <= count <= MOST_BATCH:
        raise BadLink(f"a batch is not of 1 to {MOST_BATCH} uploads of this session")
    *parts, opened = _split(body, *[PART_BYTES] * count)
    return parts, _numbers(opened, (count, grid.opening))


def read_checked(body: bytes, grid: VoteGrid, batch: bytes, count: int) -> tuple[list[int], np.ndarray]:
    """Codes, and what the helper opens, of the answer to the batch with this body, of `count`. Raises BadLink."""
    answered, codes, opened = _split(body, DIGEST_BYTES, count)
    if answered != body_digest(batch):
        raise BadLink("the helper answers another batch than the one that is out")
    return _codes(codes), _numbers(opened, (count, grid.opening))


def read_asked(body: bytes, parties: int) -> tuple[bytes, list[int]]:
    """The commitment, and a code for each party. Raises BadLink."""
    commitment, codes = _split(body, DIGEST_BYTES)
    if len(codes) != parties:
        raise BadLink(_FORM)
    return commitment, _codes(codes)


def read_given(body: bytes, grid: VoteGrid, question: bytes) -> Half:
    """The helper's half. question: body of what asked. Raises BadLink."""
    asked, nonce, total = _split(body, DIGEST_BYTES, NONCE_BYTES)
    if asked != body_digest(question):
        raise BadLink("the helper's total is of another set of parties")
    return Half(nonce, _numbers(total, (grid.queries, grid.classes)))


_FORM = "a message between the aggregators has not the form of this session"


def _split(body: bytes, *lengths: int) -> list[bytes]:
    if len(body) < sum(lengths):
        raise BadLink(_FORM)
    return [body[start:end] for start, end in pairwise((0, *accumulate(lengths), len(body)))]


def _codes(content: bytes) -> list[int]:
    if content and max(content) >= len(CODES):
        raise BadLink("the other aggregator names a fault that there is not")
    return list(content)


def _numbers(content: bytes, shape: tuple[int, int]) -> np.ndarray:
    numbers = from_wire(content) if len(content) == math.prod(shape) * DTYPE.itemsize else None
    if numbers is None:  # of another length, or above the prime
        raise BadLink(_FORM)
    return numbers.reshape(shape)


class GivenRecord(Canonical):
    """What the helper signs when it gives its half. Whoever has the roster can check over which parties a sum is.
    session: hash of its terms. ids: see `ids_digest`. accepted: places of the parties in the sum, rising. commitment:
    by which the leader was bound to its total before it saw the helper's half; half: the same of that half
    (`proof.commit_total`)."""

    SIGNED_AS: ClassVar[str] = SPACE + "given"

    session: Hash
    ids: Hash
    accepted: Annotated[
        tuple[Annotated[int, Field(ge=0, lt=MOST_VOTERS)], ...], Field(max_length=MOST_VOTERS, strict=False)
    ]
    commitment: Hash
    half: Hash

    @classmethod
    def of(
        cls, ctx: bytes, ids: Sequence[str], accepted: tuple[int, ...], commitment: bytes, half: Half
    ) -> GivenRecord:
        bound = half.commitment(ctx, leads=False).hex()
        return cls(session=ctx.hex(), ids=ids_digest(ids), accepted=accepted, commitment=commitment.hex(), half=bound)

    @classmethod
    def open(cls, content: bytes, signature: bytes, roster: VerifiedRoster) -> GivenRecord:
        """Its bytes -> the record. Raises MalformedMessage: not signed by the roster's helper, or not canonical."""
        if not verify(bytes.fromhex(roster.helper.ed25519_pk), signature, cls.SIGNED_AS, content):
            raise MalformedMessage("the record of a sum is not signed by the second aggregator")
        return cls.parse(content)


def ids_digest(ids: Sequence[str]) -> str:
    """SHA-256 (hex) of query ids (hex), in their order."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, ids))).hexdigest()
