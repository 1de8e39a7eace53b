"""What is sealed: a party's seed for the helper, under a key of its own, and what the two aggregators send each
other.

Long-term keys open none of it. The helper has fresh keys for each session: one for each party, and one for the link to
the leader, which has one as well. The helper's all come from one seed, and are gone with it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from consilium.protocol.identity import SIGNATURE_BYTES, Identity, derive, verify
from consilium.sums.aggregators.proof import SPACE, VERSION, place_bytes
from consilium.sums.agreement import NONCE_BYTES, TAG_BYTES, Agreement, public_of
from consilium.sums.errors import BadKey, BadLink, BadSignature

KEY_BYTES = 32
SIGNED_KEY_BYTES = KEY_BYTES + SIGNATURE_BYTES
_ONCE = bytes(NONCE_BYTES)
_LINK_HEAD = 2 + NONCE_BYTES


def seal_once(private: bytes, helper: bytes, plain: bytes, bound: bytes) -> bytes:
    """AES-256-GCM under what the private key `private`, made for this one message, agrees with the helper's public key.

    bound: what the seal is good for; it enters key and associated data.

    Raises
    ------
    BadKey : the helper's key is of low order.
    """
    key = derive(Agreement(private).with_peer(helper, "the helper"), SPACE + "seal", public_of(private), helper, bound)
    return AESGCM(key).encrypt(_ONCE, plain, bound)


def unseal_once(helper: Agreement, helper_key: bytes, sender: bytes, sealed: bytes, bound: bytes) -> bytes | None:
    """What was sealed, or None if it was not sealed for this helper and purpose. sender: public key of the message."""
    try:
        agreed = helper.with_peer(sender, "a party")
        key = derive(agreed, SPACE + "seal", sender, helper_key, bound)
        return AESGCM(key).decrypt(_ONCE, sealed, bound)
    except (BadKey, InvalidTag):
        return None


def place_key(seed: bytes, ctx: bytes, place: int) -> bytes:
    """The helper's private key for the party at a place in one session, 32 bytes. seed: 32 random bytes."""
    return derive(seed, SPACE + "place-key", ctx, place_bytes(place))


def link_key(seed: bytes, ctx: bytes) -> bytes:
    """The helper's private key for its link to the leader in one session, 32 bytes."""
    return derive(seed, SPACE + "link-key", ctx)


@dataclass(frozen=True)
class SignedKey:
    """What a party gets of the helper: the public key of its place in one session, and the helper's signature."""

    public: bytes
    signature: bytes = field(repr=False)

    def check(self, ctx: bytes, place: int, helper: bytes) -> None:
        """helper: its Ed25519 key. Raises BadSignature."""
        if not verify(helper, self.signature, SPACE + "place-key", ctx, place_bytes(place), self.public):
            raise BadSignature("the second aggregator", "its key of the session")


class HelperKeys:
    """The helper's public keys of one session, each with its signature: of its link, then of each place."""

    def __init__(self, content: bytes) -> None:
        """content: of `content`, whatever it is until it is checked."""
        self.content = content

    @classmethod
    def make(cls, seed: bytes, ctx: bytes, parties: int, helper: Identity) -> HelperKeys:
        """Of so many parties."""
        link = public_of(link_key(seed, ctx))
        rows = [link, helper.sign(SPACE + "link-key", ctx, link)]
        for place in range(parties):
            public = public_of(place_key(seed, ctx, place))
            rows += [public, helper.sign(SPACE + "place-key", ctx, place_bytes(place), public)]
        return cls(b"".join(rows))

    @property
    def link(self) -> bytes:
        """The public key of the link."""
        return self.content[:KEY_BYTES]

    def place(self, place: int) -> SignedKey:
        """Of the party at a place."""
        row = self.content[(place + 1) * SIGNED_KEY_BYTES : (place + 2) * SIGNED_KEY_BYTES]
        return SignedKey(row[:KEY_BYTES], row[KEY_BYTES:])

    def check(self, ctx: bytes, parties: int, helper: bytes) -> None:
        """helper: its Ed25519 key. Raises BadSignature unless it has signed a key for each of so many places."""
        signed = self.content[KEY_BYTES:SIGNED_KEY_BYTES]
        whole = len(self.content) == (parties + 1) * SIGNED_KEY_BYTES
        if not whole or not verify(helper, signed, SPACE + "link-key", ctx, self.link):
            raise BadSignature("the second aggregator", "its keys of the session")
        for place in range(parties):
            self.place(place).check(ctx, place, helper)


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
        head = bytes([VERSION, kind]) + nonce
        return head + AESGCM(self._key(kind)).encrypt(nonce, body, head[:2] + self._ctx)

    def open(self, kind: int, content: bytes) -> bytes:
        """The body of a message of this kind.

        Raises
        ------
        BadLink : another kind or version, another sender or session, or altered.
        """
        if len(content) < _LINK_HEAD + TAG_BYTES or content[0] != VERSION or content[1] != kind:
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
