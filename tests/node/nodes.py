"""A kit of a node without anything in it, and requests to its port."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path
from typing import NamedTuple

from consilium.node.kit import Coordinator, Kit, NodeKind


def kit_in(folder: Path, kind: NodeKind = "coordinator", name: str = "node-1") -> Kit:
    """An empty kit."""
    return Kit(folder, kind, name, "three wards", Coordinator(hosts=("127.0.0.1",)), 9094)


class Reply(NamedTuple):
    """What came back; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask(port: int, path: str = "/", method: str = "GET", tls: ssl.SSLContext | None = None, **headers: str) -> Reply:
    """One request; `headers` with _ for -, Host among them."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)
    )
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def raw(port: int, content: bytes) -> bytes:
    """All that comes back to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(content)
        return b"".join(iter(lambda: peer.recv(65536), b""))
