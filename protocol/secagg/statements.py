"""What is committed to and signed in a session. Party and coordinator must build the very same bytes."""

from __future__ import annotations

import hashlib

import numpy as np

from consilium.protocol.secagg.curve import ORDER
from consilium.protocol.secagg.framing import digest, index_bytes, indices_bytes

ADVERT, MASKED, CONSISTENCY = "advert", "masked", "consistency"


def challenge(ctx: bytes, party: int, u1: bytes, nonce: bytes, ciphertexts: np.ndarray) -> int:
    """r of a dealer, modulo l: fixed once all that it is committed to (in u1, the hash of that set) and all its sealed
    shares are, so that no share can be made to fit it. ciphertexts: uint8 (|U1| - 1, 112).
    """
    parts = ctx, index_bytes(party), u1, nonce, np.ascontiguousarray(ciphertexts).tobytes()
    return int.from_bytes(digest("challenge", *parts), "little") % ORDER


def advert_parts(ctx: bytes, party: int, keys: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 0. keys: 128 bytes, the cipher key and three points."""
    return ctx, index_bytes(party), keys


def masked_parts(
    ctx: bytes, party: int, u1: bytes, u2: bytes, y: np.ndarray, complaints: np.ndarray
) -> tuple[bytes, ...]:
    """What a party signs in stage 2; u1 and u2 are the hashes of those sets, complaints are places in the roster."""
    return ctx, index_bytes(party), u1, u2, ring_digest(y), indices_bytes(complaints)


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
