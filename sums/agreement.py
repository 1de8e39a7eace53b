"""Pairs of parties: X25519 agreement, and sealed pairs of shares."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import derive, index_bytes
from consilium.sums.curve import ladder
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


class UnclampedAgreement:
    """A multiplier that X25519 does not take as a private key, below 2^256 and a multiple of 8. Not constant-time."""

    def __init__(self, multiplier: int) -> None:
        self._multiplier = multiplier

    def with_peer(self, public: bytes, party: str) -> bytes:
        """As `Agreement.with_peer`. Raises BadKey if `public` is of low order."""
        secret = ladder(self._multiplier, public)
        if not any(secret):
            raise BadKey(party, "is of low order")
        return secret


def check_order(public: bytes, party: str) -> None:
    """Raise BadKey if the key is of low order; whatever the private key, such an agreement gives zero."""
    Agreement(bytes(32)).with_peer(public, party)


def sealing_key(secret: bytes, ctx: bytes, sender: int, receiver: int) -> bytes:
    """The AES-256 key for what `sender` sends to `receiver` in this session; used for one message."""
    return derive(secret, "share-key", ctx, index_bytes(sender), index_bytes(receiver))


def seal(key: bytes, nonce: bytes, plaintext: bytes, ctx: bytes, sender: int, receiver: int) -> bytes:
    """AES-256-GCM with CTX, sender and receiver as associated data."""
    return AESGCM(key).encrypt(nonce, plaintext, ctx + index_bytes(sender) + index_bytes(receiver))


def unseal(key: bytes, nonce: bytes, ciphertext: bytes, ctx: bytes, sender: int, receiver: int) -> bytes | None:
    """The plaintext, or None if the ciphertext is not what the sender sealed for this receiver and session."""
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, ctx + index_bytes(sender) + index_bytes(receiver))
    except InvalidTag:
        return None
