"""Kits under a password, for a way that others can read: scrypt makes the key, AES-256-GCM seals.

A sealed file is MAGIC, 16 bytes of salt, 12 of nonce, and the sealed archive with its tag. The password is made here,
with 100 bits, and goes another way than the file: over the telephone. How costly scrypt is follows from MAGIC, so that
no file can make its reader use more memory.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from consilium.protocol.errors import ConfigError, WrongPassword
from consilium.protocol.files import unreadable

MAGIC = b"consilium kit 1\n"
SALT_BYTES, NONCE_BYTES = 16, 12
COST = {"n": 2**17, "r": 8, "p": 1}
"""128 MiB and a fraction of a second."""
MOST_BYTES = 1_000_000_000
"""Of an archive: it is sealed in memory, and AES-GCM takes less than 2 GiB at once."""
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Nothing that is taken for another over the telephone."""
MEANT = str.maketrans("OIL", "011")
GROUPS, GROUP = 4, 5
SENT = "Give the file that the operator sent"


def make_password() -> str:
    """A new one: four groups of five letters, 100 bits."""
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(GROUP)) for _ in range(GROUPS))


def seal(content: bytes, password: str) -> bytes:
    """The content of a sealed file. Raises ConfigError for more than MOST_BYTES."""
    if len(content) > MOST_BYTES:
        raise ConfigError(
            f"{len(content)} bytes are too many to be sealed, {MOST_BYTES} are the most",
            "Send the pool by itself, or the kit over a channel that nobody else reads",
        )
    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    return MAGIC + salt + nonce + AESGCM(_key(password, salt)).encrypt(nonce, content, MAGIC)


def is_sealed(content: bytes) -> bool:
    """Whether this is a sealed file's content."""
    return content.startswith(MAGIC)


def unseal(content: bytes, password: str, path: Path) -> bytes:
    """What was sealed. path: of the file, for errors.

    Raises
    ------
    WrongPassword : the password is another, or the file was altered; which of the two nobody can tell.
    """
    at = len(MAGIC)
    salt, nonce = content[at : at + SALT_BYTES], content[at + SALT_BYTES : at + SALT_BYTES + NONCE_BYTES]
    try:
        if len(nonce) < NONCE_BYTES:
            raise InvalidTag
        return AESGCM(_key(password, salt)).decrypt(nonce, content[at + SALT_BYTES + NONCE_BYTES :], MAGIC)
    except InvalidTag:
        raise WrongPassword(
            f"this password does not open {path}",
            "Have it read out again; if it is right, the file was damaged or altered on its way: have it sent again",
        ) from None


def read_archive(path: Path) -> bytes:
    """A file's content, sealed or not. Raises PathError, ConfigError."""
    try:
        if path.stat().st_size > MOST_BYTES + 1000:
            raise ConfigError(f"{path} has more than {MOST_BYTES} bytes: no kit", SENT)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, SENT) from None


def _key(password: str, salt: bytes) -> bytes:
    typed = "".join(letter for letter in password.upper().translate(MEANT) if letter.isalnum())
    return Scrypt(salt=salt, length=32, **COST).derive(typed.encode())
