"""What is sealed: a party's seed for the helper, and what the two aggregators send each other.

Long-term keys open none of it. Each aggregator has one X25519 key of the session; the helper's comes from a seed, and
is gone with it.
"""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import Identity, derive, verify
from consilium.sums.agreement import NONCE_BYTES, TAG_BYTES, Agreement, public_of
from consilium.sums.errors import BadKey, BadLink, BadSignature
from consilium.sums.verified.proof import SPACE

KEY_BYTES = 32
_ONCE = bytes(NONCE_BYTES)
_LINK_HEAD = 1 + NONCE_BYTES


def seal_once(private: bytes, helper: bytes, plain: bytes, bound: bytes) -> bytes:
    """AES-256-GCM under what the private key `private`, made for this one message, agrees with the helper's public key.

    bound: what the seal is good for; it enters key and associated data.

    Raises
    ------
    BadKey : the helper's key is of low order.
    """
    key = derive(Agreement(private).with_peer(helper, "the helper"), SPACE + "seal", public_of(private), helper, bound)
    return AESGCM(key).encrypt(_ONCE, plain, bound)


def unseal_once(private: bytes, sender: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """What was sealed, or None if it was not sealed for this helper and purpose. private: the helper's. sender: public
    key of the message."""
    try:
        agreed = Agreement(private).with_peer(sender, "a party")
        key = derive(agreed, SPACE + "seal", sender, public_of(private), bound)
        return AESGCM(key).decrypt(_ONCE, sealed, bound)
    except (BadKey, InvalidTag):
        return None


def session_key(seed: bytes, ctx: bytes) -> bytes:
    """The helper's private key in one session, 32 bytes. seed: 32 random bytes."""
    return derive(seed, SPACE + "session-key", ctx)


def sign_key(helper: Identity, ctx: bytes, public: bytes) -> bytes:
    """The helper's signature on its key of a session."""
    return helper.sign(SPACE + "session-key", ctx, public)


def check_key(helper: bytes, ctx: bytes, public: bytes, signature: bytes) -> None:
    """helper: its Ed25519 key. Raises BadSignature unless this is its key of the session."""
    if not verify(helper, signature, SPACE + "session-key", ctx, public):
        raise BadSignature("the second aggregator", "its key of the session")


class Link:
    """Sealed messages between the two aggregators in one session, and the secret that only they have.

    Both come from their two pinned X25519 keys and from two that were made for this session: whoever learns the former
    later opens nothing. Each direction and kind has a key.
    """

    def __init__(self, private: bytes, public: bytes, own_fresh: bytes, other_fresh: bytes, ctx: bytes) -> None:
        """private, own_fresh: this aggregator's X25519 keys. public, other_fresh: the public keys of the other one."""
        pairs = (private, public), (own_fresh, other_fresh)
        agreed = [Agreement(private).with_peer(public, "the other aggregator") for private, public in pairs]
        self._agreed = derive(b"".join(agreed), SPACE + "agreed", ctx)
        self._ctx = ctx

    def secret(self) -> bytes:
        """32 bytes that the aggregators share in this session, and no party knows."""
        return derive(self._agreed, SPACE + "shared", self._ctx)

    def seal(self, kind: int, body: bytes) -> bytes:
        """Bytes to send. kind: 0 to 255; each is sent in one direction only."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return bytes([kind]) + nonce + AESGCM(self._key(kind)).encrypt(nonce, body, self._ctx)

    def open(self, kind: int, content: bytes) -> bytes:
        """The body of a message of this kind.

        Raises
        ------
        BadLink : another kind, another sender or session, or altered.
        """
        if len(content) < _LINK_HEAD + TAG_BYTES or content[0] != kind:
            raise BadLink("a message of the other aggregator is of another kind")
        try:
            return AESGCM(self._key(kind)).decrypt(content[1:_LINK_HEAD], content[_LINK_HEAD:], self._ctx)
        except InvalidTag:
            raise BadLink("a message is not by the other aggregator, not of this session, or altered") from None

    def _key(self, kind: int) -> bytes:
        return derive(self._agreed, SPACE + "link", self._ctx, bytes([kind]))

    def __repr__(self) -> str:
        return f"Link(ctx={self._ctx.hex()[:12]})"

    def __reduce__(self):
        raise TypeError("keys between aggregators are not pickled")
