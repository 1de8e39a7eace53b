"""The five exchanges of a session: their order, their messages, and what is committed to and signed in them.

Parties are named by their places in the roster, uint16, always in rising order. What belongs to several peers is one
uint8 matrix with a row per peer. Arrays are checked for type, shape and range when a message is made or read."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from consilium.protocol.identity import SIGNATURE_BYTES, digest, index_bytes, indices_bytes
from consilium.protocol.messages import PoolPlaces, Proof, Queries, WireModel
from consilium.sums.agreement import NONCE_BYTES, TAG_BYTES
from consilium.sums.roster import MOST_PARTIES
from consilium.sums.secure.shares import SHARE_BYTES
from consilium.sums.terms import SID_BYTES


class Stage(StrEnum):
    """One exchange: a request to each party that is still in, a reply from each."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASKED = "masked"
    CONSISTENCY = "consistency"
    UNMASK = "unmask"


STAGES = tuple(Stage)


KEY_BYTES = 32
KEYS_BYTES = 3 * KEY_BYTES
CIPHERTEXT_BYTES = NONCE_BYTES + 2 * SHARE_BYTES + TAG_BYTES


def _indices(array: np.ndarray) -> np.ndarray:
    if array.dtype != np.uint16 or array.ndim != 1 or not array.size <= MOST_PARTIES:
        raise ValueError("places in the roster must be uint16 (n,)")
    if (array >= MOST_PARTIES).any() or (array[1:] <= array[:-1]).any():
        raise ValueError("places in the roster must rise and be below the most parties of a roster")
    return array


def _rows(width: int):
    def check(array: np.ndarray) -> np.ndarray:
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width or len(array) > MOST_PARTIES:
            raise ValueError(f"must be uint8 (parties, {width})")
        return array

    return AfterValidator(check)


def _ring_matrix(array: np.ndarray) -> np.ndarray:
    if array.dtype not in (np.uint16, np.uint32) or array.ndim != 2:
        raise ValueError("must be uint16 or uint32 (queries, classes)")
    return array


def _sized(length: int):
    return Field(min_length=length, max_length=length)


Sid = Annotated[bytes, _sized(SID_BYTES)]
Signature = Annotated[bytes, _sized(SIGNATURE_BYTES)]
Index = Annotated[int, Field(ge=0, lt=MOST_PARTIES)]
Indices = Annotated[np.ndarray, AfterValidator(_indices)]
Ciphertexts = Annotated[np.ndarray, _rows(CIPHERTEXT_BYTES), Field(repr=False)]
Signatures = Annotated[np.ndarray, _rows(SIGNATURE_BYTES), Field(repr=False)]


class SecAggMessage(WireModel):
    """Base of the messages: a bad value is never quoted in an error."""

    model_config = ConfigDict(hide_input_in_errors=True)


class SessionMessage(SecAggMessage):
    """Base of what belongs to a session that both sides know."""

    sid: Sid


class AdvertiseRequest(SecAggMessage):
    """The session's terms: canonical bytes of the descriptor and the coordinator's signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    descriptor: Annotated[bytes, Field(max_length=5000)]
    signature: Signature


class AdvertiseReply(SessionMessage):
    """keys: a party's X25519 cipher key and mask key, and the hash of b (`self_commitment`); and its signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    party: Index
    keys: Annotated[bytes, _sized(KEYS_BYTES)]
    signature: Signature


class ShareRequest(SessionMessage):
    """All signed adverts, U1. keys: uint8 (|U1|, 96)."""

    kind: ClassVar[str] = "query.sa_share"
    advertised: Indices
    keys: Annotated[np.ndarray, _rows(KEYS_BYTES), Field(repr=False)]
    signatures: Signatures

    @model_validator(mode="after")
    def _agree(self) -> ShareRequest:
        if not len(self.advertised) == len(self.keys) == len(self.signatures):
            raise ValueError("one row per party is needed")
        return self


class ShareReply(SessionMessage):
    """ciphertexts: sealed shares of b and of the mask key's seed, uint8 (|U1| - 1, 132), in the order of U1 without the
    sender."""

    kind: ClassVar[str] = "query.sa_share"
    party: Index
    ciphertexts: Ciphertexts


class MaskedRequest(SessionMessage):
    """U2, what the others in U2 sealed for the addressee, in order, and the queries, canonical float32.

    places, proof: that the queries are rows of the pool, see `protocol.messages.VoteRequest`.
    """

    kind: ClassVar[str] = "query.sa_masked"
    sharers: Indices
    ciphertexts: Ciphertexts
    queries: Queries
    places: PoolPlaces
    proof: Proof

    @model_validator(mode="after")
    def _agree(self) -> MaskedRequest:
        if len(self.ciphertexts) != len(self.sharers) - 1:
            raise ValueError("one row per peer is needed")
        return self


class MaskedReply(SessionMessage):
    """y: uint16 or uint32 (queries, classes), and the party's signature on it and on its view of U1 and U2."""

    kind: ClassVar[str] = "query.sa_masked"
    party: Index
    y: Annotated[np.ndarray, AfterValidator(_ring_matrix), Field(repr=False)]
    signature: Signature


class ConsistencyRequest(SessionMessage):
    """U3: those whose masked votes arrived."""

    kind: ClassVar[str] = "query.sa_consistency"
    survivors: Indices


class ConsistencyReply(SessionMessage):
    """The party's signature on U1, U2 and U3."""

    kind: ClassVar[str] = "query.sa_consistency"
    party: Index
    signature: Signature


class UnmaskRequest(SessionMessage):
    """Who is in the sum (share of b wanted), who dropped (share of mask key wanted), and signatures on that view.

    signatures: uint8 (signers, 64).
    """

    kind: ClassVar[str] = "query.sa_unmask"
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
    """One share per party of U2, in order: uint8 (|U2|, 52). Never printed."""

    kind: ClassVar[str] = "query.sa_unmask"
    party: Index
    shares: Annotated[np.ndarray, _rows(SHARE_BYTES), Field(repr=False)]


REQUESTS: dict[Stage, type[SecAggMessage]] = {
    Stage.ADVERTISE: AdvertiseRequest,
    Stage.SHARE: ShareRequest,
    Stage.MASKED: MaskedRequest,
    Stage.CONSISTENCY: ConsistencyRequest,
    Stage.UNMASK: UnmaskRequest,
}
REPLIES: dict[Stage, type[SessionMessage]] = {
    Stage.ADVERTISE: AdvertiseReply,
    Stage.SHARE: ShareReply,
    Stage.MASKED: MaskedReply,
    Stage.CONSISTENCY: ConsistencyReply,
    Stage.UNMASK: UnmaskReply,
}


ADVERT, MASKED, CONSISTENCY = "advert", "masked", "consistency"


def self_commitment(ctx: bytes, party: int, b: bytes) -> bytes:
    """By which a party is bound to the seed of its own mask, 32 bytes."""
    return digest("self-commitment", ctx, index_bytes(party), b)


def advert_parts(ctx: bytes, party: int, keys: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 0. keys: of `AdvertiseReply`."""
    return ctx, index_bytes(party), keys


def masked_parts(ctx: bytes, party: int, u1: bytes, u2: bytes, y: np.ndarray) -> tuple[bytes, ...]:
    """What a party signs in stage 2; u1 and u2 are the hashes of those sets."""
    return ctx, index_bytes(party), u1, u2, ring_digest(y)


def consistency_parts(ctx: bytes, party: int, u1: bytes, u2: bytes, u3: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 3; u1, u2 and u3 are the hashes of those sets."""
    return ctx, index_bytes(party), u1, u2, u3


def ring_digest(y: np.ndarray) -> bytes:
    """SHA-256 of a matrix of the ring, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(y, dtype=y.dtype.newbyteorder("<")).data).digest()


def adverts_digest(ctx: bytes, advertised: np.ndarray, keys: np.ndarray, signatures: np.ndarray) -> bytes:
    """H(U1): places, keys and signatures, so that the same set with another key is another set."""
    return digest("U1", ctx, indices_bytes(advertised), keys.tobytes(), signatures.tobytes())


def set_digest(label: str, ctx: bytes, indices: np.ndarray) -> bytes:
    """H(U2) or H(U3), by label."""
    return digest(label, ctx, indices_bytes(indices))
