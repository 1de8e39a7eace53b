"""Whether anybody listens where a Ray cluster is said to be."""

from __future__ import annotations

import socket

from consilium.protocol.errors import EngineError

PATIENCE = 10.0
"""Seconds for a connection."""


def check_answers(address: str) -> None:
    """Raise EngineError at once where nobody listens: Ray itself tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise no_cluster(address, "it is not HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise no_cluster(address, error.strerror or type(error).__name__) from None


def no_cluster(address: str, why: str) -> EngineError:
    """Nobody there, or nobody that this machine can join."""
    return EngineError(
        f"no Ray cluster answers at {address} ({why})",
        "Start one (ray start --head), and give its HOST:PORT, or auto for one on this machine",
    )
