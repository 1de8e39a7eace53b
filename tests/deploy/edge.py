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
from pathlib import Path

import httpx
import uvicorn
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from google.protobuf.empty_pb2 import Empty
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consilium.coordinator.deploy.gateway import PREFIX, QUOTA, Gateway, Quota, tls_server
from consilium.coordinator.rosters import NodeKeys
from consilium.node.kit import Kit, open_kit
from tests.deploy.kits import free_ports

WAIT = 250.0


class SuperLink:
    """Reads a whole body, as Flower's does, unless it is told to `hold`; counts what arrived."""

    def __init__(self) -> None:
        self.bytes = 0
        self.requests = 0
        self.hold = threading.Event()

    def app(self) -> Starlette:
        """As an ASGI application."""

        async def answer(request: Request) -> Response:
            self.requests += 1
            while self.hold.is_set():
                await asyncio.sleep(0.02)
            async for part in request.stream():
                self.bytes += len(part)
            return Response(b"done")

        return Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


class Site:
    """Kits of the three wards, a SuperLink, and a gateway."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.kit: Kit = open_kit(self.out / "coordinator")
        self.superlink = SuperLink()
        self.context = ssl.create_default_context(cafile=str(self.kit.authority))

    @contextlib.contextmanager
    def serving(self, quota: Quota = QUOTA) -> Iterator[tuple[str, int]]:
        """Run both; yields the gateway's host and port."""
        place, files = self.kit.coordinator, self.kit.server_tls
        tls = {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key), "log_level": "error"}
        (port,) = free_ports(1)
        inner = uvicorn.Server(uvicorn.Config(self.superlink.app(), port=place.internal_port, **tls))
        keys = NodeKeys(self.kit / "nodes.json")
        outer = tls_server(Gateway(place.internal, self.kit.authority, keys, quota).app(), "127.0.0.1", port, files)
        with running(inner), running(outer):
            yield "127.0.0.1", port

    def signed(self, node: str) -> dict[str, str]:
        """Headers of a request of this node, signed now."""
        return signed(self.out / f"party-{node}" / "node.key")

    def ask(
        self, address: tuple[str, int], node: str | None, body: bytes = b"x", path: str = "push-object"
    ) -> httpx.Response:
        """One whole request on a connection of its own."""
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


def signed(key_file: Path) -> dict[str, str]:
    """Headers that Flower's own code puts on a request of a SuperNode with this key, now."""
    key = load_ssh_private_key(key_file.read_bytes(), None)
    request = httpx.Request("POST", "https://somewhere")
    context = ProtobufRequestContext("", Empty(), request)
    NodeAuthHttpInterceptor(key, key.public_key()).intercept(context, lambda _: httpx.Response(200))  # type: ignore
    return {name: value for name, value in request.headers.items() if name.startswith("flwr-")}


@contextlib.contextmanager
def running(server: uvicorn.Server) -> Iterator[None]:
    """Run a server in a thread."""
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run)
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


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed."""
    connection.settimeout(0)
    try:
        return connection.recv(65536) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def sent_until_stopped(connection: socket.socket, length: int, patience: float) -> int:
    """How many bytes the other end takes until it closes, or takes no more for `patience` seconds."""
    piece, sent = os.urandom(64 * 1024), 0
    connection.settimeout(patience)
    with contextlib.suppress(OSError):
        while sent < length:
            sent += connection.send(piece[: length - sent])
    return sent


def until(true, seconds: float = WAIT) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
