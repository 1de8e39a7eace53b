"""A node's folder: what `consilium node keys` makes, `node join` fills and `node start` serves from.

node.json           which kind of node this is, and its name
keys/               private keys, made here and only here; of a coordinator and a student their certificates too
NAME.enrol.json     public keys, for the operator
federation/         the operator's signed folder, as it was joined last (node.signed)
policy.toml         what a party or second aggregator allows, in its own people's words (node.home)
party.toml          of a party: where its rows are, and how they are read
state/              what the node remembers: ledger, account, sessions"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import private_folder
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.protocol.tls import TlsFiles

NodeKind = Literal["coordinator", "party", "aggregator", "student"]
THE_COORDINATOR: Final = "coordinator"
"""Kind and name of the one coordinator."""
NODE_FILE, POLICY_FILE = "node.json", "policy.toml"
FEDERATION_FILE, AUTHORITY_FILE, SIGNED_FILE, PUBLIC_FILE = "federation.json", "ca.crt", "signed.json", "public.npz"


def a_node(kind: NodeKind) -> str:
    """In a sentence.

    >>> a_node("party"), a_node("aggregator")
    ('a party', 'an aggregator')
    """
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


class NodeFile(Frozen):
    """The file `node.json`."""

    format: Literal[1] = 1
    kind: NodeKind
    name: PartyName


@dataclass(frozen=True)
class NodeFolder:
    """A node's folder, and which node it is of."""

    path: Path
    kind: NodeKind
    name: str

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def federation(self) -> Path:
        return self.path / "federation"

    @property
    def authority(self) -> Path:
        return self.federation / AUTHORITY_FILE

    @property
    def policy_file(self) -> Path:
        return self.path / POLICY_FILE

    @property
    def state(self) -> Path:
        """What it remembers, for its owner only; made on first use."""
        return private_folder(self.path / "state")

    @property
    def lock(self) -> Path:
        return self.path / "state" / "lock"

    @property
    def tls(self) -> TlsFiles:
        """The certificate under which a coordinator is reached, or a student asks."""
        stem = "server" if self.kind == THE_COORDINATOR else "client"
        return TlsFiles(self.keys / f"{stem}.crt", self.keys / f"{stem}.key", self.authority)

    @property
    def joined_at(self) -> object:
        """Another one as soon as another folder was joined, or the same again; None where there is none."""
        path = self.federation / SIGNED_FILE
        stat = path.stat() if path.exists() else None
        return stat and (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def open_folder(path: Path, kind: NodeKind | None = None) -> NodeFolder:
    """A node's folder. Raises ConfigError: it is none, or one of another kind."""
    if not (path / NODE_FILE).is_file():
        raise ConfigError(
            f"{path} is no node's folder: it has no {NODE_FILE}", "Give the folder that `consilium node keys` made"
        )
    file = load(path / NODE_FILE, NodeFile)
    if kind is not None and file.kind != kind:
        raise ConfigError(
            f"{path} is the folder of {a_node(file.kind)}, not of {a_node(kind)}", f"Give that of {a_node(kind)}"
        )
    return NodeFolder(path.resolve(), file.kind, file.name)
