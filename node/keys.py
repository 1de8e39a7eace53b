"""Keys of a node: those under which it is reached, those that it makes itself, and the enrolment that tells the
operator of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

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

from consilium.node.kit import THE_COORDINATOR, KeyKind, Kit, a_node
from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.files import read_private, unreadable, write_private
from consilium.protocol.identity import Identity, SealingKey, digest, frame, is_low_order, is_sound_key, verify
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.sums.roster import PublicKey, SumRoster

_ALGORITHM = ec.ECDSA(hashes.SHA384())


class NodeKey:
    """The key under which a party's SuperNode connects. Its repr shows the public half only."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = _line(key.public_key())

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """To sign with."""
        return self._key

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
                f"{path}: not an unencrypted P-384 key in OpenSSH form", "Create keys with: consilium node keys"
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


class ServerKey(NodeKey):
    """The key of the coordinator's certificate: as PEM, which TLS reads. Those that operators make are on P-256."""

    @classmethod
    def load(cls, path: Path) -> ServerKey:
        """Read a private key file.

        Raises
        ------
        ConfigError : no such file, others may read it, or it holds no EC key in PEM form.
        """
        try:
            key = load_pem_private_key(read_private(path), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{path}: not an unencrypted EC key in PEM form", "Restore it from the kit's backup")
        return cls(key)

    def save(self, path: Path) -> None:
        """Write the private key, mode 0600. Raises OutputExists: a key is never overwritten."""
        write_private(path, self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


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


ENROLMENT, IDENTITY, NODE_KEY, SEALING = "enrolment.json", "identity.pem", "node.key", "sealing.pem"
SERVER_KEY = "server.key"
"""Names in a kit: of the enrolment that it was made from, and of the private keys."""
MOST_BYTES = 4096
AGAIN = "Ask the node's people for its NAME.enrol.json again, and compare the fingerprint over the telephone"


class Enrolment(Frozen):
    """identity: Ed25519, hex. node: P-384, one OpenSSH line; of a coordinator, that of its certificate. The signatures,
    hex, are of name and all keys.

    sealing: X25519, hex, of both aggregators; a party has none.
    """

    format: Literal[1] = 1
    name: PartyName
    identity: PublicKey
    node: Annotated[str, Field(max_length=300)]
    sealing: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    identity_signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
    node_signature: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,104}$")]

    @classmethod
    def create(cls, name: str, identity: Identity, node: NodeKey, sealing: str = "") -> Enrolment:
        """Of a node's own keys. Raises ConfigError if the name is none."""
        try:
            parts = _signed(name, identity.public.hex(), node.public, sealing)
            return cls(
                name=name,
                identity=identity.public.hex(),
                node=node.public,
                sealing=sealing,
                identity_signature=identity.sign("enrolment", *parts).hex(),
                node_signature=node.sign("enrolment", *parts).hex(),
            )
        except ValueError:
            raise ConfigError(f"{name!r} is no name", "Use letters, digits, dot, dash and underscore") from None

    @property
    def kind(self) -> KeyKind:
        """Of the node."""
        if self.name == THE_COORDINATOR:
            return THE_COORDINATOR
        return "aggregator" if self.sealing else "party"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of name and public keys, in groups of four."""
        return key_fingerprint(self.name, self.identity, self.node, self.sealing)

    def save(self, path: Path) -> None:
        """Write JSON."""
        path.write_text(self.model_dump_json(indent=1, exclude=set() if self.sealing else {"sealing"}) + "\n", "utf-8")


def key_fingerprint(name: str, identity: str, node: str, sealing: str = "") -> str:
    """SHA-256 of a node's name and public keys (Ed25519 in hex, P-384 as OpenSSH line, X25519 in hex where it has one),
    in groups of four."""
    return grouped(digest("enrolment-fingerprint", *_signed(name, identity, node, sealing)).hex())


def grouped(text: str) -> str:
    """A hash as it is read out.

    >>> grouped("0123456789ab")
    '0123 4567 89ab'
    """
    return " ".join(text[at : at + 4] for at in range(0, len(text), 4))


def second_fingerprint(roster: SumRoster) -> str:
    """SHA-256 of the second aggregator's keys, in groups of four; empty where there is none."""
    if roster.second is None:
        return ""
    return grouped(digest("aggregator-fingerprint", *map(bytes.fromhex, roster.second.model_dump().values())).hex())


def read_enrolment(path: Path, name: str, kind: KeyKind = "party") -> Enrolment:
    """The enrolment of the node `name`, with sound keys that both signed it.

    Raises
    ------
    ConfigError : no such file, another format, altered, of another node, or it holds a private key. No error quotes
        what is in the file beyond the name: somebody may have put a secret there.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise unreadable(path, error, f"Correct the path, or ask the {kind} for the file") from None
    if b"PRIVATE KEY" in content:
        raise ConfigError(
            f"{path} holds a private key; an enrolment has public ones only",
            f"That key is no secret any more: the {kind} runs `consilium node keys --kind {kind}` again and sends"
            " NAME.enrol.json",
        )
    try:
        if len(content) > MOST_BYTES:
            raise ValueError
        table = json.loads(content)
        if not isinstance(table, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is no enrolment: not a small table in JSON", AGAIN) from None
    try:
        found = Enrolment.model_validate(table)
    except ValidationError as error:
        faults = faults_of(error, Enrolment, table, quoting=False)
        raise ConfigError(f"{path} is no enrolment: {'; '.join(faults)}", AGAIN) from None
    if not is_sound_key(found.identity):
        raise ConfigError(f"{path}: identity is no canonical point of large order: under it anyone could sign", AGAIN)
    if not is_node_key(found.node):
        raise ConfigError(f"{path}: node is not the OpenSSH line of a key on P-384", AGAIN)
    if found.kind != kind:
        raise ConfigError(
            f"{path} enrols {a_node(found.kind)}, not {a_node(kind)}",
            f"Have its keys made with: consilium node keys --kind {kind}",
        )
    if found.sealing:
        _check_sealing(found.sealing, path)
    elif kind == THE_COORDINATOR:
        raise ConfigError(
            f"{path} has no key to seal with", f"Have its keys made with: consilium node keys --kind {kind}"
        )
    parts = _signed(found.name, found.identity, found.node, found.sealing)
    signed = verify(bytes.fromhex(found.identity), bytes.fromhex(found.identity_signature), "enrolment", *parts)
    if not signed or not node_verify(found.node, bytes.fromhex(found.node_signature), "enrolment", *parts):
        raise ConfigError(f"{path}: its keys did not sign it: altered, or mixed from two files", AGAIN)
    if found.name != name:
        raise ConfigError(f"{path}: enrols {found.name!r}, not {name!r}", "Give each node its own file")
    return found


def _check_sealing(key: str, path: Path) -> None:
    if is_low_order(bytes.fromhex(key)):
        raise ConfigError(f"{path}: sealing is a key of low order: anyone could open what is sealed", AGAIN)


def _signed(name: str, identity: str, node: str, sealing: str) -> tuple[bytes, ...]:
    sealed = (bytes.fromhex(sealing),) if sealing else ()
    return name.encode(), bytes.fromhex(identity), node.encode(), *sealed


KEYS: Mapping[KeyKind, Mapping[str, Any]] = {
    THE_COORDINATOR: {IDENTITY: Identity, SERVER_KEY: ServerKey, SEALING: SealingKey},
    "party": {IDENTITY: Identity, NODE_KEY: NodeKey},
    "aggregator": {IDENTITY: Identity, NODE_KEY: NodeKey, SEALING: SealingKey},
}
"""Private keys of a node, by its kind and their file. Only with verified votes a coordinator needs that for sealing."""
FOREIGN = "identity.pem is not the one that was provisioned: ask the operator"


@dataclass(frozen=True)
class OwnKeys:
    """The private keys of a coordinator, a party or a second aggregator, by file."""

    kind: KeyKind
    keys: Mapping[str, Any]

    @classmethod
    def generate(cls, kind: KeyKind) -> OwnKeys:
        """New ones, from the operating system's entropy."""
        return cls(kind, {name: form.generate() for name, form in KEYS[kind].items()})

    @classmethod
    def load(cls, kind: KeyKind, folder: Path) -> OwnKeys:
        """Those in a folder. Raises ConfigError if one is not there, cannot be used, or others may read it."""
        return cls(kind, {name: form.load(folder / name) for name, form in KEYS[kind].items()})

    @classmethod
    def of_party(cls, identity: Identity, node: NodeKey) -> OwnKeys:
        """A party's."""
        return cls("party", {IDENTITY: identity, NODE_KEY: node})

    @property
    def identity(self) -> str:
        """Ed25519, public, hex."""
        return self.keys[IDENTITY].public.hex()

    @property
    def node(self) -> str:
        """P-384, public, one OpenSSH line: under which it connects, or is reached."""
        return self._node.public

    @property
    def _node(self) -> NodeKey:
        return self.keys[SERVER_KEY if self.kind == THE_COORDINATOR else NODE_KEY]

    @property
    def sealing(self) -> str:
        """X25519, public, hex; empty at a party."""
        return self.keys[SEALING].public.hex() if SEALING in self.keys else ""

    def enrolment(self, name: str) -> Enrolment:
        """What tells the operator of them. Raises ConfigError if the name is none."""
        return Enrolment.create(name, self.keys[IDENTITY], self._node, self.sealing)

    def fingerprint(self, name: str) -> str:
        """As that of the enrolment."""
        return key_fingerprint(name, self.identity, self.node, self.sealing)

    def save(self, folder: Path) -> None:
        """Write all of them, mode 0600. Raises OutputExists: a key is never overwritten."""
        for name, key in self.keys.items():
            key.save(folder / name)


def make(kind: KeyKind, name: str, out: Path) -> Enrolment:
    """All private keys of a node, and its enrolment, in the new folder `out`, mode 0700.

    Raises
    ------
    OutputExists : `out` is there. ConfigError : the name is none, or another kind's.
    """
    if (kind == THE_COORDINATOR) != (name == THE_COORDINATOR):
        raise ConfigError(
            f"{name!r} cannot be the name of {a_node(kind)}",
            f"{THE_COORDINATOR!r} is the coordinator's, and its only one",
        )
    keys = OwnKeys.generate(kind)
    enrolment = keys.enrolment(name)
    try:
        out.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise OutputExists(f"{out} is already there", "Choose another folder: keys are never overwritten") from None
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror}", "Choose a folder that you may write to") from None
    try:
        keys.save(out)
        enrolment.save(enrolment_file(name, out))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it is new, and what is in it was sent to nobody
        raise
    return enrolment


def enrolment_file(name: str, folder: Path) -> Path:
    """What to send to the operator."""
    return folder / f"{name}.enrol.json"


def own_keys_for(kit: Kit, kind: KeyKind, folder: Path) -> OwnKeys:
    """The keys in a folder, if the kit was made for them.

    Raises
    ------
    ConfigError : the kit was made for no keys of the node's own, or lists others.
    """
    if not (kit / ENROLMENT).exists():
        raise ConfigError(
            f"{kit.folder}: this kit was not made for keys of your own",
            "Send NAME.enrol.json to the operator, and ask for a kit that is made with it",
        )
    keys = OwnKeys.load(kind, folder)
    check_listed(kit, keys)
    return keys


def put_into(kit: Kit, keys: OwnKeys) -> None:
    """Copy private keys into the kit that lists them; again does nothing.

    Raises
    ------
    OutputExists : another key is there. ConfigError : they cannot be written.
    """
    for name, key in keys.keys.items():
        path = kit / name
        try:
            if not (path.exists() and _holds(path, key)):
                key.save(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Run this as the owner of the kit") from None


def _holds(path: Path, key: Any) -> bool:
    try:
        return type(key).load(path).public == key.public
    except ConfigError:
        return False


def lacks_own_keys(kit: Kit, kind: KeyKind) -> bool:
    """Whether the node made its own keys and has not put them into its kit."""
    return (kit / ENROLMENT).exists() and not all((kit / name).exists() for name in KEYS[kind])


def check_present(kit: Kit, kind: KeyKind) -> None:
    """Raise ConfigError if the node made its own keys and has not put them into its kit."""
    if lacks_own_keys(kit, kind):
        missing = [name for name in KEYS[kind] if not (kit / name).exists()]
        raise ConfigError(
            f"this kit holds no {' and no '.join(missing)}: this {kind} made its own keys",
            f"Run: consilium node join {kit.folder} --keys FOLDER, with the folder that `consilium node keys` made",
        )


def check_listed(kit: Kit, keys: OwnKeys) -> None:
    """Raise ConfigError unless the kit lists these keys."""
    listed = read_enrolment(kit / ENROLMENT, kit.name, keys.kind)
    if (listed.identity, listed.node, listed.sealing) != (keys.identity, keys.node, keys.sealing):
        own = keys.fingerprint(kit.name)
        raise ConfigError(f"the kit lists keys {listed.fingerprint}, these are {own}", NOT_OURS)


def held_keys(kit: Kit, kind: KeyKind) -> OwnKeys:
    """The keys that the kit lists, as they are in it. Raises ConfigError where others are, or none."""
    check_present(kit, kind)
    try:
        keys = OwnKeys.load(kind, kit.folder)
        check_listed(kit, keys)
    except ConfigError as error:
        action = f"Run: consilium node join {kit.folder} --keys FOLDER, with the new ones"
        raise ConfigError(error.what, action) from None
    return keys


NOT_OURS = (
    "Take the folder that `consilium node keys` made for this kit. If it is that one, the operator enrolled"
    " other keys in your name: do not take part, and telephone"
)
"""What to do where other keys were enrolled in this node's name."""
