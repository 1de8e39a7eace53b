"""Pairs of parties: what comes of the one secret that two keys agree on, and what is sealed with it.

HKDF-SHA256 (RFC 5869) gives independent keys of one X25519 secret (RFC 7748). The hash of the session's terms is the
salt. Label and both places are in each key's info: a key of another party's, altered so that the same secret comes out
(its highest bit, or a point of low order added), gives other keys."""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import derive, frame, index_bytes
from consilium.sums.roster import MOST_PARTIES

KEY_BYTES, NONCE_BYTES, TAG_BYTES = 32, 12, 16

public_key = lru_cache(maxsize=2 * MOST_PARTIES)(X25519PublicKey.from_public_bytes)
"""Public values alone: a process that simulates many parties reads each key once."""


def extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF-Extract, 32 bytes."""
    return hmac.digest(salt, secret, "sha256")


def expand(extracted: bytes, info: bytes) -> bytes:
    """The first block of HKDF-Expand, 32 bytes."""
    return hmac.digest(extracted, info + b"\x01", "sha256")


class Agreement:
    """One party's private key of one session, to agree with each peer once.

    private: X25519, 32 bytes. ctx: of the session's terms. rounds: of its sums.
    """

    def __init__(self, private: bytes, ctx: bytes, me: int, rounds: Sequence[int]) -> None:
        self._key, self._ctx, self._me = X25519PrivateKey.from_private_bytes(private), ctx, me
        self._labels = [frame("share-key"), *(frame("mask-seed", bytes([round_])) for round_ in rounds)]

    def keys(self, peer: int, public: bytes) -> list[bytes]:
        """What the two have in common, 32 bytes each: a key that seals shares, and the seed of their mask in each sum.
        Raises ValueError: `public` is of low order: the secret would be zero, known to all (RFC 7748, section 6.1)."""
        extracted = extract(self._ctx, self._key.exchange(public_key(public)))
        pair = between(min(self._me, peer), max(self._me, peer))
        return [expand(extracted, label + pair) for label in self._labels]


def new_private() -> bytes:
    """A new X25519 private key, from the system's entropy, 32 bytes."""
    return secrets.token_bytes(KEY_BYTES)


def public_of(private: bytes) -> bytes:
    """The public key of a private one, 32 bytes each."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def list_key(k: bytes, ctx: bytes, party: int, round_: int) -> bytes:
    """By which a party seals the list of its pairs' mask seeds in one sum, 32 bytes, from its secret K of that sum."""
    return derive(k, "list-key", ctx, index_bytes(party), bytes([round_]))


def between(sender: int, receiver: int) -> bytes:
    """What is sealed for a peer is bound to: both directions of a pair have one key."""
    return struct.pack(">HH", sender, receiver)


def seal(key: bytes, plaintext: bytes, bound: bytes) -> bytes:
    """A random nonce and AES-256-GCM. bound: authenticated with it."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, bound)


def unseal(key: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """The plaintext, or None where it is not what was sealed."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except InvalidTag:
        return None
