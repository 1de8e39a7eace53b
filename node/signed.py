"""The signed folder that an operator sends: one for all nodes, without any secret in it.

federation.json     what the federation is, who takes part, under which keys, and where the coordinator is
ca.crt              the federation's authority
public.npz          the public rows that may be asked, where they are fixed
signed.json         what the authority signed: the digest of each of these
policy.toml         empty: what a node allows, its own people say

The signature is held against the ca.crt that came along. It proves that all files are of one authority and belong
together; that this is the federation's authority is what its fingerprint is read out for over the telephone, once. A
newer folder is held against the ca.crt of the one that was joined before."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import Field, ValidationError

from consilium.node.folder import (
    AUTHORITY_FILE,
    FEDERATION_FILE,
    NODE_FILE,
    POLICY_FILE,
    PUBLIC_FILE,
    SIGNED_FILE,
    THE_COORDINATOR,
    NodeFolder,
    a_node,
    open_folder,
)
from consilium.node.keys import NOT_OURS, OwnKeys, PublicKeys, grouped
from consilium.protocol.config_files import load, read_table, validate
from consilium.protocol.digests import Hash, canonical_digest
from consilium.protocol.errors import ConfigError, PathError
from consilium.protocol.files import private_folder, replace_text, replacing, unreadable
from consilium.protocol.identity import frame
from consilium.protocol.messages import PartyName, Terms
from consilium.protocol.models import Frozen, Strict
from consilium.protocol.schema import Schema
from consilium.protocol.tls import fingerprint, load_certificate
from consilium.sums.modes import MODES
from consilium.sums.roster import SumRoster

Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:]{2,45})$")]
ALGORITHM = ec.ECDSA(hashes.SHA256())
MOST_SMALL_BYTES = 64_000
MOST_BYTES = {FEDERATION_FILE: 256_000_000, AUTHORITY_FILE: MOST_SMALL_BYTES, PUBLIC_FILE: 4_000_000_000}
"""Of each file that may be signed: there are no others."""
AGAIN = "Join the folder that the operator sent once more: consilium node join FOLDER"
ASK = "Do not use it, and ask the operator, by telephone, what was sent"


def address(host: str, port: int) -> str:
    """host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Coordinator(Frozen):
    """Where the coordinator is."""

    hosts: tuple[Host, ...] = Field(
        min_length=1, description="names and addresses in its certificate; the first is where nodes connect"
    )
    listen: Host = Field(default="0.0.0.0", description="address that it binds")
    node_port: Port = Field(default=8443, description="for parties and the second aggregator")
    label_port: Port = Field(default=8444, description="for students")

    @property
    def nodes(self) -> str:
        return address(self.hosts[0], self.node_port)

    @property
    def labels(self) -> str:
        return address(self.hosts[0], self.label_port)


class PrivacyPart(Frozen, extra="ignore"):
    """Of the federation's own guarantee."""

    unit: str
    delta: float


class ConfigPart(Frozen, extra="ignore"):
    """What every node reads of the coordinator's configuration."""

    name: str = Field(min_length=1, max_length=100)
    rows: Schema
    privacy: PrivacyPart


class EarlierFederation(Frozen):
    """A federation of the same operator that this one took the place of. promise: as in its `Terms`. queries: of its
    query budget. parties: that were in it."""

    digest: Hash
    promise: str
    queries: int = Field(ge=0)
    parties: tuple[PartyName, ...]


class FederationFile(Frozen):
    """The file `federation.json`. version: counts the operator's changes. made, ends: days, UTC; the operator states
    when the federation ends. program: the operator's versions, which all nodes should have.

    terms: what parties and the second aggregator pin. roster: of hidden sums. nodes: public keys of all nodes by their
    names, the coordinator's, students' and the second aggregator's too. certificates: PEM, of coordinator and students,
    by name. earlier, succeeds: federations before this one, and by a party's name those that its patients had before.
    revoked: public keys of nodes that were shut out: neither their names nor their keys are taken in again."""

    format: Literal[1] = 1
    version: int = Field(ge=1)
    made: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    ends: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    program: str = Field(max_length=200)
    coordinator: Coordinator
    config: ConfigPart
    terms: Terms
    roster: dict[str, Any] | None = None
    nodes: dict[PartyName, PublicKeys]
    certificates: dict[PartyName, str]
    earlier: tuple[EarlierFederation, ...] = ()
    succeeds: dict[PartyName, tuple[PartyName, ...]] = Field(default_factory=dict)
    revoked: dict[PartyName, PublicKeys] = Field(default_factory=dict)

    def of_kind(self, kind: str) -> dict[str, PublicKeys]:
        """Public keys of the nodes of a kind, by name."""
        return {name: keys for name, keys in self.nodes.items() if keys.kind == kind}

    @property
    def parties(self) -> dict[str, PublicKeys]:
        return self.of_kind("party")

    @property
    def aggregator(self) -> str | None:
        return next(iter(self.of_kind("aggregator")), None)

    @property
    def members(self) -> dict[str, PublicKeys]:
        """Nodes that connect with a SuperNode: parties and the second aggregator."""
        return {**self.parties, **self.of_kind("aggregator")}

    def sum_roster(self) -> SumRoster | None:
        """The roster of hidden sums; None for plaintext votes. Raises ConfigError: it is not the one of the terms, or
        has other keys than these nodes."""
        mode = MODES.get(self.terms.collection)
        if mode is None:
            return None
        try:
            roster = mode.roster.model_validate(self.roster)
        except ValidationError:
            raise ConfigError(f"{FEDERATION_FILE}: roster: none of {self.terms.collection} votes", ASK) from None
        if roster.digest != self.terms.roster:
            raise ConfigError(
                f"{FEDERATION_FILE}: its roster has hash {roster.digest[:12]}, its terms say {self.terms.roster[:12]}",
                ASK,
            )
        known = {**self.revoked, **self.nodes}  # revoked ones, while too few are left for another federation
        identities = {name: keys.identity for name, keys in known.items()}
        entries = {**roster.keys, THE_COORDINATOR: roster.coordinator_key.hex()}
        foreign = [name for name, key in entries.items() if identities.get(name) != key]
        second, pairs = roster.second, [(keys.identity, keys.sealing) for keys in known.values()]
        if second is not None and (second.ed25519_pk, second.x25519_pk) not in pairs:
            foreign.append("the second aggregator")
        if foreign:
            raise ConfigError(f"{FEDERATION_FILE}: its roster has other keys for {', '.join(foreign[:8])}", ASK)
        return roster

    @property
    def former(self) -> tuple[PartyName, ...]:
        """Parties that left, whose patients no other has taken over."""
        taken = {before for names in self.succeeds.values() for before in names}
        return tuple(name for name, keys in self.revoked.items() if keys.kind == "party" and name not in taken)

    def names_before(self, name: str) -> tuple[str, ...]:
        """Names that a party's patients had before: it lost its keys or its state, and came back under another."""
        names = [name]
        for each in names:
            names += [before for before in self.succeeds.get(each, ()) if before not in names]
        return tuple(names[1:])

    def inherited(self, name: str) -> tuple[EarlierFederation, ...]:
        """What may have been promised to a party's rows before they came under its name. Its account would begin at
        nothing, though the patients are the same: it charges these before it answers anything."""
        before = {*self.names_before(name)}
        return tuple(each for each in self.earlier if before & {*each.parties})


F = TypeVar("F", bound=FederationFile)


class Signed(Strict):
    """The file `signed.json`. files: SHA-256 of each. signature: ECDSA of the authority's key, DER in hex."""

    format: Literal[1] = 1
    files: dict[Literal["federation.json", "ca.crt", "public.npz"], Hash]
    signature: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,80}$")]


def signed_bytes(files: Mapping[str, str]) -> bytes:
    """What the authority signs. files: SHA-256, hex, by name."""
    return frame("signed-folder", canonical_digest(dict(files)).encode())


@dataclass(frozen=True)
class SignedFolder(Generic[F]):
    """A folder whose signature holds. authority: its fingerprint, which is compared over the telephone. files: digests,
    by name."""

    file: F
    authority: str
    files: Mapping[str, str]


def read_signed(
    path: Path, model: type[F] = FederationFile, authority: Path | None = None, *, rows: bool = True
) -> SignedFolder[F]:
    """A signed folder, all of which is as the authority signed it. What else lies in the folder is not looked at.

    authority: the ca.crt that must have signed it; the folder's own where it is None. rows: public.npz, which may be
    large, is looked at too. Raises PathError, ConfigError: no such folder, a file is missing, a link, too large or
    altered, or another signed it."""
    if not (path / SIGNED_FILE).exists():
        raise ConfigError(
            f"{path} is no signed folder: it has no {SIGNED_FILE}", "Give the folder that the operator sent"
        )
    for name in (AUTHORITY_FILE, SIGNED_FILE):  # before they are read: of a pipe nothing may ever come
        open_plain(path / name, MOST_SMALL_BYTES).close()
    if authority is not None and authority.read_bytes() != (path / AUTHORITY_FILE).read_bytes():
        raise ConfigError(f"{path} is of another authority than the federation that was joined here", ASK)
    certificate, signed = load_certificate(path / AUTHORITY_FILE), load(path / SIGNED_FILE, Signed)
    key, signature = certificate.public_key(), bytes.fromhex(signed.signature)
    try:
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        key.verify(signature, signed_bytes({**signed.files}), ALGORITHM)
    except InvalidSignature:
        raise ConfigError(f"{path / SIGNED_FILE} is not signed by the authority in {AUTHORITY_FILE}", ASK) from None
    for name in (FEDERATION_FILE, AUTHORITY_FILE):
        if name not in signed.files:
            raise ConfigError(f"{path / SIGNED_FILE} lists no {name}", ASK)
    content = b""
    for name, expected in signed.files.items():
        if name == PUBLIC_FILE and not rows:
            continue
        with open_plain(path / name, MOST_BYTES[name]) as file:
            if name == FEDERATION_FILE:
                content = file.read()  # once: what is parsed is what was compared
            found = hashlib.sha256(content) if name == FEDERATION_FILE else hashlib.file_digest(file, "sha256")
            if found.hexdigest() != expected:
                raise ConfigError(f"{path / name} is not as the federation's authority signed it", AGAIN)
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        raise ConfigError(f"{path / FEDERATION_FILE} is no table in JSON", ASK) from None
    file = validate(table, model, str(path / FEDERATION_FILE))
    return SignedFolder(file, authority_fingerprint(certificate), {**signed.files})


def open_plain(path: Path, most: int) -> BufferedReader:
    """A regular file of at most so many bytes, to read; no link is followed. Raises PathError, ConfigError."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except OSError as error:
        raise unreadable(path, error, AGAIN) from None
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        file.close()
        raise ConfigError(f"{path} is no plain file of at most {most} bytes", ASK)
    return file


def authority_fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the authority's certificate, in groups of four, as it is read out."""
    return grouped(fingerprint(certificate))


POLICY = """# What {node} {name} allows, in its own people's words: nothing beyond these lines is ever done.
# `consilium node start` asks for each that is missing, and writes it here after a yes. See docs/deploy.md.
"""


JOIN = "Join the folder that the operator sent: consilium node join FOLDER"


def find_folder(here: Path) -> NodeFolder:
    """`here`, or the one node's folder in it. Raises ConfigError: there is none, or there are several."""
    found = [here] if (here / NODE_FILE).is_file() else sorted(path.parent for path in here.glob(f"*/{NODE_FILE}"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ConfigError(
            f"{here.resolve()} has not the folder of one node: {names}",
            "Run this where `consilium node keys` was run, or say which with --node FOLDER",
        )
    return open_folder(found[0])


def join(sent: Path, folder: NodeFolder) -> SignedFolder[FederationFile]:
    """Check a signed folder, and take it over. Nothing is changed where a check does not hold; again does nothing.
    Raises ConfigError: the folder is not as its authority signed it; it is of another authority than the one before,
    older, or another of the same version; it does not list this node with its own keys; its roster has others; or it
    says what this node allows; PathError: it cannot be read."""
    earlier = None
    with suppress(ConfigError, PathError):  # a copy that broke off is mended by the same folder
        earlier = load(folder.federation / FEDERATION_FILE, FederationFile)
    signed = read_signed(sent, authority=folder.authority if folder.authority.exists() else None)
    if earlier and signed.file.version < earlier.version:
        raise ConfigError(
            f"{sent} is version {signed.file.version}, version {earlier.version} was joined here already",
            "Nothing is to be done: what was changed later is in the newer one",
        )
    if earlier and signed.file.version == earlier.version and signed.file != earlier:
        raise ConfigError(f"{sent} is another version {earlier.version} than the one that was joined here", ASK)
    check_listed(signed.file, folder)
    signed.file.sum_roster()
    if (policy := sent / POLICY_FILE).exists():
        open_plain(policy, MOST_SMALL_BYTES).close()
        if read_table(policy):
            raise ConfigError(f"{policy} holds limits: what a node allows, its own people say", ASK)
    names = (*(name for name in sorted(signed.files) if name != FEDERATION_FILE), FEDERATION_FILE, SIGNED_FILE)
    with tempfile.TemporaryDirectory(dir=folder.path, prefix="federation.") as place:
        copy = Path(place)
        for name in names:
            most = MOST_BYTES.get(name, MOST_SMALL_BYTES)
            with open_plain(sent / name, most) as source, replacing(copy / name) as file:
                shutil.copyfileobj(source, file)
        joined = read_signed(copy)
        if joined.files != signed.files:  # what was checked is what is joined, whoever else writes to the folder
            raise ConfigError(f"{sent} was changed while it was read", AGAIN)
        private_folder(folder.federation)
        for name in names:
            (copy / name).replace(folder.federation / name)
    certificate = joined.file.certificates.get(folder.name)
    if certificate is not None:
        replace_text(folder.tls.certificate, certificate)
    if not folder.policy_file.exists() and folder.kind in ("party", "aggregator"):
        replace_text(folder.policy_file, POLICY.format(node=folder.kind, name=folder.name))
    return joined


def joined(folder: NodeFolder, model: type[F] = FederationFile) -> F:
    """The federation that a node joined, all of it as signed. Raises ConfigError: none yet, or altered since."""
    if not (folder.federation / SIGNED_FILE).is_file():
        raise ConfigError(f"{folder.path} has joined no federation", JOIN)
    asks = folder.kind in (THE_COORDINATOR, "student")  # others never open the rows, and do this for each message
    return read_signed(folder.federation, model, rows=asks).file


def check_listed(file: FederationFile, folder: NodeFolder) -> None:
    """Raise ConfigError unless the federation has this node, with its own keys."""
    listed, own = file.nodes.get(folder.name), OwnKeys.load(folder).public
    if folder.name in file.revoked:
        raise ConfigError(f"{folder.name} was revoked: it takes no part any more", "Talk to the federation's operator")
    if listed is None:
        raise ConfigError(
            f"this federation lists no {folder.kind} {folder.name!r}",
            f"Send {folder.name}.enrol.json to the operator, and join the folder that comes back",
        )
    if listed != own:
        raise ConfigError(
            f"{a_node(listed.kind)} {folder.name!r} is listed with keys {listed.fingerprint(folder.name)}, this"
            f" node's are {own.fingerprint(folder.name)}",
            NOT_OURS,
        )
