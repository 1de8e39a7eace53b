"""The terms of a sum under masks, and the five exchanges of its session: their order, their messages, and what is
committed to and signed in them.

Parties are named by their places in the roster, uint16, always in rising order. What belongs to several peers is one
uint8 matrix with a row per peer. Arrays are checked for type, shape and range when a message is made or read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from consilium.protocol.identity import SIGNATURE_BYTES, Identity, digest, index_bytes, indices_bytes, verify
from consilium.protocol.messages import CollectionMode, PoolPlaces, Proof, Queries, WireModel, array_of
from consilium.protocol.records import MOST_CELLS
from consilium.sums.errors import UnsafeSession
from consilium.sums.roster import MOST_PARTIES, SumRoster
from consilium.sums.secure.masks import KEY_BYTES, NONCE_BYTES, SHARE_BYTES, TAG_BYTES, check_ring
from consilium.sums.terms import Sid, Signature, SumTerms, TermsBytes


class MaskedTerms(SumTerms):
    """See `SumTerms`. noise_shares: of honest parties, which together are noise of `sigma`: no more than the roster is
    sure of."""

    collection: ClassVar[CollectionMode] = "secure"
    SIGNED_AS: ClassVar[str] = "masked-sum"

    noise_shares: int = Field(ge=1, le=MOST_PARTIES)

    def check(self, roster: SumRoster) -> None:
        """See `SumTerms`. Also the noise is in shares that are sure to be there, and the ring and a message hold the
        sum."""
        super().check(roster)
        if self.noise_shares > roster.sure:
            raise UnsafeSession(
                f"noise in {self.noise_shares} shares, but only least - c = {roster.sure} honest parties are sure to"
                " be in the sum"
            )
        if self.sigma**2 < self.noise_shares:
            raise UnsafeSession(f"a share of the noise has variance {self.sigma**2 / self.noise_shares:.3g}, below 1")
        if self.queries * self.classes > MOST_CELLS:
            raise UnsafeSession(f"{self.queries * self.classes} counts in a sum, a message holds {MOST_CELLS}")
        check_ring(self.teachers * roster.n, self.deviation(roster.n))

    def deviation(self, parties: int) -> float:
        """Standard deviation of the noise in a sum of so many: each adds variance sigma^2 / noise_shares."""
        return self.sigma / math.sqrt(self.noise_shares) * math.sqrt(parties)

    @property
    def noise(self) -> tuple[float, int]:
        return self.sigma, self.noise_shares


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
"""Of secrets that a party shares: b, of its own mask, and K, of the list of its pairs' seeds."""
ADVERT_BYTES = KEY_BYTES + KINDS * COMMITMENT_BYTES
SEALED_BYTES = NONCE_BYTES + KINDS * SHARE_BYTES + TAG_BYTES
"""Of what is sealed for one peer: a share of each secret."""


def list_bytes(peers: int) -> int:
    """Of the sealed list of the seeds of so many pairs."""
    return NONCE_BYTES + peers * KEY_BYTES + TAG_BYTES


def most_reply(parties: int, cells: int) -> int:
    """Bytes of arrays that no reply of so many parties, in sums of so many cells, has more of."""
    return (parties + 1) * SEALED_BYTES + 4 * cells


def rows_of(contents: Iterable[bytes]) -> np.ndarray:
    """Byte strings of one length -> uint8 (n, length)."""
    rows = [*contents]
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)


def _rising(places: np.ndarray) -> bool:
    return len(places) <= MOST_PARTIES and bool((places < MOST_PARTIES).all() and (places[1:] > places[:-1]).all())


def _rows(width: int) -> AfterValidator:
    told = f"uint8 (parties, {width})"
    return array_of(np.uint8, 2, told, lambda array: array.shape[1] == width and len(array) <= MOST_PARTIES)


Indices = Annotated[np.ndarray, array_of(np.uint16, 1, "uint16 (n,), and rise", _rising)]
Signatures = Annotated[np.ndarray, _rows(SIGNATURE_BYTES)]
Sealed = Annotated[np.ndarray, _rows(SEALED_BYTES)]


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
    """The session's terms (`MaskedTerms`): canonical bytes, and the coordinator's signature."""

    kind: ClassVar[str] = "query.sa_advertise"
    terms: TermsBytes
    signature: Signature


class SessionMessage(SecAggMessage):
    """Base of what belongs to a session that both sides know."""

    sid: Sid


class PartyReply(SessionMessage):
    """Base of the replies."""

    party: Annotated[int, Field(ge=0, lt=MOST_PARTIES)]


class AdvertiseReply(PartyReply):
    """advert: a party's X25519 key, and its commitments to b and K (`commitment`)."""

    kind: ClassVar[str] = "query.sa_advertise"
    advert: Annotated[bytes, Field(repr=False, min_length=ADVERT_BYTES, max_length=ADVERT_BYTES)]
    signature: Signature


class ShareRequest(SessionMessage):
    """All signed adverts, U1."""

    kind: ClassVar[str] = "query.sa_share"
    ALIKE = ("advertised", "adverts", "signatures")
    advertised: Indices
    adverts: Annotated[np.ndarray, _rows(ADVERT_BYTES)]
    signatures: Signatures


class ShareReply(PartyReply):
    """ciphertexts: sealed shares of b and K, in the order of U1 without the sender. seeds: the list of the seeds of the
    sender's pairs in that order, sealed by K."""

    kind: ClassVar[str] = "query.sa_share"
    ciphertexts: Sealed
    seeds: Annotated[bytes, Field(repr=False, max_length=list_bytes(MOST_PARTIES))]


class MaskedRequest(SessionMessage):
    """U2, what the others in it sealed for the addressee, in order, and the queries, canonical float32. places, proof:
    that these are rows of the pool, see `protocol.messages.VoteRequest`."""

    kind: ClassVar[str] = "query.sa_masked"
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
    survivors: Indices


class ConsistencyReply(PartyReply):
    """The party's signature on U1, U2 and U3."""

    kind: ClassVar[str] = "query.sa_consistency"
    signature: Signature


class UnmaskRequest(SessionMessage):
    """Signatures of others on the U1, U2 and U3 that the addressee has signed: shares of b are wanted of those in U3,
    of K of those who dropped."""

    kind: ClassVar[str] = "query.sa_unmask"
    ALIKE = ("signers", "signatures")
    signers: Indices
    signatures: Signatures


class UnmaskReply(PartyReply):
    """shares: one per party of U2, in order. seeds: of the sender's mask with each that dropped. Never printed."""

    kind: ClassVar[str] = "query.sa_unmask"
    shares: Annotated[np.ndarray, _rows(SHARE_BYTES)]
    seeds: Annotated[np.ndarray, _rows(KEY_BYTES)]


REPLIES: dict[Stage, type[PartyReply]] = {
    Stage(reply.kind.removeprefix("query.sa_")): reply
    for reply in (AdvertiseReply, ShareReply, MaskedReply, ConsistencyReply, UnmaskReply)
}


def commitment(ctx: bytes, party: int, secret: bytes, kind: Literal["b", "K"]) -> bytes:
    """By which a party is bound to a secret, 32 bytes."""
    return digest("commitment", ctx, index_bytes(party), secret, kind.encode())


def adverts_digest(ctx: bytes, advertised: np.ndarray, adverts: np.ndarray, signatures: np.ndarray) -> bytes:
    """H(U1): places, adverts and signatures, so that the same set with another key is another set."""
    return digest("U1", ctx, indices_bytes(advertised), adverts.tobytes(), signatures.tobytes())


def set_digest(label: str, ctx: bytes, indices: np.ndarray) -> bytes:
    """H(U2) or H(U3), by label."""
    return digest(label, ctx, indices_bytes(indices))


def masked_statement(u1: bytes, u2: bytes, y: np.ndarray) -> bytes:
    """What a party signs as "masked": the hashes of both sets and of y."""
    return u1 + u2 + hashlib.sha256(np.ascontiguousarray(y, dtype=y.dtype.newbyteorder("<")).data).digest()


def sign(signer: Identity, stage: Stage, ctx: bytes, party: int, statement: bytes) -> bytes:
    """A party's signature in a stage: on its advert, on `masked_statement`, or on the hashes of U1, U2 and U3."""
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
