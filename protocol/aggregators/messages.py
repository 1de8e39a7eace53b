"""The envelopes of verified votes. What the two aggregators and the parties say to each other travels in them as bytes,
signed and sealed from end to end (`protocol.verified`): whoever carries them can lose them, and do nothing else.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field

from consilium.protocol.digests import Hash
from consilium.protocol.parties.messages import (
    MOST_BATCHES,
    LedgerPosition,
    PartyName,
    PoolPlaces,
    Program,
    Proof,
    Terms,
    WireModel,
)
from consilium.protocol.secagg.identity import SIGNATURE_BYTES
from consilium.protocol.secagg.session import SID_BYTES
from consilium.protocol.verified.sealing import KEY_BYTES

MOST_BYTES = 2**31 - 1
"""Of one message between the aggregators, or one upload."""
MOST_RECORD = 1_000_000
"""Of a signed record: the places of the longest roster."""


def _queries(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.float32 or array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise ValueError("queries must be finite float32 (queries, features)")
    return array


def _content(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > MOST_BYTES:
        raise ValueError("must be uint8 (bytes,)")
    return array


Queries = Annotated[np.ndarray, AfterValidator(_queries), Field(repr=False)]
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

    places, proof: that the queries are rows of the pool, see `protocol.parties.messages.VoteRequest`.
    """

    terms: Annotated[bytes, Field(max_length=5000)]
    signature: Signature
    queries: Queries
    places: PoolPlaces
    proof: Proof


class AggregatorRequest(Terms):
    """To the second aggregator: who are you, and would you serve in this federation? `protocol_version`, `program` and
    the position of the ledger are those of `protocol.parties.messages.HelloRequest`."""

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
    for this party in this session (`protocol.verified.sealing.SignedKey`)."""

    kind: ClassVar[str] = "query.va_upload"
    helper_key: Annotated[bytes, Field(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    helper_signature: Signature


class UploadReply(VerifiedMessage):
    """`protocol.verified.uploads.Upload` as bytes. Never printed."""

    kind: ClassVar[str] = "query.va_upload"
    sid: Sid
    party: PartyName
    upload: Content


class OpenRequest(SessionOf):
    """To the second aggregator: this session begins."""

    kind: ClassVar[str] = "query.va_open"


class OpenReply(VerifiedMessage):
    """It is open. signed: sums of this federation of which it gave its half, as far as it remembers. keys: its public
    keys of this session (`protocol.verified.sealing.HelperKeys`); none where they are deleted."""

    kind: ClassVar[str] = "query.va_open"
    sid: Sid
    signed: int = Field(ge=0, le=MOST_BATCHES)
    keys: Content


class LinkRequest(VerifiedMessage):
    """From the first aggregator to the second: one sealed message of `protocol.verified`."""

    kind: ClassVar[str] = "query.va_link"
    sid: Sid
    content: Content


class LinkReply(VerifiedMessage):
    """Its answer, sealed. record, signature: of a sum that it gave its half of (`protocol.aggregators.records`); both
    empty before."""

    kind: ClassVar[str] = "query.va_link"
    sid: Sid
    content: Content
    record: Annotated[bytes, Field(max_length=MOST_RECORD)] = b""
    signature: Annotated[bytes, Field(max_length=SIGNATURE_BYTES)] = b""
