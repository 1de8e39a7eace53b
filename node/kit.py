"""A kit: the folder that one node gets, with all it needs and nothing of any other node.

kit.json            which node of which federation this is, and where the coordinator is
ca.crt              the federation's certificate authority
signed.json         what the authority put in, signed by it (node.manifest)
state/              made by the node itself: ledgers, teachers, logs, Flower's own files
coordinator: federation.json nodes.json students.json server.crt server.key identity.pem [roster.json] [public.npy]
policy.toml         what a party or second aggregator allows, written by its own people (node.acceptance)
party:       party.toml federation.json terms.json node.key node.pub identity.pem [roster.json], and its data file;
             one that made its own keys gets enrolment.json, and puts node.key, node.pub and identity.pem in itself
aggregator:  aggregator.toml federation.json terms.json roster.json node.key node.pub identity.pem sealing.pem; with
             verified votes the coordinator has a sealing.pem too; own keys as at a party
student:     schema.json client.crt client.key [public.npz]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import private_folder
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.protocol.tls import TlsFiles

KIT_FILE, POLICY_FILE = "kit.json", "policy.toml"
NodeKind = Literal["coordinator", "party", "aggregator", "student"]
EnrolledKind = Literal["party", "aggregator"]
"""Nodes that connect with a SuperNode."""
KeyKind = Literal["coordinator", "party", "aggregator"]
"""Nodes that may make their own keys."""
THE_COORDINATOR: Final = "coordinator"
"""Kind and name of the one coordinator."""
Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:]{2,45})$")]


def node_id(kind: NodeKind, name: str) -> str:
    """A node's name among all nodes of a federation: that of its kit's folder.

    >>> node_id("party", "zurich"), node_id("coordinator", "coordinator")
    ('party-zurich', 'coordinator')
    """
    return kind if kind == "coordinator" else f"{kind}-{name}"


def a_node(kind: NodeKind) -> str:
    """In a sentence.

    >>> a_node("party"), a_node("aggregator")
    ('a party', 'an aggregator')
    """
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def joined(host: str, port: int) -> str:
    """host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Coordinator(Frozen):
    """Where the coordinator is."""

    hosts: tuple[Host, ...] = Field(
        min_length=1, description="names and addresses in its certificate; the first is where nodes connect"
    )
    listen: Host = Field(default="0.0.0.0", description="address that it binds")
    superlink_port: Port = Field(default=8443, description="for parties")
    label_port: Port = Field(default=8444, description="for students")
    internal_port: Port = Field(default=8445, description="on loopback only, for the coordinator itself")

    @property
    def superlink(self) -> str:
        """host:port for parties."""
        return joined(self.hosts[0], self.superlink_port)

    @property
    def labels(self) -> str:
        """host:port for students."""
        return joined(self.hosts[0], self.label_port)

    @property
    def internal(self) -> str:
        """host:port for the coordinator's own processes."""
        return f"127.0.0.1:{self.internal_port}"


class KitFile(Frozen):
    """The file `kit.json`. node_port: loopback port of a party's or aggregator's SuperNode; distinct where
    nodes share a machine."""

    format: Literal[1] = 1
    kind: NodeKind
    name: PartyName
    federation: str = Field(min_length=1, max_length=100)
    coordinator: Coordinator
    node_port: Port = 9094


@dataclass(frozen=True)
class Kit:
    """A kit's folder and what its `kit.json` says."""

    folder: Path
    kind: NodeKind
    name: str
    federation: str
    coordinator: Coordinator
    node_port: int

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def state(self) -> Path:
        """What the node keeps."""
        return private_folder(self.folder / "state")

    @property
    def logs(self) -> Path:
        """Logs of the node's processes."""
        return private_folder(self.state / "logs")

    @property
    def authority(self) -> Path:
        """The federation's certificate authority."""
        return self.folder / "ca.crt"

    @property
    def server_tls(self) -> TlsFiles:
        """The coordinator's own certificate."""
        return TlsFiles(self.folder / "server.crt", self.folder / "server.key", self.authority)

    @property
    def client_tls(self) -> TlsFiles:
        """The student's own certificate."""
        return TlsFiles(self.folder / "client.crt", self.folder / "client.key", self.authority)


def open_kit(folder: Path, kind: NodeKind | None = None) -> Kit:
    """Read a kit.

    Raises
    ------
    ConfigError : no kit, or one of another kind.
    """
    if not (folder / KIT_FILE).is_file():
        raise ConfigError(f"{folder} is no kit: it has no {KIT_FILE}", "Give the folder that the operator sent you")
    file = load(folder / KIT_FILE, KitFile)
    if kind is not None and file.kind != kind:
        raise ConfigError(
            f"{folder} is the kit of {a_node(file.kind)}, not of {a_node(kind)}", f"Give the kit of {a_node(kind)}"
        )
    return Kit(folder.resolve(), file.kind, file.name, file.federation, file.coordinator, file.node_port)


_HOST, _PORT = TypeAdapter(Host), TypeAdapter(Port)


def check_address(what: str, address: str) -> None:
    """Raise ConfigError unless `address` is host:port, with brackets around an IPv6 address.

    what: how the user gave it, such as "--service".

    >>> check_address("--service", "127.0.0.1:8765")
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        if (":" in host) != bracketed or not port.isascii() or not port.isdigit():
            raise ConfigError(*_refusal(what, address))
        _HOST.validate_python(host[1:-1] if bracketed else host)
        _PORT.validate_python(int(port[:6]))
    except ValidationError:
        raise ConfigError(*_refusal(what, address)) from None


def _refusal(what: str, address: str) -> tuple[str, str]:
    return f"{what} {address!r} is not HOST:PORT with a port from 1 to 65535", f"For example {what} 127.0.0.1:8765"
