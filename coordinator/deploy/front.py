"""The gateway's socket: who may stay connected, for how long, before anything is known about them.

A connection is a stranger until a request on it was signed by a registered node. Strangers share few places: a new one
takes the place of the oldest of the address that holds most, so that whoever connects and waits loses to whoever
connects and works. They have seconds for the handshake and for a request's head. Nodes have places of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
import sys
from asyncio import sslproto
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from consilium.protocol.tls import RenewedFiles, TlsFiles

STRANGERS = 512
"""Connections in all on which no registered node has spoken: two for each node of the largest federations that start at
the same moment. A stranger holds about 100 kB after its handshake, so all of them about 50 MB."""
STRANGERS_OF_ADDRESS = 128
"""Of one address (IPv6: of one /64): a site whose nodes share one."""
CONNECTIONS_OF_NODE = 16
"""A SuperNode uses up to four: heartbeats, messages, and two objects at a time."""
HEAD_BYTES = 16 * 1024
"""Of a request's line and headers: Flower's are below 2 kB."""
TLS_BUFFER_BYTES = 32 * 1024
"""asyncio sets aside 256 KiB for each TLS connection, before its handshake: a peer that only connects costs so much."""
BACKLOG = 1024
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_FRAMING = re.compile(rb"(?im)^(?:content-length|transfer-encoding):(.*)$")


@dataclass(frozen=True)
class Timing:
    """Seconds that a stranger has to say something, then for the handshake, and for each request's head; and a peer
    for saying good-bye."""

    handshake: float = 10
    head: float = 10
    close: float = 2


TIMING = Timing()
log = logging.getLogger("consilium.gateway")


class Connection:
    """One accepted connection. group: what counts as its address."""

    def __init__(self, address: str) -> None:
        self.group = group_of(address)
        self.node: str | None = None
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    def abort(self) -> None:
        """Drop it now, without a word."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class ConnectionPlaces:
    """Who holds a place. Limits are arguments so that tests can do with few connections."""

    def __init__(
        self, strangers: int = STRANGERS, of_address: int = STRANGERS_OF_ADDRESS, of_node: int = CONNECTIONS_OF_NODE
    ) -> None:
        self._most = strangers
        self._of_address = of_address
        self._of_node = of_node
        self._strangers: defaultdict[str, dict[Connection, None]] = defaultdict(dict)  # each in order of arrival
        self._nodes: defaultdict[str, set[Connection]] = defaultdict(set)
        self._apart: dict[str, list[str]] = {}

    @property
    def strangers(self) -> int:
        """How many there are."""
        return sum(map(len, self._strangers.values()))

    def enter(self, new: Connection) -> None:
        """A place for a new connection, at the expense of an older one where there is none left."""
        own = self._strangers[new.group]
        own[new] = None
        if len(own) > self._of_address:
            self._drop_oldest(new.group)
        elif self.strangers > self._most:
            self._drop_oldest(max(self._strangers, key=lambda group: len(self._strangers[group])))

    def know(self, connection: Connection, node: str) -> bool:
        """A registered node spoke on it: whether the node has a place left for it."""
        if connection.node == node:
            return True
        if connection.node is not None or len(self._nodes[node]) >= self._of_node:
            return False
        self._forget_stranger(connection)
        connection.node = node
        self._nodes[node].add(connection)
        return True

    def addresses(self, node: str) -> list[str]:
        """From which a node is connected now."""
        return sorted({connection.group for connection in self._nodes[node]})

    def apart(self, node: str) -> bool:
        """Whether a node is connected from other several addresses than when this was asked last."""
        now = self.addresses(node)
        news = len(now) > 1 and self._apart.get(node) != now
        self._apart[node] = now
        return news

    def leave(self, connection: Connection) -> None:
        """It is closed."""
        if connection.node is None:
            self._forget_stranger(connection)
        else:
            self._nodes[connection.node].discard(connection)

    def _drop_oldest(self, group: str) -> None:
        oldest = next(iter(self._strangers[group]))
        self._forget_stranger(oldest)
        oldest.abort()

    def _forget_stranger(self, connection: Connection) -> None:
        own = self._strangers[connection.group]
        own.pop(connection, None)
        if not own:
            del self._strangers[connection.group]


def group_of(address: str) -> str:
    """What is counted as one address: an IPv4 address, or the /64 of an IPv6 address, which one site has to itself.

    >>> group_of("2001:db8::1") == group_of("2001:db8::2"), group_of("::ffff:192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


class Http(H11Protocol):
    """uvicorn's HTTP/1.1, which by itself waits for a request's head as long as the peer likes."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state["connection"].transport = transport
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._head is None:
            self._wait_for_head()

    def handle_events(self) -> None:
        """As uvicorn's, which comes here anew for each request of a connection; 400 for one of two lengths."""
        if self.conn.their_state is h11.IDLE and _is_ambiguous(self.conn.trailing_data[0]):
            log.warning("refused a request from %s: its length is told twice", self.app_state["connection"].group)
            self.send_400_response("The length of the body is told twice.")
            return
        super().handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.app_state["places"].leave(self.app_state["connection"])
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(self.app_state["head_seconds"], self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def _is_ambiguous(received: bytes) -> bool:
    """Whether a request's head, as far as it has come, tells the length of its body more than once.

    Two programs in a row may then see two different requests (RFC 9112, section 6.3). h11 takes the chunks where a head
    has both, and keeps one of equal lengths, so it is looked for in the bytes. An honest node sends one Content-Length.

    >>> _is_ambiguous(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\n\\r\\nContent-Length: 1")
    False
    >>> _is_ambiguous(b"POST / HTTP/1.1\\r\\nContent-Length: 1\\r\\ntransfer-encoding: chunked\\r\\n")
    True
    """
    stated = _FRAMING.findall(_END_OF_HEAD.split(received, 1)[0])
    return len(stated) > 1 or any(b"," in value for value in stated)


class Front:
    """Accepts connections for a uvicorn server. It takes the place of asyncio's own server, which has no limits."""

    def __init__(
        self, server: uvicorn.Server, places: ConnectionPlaces, timing: Timing, renewed: RenewedFiles | None = None
    ) -> None:
        """renewed: the certificate's files, from which a new one is taken while the server runs."""
        self._server = server
        self._renewed = renewed
        self._places = places
        self._timing = timing
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def addresses(self) -> list[Any]:
        """Where it listens."""
        return [listener.getsockname() for listener in self._listeners]

    async def listen(self, host: str, port: int) -> None:
        """Begin to accept. Raises OSError."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)  # type: ignore[arg-type]
            listener.setblocking(False)
            self._listeners.append(listener)
            self._keep(self._accept(listener))

    def close(self) -> None:
        """As an asyncio server's: accept nobody any more."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            listener.close()

    async def wait_closed(self) -> None:
        """As an asyncio server's."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:  # out of descriptors, or a peer that was gone at once
                log.warning("a connection could not be accepted: %s", error.strerror)
                await asyncio.sleep(0.05)
                continue
            connection = Connection(address[0])
            connection.task = self._keep(self._greet(connection, accepted))
            connection.task.add_done_callback(lambda _, c=connection, s=accepted: self._greeted(c, s))
            self._places.enter(connection)

    def _greeted(self, connection: Connection, accepted: socket.socket) -> None:
        if connection.transport is None:  # it never came to HTTP, which would see to this itself
            self._places.leave(connection)
            accepted.close()

    async def _greet(self, connection: Connection, accepted: socket.socket) -> None:
        """Handshake, and from then on HTTP."""
        config, timing = self._server.config, self._timing
        if config.ssl and self._renewed is not None and self._renewed.look() is not None:
            config.ssl.load_cert_chain(self._renewed.files.certificate, self._renewed.files.key)
        tls = {"ssl_handshake_timeout": timing.handshake, "ssl_shutdown_timeout": timing.close} if config.ssl else {}
        state = {"connection": connection, "places": self._places, "head_seconds": timing.head}

        def http() -> asyncio.Protocol:
            return Http(config=config, server_state=self._server.server_state, app_state=state)

        with contextlib.suppress(OSError):  # silent, no TLS, no handshake in time, or gone again
            await _readable(accepted, timing.handshake)  # until then it costs a few kB, and no TLS state
            await asyncio.get_running_loop().connect_accepted_socket(http, accepted, ssl=config.ssl, **tls)


async def _readable(connected: socket.socket, seconds: float) -> None:
    """Wait until the peer has sent something, or is gone. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connected, ready.set)
    try:
        async with asyncio.timeout(seconds):
            await ready.wait()
    finally:
        loop.remove_reader(connected)


class FrontServer(uvicorn.Server):
    """A uvicorn server behind a `Front`."""

    def __init__(
        self,
        config: uvicorn.Config,
        places: ConnectionPlaces | None = None,
        timing: Timing = TIMING,
        renewed: RenewedFiles | None = None,
    ) -> None:
        super().__init__(config)
        self.places = places or ConnectionPlaces()
        self.front = Front(self, self.places, timing, renewed)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with another socket."""
        await self.lifespan.startup()
        try:
            await self.front.listen(self.config.host, self.config.port)
        except OSError as error:
            log.error("%s:%d: %s", self.config.host, self.config.port, (error.strerror or "").lower())
            await self.lifespan.shutdown()
            sys.exit(1)
        self.servers = [self.front]  # type: ignore[list-item]
        self.started = True


def tls_server(
    app: Any, host: str, port: int, files: TlsFiles, places: ConnectionPlaces | None = None, timing: Timing = TIMING
) -> FrontServer:
    """A server of an ASGI application over TLS: `run` it, or await `serve`.

    A certificate that is renewed in its file is shown from the next handshake on.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="asyncio",  # uvloop has no setting for TLS_BUFFER_BYTES
        http=Http,
        ws="none",
        ssl_certfile=str(files.certificate),
        ssl_keyfile=str(files.key),
        h11_max_incomplete_event_size=HEAD_BYTES,
        access_log=False,
        server_header=False,
    )
    return FrontServer(config, places, timing, RenewedFiles(files))
