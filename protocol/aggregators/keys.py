"""The long-term key of an aggregator's link to the other one: X25519, in a file that only its owner can read. Parts of
votes are sealed for keys of one session (`protocol.verified.sealing`)."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable, write_private


class SealingKey:
    """An aggregator's own X25519 key. Its repr shows the public half only."""

    def __init__(self, private: bytes) -> None:
        """private: 32 bytes."""
        self._key = X25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SealingKey:
        """A new key from the operating system's entropy."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: Path) -> SealingKey:
        """Read a PEM file.

        Raises
        ------
        ConfigError : no such file, not such a key, or readable by others than its owner.
        """
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise ConfigError(f"{path}: others than its owner may use this key", f"Run: chmod 600 {path}")
            key = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise unreadable(path, error, "Create a key, or correct the path") from None
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, X25519PrivateKey):
            raise ConfigError(f"{path}: not an unencrypted X25519 key in PEM form", "Create a key with this program")
        return cls(key.private_bytes_raw())

    def save(self, path: Path) -> None:
        """Write PEM (PKCS8), mode 0600.

        Raises
        ------
        OutputExists : the file is there; a key is never overwritten.
        """
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def private(self) -> bytes:
        """32 bytes, for the protocol."""
        return self._key.private_bytes_raw()

    def __repr__(self) -> str:
        return f"SealingKey(public={self.public.hex()})"

    def __reduce__(self):
        raise TypeError("a sealing key is not pickled")
