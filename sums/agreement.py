"""Pairs of parties: X25519 agreement, and sealed pairs of shares."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import derive, index_bytes
from consilium.sums.errors import BadKey

NONCE_BYTES = 12
TAG_BYTES = 16


def new_private() -> bytes:
    """A new X25519 private key, 32 bytes."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public key of a private one, 32 bytes each."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


class Agreement:
    """One private key, agreed with many peers."""

    def __init__(self, private: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(private)

    def with_peer(self, public: bytes, party: str) -> bytes:
        """The secret shared with the owner of `public`, 32 bytes.

        Raises
        ------
        BadKey : `public` is of low order: the secret would be zero, known to all (RFC 7748, section 6.1).
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise BadKey(party, "is of low order") from None


def check_order(public: bytes, party: str) -> None:
    """Raise BadKey if the key is of low order; whatever the private key, such an agreement gives zero."""
    Agreement(bytes(32)).with_peer(public, party)


def seal(secret: bytes, plaintext: bytes, ctx: bytes, sender: int, receiver: int) -> bytes:
    """A random nonce and AES-256-GCM, under a key of what the two agreed, for this direction and session alone."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    between = index_bytes(sender), index_bytes(receiver)
    return nonce + AESGCM(derive(secret, "share-key", ctx, *between)).encrypt(nonce, plaintext, None)


def unseal(secret: bytes, sealed: bytes, ctx: bytes, sender: int, receiver: int) -> bytes | None:
    """The plaintext, or None if it is not what the sender sealed for this receiver and session."""
    between = index_bytes(sender), index_bytes(receiver)
    key = derive(secret, "share-key", ctx, *between)
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
    except InvalidTag:
        return None
