"""What parties reach: TLS, and of the SuperLink only what a SuperNode with a registered key needs.

Flower 1.41 serves everything on one port: with it whoever can connect may also submit runs, register nodes and take the
ServerApp's work, since there is no account login. So the SuperLink listens on loopback only, and this passes on the
paths of registered nodes. A request's head says path, length and who signed it: all are checked before any of the body
is taken, and the body is passed on as it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from consilium.coordinator.deploy.status import standings
from consilium.coordinator.deploy.superlink import loopback_tls
from consilium.coordinator.rosters import NodeKeys
from consilium.coordinator.run_state import NOT_LISTED
from consilium.node import standing
from consilium.node.kit import Kit, open_kit
from consilium.node.standing import NodeStanding
from consilium.node.supervisor import end_with_parent
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import more_descriptors
from consilium.protocol.tls import TlsFiles

PREFIX = "/v1/fleet/"
MOST_OBJECT_BYTES = 32 * 1024 * 1024
"""Of an object. Flower cuts arrays into pieces of 5 MiB; what is no array, the keys and shares of a secure round, takes
about 1 kB for each other party."""
MOST_CALL_BYTES = 1024 * 1024
"""Of any other call: ids of objects, 64 bytes each, and numbers."""
ALLOWED = {
    "activate-node": MOST_CALL_BYTES,
    "deactivate-node": MOST_CALL_BYTES,
    "send-node-heartbeat": MOST_CALL_BYTES,
    "pull-messages": MOST_CALL_BYTES,
    "push-messages": MOST_CALL_BYTES,
    "get-run": MOST_CALL_BYTES,
    "get-fab": MOST_CALL_BYTES,
    "push-object": MOST_OBJECT_BYTES,
    "pull-object": MOST_CALL_BYTES,
    "confirm-message-received": MOST_CALL_BYTES,
}
"""All that a registered SuperNode calls, and how much it may send. Self-registration and removal are not among them."""
REFUSED_BYTES = 64 * 1024
"""So much of a refused request is read and forgotten, so that an honest node with a wrong clock gets its answer; before
more than that the connection is closed."""
DROPPED = frozenset({"host", "connection", "transfer-encoding", "content-length", "keep-alive", "upgrade", "expect"})
"""Headers of one connection, which do not travel on. The length of a body that is passed on is set anew."""

HEAD_BYTES = 16 * 1024
"""Of a request's line and headers: Flower's are below 2 kB."""

UNKNOWN = NodeStanding(state=standing.REVOKED, words=f"{standing.REVOKED}, {NOT_LISTED}")
log = logging.getLogger("consilium.gateway")


@dataclass(frozen=True)
class Quota:
    """What one registered node may have under way, and how slow it may be.

    requests, bytes: at once; bytes are those announced. They bound what the SuperLink, which holds whole bodies, can be
        made to hold. wait: seconds that a request waits for its turn.
    stall: seconds without a byte. rate: bytes a second over all of a body or an answer, beyond `stall` seconds:
        a quarter of the slowest link that was tried (1 Mbit/s).
    """

    requests: int = 8
    bytes: int = 2 * MOST_OBJECT_BYTES
    wait: float = 20
    stall: float = 20
    rate: float = 32_000

    def seconds(self, length: int) -> float:
        """For a body of that length."""
        return self.stall + length / self.rate


QUOTA = Quota()


FRESH_SECONDS = 2.0
"""So long the account of all nodes is given again: who asks faster costs no work."""

Value = TypeVar("Value")


class Lasting(Generic[Value]):
    """Made by `make` at most every `FRESH_SECONDS`, and by one thread at a time."""

    def __init__(self, make: Callable[[], Value], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def __call__(self) -> Value:
        with self._lock:
            now = self._clock()
            if self._made is None or now - self._made[0] >= FRESH_SECONDS:
                self._made = (now, self._make())
            return self._made[1]


class Slow(Exception):
    """A body that arrives more slowly than the quota allows, or ends too soon."""


class Gateway:
    """Passes the requests of nodes that `keys` knows on to the SuperLink at `internal` (host:port, TLS)."""

    def __init__(
        self,
        internal: str,
        authority: Path,
        keys: NodeKeys,
        quota: Quota = QUOTA,
        standings: Callable[[], Mapping[str, NodeStanding]] = dict,
    ) -> None:
        """standings: how each node stands, by its name."""
        self._client = httpx.AsyncClient(
            base_url=f"https://{internal}",
            verify=ssl.create_default_context(cafile=str(authority)),
            timeout=httpx.Timeout(120, connect=5),
            # each node has its own bound; with one for all of them a few could take the rest's connections
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            trust_env=False,  # a proxy of the environment has no business on loopback
        )
        self._keys = keys
        self._standings = standings
        self._quota = quota
        self._requests: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._turn = asyncio.Condition()

    def app(self) -> Starlette:
        """As an ASGI application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self._client.aclose()

        return Starlette(routes=[Route("/{path:path}", self.handle, methods=["POST"])], lifespan=lifespan)

    async def handle(self, request: Request) -> Response:
        """One request."""
        path = request.url.path
        if path == standing.PATH:
            return await self._tell_standing(request)
        most = ALLOWED.get(path.removeprefix(PREFIX)) if path.startswith(PREFIX) and not request.url.query else None
        length = _length(request)
        if most is None:
            return await self._refuse(request, 403, "path")
        if length is None:
            return await self._refuse(request, 411, "no length")
        if length > most:
            return await self._refuse(request, 413, f"{length} bytes, at most {most}")
        node = self._keys.name(request.headers)
        if node is None:
            return await self._refuse(request, 401, "no signature of a registered node")
        return await self._pass_on(request, node, length)

    async def _tell_standing(self, request: Request) -> Response:
        """How the node that asks stands, by the coordinator's one account; of whoever has no key here, that."""
        name, headers = self._keys.name(request.headers), {"connection": "close"}
        if name is None:
            return JSONResponse(UNKNOWN.model_dump(), 401, headers)
        try:
            said = (await asyncio.to_thread(self._standings)).get(name)
        except (ConsiliumError, OSError) as error:
            log.warning("how nodes stand cannot be read: %s", type(error).__name__)
            said = None
        if said is None:
            return Response(status_code=503, headers=headers)
        return JSONResponse(said.model_dump(), 200, headers)

    async def _refuse(self, request: Request, status: int, why: str) -> Response:
        """Answer without the body, and close."""
        address = request.client.host if request.client else "?"
        log.warning("refused %r from %s: %s", request.url.path[:80], address, why)
        with contextlib.suppress(Slow):
            if (_length(request) or 0) <= REFUSED_BYTES:
                async for _ in self._timed(request, _length(request) or 0):
                    pass
        headers = {"connection": "close"}
        if status == 401 and request.url.path == PREFIX + "activate-node":
            # as the SuperLink says it to a node that it does not know; to 401 a SuperNode ends without a word
            return JSONResponse({"code": 2004, "detail": "Failed to activate SuperNode."}, 412, headers)
        return Response(status_code=status, headers=headers)

    async def _pass_on(self, request: Request, node: str, length: int) -> Response:
        headers = [(name, value) for name, value in request.headers.raw if name.decode().lower() not in DROPPED]
        headers.append((b"content-length", str(length).encode()))
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._turn_of(node, length))
                body = self._timed(request, length)
                outward = self._client.build_request("POST", request.url.path, content=body, headers=headers)
                reply = await self._client.send(outward, stream=True)
                stack.push_async_callback(reply.aclose)
            except Slow:
                log.warning("%s did not send its %d bytes for %s in time", node, length, request.url.path)
                return Response(status_code=408, headers={"connection": "close"})
            except TimeoutError:
                log.warning("%s has too much under way", node)
                return Response(status_code=503, headers={"connection": "close"})
            except httpx.HTTPError as error:
                log.warning("the SuperLink does not answer: %s", type(error).__name__)
                return Response(status_code=503, headers={"connection": "close"})
            kept = {
                name: value
                for name, value in reply.headers.items()
                if name.lower() not in DROPPED - {"content-length"} | {"date", "server"}
            }
            seconds = self._quota.seconds(int(reply.headers.get("content-length", MOST_OBJECT_BYTES)))
            return RelayedReply(reply, kept, seconds, stack.pop_all().aclose)
        raise AssertionError  # the stack suppresses nothing

    async def _timed(self, request: Request, length: int) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises Slow."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._quota.seconds(length)
        parts = request.stream()
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + self._quota.stall)):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except (TimeoutError, ClientDisconnect):
                raise Slow from None
            if part:
                yield part

    @asynccontextmanager
    async def _turn_of(self, node: str, length: int) -> AsyncIterator[None]:
        """A node's turn, when it has room for one more request. Raises TimeoutError."""
        quota = self._quota

        def room() -> bool:
            return self._requests[node] < quota.requests and self._bytes[node] + length <= quota.bytes

        async with self._turn:
            async with asyncio.timeout(quota.wait):
                await self._turn.wait_for(room)
            self._requests[node] += 1
            self._bytes[node] += length
        try:
            yield
        finally:
            async with self._turn:
                self._requests[node] -= 1
                self._bytes[node] -= length
                self._turn.notify_all()


class RelayedReply(Response):
    """The SuperLink's answer, passed on as it arrives, to a node that takes it within `seconds`."""

    def __init__(
        self, reply: httpx.Response, headers: dict[str, str], seconds: float, done: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(status_code=reply.status_code, headers=headers)
        if "content-length" not in headers:
            del self.headers["content-length"]
        self._reply = reply
        self._seconds = seconds
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI. What is not taken in time is broken off: the server closes the connection."""
        try:
            async with asyncio.timeout(self._seconds):
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                async for part in self._reply.aiter_raw():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, httpx.HTTPError) as error:
            log.warning("an answer was not passed on to its end: %s", type(error).__name__)
        finally:
            await self._done()


def _length(request: Request) -> int | None:
    """Of the body, as announced; None where it is not, is announced in another way too, or is no number."""
    text = "" if "transfer-encoding" in request.headers else request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def tls_server(app: Starlette, host: str, port: int, files: TlsFiles) -> uvicorn.Server:
    """A server of an ASGI application over TLS."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http="h11",
            ws="none",
            ssl_certfile=str(files.certificate),
            ssl_keyfile=str(files.key),
            h11_max_incomplete_event_size=HEAD_BYTES,
            access_log=False,
            server_header=False,
        )
    )


def serve(kit: Kit) -> None:
    """Serve at the kit's public port until SIGTERM.

    Raises
    ------
    ConfigError : `nodes.json` cannot be read. EngineError : this Flower's nodes sign in another way.
    """
    more_descriptors()  # two for each request under way
    place = kit.coordinator
    keys, said = NodeKeys(kit / "nodes.json"), Lasting(lambda: standings(kit))
    app = Gateway(place.internal, loopback_tls(kit).authority, keys, standings=said).app()
    tls_server(app, place.listen, place.superlink_port, kit.server_tls).run()


if __name__ == "__main__":
    end_with_parent()
    try:
        serve(open_kit(Path(sys.argv[1]), "coordinator"))
    except ConsiliumError as failure:
        sys.exit(str(failure))
