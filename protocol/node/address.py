"""Addresses that a user gives as host:port."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from consilium.protocol.errors import ConfigError
from consilium.protocol.node.kit import Host, Port

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
