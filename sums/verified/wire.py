"""Verified votes on Flower's wire: the envelopes, and what the second aggregator signs when it gives half of a sum.

What the two aggregators and the parties say to each other travels in envelopes as bytes, signed and sealed from end to
end: whoever carries them can lose them, and do nothing else. Whoever has the roster can check a signed record: over
which parties a sum is, on which queries, with what noise; `consilium audit` holds the coordinator's ledger against
it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from consilium.protocol.digests import Hash
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import SIGNATURE_BYTES, Identity, canonical_json, verify
from consilium.protocol.messages import (
    MOST_BATCHES,
    LedgerPosition,
    PartyName,
    PoolPlaces,
    Program,
    Proof,
    Queries,
    Terms,
    WireModel,
)
from consilium.protocol.models import Strict
from consilium.sums.roster import MOST_VOTERS, VerifiedRoster
from consilium.sums.terms import MOST_SIGMA, SID_BYTES, SessionId
from consilium.sums.verified.sealing import KEY_BYTES

MOST_BYTES = 2**31 - 1
"""Of one message between the aggregators, or one upload."""
MOST_RECORD = 8_000_000
"""Of a signed record: the places of the longest roster."""


def _content(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > MOST_BYTES:
        raise ValueError("must be uint8 (bytes,)")
    return array


Content = Annotated[np.ndarray, AfterValidator(_content), Field(repr=False)]
Sid = Annotated[bytes, Field(min_length=SID_BYTES, max_length=SID_BYTES)]
Signature = Annotated[bytes, Field(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


def as_array(content: bytes) -> np.ndarray:
    """Bytes as a message carries them, uint8 (bytes,)."""
    return np.frombuffer(content, dtype=np.uint8)


class VerifiedMessage(WireModel):
    """Base of these messages: a bad value is never quoted in an error."""

    model_config = ConfigDict(hide_input_in_errors=True)


class SessionOf(VerifiedMessage):
    """Base of what begins a session: its terms, signed by the coordinator, and its queries, canonical float32.

    places, proof: that the queries are rows of the pool, see `protocol.messages.VoteRequest`.
    """

    terms: Annotated[bytes, Field(max_length=5000)]
    signature: Signature
    queries: Queries
    places: PoolPlaces
    proof: Proof


class AggregatorRequest(Terms):
    """To the second aggregator: who are you, and would you serve in this federation? `protocol_version`, `program` and
    the position of the ledger are those of `protocol.messages.HelloRequest`."""

    kind: ClassVar[str] = "query.va_hello"
    protocol_version: int = Field(ge=0, le=1_000_000)
    ledger: Hash
    batch: int = Field(ge=0, le=MOST_BATCHES)
    head: Hash
    program: Program

    @property
    def terms(self) -> Terms:
        """What is to be pinned."""
        return Terms(**{name: getattr(self, name) for name in Terms.model_fields})

    @property
    def position(self) -> LedgerPosition:
        """Where the coordinator's ledger stands."""
        return LedgerPosition(ledger=self.ledger, batch=self.batch, head=self.head)


class AggregatorReply(VerifiedMessage):
    """Its name, its Ed25519 key, hex, and its versions, for people."""

    kind: ClassVar[str] = "query.va_hello"
    name: PartyName
    key: Hash
    program: Program = ""


class UploadRequest(SessionOf):
    """To a party: its votes on these queries, in two parts. helper_key, helper_signature: the second aggregator's key
    of this session."""

    kind: ClassVar[str] = "query.va_upload"
    helper_key: Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    helper_signature: Signature


class UploadReply(VerifiedMessage):
    """`sums.verified.uploads.Upload` as bytes. Never printed."""

    kind: ClassVar[str] = "query.va_upload"
    sid: Sid
    party: PartyName
    upload: Content


class OpenRequest(SessionOf):
    """To the second aggregator: this session begins."""

    kind: ClassVar[str] = "query.va_open"


class OpenReply(VerifiedMessage):
    """It is open. signed: sums of this federation of which it gave its half, as far as it remembers. key, signature:
    its public key of this session; both empty once it is deleted."""

    kind: ClassVar[str] = "query.va_open"
    sid: Sid
    signed: int = Field(ge=0, le=MOST_BATCHES)
    key: Annotated[bytes, Field(max_length=KEY_BYTES)]
    signature: Annotated[bytes, Field(max_length=SIGNATURE_BYTES)]


class LinkRequest(VerifiedMessage):
    """From the first aggregator to the second: one sealed message of `sums.verified`."""

    kind: ClassVar[str] = "query.va_link"
    sid: Sid
    content: Content


class LinkReply(VerifiedMessage):
    """Its answer, sealed. record, signature: of a sum that it gave its half of (`sums.verified.wire`); both
    empty before."""

    kind: ClassVar[str] = "query.va_link"
    sid: Sid
    content: Content
    record: Annotated[bytes, Field(max_length=MOST_RECORD)] = b""
    signature: Annotated[bytes, Field(max_length=SIGNATURE_BYTES)] = b""


LABEL = "aggregator/1/given"
Place = Annotated[int, Field(ge=0, lt=MOST_VOTERS)]


class GivenRecord(Strict):
    """sid, federation, roster: of the session. ids: digest of its queries' ids, in order (`ids_digest`). accepted:
    places of the parties in the sum, rising. left_out: how many others sent votes that were none. sigma: of this
    aggregator's own noise on one count. round: as in the session. session: hash of its terms. commitment: by
    which the first aggregator was bound to its total before it saw this one's half; half: the same of that half
    (`proof.commit_total`)."""

    version: Literal[1] = 1
    sid: SessionId
    federation: Hash
    roster: Hash
    ids: Hash
    queries: int = Field(ge=1, le=10_000_000)
    accepted: Annotated[tuple[Place, ...], Field(max_length=MOST_VOTERS, strict=False)]
    left_out: int = Field(ge=0, le=MOST_VOTERS)
    sigma: float = Field(ge=0, le=MOST_SIGMA, allow_inf_nan=False)
    round: Literal[1, 2]
    session: Hash
    commitment: Hash
    half: Hash

    def canonical(self) -> bytes:
        """The bytes that are signed."""
        return canonical_json(self.model_dump(mode="json"))

    def sign(self, helper: Identity) -> bytes:
        """The second aggregator's signature, 64 bytes."""
        return helper.sign(LABEL, self.canonical())


def ids_digest(ids: Sequence[str]) -> str:
    """SHA-256 (hex) of query ids (hex), in their order."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, ids))).hexdigest()


def open_record(content: bytes, signature: bytes, roster: VerifiedRoster) -> GivenRecord:
    """Bytes and their signature -> the record.

    Raises
    ------
    MalformedMessage : not signed by the roster's second aggregator, or not the canonical bytes of a record.
    """
    if not verify(bytes.fromhex(roster.helper.ed25519_pk), signature, LABEL, content):
        raise MalformedMessage("the record of a sum is not signed by the second aggregator")
    try:
        record = GivenRecord.model_validate_json(content)
    except ValidationError:
        raise MalformedMessage("the record of a sum has not the form of this protocol") from None
    if record.canonical() != content:
        raise MalformedMessage("the record of a sum is not in canonical form")
    return record
