"""What nodes reach: of Flower's fleet API, what a SuperNode with a listed key needs, and how each node stands.

A request's head says path, length and who signed it: all are checked before any of the body is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flwr.proto.fleet_pb2 import PushMessagesRequest
from google.protobuf.message import DecodeError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consilium.coordinator.nodes import NodeKeys
from consilium.node import standing
from consilium.node.standing import NodeStanding
from consilium.protocol.errors import ConsiliumError

PREFIX = "/v1/fleet/"
MOST_OBJECT_BYTES = 8 * 1024 * 1024
"""Of an object. Flower cuts arrays into pieces of 5 MiB; what is no array, the keys and shares of a secure round, takes
about 1 kB for each other party."""
MOST_CALL_BYTES = 1024 * 1024
"""Of any other call: ids of objects, 64 bytes each, and numbers."""
REPLY = "push-messages"
ALLOWED = {
    **dict.fromkeys(("activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab"), MOST_CALL_BYTES),
    **dict.fromkeys(("pull-messages", REPLY, "confirm-message-received", "pull-object"), MOST_CALL_BYTES),
    "push-object": MOST_OBJECT_BYTES,
}
"""All that a registered SuperNode calls, and how much it may send. Self-registration and removal are not among them."""
REFUSED_BYTES = 64 * 1024
"""So much of a refused request is read and forgotten, so that an honest node with a wrong clock gets its answer; before
more than that the connection is closed."""
HEAD_BYTES = 16 * 1024
"""Of a request's line and headers: Flower's are below 2 kB."""
ANSWER_SECONDS = 120.0
"""That the SuperLink may take before it begins to answer."""
CLOSE = {"connection": "close"}
log = logging.getLogger("consilium.gateway")


@dataclass(frozen=True)
class Quota:
    """What one registered node may have under way, and how slow it may be.

    requests: at once. They bound what the SuperLink, which holds whole bodies, can be made to hold: 64 MiB. Flower
        pushes two objects at once. wait: seconds that a request waits for its turn.
    stall: seconds without a byte. rate: bytes a second over all of a body or an answer, beyond `stall` seconds:
        a quarter of the slowest link that was tried (1 Mbit/s).
    """

    requests: int = 8
    wait: float = 20
    stall: float = 20
    rate: float = 32_000

    def seconds(self, length: int) -> float:
        """For a body of that length."""
        return self.stall + length / self.rate


QUOTA = Quota()
FRESH_SECONDS = 2.0
"""So long the account of all nodes is given again: who asks faster costs no work."""


class Slow(Exception):
    """A body that arrives more slowly than the quota allows, or ends too soon."""


class Gateway:
    """An ASGI application before the SuperLink's, for whom `keys` knows. standings: how each node stands, by name."""

    def __init__(
        self,
        superlink: ASGIApp,
        keys: NodeKeys,
        standings: Callable[[], Mapping[str, NodeStanding]] = dict,
        quota: Quota = QUOTA,
    ) -> None:
        self._superlink, self._keys, self._quota = superlink, keys, quota
        self._standings, self._told, self._looking = standings, (-FRESH_SECONDS, {}), asyncio.Lock()
        self._turns = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(quota.requests))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI."""
        if scope["type"] != "http":
            await self._superlink(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await self._checked(request, send)
        if answer is not None:
            await answer(scope, receive, send)

    async def _checked(self, request: Request, send: Send) -> Response | None:
        """What is answered here; None where the SuperLink has answered."""
        path, length = request.scope["path"], _length(request)
        if path == standing.PATH and request.method == "POST":
            return await self._tell_standing(request)
        known = path.startswith(PREFIX) and request.method == "POST" and not request.scope["query_string"]
        most = ALLOWED.get(path.removeprefix(PREFIX)) if known else None
        if most is None:
            return await self._refuse(request, 403, "path")
        if length is None:
            return await self._refuse(request, 411, "no length")
        if length > most:
            return await self._refuse(request, 413, f"{length} bytes, at most {most}")
        sender = self._keys.sender(request.headers)
        if isinstance(sender, NodeStanding):
            # to 401 a SuperNode ends; one whose clock is wrong goes on trying until it is set
            status = 503 if sender.state == standing.CLOCK else 401
            return await self._refuse(request, status, sender.state, sender.words)
        return await self._pass_on(request, sender, length, send)

    async def _tell_standing(self, request: Request) -> Response:
        """How the node that asks stands, by the coordinator's one account; of whoever may not connect, why not."""
        sender = self._keys.sender(request.headers)
        if isinstance(sender, NodeStanding):
            return JSONResponse(sender.model_dump(), 401, CLOSE)
        async with self._looking:
            if time.monotonic() - self._told[0] >= FRESH_SECONDS:
                try:
                    self._told = time.monotonic(), await asyncio.to_thread(self._standings)
                except (ConsiliumError, OSError) as error:
                    log.warning("how nodes stand cannot be read: %s", error)
        said = self._told[1].get(sender)
        return Response(status_code=503, headers=CLOSE) if said is None else JSONResponse(said.model_dump(), 200, CLOSE)

    async def _refuse(self, request: Request, status: int, why: str, words: str = "") -> Response:
        """Answer without the body, and close. words: for whoever asked."""
        address = request.client.host if request.client else "?"
        log.warning("refused %r from %s: %s", request.url.path[:80], address, why)
        with contextlib.suppress(Slow):
            if (_length(request) or 0) <= REFUSED_BYTES:
                await self._body(request, _length(request) or 0)
        if status == 401 and request.url.path == PREFIX + "activate-node":
            # as the SuperLink says it to a node that it does not know: the program says so, and ends
            return JSONResponse({"code": 2004, "detail": "Failed to activate SuperNode."}, 412, CLOSE)
        return Response(words or why, status, CLOSE)

    async def _pass_on(self, request: Request, node: str, length: int, send: Send) -> Response | None:
        """When it is the node's turn."""
        try:
            async with asyncio.timeout(self._quota.wait):
                await self._turns[node].acquire()
        except TimeoutError:
            log.warning("%s has too much under way", node)
            return Response(status_code=503, headers=CLOSE)
        try:
            body = await self._body(request, length)
            if request.scope["path"] == PREFIX + REPLY and not _replies(body):
                log.warning("%s sent what is no reply of its own", node)
                return Response("no reply of its own", 403, CLOSE)
            await self._answered(request.scope, body, send)
            return None
        except Slow:
            log.warning("%s did not send its %d bytes for %s in time", node, length, request.url.path)
            return Response(status_code=408, headers=CLOSE)
        finally:
            self._turns[node].release()

    async def _answered(self, scope: Scope, body: bytes, send: Send) -> None:
        """The SuperLink's answer, to a node that takes it in time; else it is broken off, and the connection closed."""
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        messages = iter(({"type": "http.request", "body": body, "more_body": False},))

        async def receive() -> Message:
            if message := next(messages, None):
                return message
            await gone.wait()  # until the answer is given, nothing more comes
            return {"type": "http.disconnect"}

        try:
            async with asyncio.timeout(ANSWER_SECONDS) as bound:

                async def timed(message: Message) -> None:
                    if message["type"] == "http.response.start":
                        lengths = dict(message.get("headers", ()))
                        seconds = self._quota.seconds(int(lengths.get(b"content-length", MOST_OBJECT_BYTES)))
                        bound.reschedule(loop.time() + seconds)
                    await send(message)

                await self._superlink(scope, receive, timed)
        except TimeoutError:
            log.warning("an answer to %s was not taken to its end", scope["path"])
        finally:
            gone.set()

    async def _body(self, request: Request, length: int) -> bytes:
        """Raises Slow."""
        loop, parts, stream = asyncio.get_running_loop(), [], request.stream()
        deadline = loop.time() + self._quota.seconds(length)
        try:
            while True:
                async with asyncio.timeout_at(min(deadline, loop.time() + self._quota.stall)):
                    parts.append(await anext(stream))
        except StopAsyncIteration:
            return b"".join(parts)
        except (TimeoutError, ClientDisconnect):
            raise Slow from None


def _replies(body: bytes) -> bool:
    """Whether a node sends replies of its own alone. Flower checks that `node` is the one that signed, and not whose
    message it is: as the ServerApp's, a message would be another node's to answer."""
    try:
        request = PushMessagesRequest.FromString(body)
    except DecodeError:
        return False
    sent, node = [message.metadata for message in request.messages_list], request.node.node_id
    return all(each.src_node_id == node and each.reply_to_message_id for each in sent)


def _length(request: Request) -> int | None:
    """Of the body, as announced; None where it is not, is announced in another way too, or is no number."""
    text = "" if "transfer-encoding" in request.headers else request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
