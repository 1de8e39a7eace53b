"""signed.json: what the federation's authority put into a kit, signed by it, so that a file that changed is named.

The signature is held against ca.crt, which came with the kit. It proves that all files are of one authority and belong
together; that this is the federation's authority is what its fingerprint is read out for over the telephone, once.
Updates are held against the ca.crt of the kit that is there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import Field

from consilium.node.keys import grouped
from consilium.node.kit import KIT_FILE, POLICY_FILE, Kit, node_id
from consilium.protocol.config_files import load
from consilium.protocol.digests import Hash, canonical_digest
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import unreadable
from consilium.protocol.identity import frame
from consilium.protocol.models import Strict
from consilium.protocol.tls import fingerprint, load_certificate

MANIFEST = "signed.json"
SETTINGS = frozenset({KIT_FILE, "party.toml", "aggregator.toml", "start.sh", "compose.yaml"})
"""Files, beside the units of systemd, that belong to the node's own people once they have come."""
ALGORITHM = ec.ECDSA(hashes.SHA256())
AGAIN = "Unpack the kit, or the newest update of the operator, again"


class Manifest(Strict):
    """What was signed. node: as `kit.node_id` says, "party-NAME". version: of the federation's changes.

    program: the operator's versions, which all nodes should have.
    files: SHA-256 of each file that stays as it is. settings: of those that the node's own people change later.
    """

    format: Literal[1] = 1
    federation: str = Field(max_length=100)
    node: str = Field(max_length=80)
    version: int = Field(ge=1)
    made: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="day, in UTC")
    program: str = Field(max_length=200)
    files: dict[str, Hash]
    settings: dict[str, Hash] = Field(default_factory=dict)

    @property
    def signed(self) -> bytes:
        """The bytes that are signed."""
        return frame("kit-manifest", canonical_digest(self.model_dump(mode="json")).encode())


class SignedManifest(Strict):
    """The file signed.json. signature: ECDSA of the authority's key, DER in hex."""

    content: Manifest
    signature: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){8,80}$")]


def is_setting(name: str) -> bool:
    """Whether a file of a kit is one that its node's own people change.

    >>> is_setting("party.toml"), is_setting("consilium-party.service"), is_setting("roster.json")
    (True, True, False)
    """
    return name in SETTINGS or name.endswith(".service")


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256, hex, of each file of a folder but its manifest, by name."""
    return {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.is_file() and path.name != MANIFEST}


def read_manifest(folder: Path, authority: Path) -> Manifest | None:
    """The manifest of a folder, if the authority of this ca.crt signed it; None where there is none.

    Raises
    ------
    ConfigError : it cannot be read, or that authority did not sign it.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    found = load(path, SignedManifest)
    if not _signed_by(load_certificate(authority), found):
        raise ConfigError(
            f"{path} is not signed by the authority in {authority}",
            "It was altered, or is of another federation: ask the operator, and compare the authority's fingerprint",
        )
    return found.content


def _signed_by(certificate: x509.Certificate, manifest: SignedManifest) -> bool:
    key = certificate.public_key()
    try:
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        key.verify(bytes.fromhex(manifest.signature), manifest.content.signed, ALGORITHM)
    except InvalidSignature:
        return False
    return True


def check_files(folder: Path, listed: Mapping[str, str]) -> None:
    """Raise ConfigError, which names them, if files are not what a manifest lists."""
    differing = [name for name in sorted(listed) if not (folder / name).is_file()]
    lost = len(differing)
    differing += [name for name in sorted(listed) if name not in differing and _digest(folder / name) != listed[name]]
    if differing:
        how = "not there" if lost == len(differing) else "not as the federation's authority signed it"
        more = f", and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise ConfigError(f"{folder / differing[0]} is {how}{more}", AGAIN)


def check_signed(kit: Kit) -> Manifest:
    """The kit's manifest, if all that it lists is there unchanged.

    Raises
    ------
    ConfigError : no manifest, another node's, or a file was changed or lost; it is named.
    """
    found = read_manifest(kit.folder, kit.authority)
    if found is None:
        raise ConfigError(f"{kit / MANIFEST} is not there: the kit is not signed", AGAIN)
    own = node_id(kit.kind, kit.name)
    if (found.node, found.federation) != (own, kit.federation):
        raise ConfigError(
            f"{kit / MANIFEST} is of {found.node} in {found.federation!r}, this kit is of {own} in {kit.federation!r}",
            "Two kits were unpacked into one folder: unpack each into its own",
        )
    if POLICY_FILE in {*found.files, *found.settings}:
        raise ConfigError(
            f"{kit / POLICY_FILE} came with the kit: what a node allows, its own people say",
            "Delete it, and ask the operator, by telephone, what was sent",
        )
    check_files(kit.folder, found.files)
    return found


def authority_fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the authority's certificate, in groups of four, as it is read out."""
    return grouped(fingerprint(certificate))


def _digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from None
