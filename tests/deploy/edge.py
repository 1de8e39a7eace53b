"""A gateway on loopback before a stand-in for the SuperLink, and peers that behave badly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import httpx
import uvicorn
from starlette.types import Receive, Scope, Send

from consilium.coordinator.deploy.gateway import PREFIX, Gateway, NodeKeys
from consilium.coordinator.deploy.serving import tls_server
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import signed_headers
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.node.signed import joined
from tests.node.folders import Made

WAIT = 250.0


class SuperLink:
    """Reads a whole body, as Flower's does, unless it is told to `hold`; counts what arrived. An ASGI application."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.hold = threading.Event()

    @property
    def bytes(self) -> int:
        return sum(map(len, self.bodies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while scope["type"] == "lifespan":
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
        self.paths.append(scope["path"])
        while self.hold.is_set():
            await asyncio.sleep(0.02)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(body)
        answer = body[::-1] if len(body) < 100 else b"done"
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length, (b"x-flwr", b"kept")]})
        await send({"type": "http.response.body", "body": answer})


class Site:
    """The nodes of a small federation, a SuperLink, and a gateway."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.folder = made.nodes["coordinator"]
        self.superlink = SuperLink()
        self.context = ssl.create_default_context(cafile=str(self.folder.authority))

    def gateway(self) -> Gateway:
        return Gateway(self.superlink, NodeKeys(joined(self.folder, ServedFederation)))

    @contextlib.contextmanager
    def serving(self, port: int = 0) -> Iterator[tuple[str, int]]:
        with socket.create_server(("127.0.0.1", port)) as listener:
            server = tls_server(self.gateway(), self.folder.tls, *listener.getsockname())
            with running(server, listener):
                yield listener.getsockname()

    def signed(self, node: str) -> dict[str, str]:
        return signed_headers(NodeKey.load(self.made.nodes[node].keys / NODE_KEY))

    def ask(
        self, address: tuple[str, int], node: str | None, body: bytes = b"x", path: str = "push-object"
    ) -> httpx.Response:
        with httpx.Client(verify=self.context, timeout=WAIT, trust_env=False) as client:
            url = f"https://{address[0]}:{address[1]}{PREFIX}{path}"
            return client.post(url, content=body, headers=self.signed(node) if node else {})

    def begin(
        self, address: tuple[str, int], length: int, headers: dict[str, str], path: str = "push-object"
    ) -> ssl.SSLSocket:
        """Handshake and head of a request whose body is still to come."""
        connection = self.context.wrap_socket(connected(address), server_hostname="127.0.0.1")
        lines = [f"POST {PREFIX}{path} HTTP/1.1", "host: x", f"content-length: {length}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection


@contextlib.contextmanager
def running(server: uvicorn.Server, listener: socket.socket) -> Iterator[None]:
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield
    finally:
        server.should_exit = True
        thread.join()


def connected(address: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    """A TCP connection from a loopback address, with small buffers, so that what is sent was taken."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
    connection.settimeout(WAIT)
    connection.bind((source, 0))
    connection.connect(address)
    return connection


def sent_until_stopped(connection: socket.socket, length: int, patience: float) -> int:
    """How many bytes the other end takes until it closes, or takes no more for `patience` seconds."""
    piece, sent = os.urandom(64 * 1024), 0
    connection.settimeout(patience)
    with contextlib.suppress(OSError):
        while sent < length:
            sent += connection.send(piece[: length - sent])
    return sent


def until(true, seconds: float = WAIT) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
