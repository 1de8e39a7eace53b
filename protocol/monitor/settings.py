"""`monitor.toml` in a kit: whether a node can be looked at, where and by whom, and how it writes its log.

The node's own team writes the file. Without it no port is opened, and the log is text on standard error.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.labels.tls import TlsFiles
from consilium.protocol.models import Frozen
from consilium.protocol.node.kit import Host, Kit, Port, joined

MONITOR_FILE = "monitor.toml"


class LogSettings(Frozen):
    """The table `[log]`."""

    format: Literal["text", "json"] = Field(default="text", description="lines for people, or one JSON object a line")
    file: str = Field(
        default="", description="instead of standard error, relative to the kit; rotated by the node, mode 0600"
    )
    most_bytes: int = Field(
        default=20_000_000, ge=10_000, le=2_000_000_000, description="of `file`, until it is rotated"
    )
    keep: int = Field(default=5, ge=1, le=1000, description="rotated files kept: `file`.1 is the newest")


class MonitorSettings(Frozen):
    """The file `monitor.toml`."""

    port: Port | None = Field(
        default=None, description="for health and metrics, and the console; left out: none is opened"
    )
    listen: Host = Field(default="127.0.0.1", description="address that it binds; any but loopback needs `observers`")
    hosts: tuple[Host, ...] = Field(
        default=(), description="names under which it is asked, besides `listen` and localhost; others are refused"
    )
    observers: str = Field(
        default="",
        description="PEM file with the certificate of everybody who may look: mutual TLS, each pinned; read again when"
        " it changes",
    )
    certificate: str = Field(default="server.crt", description="the node's own, PEM, shown to observers")
    key: str = Field(default="server.key", description="of `certificate`, PEM, readable by its owner only")
    log: LogSettings = Field(default=LogSettings(), description="how the node writes its log")

    @model_validator(mode="after")
    def _strangers_need_certificates(self) -> MonitorSettings:
        if self.port is not None and not self.observers and not is_loopback(self.listen):
            raise ValueError(
                f"listen {self.listen} is no loopback address, so that others could look without a certificate: name"
                " observers, or leave listen out"
            )
        return self

    @property
    def address(self) -> str:
        """host:port at which it listens; where there is a port."""
        return joined(self.listen, self.port or 0)

    def own_names(self) -> frozenset[str]:
        """Host headers that are answered, in lower case, with and without the port."""
        loopback = ("127.0.0.1", "[::1]", "localhost")
        names = {joined(host, 0).rpartition(":")[0].lower() for host in (self.listen, *self.hosts)} | set(loopback)
        return frozenset({*names, *(f"{name}:{self.port}" for name in names)})

    def tls(self, kit: Path) -> TlsFiles | None:
        """The node's certificate and key, and in place of an authority the observers; None on loopback without them."""
        if not self.observers:
            return None
        return TlsFiles(kit / self.certificate, kit / self.key, kit / self.observers)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def load_monitor(kit: Kit) -> MonitorSettings:
    """What the kit's `monitor.toml` says; the defaults where there is none.

    Raises
    ------
    ConfigError : it cannot be read, says something it may not say, or takes a port that the node itself needs.
    """
    path = kit / MONITOR_FILE
    if not path.exists():
        return MonitorSettings()
    found, place = load(path, MonitorSettings), kit.coordinator
    needed = {
        "coordinator": {
            "superlink_port": place.superlink_port, "label_port": place.label_port, "internal_port": place.internal_port
        },
        "party": {"node_port": kit.node_port},
        "aggregator": {"node_port": kit.node_port},
        "student": {},
    }  # fmt: skip
    for name, port in needed[kit.kind].items():
        if found.port == port:
            raise ConfigError(f"{path}: port {port} is {name} of kit.json", "Choose another in monitor.toml")
    return found
