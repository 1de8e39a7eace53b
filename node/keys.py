"""Keys of a node, which it makes itself, and the enrolment that tells the operator of their public halves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from pydantic import Field, ValidationError

from consilium.node.folder import NODE_FILE, THE_COORDINATOR, NodeFile, NodeFolder, NodeKind, a_node
from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import read_private, unreadable, write_private
from consilium.protocol.identity import Identity, SealingKey, digest, frame, is_low_order, is_sound_key, verify
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen

_ALGORITHM = ec.ECDSA(hashes.SHA384())


class NodeKey:
    """The key under which a node connects, or is reached. Its repr shows the public half only."""

    _read, _format, _form = staticmethod(load_ssh_private_key), PrivateFormat.OpenSSH, "OpenSSH"

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self.private, self.public = key, _line(key.public_key())

    @classmethod
    def generate(cls) -> Self:
        return cls(ec.generate_private_key(ec.SECP384R1()))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a private key file. Raises PathError, ConfigError: no such file, others may read it, or it holds no
        P-384 key in the form of its kind."""
        content = read_private(path)
        key = None
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            key = cls._read(content, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
            raise ConfigError(
                f"{path}: not an unencrypted P-384 key in {cls._form} form", "Restore it from the folder's backup"
            )
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the private key, mode 0600. Raises OutputExists: a key is never overwritten."""
        write_private(path, self.private.private_bytes(Encoding.PEM, self._format, NoEncryption()))

    def sign(self, label: str, *parts: bytes) -> bytes:
        """ECDSA signature with SHA-384, DER, of the framing of label and parts."""
        return self.private.sign(frame(label, *parts), _ALGORITHM)

    def __repr__(self) -> str:
        return f"NodeKey(public={self.public!r})"

    def __reduce__(self):
        raise TypeError("a node key is not pickled")


class TlsKey(NodeKey):
    """The key of a certificate, the coordinator's or a student's: as PEM, which TLS reads."""

    _read, _format, _form = staticmethod(load_pem_private_key), PrivateFormat.PKCS8, "PEM"


def node_verify(line: str, signature: bytes, label: str, *parts: bytes) -> bool:
    """Whether `signature` is that of the owner of the public key `line` on label and parts."""
    with suppress(InvalidSignature):
        if (key := public_key(line)) is not None:
            key.verify(signature, frame(label, *parts), _ALGORITHM)
            return True
    return False


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


IDENTITY, NODE_KEY, SEALING = "identity.pem", "node.key", "sealing.pem"
SERVER_KEY, CLIENT_KEY = "server.key", "client.key"
"""Names of private keys in a folder's `keys`."""
KEYS: Mapping[NodeKind, Mapping[str, Any]] = {
    THE_COORDINATOR: {SERVER_KEY: TlsKey, IDENTITY: Identity, SEALING: SealingKey},
    "party": {NODE_KEY: NodeKey, IDENTITY: Identity},
    "aggregator": {NODE_KEY: NodeKey, IDENTITY: Identity, SEALING: SealingKey},
    "student": {CLIENT_KEY: TlsKey},
}
"""Private keys of a node, by its kind and their file."""
MOST_BYTES = 4096
AGAIN = "Ask the node's people for its NAME.enrol.json again, and compare the fingerprint over the telephone"
NOT_OURS = (
    "Join with the folder that `consilium node keys` made for this federation. If it is that one, the operator enrolled"
    " other keys in your name: do not take part, and telephone"
)
"""What to do where other keys were enrolled in this node's name."""


class PublicKeys(Frozen):
    """Public keys of a node. key: P-384, one OpenSSH line, under which it connects or is reached. identity: Ed25519,
    hex; a student has none. sealing: X25519, hex, of the two aggregators' link: coordinator and second aggregator."""

    kind: NodeKind
    key: Annotated[str, Field(max_length=300)]
    identity: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    sealing: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""

    @property
    def each(self) -> tuple[str, ...]:
        return tuple(key for key in (self.key, self.identity, self.sealing) if key)

    def fingerprint(self, name: str) -> str:
        """SHA-256 of a node's kind, name and public keys, in groups of four."""
        return grouped(digest("enrolment-fingerprint", *self.signed(name)).hex())

    def signed(self, name: str) -> tuple[bytes, ...]:
        """What each key signs of an enrolment."""
        return self.kind.encode(), name.encode(), self.key.encode(), self.identity.encode(), self.sealing.encode()

    def check(self, where: str) -> None:
        """Raise ConfigError unless the kind has exactly these keys, and each is sound. where: for the message."""
        wanted, wrong = KEYS[self.kind], ""
        if (IDENTITY in wanted, SEALING in wanted) != (bool(self.identity), bool(self.sealing)):
            wrong = f"not the keys of {a_node(self.kind)}"
        elif public_key(self.key) is None:
            wrong = "key is not the OpenSSH line of a key on P-384"
        elif self.identity and not is_sound_key(self.identity):
            wrong = "identity is no canonical point of large order: under it anyone could sign"
        elif self.sealing and is_low_order(bytes.fromhex(self.sealing)):
            wrong = "sealing is a key of low order: anyone could open what is sealed"
        if wrong:
            raise ConfigError(f"{where}: {wrong}", AGAIN)


class Enrolment(Frozen):
    """The file NAME.enrol.json. The signatures, hex, are of name, kind and all keys, by `key` and by `identity`."""

    format: Literal[1] = 1
    name: PartyName
    keys: PublicKeys
    key_signature: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,104}$")]
    identity_signature: Annotated[str, Field(pattern=r"^([0-9a-f]{128})?$")] = ""

    @property
    def fingerprint(self) -> str:
        return self.keys.fingerprint(self.name)


def grouped(text: str) -> str:
    """A hash as it is read out.

    >>> grouped("0123456789ab")
    '0123 4567 89ab'
    """
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


@dataclass(frozen=True)
class OwnKeys:
    """The private keys of a node, by file; the first is the one under which it connects, or is reached."""

    kind: NodeKind
    keys: Mapping[str, Any]

    @classmethod
    def generate(cls, kind: NodeKind) -> OwnKeys:
        return cls(kind, {name: form.generate() for name, form in KEYS[kind].items()})

    @classmethod
    def load(cls, folder: NodeFolder) -> OwnKeys:
        """Those of a node. Raises ConfigError if one is not there, cannot be used, or others may read it."""
        return cls(folder.kind, {name: form.load(folder.keys / name) for name, form in KEYS[folder.kind].items()})

    @property
    def public(self) -> PublicKeys:
        key = next(iter(self.keys.values()))
        identity, sealing = (self.keys[file].public.hex() if file in self.keys else "" for file in (IDENTITY, SEALING))
        return PublicKeys(kind=self.kind, key=key.public, identity=identity, sealing=sealing)

    def enrolment(self, name: str) -> Enrolment:
        parts = self.public.signed(name)
        key, identity = (self.keys.get(file) for file in (next(iter(self.keys)), IDENTITY))
        by_key, by_identity = (each.sign("enrolment", *parts).hex() if each else "" for each in (key, identity))
        return Enrolment(name=name, keys=self.public, key_signature=by_key, identity_signature=by_identity)


def make(kind: NodeKind, name: str, path: Path) -> tuple[NodeFolder, Enrolment]:
    """All private keys of a node, and its enrolment, in its new folder `path`, mode 0700. Raises OutputExists: `path`
    is there. ConfigError: the name is none."""
    try:
        file = NodeFile(kind=kind, name=name)
    except ValidationError:
        raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None
    keys = OwnKeys.generate(kind)
    enrolment = keys.enrolment(name)
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise OutputExists(f"{path} is already there", "Choose another folder: keys are never overwritten") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "Choose a folder that you may write to") from None
    folder = NodeFolder(path.resolve(), kind, name)
    try:
        folder.keys.mkdir(mode=0o700)
        for key_file, key in keys.keys.items():
            key.save(folder.keys / key_file)
        enrolment_file(folder).write_text(enrolment.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / NODE_FILE).write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)  # it is new, and what is in it was sent to nobody
        raise
    return folder, enrolment


def enrolment_file(folder: NodeFolder) -> Path:
    """What to send to the operator."""
    return folder / f"{folder.name}.enrol.json"


def read_enrolment(path: Path) -> Enrolment:
    """An enrolment with sound keys that signed it. Raises PathError, ConfigError: no such file, another format,
    altered, or it holds a private key. No error quotes what is in the file beyond the name: somebody may have put a
    secret there."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error, "Correct the path, or ask the node's people for the file") from None
    if b"PRIVATE KEY" in content:
        raise ConfigError(
            f"{path} holds a private key; an enrolment has public ones only",
            "That key is no secret any more: its owner runs `consilium node keys` again and sends NAME.enrol.json",
        )
    table = None
    with suppress(ValueError, RecursionError):
        table = json.loads(content) if len(content) <= MOST_BYTES else None
    if not isinstance(table, dict):
        raise ConfigError(f"{path} is no enrolment: not a small table in JSON", AGAIN)
    try:
        found = Enrolment.model_validate(table)
    except ValidationError as error:
        faults = faults_of(error, Enrolment, table, quoting=False)
        raise ConfigError(f"{path} is no enrolment: {'; '.join(faults)}", AGAIN) from None
    keys, parts = found.keys, found.keys.signed(found.name)
    keys.check(str(path))
    signed = node_verify(keys.key, bytes.fromhex(found.key_signature), "enrolment", *parts)
    if keys.identity:
        by_identity = bytes.fromhex(found.identity_signature)
        signed = signed and verify(bytes.fromhex(keys.identity), by_identity, "enrolment", *parts)
    if not signed:
        raise ConfigError(f"{path}: its keys did not sign it: altered, or mixed from two files", AGAIN)
    if (keys.kind == THE_COORDINATOR) != (found.name == THE_COORDINATOR):
        raise ConfigError(f"{path} enrols {a_node(keys.kind)} called {found.name!r}", AGAIN)
    return found
