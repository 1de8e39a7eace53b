"""What is sealed: a party's seed for the helper, and what the two aggregators send each other.

Long-term keys open none of it. Each aggregator has one X25519 key of the session, which is deleted with it.
"""

from __future__ import annotations

import secrets
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import Identity, SealingKey, derive, verify
from consilium.sums.errors import BadKey, BadLink, BadSignature
from consilium.sums.verified.proof import SPACE

NONCE_BYTES, TAG_BYTES = 12, 16
_ONCE = bytes(NONCE_BYTES)


def agreed(key: SealingKey, public: bytes, whose: str) -> bytes:
    """The secret that a key and a public one agree on, 32 bytes. Raises BadKey: `public` is of low order."""
    try:
        return key.agree(public)
    except ValueError:
        raise BadKey(whose, "is of low order") from None


def seal_once(key: SealingKey, helper: bytes, plain: bytes, bound: bytes) -> bytes:
    """AES-256-GCM under what `key`, made for this one message, agrees with the helper's public key. bound: what the
    seal is good for; it enters key and associated data. Raises BadKey: the helper's key is of low order."""
    secret = derive(agreed(key, helper, "the helper"), SPACE + "seal", key.public, helper, bound)
    return AESGCM(secret).encrypt(_ONCE, plain, bound)


def unseal_once(key: SealingKey, sender: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """What was sealed, or None if it was not sealed for this helper and purpose. key: the helper's. sender: public key
    of the message."""
    try:
        secret = derive(agreed(key, sender, "a party"), SPACE + "seal", sender, key.public, bound)
        return AESGCM(secret).decrypt(_ONCE, sealed, bound)
    except (BadKey, InvalidTag):
        return None


def sign_key(helper: Identity, ctx: bytes, public: bytes) -> bytes:
    """The helper's signature on its key of a session."""
    return helper.sign(SPACE + "session-key", ctx, public)


@lru_cache(maxsize=8)  # of public values alone: many simulated parties are sent the same
def check_key(helper: bytes, ctx: bytes, public: bytes, signature: bytes) -> None:
    """helper: its Ed25519 key. Raises BadSignature unless this is its key of the session."""
    if not verify(helper, signature, SPACE + "session-key", ctx, public):
        raise BadSignature("the second aggregator", "its key of the session")


class Link:
    """Sealed messages between the two aggregators in one session, and the secret that only they have.

    Both come from their two pinned X25519 keys and from two that were made for this session: whoever learns the former
    later opens nothing. Each kind of message, which goes in one direction, has a key.
    """

    def __init__(self, own: SealingKey, other: bytes, own_fresh: SealingKey, other_fresh: bytes, ctx: bytes) -> None:
        """own, other: the pinned keys. own_fresh, other_fresh: those of the session."""
        pairs = (own, other), (own_fresh, other_fresh)
        both = b"".join(agreed(key, public, "the other aggregator") for key, public in pairs)
        self._secret, self._ctx = derive(both, SPACE + "agreed", ctx), ctx

    def secret(self) -> bytes:
        """32 bytes that the aggregators share in this session, and no party knows."""
        return derive(self._secret, SPACE + "shared", self._ctx)

    def seal(self, kind: str, body: bytes) -> bytes:
        """Bytes to send. kind: of message, see `messages`."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._key(kind)).encrypt(nonce, body, self._ctx)

    def open(self, kind: str, content: bytes) -> bytes:
        """The body of a message of this kind. Raises BadLink: another kind, another sender or session, or altered."""
        try:
            return AESGCM(self._key(kind)).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], self._ctx)
        except (InvalidTag, ValueError):  # a nonce that is too short
            raise BadLink("a message is not by the other aggregator, not of this session, or altered") from None

    def _key(self, kind: str) -> bytes:
        return derive(self._secret, SPACE + "link", self._ctx, kind.encode("ascii"))

    def __repr__(self) -> str:
        return f"Link(ctx={self._ctx.hex()[:12]})"

    def __reduce__(self):
        raise TypeError("keys between aggregators are not pickled")
