"""The five exchanges of a session: their order, their messages, and what is committed to and signed in them.

Parties are named by their places in the roster, uint16, always in rising order. What belongs to several peers is one
uint8 matrix with a row per peer. Arrays are checked for type, shape and range when a message is made or read. Keys and
shares are exchanged once a session; the other three stages are played for each of its sums."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from consilium.protocol.identity import SIGNATURE_BYTES, digest, index_bytes, indices_bytes
from consilium.protocol.messages import PoolPlaces, Proof, Queries, WireModel
from consilium.sums.roster import MOST_PARTIES
from consilium.sums.secure.pairs import KEY_BYTES, NONCE_BYTES, TAG_BYTES
from consilium.sums.secure.shamir import SHARE_BYTES
from consilium.sums.terms import SID_BYTES


class Stage(StrEnum):
    """One exchange: a request to each party that is still in, a reply from each."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASKED = "masked"
    CONSISTENCY = "consistency"
    UNMASK = "unmask"


STAGES = tuple(Stage)
COMMITMENT_BYTES = 32
MOST_ROUNDS = 2
KINDS = 2
"""Of secrets that a party shares for each sum: b, of its own mask, and K, of the list of its pairs' seeds."""


def advert_bytes(rounds: int) -> int:
    """Of an advert for so many sums: a key, and a commitment to each secret."""
    return KEY_BYTES + rounds * KINDS * COMMITMENT_BYTES


def sealed_bytes(rounds: int) -> int:
    """Of what is sealed for one peer: a share of each secret."""
    return NONCE_BYTES + rounds * KINDS * SHARE_BYTES + TAG_BYTES


def list_bytes(peers: int) -> int:
    """Of the locked list of the seeds of so many pairs."""
    return peers * KEY_BYTES + TAG_BYTES


def _indices(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint16 or array.ndim != 1 or not array.size <= MOST_PARTIES:
        raise ValueError("places in the roster must be uint16 (n,)")
    if (array >= MOST_PARTIES).any() or (array[1:] <= array[:-1]).any():
        raise ValueError("places in the roster must rise and be below the most parties of a roster")
    return array


def _rows(*widths: int):
    def check(array: np.ndarray) -> np.ndarray:
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] not in widths or len(array) > MOST_PARTIES:
            raise ValueError(f"must be uint8 (parties, {' or '.join(map(str, widths))})")
        return array

    return AfterValidator(check)


def _lists(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint8 or array.ndim != 2 or not 1 <= len(array) <= MOST_ROUNDS:
        raise ValueError("must be uint8 (sums, bytes)")
    if array.shape[1] > list_bytes(MOST_PARTIES):
        raise ValueError("is longer than a list of the seeds of all pairs")
    return array


def _ring_matrix(array: np.ndarray) -> np.ndarray:
    if array.dtype not in (np.uint16, np.uint32) or array.ndim != 2:
        raise ValueError("must be uint16 or uint32 (queries, classes)")
    return array


def _sized(*lengths: int):
    def check(content: bytes) -> bytes:
        if len(content) not in lengths:
            raise ValueError(f"must have {' or '.join(map(str, lengths))} bytes")
        return content

    return AfterValidator(check)


ADVERT_BYTES = tuple(advert_bytes(rounds) for rounds in range(1, MOST_ROUNDS + 1))
SEALED_BYTES = tuple(sealed_bytes(rounds) for rounds in range(1, MOST_ROUNDS + 1))

Sid = Annotated[bytes, _sized(SID_BYTES)]
Signature = Annotated[bytes, _sized(SIGNATURE_BYTES)]
TermsBytes = Annotated[bytes, Field(max_length=5000)]
Index = Annotated[int, Field(ge=0, lt=MOST_PARTIES)]
Round = Literal[1, 2]
Indices = Annotated[np.ndarray, AfterValidator(_indices)]
Sealed = Annotated[np.ndarray, _rows(*SEALED_BYTES), Field(repr=False)]
Signatures = Annotated[np.ndarray, _rows(SIGNATURE_BYTES), Field(repr=False)]


class SecAggMessage(WireModel):
    """Base of the messages: a bad value is never quoted in an error."""

    model_config = ConfigDict(hide_input_in_errors=True)


class SessionMessage(SecAggMessage):
    """Base of what belongs to a session that both sides know."""

    sid: Sid


class AdvertiseRequest(SecAggMessage):
    """The session's terms (`KeyTerms`): canonical bytes, and the coordinator's signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    terms: TermsBytes
    signature: Signature


class AdvertiseReply(SessionMessage):
    """advert: a party's X25519 key, and for each sum the commitments to b and K (`commitment`); and its signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    party: Index
    advert: Annotated[bytes, _sized(*ADVERT_BYTES)]
    signature: Signature


class ShareRequest(SessionMessage):
    """All signed adverts, U1. adverts: uint8 (|U1|, bytes)."""

    kind: ClassVar[str] = "query.sa_share"
    advertised: Indices
    adverts: Annotated[np.ndarray, _rows(*ADVERT_BYTES), Field(repr=False)]
    signatures: Signatures

    @model_validator(mode="after")
    def _agree(self) -> ShareRequest:
        if not len(self.advertised) == len(self.adverts) == len(self.signatures):
            raise ValueError("one row per party is needed")
        return self


class ShareReply(SessionMessage):
    """ciphertexts: sealed shares of b and K of each sum, uint8 (|U1| - 1, bytes), in the order of U1 without the
    sender. lists: for each sum the seeds of the sender's pairs in that order, locked by K, uint8 (sums, bytes)."""

    kind: ClassVar[str] = "query.sa_share"
    party: Index
    ciphertexts: Sealed
    lists: Annotated[np.ndarray, AfterValidator(_lists), Field(repr=False)]


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


class MaskedReply(SessionMessage):
    """y: uint16 or uint32 (queries, classes), and the party's signature on it and on its view of U1 and U2."""

    kind: ClassVar[str] = "query.sa_masked"
    party: Index
    y: Annotated[np.ndarray, AfterValidator(_ring_matrix), Field(repr=False)]
    signature: Signature


class ConsistencyRequest(SessionMessage):
    """U3: those whose masked votes arrived."""

    kind: ClassVar[str] = "query.sa_consistency"
    round: Round
    survivors: Indices


class ConsistencyReply(SessionMessage):
    """The party's signature on U1, U2 and U3."""

    kind: ClassVar[str] = "query.sa_consistency"
    party: Index
    signature: Signature


class UnmaskRequest(SessionMessage):
    """Who is in the sum (share of b wanted), who dropped (share of K wanted), and signatures on that view.

    signatures: uint8 (signers, 64).
    """

    kind: ClassVar[str] = "query.sa_unmask"
    round: Round
    survivors: Indices
    dropped: Indices
    signers: Indices
    signatures: Signatures

    @model_validator(mode="after")
    def _agree(self) -> UnmaskRequest:
        if len(self.signers) != len(self.signatures):
            raise ValueError("one row per signer is needed")
        return self


class UnmaskReply(SessionMessage):
    """shares: one per party of U2, in order, uint8 (|U2|, 52). seeds: of the sender's mask with each that dropped,
    uint8 (dropped, 32). Never printed."""

    kind: ClassVar[str] = "query.sa_unmask"
    party: Index
    shares: Annotated[np.ndarray, _rows(SHARE_BYTES), Field(repr=False)]
    seeds: Annotated[np.ndarray, _rows(KEY_BYTES), Field(repr=False)]


REPLIES: dict[Stage, type[SessionMessage]] = {
    Stage.ADVERTISE: AdvertiseReply,
    Stage.SHARE: ShareReply,
    Stage.MASKED: MaskedReply,
    Stage.CONSISTENCY: ConsistencyReply,
    Stage.UNMASK: UnmaskReply,
}


ADVERT, MASKED, CONSISTENCY = "advert", "masked", "consistency"


def commitment(ctx: bytes, party: int, secret: bytes, round: int, kind: Literal["b", "K"]) -> bytes:
    """By which a party is bound to a secret of one sum, 32 bytes."""
    return digest("commitment", ctx, index_bytes(party), secret, bytes([round]), kind.encode())


def advert_parts(ctx: bytes, party: int, advert: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 0."""
    return ctx, index_bytes(party), advert


def masked_parts(ctx: bytes, party: int, u1: bytes, u2: bytes, y: np.ndarray) -> tuple[bytes, ...]:
    """What a party signs in stage 2; ctx is of the sum's terms, u1 and u2 are the hashes of those sets."""
    content = np.ascontiguousarray(y, dtype=y.dtype.newbyteorder("<"))
    return ctx, index_bytes(party), u1, u2, hashlib.sha256(content.data).digest()


def consistency_parts(ctx: bytes, party: int, u1: bytes, u2: bytes, u3: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 3; ctx is of the sum's terms, u1, u2 and u3 are the hashes of those sets."""
    return ctx, index_bytes(party), u1, u2, u3


def adverts_digest(ctx: bytes, advertised: np.ndarray, adverts: bytes, signatures: bytes) -> bytes:
    """H(U1): places, adverts and signatures, so that the same set with another key is another set."""
    return digest("U1", ctx, indices_bytes(advertised), adverts, signatures)


def set_digest(label: str, ctx: bytes, indices: np.ndarray) -> bytes:
    """H(U2) or H(U3), by label; ctx is of the sum's terms."""
    return digest(label, ctx, indices_bytes(indices))
