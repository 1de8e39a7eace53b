"""A SuperNode's key pair: ECDSA on P-384 in the OpenSSH forms that Flower reads."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private
from consilium.protocol.identity import frame

_ALGORITHM = ec.ECDSA(hashes.SHA384())


class NodeKey:
    """The key under which a party's SuperNode connects. Its repr shows the public half only."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = _line(key.public_key())

    @classmethod
    def generate(cls) -> NodeKey:
        """A new key from the operating system's entropy."""
        return cls(ec.generate_private_key(ec.SECP384R1()))

    @classmethod
    def load(cls, path: Path) -> NodeKey:
        """Read a private key file.

        Raises
        ------
        ConfigError : no such file, others may read it, or it holds no P-384 key in OpenSSH form.
        """
        content = read_private(path)
        try:
            key = load_ssh_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise ConfigError(
                f"{path}: not an unencrypted P-384 key in OpenSSH form", "Create keys with: consilium party keys"
            )
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the private key, mode 0600, and beside it the public one as NAME.pub.

        Raises
        ------
        OutputExists : the file is there; a key is never overwritten.
        """
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        path.with_suffix(".pub").write_text(self.public + "\n", encoding="utf-8")

    def sign(self, label: str, *parts: bytes) -> bytes:
        """ECDSA signature with SHA-384, DER, of the framing of label and parts."""
        return self._key.sign(frame(label, *parts), _ALGORITHM)

    def __repr__(self) -> str:
        return f"NodeKey(public={self.public!r})"

    def __reduce__(self):
        raise TypeError("a node key is not pickled")


def is_node_key(line: str) -> bool:
    """Whether a text is the one OpenSSH line of a public key on P-384: no comment, no other encoding of the point."""
    return public_key(line) is not None


def node_verify(line: str, signature: bytes, label: str, *parts: bytes) -> bool:
    """Whether `signature` is that of the owner of the public key `line` on label and parts."""
    key = public_key(line)
    try:
        if key is not None:
            key.verify(signature, frame(label, *parts), _ALGORITHM)
    except InvalidSignature:
        return False
    return key is not None


def public_key(line: str) -> ec.EllipticCurvePublicKey | None:
    """The key in such a line, or None if it is none."""
    try:
        key = load_ssh_public_key(line.encode("ascii"))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        return None
    return key if _line(key) == line else None


def _line(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
