"""Checks of each reply. A fault is described in the coordinator's own words, and its party is left out by name."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from consilium.protocol.secagg.agreement import check_order
from consilium.protocol.secagg.curve import decompress, montgomery
from consilium.protocol.secagg.errors import BadKey
from consilium.protocol.secagg.identity import verify
from consilium.protocol.secagg.messages import (
    KEY_BYTES,
    AdvertiseReply,
    ConsistencyReply,
    MaskedReply,
    SessionMessage,
    ShareReply,
    UnmaskReply,
)
from consilium.protocol.secagg.ring import RING_DTYPES
from consilium.protocol.secagg.roster import Roster
from consilium.protocol.secagg.session import SessionDescriptor
from consilium.protocol.secagg.shamir import share_value
from consilium.protocol.secagg.statements import (
    ADVERT,
    CONSISTENCY,
    MASKED,
    advert_parts,
    consistency_parts,
    masked_parts,
)


def advert_keys(reply: AdvertiseReply) -> bytes:
    """Cipher key, then the points of mask key, b and z, 128 bytes."""
    return reply.cipher_key + reply.mask_point + reply.self_point + reply.blind_point


def fault_of_address(reply: object, model: type[SessionMessage], sid: bytes, index: int) -> str | None:
    """Whether the reply is one of this stage, session and party."""
    if not isinstance(reply, model):
        return "answers with a message of another stage"
    if reply.sid != sid or getattr(reply, "party", None) != index:
        return "answers for another session or another party"
    return None


def fault_of_advert(reply: AdvertiseReply, roster: Roster, ctx: bytes) -> str | None:
    """Signature under the pinned key, keys not of low order, points on the curve."""
    parts = advert_parts(ctx, reply.party, advert_keys(reply))
    if not verify(roster.key(reply.party), reply.signature, ADVERT, *parts):
        return "signature on its advert does not verify under the key in the roster"
    try:
        check_order(reply.cipher_key, roster.name(reply.party))
    except BadKey:
        return "session key is of low order"
    if None in map(decompress, (reply.mask_point, reply.self_point, reply.blind_point)):
        return "a point of its advert is none, or of low order"
    return None


def mask_key(advert: np.ndarray) -> bytes:
    """The X25519 mask key of an accepted advert, uint8 (192,)."""
    return montgomery(advert[KEY_BYTES : 2 * KEY_BYTES].tobytes())


def twice(adverts: dict[int, np.ndarray]) -> set[int]:
    """Parties with a session key that another advert holds too: who copied from whom cannot be told."""
    holders: dict[bytes, list[int]] = {}
    for index, advert in adverts.items():
        for key in (advert[:KEY_BYTES].tobytes(), mask_key(advert)):
            holders.setdefault(key, []).append(index)
    return {index for indices in holders.values() if len(indices) > 1 for index in indices}


def fault_of_shares(reply: ShareReply, peers: int) -> str | None:
    """One ciphertext for each peer. What they hold is checked for all dealers at once (`dealings`)."""
    if len(reply.ciphertexts) != peers:
        return f"sends {len(reply.ciphertexts)} ciphertexts, {peers} are needed"
    return None


def fault_of_masked(
    reply: MaskedReply,
    roster: Roster,
    terms: SessionDescriptor,
    ctx: bytes,
    u1: bytes,
    u2: bytes,
    sharers: Collection[int],
) -> str | None:
    """Type and shape of y, signature on y, complaints, U1 and U2."""
    if reply.y.dtype != RING_DTYPES[terms.ring]:
        return f"masked votes are {reply.y.dtype}, must be uint{terms.ring}"
    if reply.y.shape != terms.shape:
        return f"masked votes have shape {reply.y.shape}, must be {terms.shape}"
    parts = masked_parts(ctx, reply.party, u1, u2, reply.y, reply.complaints)
    if not verify(roster.key(reply.party), reply.signature, MASKED, *parts):
        return "signature on its masked votes does not verify"
    if not set(reply.complaints.tolist()) <= set(sharers) - {reply.party}:
        return "complains about parties that sent it no shares"
    return None


def fault_of_view(reply: ConsistencyReply, roster: Roster, ctx: bytes, u1: bytes, u2: bytes, u3: bytes) -> str | None:
    """Signature on U1, U2 and U3."""
    parts = consistency_parts(ctx, reply.party, u1, u2, u3)
    if not verify(roster.key(reply.party), reply.signature, CONSISTENCY, *parts):
        return "signature on the set of survivors does not verify"
    return None


def fault_of_unmask(reply: UnmaskReply, sharers: int) -> str | None:
    """One share per party of U2, each below l."""
    if len(reply.shares) != sharers:
        return f"gives {len(reply.shares)} shares, {sharers} are needed"
    if any(share_value(row.tobytes()) is None for row in reply.shares):
        return "gives a share that is out of range"
    return None
