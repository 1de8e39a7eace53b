"""Who a node is: signatures with Ed25519, long-term keys in files that only their owner can read, and the bytes that
are signed and hashed."""

from __future__ import annotations

import hashlib
import hmac
import struct
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private

DOMAIN = b"consilium/secagg/2/"
NO_SALT = bytes(32)


def frame(label: str, *parts: bytes) -> bytes:
    """Domain, label and parts, each with its length (8 bytes, big-endian): two inputs never share one framing.

    >>> frame("a", b"bc").hex()
    '0000000000000014636f6e73696c69756d2f7365636167672f322f6100000000000000026263'
    """
    pieces = []
    for part in (DOMAIN + label.encode("ascii"), *parts):
        pieces += [struct.pack(">Q", len(part)), part]
    return b"".join(pieces)


def digest(label: str, *parts: bytes) -> bytes:
    """SHA-256 of the framing, 32 bytes."""
    return hashlib.sha256(frame(label, *parts)).digest()


def derive(secret: bytes, label: str, *parts: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) without salt: 32 bytes from `secret` under the framing of label and parts as info. Written
    with `hmac.digest`: a key is derived per pair of parties, and a HKDF object takes longer."""
    extracted = hmac.digest(NO_SALT, secret, "sha256")
    return hmac.digest(extracted, frame(label, *parts) + b"\x01", "sha256")


def index_bytes(index: int) -> bytes:
    """A party's place in the roster, 2 bytes, big-endian."""
    return struct.pack(">H", index)


def indices_bytes(indices: np.ndarray) -> bytes:
    """Places in the roster, uint16 (n,), 2 bytes each, big-endian."""
    return indices.astype(">u2").tobytes()


SIGNATURE_BYTES = 64


K = TypeVar("K", Ed25519PrivateKey, X25519PrivateKey)


class _Key(Generic[K]):
    """A node's own key, of 32 secret bytes. Its repr shows the public half only, and it is not pickled."""

    kind: ClassVar[type[Ed25519PrivateKey] | type[X25519PrivateKey]]

    def __init__(self, secret: bytes) -> None:
        self._key: K = self.kind.from_private_bytes(secret)  # type: ignore[assignment]
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Self:
        return cls(cls.kind.generate().private_bytes_raw())

    @property
    def secret(self) -> bytes:
        return self._key.private_bytes_raw()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a PEM (PKCS8) file. Raises ConfigError: no such file or key, or others than its owner may read it."""
        content = read_private(path)
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, cls.kind):
            name = cls.kind.__name__.removesuffix("PrivateKey")
            raise ConfigError(f"{path}: not an unencrypted {name} key in PEM form", "Create a key with this program")
        return cls(key.private_bytes_raw())

    def save(self, path: Path) -> None:
        """Write PEM (PKCS8), mode 0600. Raises OutputExists: the file is there; a key is never overwritten."""
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(public={self.public.hex()})"

    def __reduce__(self):
        raise TypeError("a key is not pickled")


class Identity(_Key[Ed25519PrivateKey]):
    """A node's own signing key."""

    kind = Ed25519PrivateKey

    def sign(self, label: str, *parts: bytes) -> bytes:
        """Ed25519 signature, 64 bytes, of the framing of label and parts."""
        return self._key.sign(frame(label, *parts))


class SealingKey(_Key[X25519PrivateKey]):
    """An aggregator's own key for secrets."""

    kind = X25519PrivateKey

    def agree(self, public: bytes) -> bytes:
        """The secret shared with the owner of this X25519 public key, 32 bytes. Raises ValueError where that is of low
        order: the secret would be zero, known to all (RFC 7748, section 6.1)."""
        return self._key.exchange(X25519PublicKey.from_public_bytes(public))


def verify(public: bytes, signature: bytes, label: str, *parts: bytes) -> bool:
    """Whether `signature` is that of the owner of `public` (32 bytes) on label and parts."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, frame(label, *parts))
    except (InvalidSignature, ValueError):
        return False
    return True


_PRIME = 2**255 - 19
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = {0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8}
"""The y of the points of order 1, 2, 4 and 8 of edwards25519."""


def is_sound_key(key: str) -> bool:
    """Whether an Ed25519 public key (hex) is canonical and of large order: under any other, anyone could sign.

    >>> is_sound_key("58" + 31 * "66"), is_sound_key(32 * "00"), is_sound_key(32 * "ff")
    (True, False, False)
    """
    y = int.from_bytes(bytes.fromhex(key), "little") & ~(1 << 255)
    return y < _PRIME and y not in _SMALL_ORDER


def is_low_order(public: bytes) -> bool:
    """Whether an X25519 public key, 32 bytes, gives a secret that all know, whatever the other key (RFC 7748, 6.1)."""
    try:
        X25519PrivateKey.from_private_bytes(bytes(32)).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False
