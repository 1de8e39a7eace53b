"""What is committed to and signed in a session. Party and coordinator must build the very same bytes."""

from __future__ import annotations

import hashlib

import numpy as np

from protocol.secagg.framing import digest, index_bytes, indices_bytes

ADVERT, MASKED, CONSISTENCY = "advert", "masked", "consistency"


def commitment(b: bytes, ctx: bytes, party: int) -> bytes:
    """H(b), 32 bytes."""
    return digest("commitment", ctx, index_bytes(party), b)


def advert_parts(ctx: bytes, party: int, keys: bytes) -> tuple[bytes, ...]:
    """What a party signs in stage 0. keys: 96 bytes, cipher key, mask key and commitment."""
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
