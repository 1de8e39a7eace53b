"""The five exchanges of a session: their order, their messages, and what is committed to and signed in them.

Parties are named by their places in the roster, uint16, always in rising order. What belongs to several peers is one
uint8 matrix with a row per peer. Arrays are checked for type, shape and range when a message is made or read. Keys and
shares are exchanged once a session; the other three stages are played for each of its sums."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from consilium.protocol.identity import SIGNATURE_BYTES, Identity, digest, index_bytes, indices_bytes, verify
from consilium.protocol.messages import PoolPlaces, Proof, Queries, WireModel, array_of
from consilium.sums.roster import MOST_PARTIES
from consilium.sums.secure.pairs import KEY_BYTES, NONCE_BYTES, TAG_BYTES
from consilium.sums.secure.shamir import SHARE_BYTES
from consilium.sums.terms import Sid, Signature


class Stage(StrEnum):
    """A request to each party that is still in, a reply from each."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASKED = "masked"
    CONSISTENCY = "consistency"
    UNMASK = "unmask"


STAGES = tuple(Stage)
COMMITMENT_BYTES = 32
KINDS = 2
"""Of secrets that a party shares for each sum: b, of its own mask, and K, of the list of its pairs' seeds."""
MOST_SUMS = 2


def advert_bytes(sums: int) -> int:
    """Of an advert for so many sums: a key, and a commitment to each secret."""
    return KEY_BYTES + sums * KINDS * COMMITMENT_BYTES


def sealed_bytes(sums: int) -> int:
    """Of what is sealed for one peer: a share of each secret."""
    return NONCE_BYTES + sums * KINDS * SHARE_BYTES + TAG_BYTES


def list_bytes(peers: int) -> int:
    """Of the sealed list of the seeds of so many pairs."""
    return NONCE_BYTES + peers * KEY_BYTES + TAG_BYTES


def most_reply(parties: int, cells: int) -> int:
    """Bytes of arrays that no reply of so many parties, in sums of so many cells, has more of."""
    return (parties + 1) * (sealed_bytes(MOST_SUMS) + MOST_SUMS * KEY_BYTES) + 4 * cells


def _rising(places: np.ndarray) -> bool:
    return len(places) <= MOST_PARTIES and bool((places < MOST_PARTIES).all() and (places[1:] > places[:-1]).all())


def _bytes(widths: Collection[int], most: int = MOST_PARTIES) -> AfterValidator:
    """uint8 (rows, one of the widths), at most so many rows."""
    told = "uint8, and as many rows and columns as the protocol has"
    return array_of(np.uint8, 2, told, lambda array: array.shape[1] in widths and len(array) <= most)


TermsBytes = Annotated[bytes, Field(max_length=5000)]
Index = Annotated[int, Field(ge=0, lt=MOST_PARTIES)]
Round = Annotated[int, Field(ge=1, le=MOST_SUMS)]
Indices = Annotated[np.ndarray, array_of(np.uint16, 1, "uint16 (n,), and rise", _rising)]
Adverts = Annotated[np.ndarray, _bytes({advert_bytes(1), advert_bytes(2)})]
Sealed = Annotated[np.ndarray, _bytes({sealed_bytes(1), sealed_bytes(2)})]
Signatures = Annotated[np.ndarray, _bytes({SIGNATURE_BYTES})]
Shares = Annotated[np.ndarray, _bytes({SHARE_BYTES})]
Seeds = Annotated[np.ndarray, _bytes({KEY_BYTES})]
Lists = Annotated[np.ndarray, _bytes(range(list_bytes(MOST_PARTIES)), MOST_SUMS)]


class SecAggMessage(WireModel):
    """Base of the messages: a bad value is never quoted in an error. ALIKE: fields that have a row for each party."""

    model_config = ConfigDict(hide_input_in_errors=True)
    ALIKE: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if len({len(getattr(self, name)) for name in self.ALIKE}) > 1:
            raise ValueError("one row per party is needed")
        return self


class AdvertiseRequest(SecAggMessage):
    """The session's terms (`KeyTerms`): canonical bytes, and the coordinator's signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    terms: TermsBytes
    signature: Signature


class SessionMessage(SecAggMessage):
    """Base of what belongs to a session that both sides know."""

    sid: Sid


class PartyReply(SessionMessage):
    """Base of the replies."""

    party: Index


class AdvertiseReply(PartyReply):
    """advert: uint8 (1, bytes), a party's X25519 key, and for each sum the commitments to b and K (`commitment`)."""

    kind: ClassVar[str] = "query.sa_advertise"
    advert: Adverts
    signature: Signature


class ShareRequest(SessionMessage):
    """All signed adverts, U1. adverts: uint8 (|U1|, bytes)."""

    kind: ClassVar[str] = "query.sa_share"
    ALIKE = ("advertised", "adverts", "signatures")
    advertised: Indices
    adverts: Adverts
    signatures: Signatures


class ShareReply(PartyReply):
    """ciphertexts: sealed shares of b and K of each sum, uint8 (|U1| - 1, bytes), in the order of U1 without the
    sender. lists: for each sum the seeds of the sender's pairs in that order, sealed by K, uint8 (sums, bytes)."""

    kind: ClassVar[str] = "query.sa_share"
    ciphertexts: Sealed
    lists: Lists


class MaskedRequest(SessionMessage):
    """The terms of a sum (`MaskedTerms`) with the coordinator's signature, U2, and the queries, canonical float32.

    U2 of a second sum are those of the first one's U3. ciphertexts: in the session's first sum, what the others in U2
    sealed for the addressee, in order; no row later. places, proof: that the queries are rows of the pool, see
    `protocol.messages.VoteRequest`.
    """

    kind: ClassVar[str] = "query.sa_masked"
    terms: TermsBytes
    signature: Signature
    sharers: Indices
    ciphertexts: Sealed
    queries: Queries
    places: PoolPlaces
    proof: Proof


class MaskedReply(PartyReply):
    """y: uint32 (queries, classes), and the party's signature on it and on its view of U1 and U2."""

    kind: ClassVar[str] = "query.sa_masked"
    y: Annotated[np.ndarray, array_of(np.uint32, 2, "uint32 (queries, classes)")]
    signature: Signature


class ConsistencyRequest(SessionMessage):
    """U3: those whose masked votes arrived."""

    kind: ClassVar[str] = "query.sa_consistency"
    round: Round
    survivors: Indices


class ConsistencyReply(PartyReply):
    """The party's signature on U1, U2 and U3."""

    kind: ClassVar[str] = "query.sa_consistency"
    signature: Signature


class UnmaskRequest(SessionMessage):
    """Who is in the sum (share of b wanted), who dropped (share of K wanted), and signatures on that view.

    signatures: uint8 (signers, 64).
    """

    kind: ClassVar[str] = "query.sa_unmask"
    ALIKE = ("signers", "signatures")
    round: Round
    survivors: Indices
    dropped: Indices
    signers: Indices
    signatures: Signatures


class UnmaskReply(PartyReply):
    """shares: one per party of U2, in order, uint8 (|U2|, 52). seeds: of the sender's mask with each that dropped,
    uint8 (dropped, 32). Never printed."""

    kind: ClassVar[str] = "query.sa_unmask"
    shares: Shares
    seeds: Seeds


REPLIES: dict[Stage, type[PartyReply]] = {
    Stage(reply.kind.removeprefix("query.sa_")): reply
    for reply in (AdvertiseReply, ShareReply, MaskedReply, ConsistencyReply, UnmaskReply)
}


def commitment(ctx: bytes, party: int, secret: bytes, round: int, kind: Literal["b", "K"]) -> bytes:
    """By which a party is bound to a secret of one sum, 32 bytes."""
    return digest("commitment", ctx, index_bytes(party), secret, bytes([round]), kind.encode())


def adverts_digest(ctx: bytes, advertised: np.ndarray, adverts: np.ndarray, signatures: np.ndarray) -> bytes:
    """H(U1): places, adverts and signatures, so that the same set with another key is another set."""
    return digest("U1", ctx, indices_bytes(advertised), adverts.tobytes(), signatures.tobytes())


def set_digest(label: str, ctx: bytes, indices: np.ndarray) -> bytes:
    """H(U2) or H(U3), by label; ctx is of the sum's terms."""
    return digest(label, ctx, indices_bytes(indices))


def masked_statement(u1: bytes, u2: bytes, y: np.ndarray) -> bytes:
    """What a party signs as "masked": the hashes of both sets and of y."""
    return u1 + u2 + hashlib.sha256(np.ascontiguousarray(y, dtype=y.dtype.newbyteorder("<")).data).digest()


def sign(signer: Identity, stage: Stage, ctx: bytes, party: int, statement: bytes) -> bytes:
    """A party's signature in a stage: on its advert, on `masked_statement`, or on the hashes of U1, U2 and U3. ctx is
    of the session's terms in the first case, and else of the sum's."""
    return signer.sign(stage, ctx, index_bytes(party), statement)


@lru_cache(maxsize=4)
def first_unsigned(
    stage: Stage, ctx: bytes, keys: bytes, places: tuple[int, ...], statements: bytes, signatures: bytes
) -> int | None:
    """The first of some parties whose signature does not verify; None where all do. keys, statements, signatures: one
    behind the other. All is public and shown to all: a process that simulates many parties looks once."""
    width = len(statements) // len(places)
    for row, place in enumerate(places):
        key, signature = keys[row * KEY_BYTES :][:KEY_BYTES], signatures[row * SIGNATURE_BYTES :][:SIGNATURE_BYTES]
        if not verify(key, signature, stage, ctx, index_bytes(place), statements[row * width :][:width]):
            return place
    return None
