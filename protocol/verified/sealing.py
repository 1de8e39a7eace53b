"""What is sealed: a party's seed for the helper, under a key of its own, and what the two aggregators send each
other."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.secagg.agreement import NONCE_BYTES, TAG_BYTES, Agreement, public_of
from consilium.protocol.secagg.errors import BadKey
from consilium.protocol.secagg.framing import derive
from consilium.protocol.verified.binder import SPACE
from consilium.protocol.verified.errors import BadLink

_ONCE = bytes(NONCE_BYTES)
LINK_VERSION = 1
_LINK_HEAD = 2 + NONCE_BYTES


def seal_once(own: bytes, helper: bytes, plain: bytes, bound: bytes) -> bytes:
    """AES-256-GCM under what the private key `own`, made for this one message, agrees with the helper's public key.

    bound: what the seal is good for; it enters key and associated data.

    Raises
    ------
    BadKey : the helper's key is of low order.
    """
    key = derive(Agreement(own).with_peer(helper, "the helper"), SPACE + "seal", public_of(own), helper, bound)
    return AESGCM(key).encrypt(_ONCE, plain, bound)


def unseal_once(helper: Agreement, helper_key: bytes, sender: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """What was sealed, or None if it was not sealed for this helper and purpose. sender: public key of the message."""
    try:
        agreed = helper.with_peer(sender, "a party")
        key = derive(agreed, SPACE + "seal", sender, helper_key, bound)
        return AESGCM(key).decrypt(_ONCE, sealed, bound)
    except (BadKey, InvalidTag):
        return None


class Link:
    """Sealed messages between the two aggregators in one session, and the secret that only they have.

    Both come from their two pinned X25519 keys, so that nothing has to be exchanged first. Each direction and kind has
    a key.
    """

    def __init__(self, own: bytes, other: bytes, ctx: bytes) -> None:
        """own: this aggregator's private X25519 key. other: the other one's public key."""
        self._agreed = Agreement(own).with_peer(other, "the other aggregator")
        self._ctx = ctx

    def secret(self) -> bytes:
        """32 bytes that the aggregators share in this session, and no party knows."""
        return derive(self._agreed, SPACE + "shared", self._ctx)

    def seal(self, kind: int, body: bytes) -> bytes:
        """Bytes to send. kind: 0 to 255; each is sent in one direction only."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        head = bytes([LINK_VERSION, kind]) + nonce
        return head + AESGCM(self._key(kind)).encrypt(nonce, body, head[:2] + self._ctx)

    def open(self, kind: int, content: bytes) -> bytes:
        """The body of a message of this kind.

        Raises
        ------
        BadLink : another kind or version, another sender or session, or altered.
        """
        if len(content) < _LINK_HEAD + TAG_BYTES or content[0] != LINK_VERSION or content[1] != kind:
            raise BadLink("a message of the other aggregator is of another kind or version")
        nonce, sealed = content[2:_LINK_HEAD], content[_LINK_HEAD:]
        try:
            return AESGCM(self._key(kind)).decrypt(nonce, sealed, content[:2] + self._ctx)
        except InvalidTag:
            raise BadLink("a message is not by the other aggregator, not of this session, or altered") from None

    def _key(self, kind: int) -> bytes:
        return derive(self._agreed, SPACE + "link", self._ctx, bytes([kind]))

    def __repr__(self) -> str:
        return f"Link(ctx={self._ctx.hex()[:12]})"

    def __reduce__(self):
        raise TypeError("keys between aggregators are not pickled")
