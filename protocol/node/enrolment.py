"""NAME.enrol.json: the public keys that a node made itself, for the operator. It is no secret, but it must be genuine.

Both signing keys sign the name and all public keys: a file that was altered, or mixed from two, is refused. Whoever can
replace the whole file can put its own keys in; against that the fingerprint is read out over the telephone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from consilium.protocol.config_files import faults_of
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.identity import Identity, digest, verify
from consilium.protocol.models import Frozen
from consilium.protocol.node.kit import EnrolledKind, a_node
from consilium.protocol.node.node_key import NodeKey, is_node_key, node_verify
from consilium.protocol.parties.messages import PartyName
from consilium.sums.agreement import check_order
from consilium.sums.errors import BadKey
from consilium.sums.roster import PublicKey, is_sound_key

ENROLMENT, IDENTITY, NODE_KEY, SEALING = "enrolment.json", "identity.pem", "node.key", "sealing.pem"
"""Names in a kit: of the enrolment that it was made from, and of the private keys."""
MOST_BYTES = 4096
AGAIN = "Ask the node's people for its NAME.enrol.json again, and compare the fingerprint over the telephone"


class Enrolment(Frozen):
    """identity: Ed25519, hex. node: P-384, one OpenSSH line. The signatures, hex, are of name and all keys.

    sealing: X25519, hex, of a second aggregator; a party has none.
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
    def kind(self) -> EnrolledKind:
        """Of the node."""
        return "aggregator" if self.sealing else "party"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of name and public keys, in groups of four."""
        return key_fingerprint(self.name, self.identity, self.node, self.sealing)

    def save(self, path: Path) -> None:
        """Write JSON."""
        left_out = set() if self.sealing else {"sealing"}
        path.write_text(self.model_dump_json(indent=1, exclude=left_out) + "\n", encoding="utf-8")


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


def read_enrolment(path: Path, name: str, kind: EnrolledKind = "party") -> Enrolment:
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
            f"That key is no secret any more: the {kind} runs `consilium {kind} keys` again and sends NAME.enrol.json",
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
            f"{path} enrols {a_node(found.kind)}, not {a_node(kind)}", f"Have its keys made with: consilium {kind} keys"
        )
    if found.sealing:
        _check_sealing(found.sealing, path)
    parts = _signed(found.name, found.identity, found.node, found.sealing)
    signed = verify(bytes.fromhex(found.identity), bytes.fromhex(found.identity_signature), "enrolment", *parts)
    if not signed or not node_verify(found.node, bytes.fromhex(found.node_signature), "enrolment", *parts):
        raise ConfigError(f"{path}: its keys did not sign it: altered, or mixed from two files", AGAIN)
    if found.name != name:
        raise ConfigError(f"{path}: enrols {found.name!r}, not {name!r}", "Give each node its own file")
    return found


def _check_sealing(key: str, path: Path) -> None:
    try:
        check_order(bytes.fromhex(key), "an aggregator")
    except BadKey:
        raise ConfigError(f"{path}: sealing is a key of low order: anyone could open what is sealed", AGAIN) from None


def _signed(name: str, identity: str, node: str, sealing: str) -> tuple[bytes, ...]:
    sealed = (bytes.fromhex(sealing),) if sealing else ()
    return name.encode(), bytes.fromhex(identity), node.encode(), *sealed
