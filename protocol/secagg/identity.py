"""Long-term identities: Ed25519 keys in files that only their owner can read."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable, write_private
from consilium.protocol.secagg.framing import frame

SIGNATURE_BYTES = 64


class Identity:
    """A node's own signing key. Its repr shows the public half only."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """A new key from the operating system's entropy."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> Identity:
        """Read a PEM (PKCS8) file.

        Raises
        ------
        ConfigError : no such file, others may read it, or it holds no Ed25519 key.
        """
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise ConfigError(f"{path}: others than its owner may use this key", f"Run: chmod 600 {path}")
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise unreadable(path, error, "Create a key, or correct the path") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(f"{path}: not an unencrypted Ed25519 key in PEM form", "Create a key with this program")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write PEM (PKCS8), mode 0600.

        Raises
        ------
        OutputExists : the file is there; a key is never overwritten.
        """
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def sign(self, label: str, *parts: bytes) -> bytes:
        """Ed25519 signature, 64 bytes, of the framing of label and parts."""
        return self._key.sign(frame(label, *parts))

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()})"

    def __reduce__(self):
        raise TypeError("an identity is not pickled")


def verify(public: bytes, signature: bytes, label: str, *parts: bytes) -> bool:
    """Whether `signature` is that of the owner of `public` (32 bytes) on label and parts."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, frame(label, *parts))
    except (InvalidSignature, ValueError):
        return False
    return True
