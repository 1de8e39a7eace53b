"""What nodes reach: of Flower's fleet API, what a SuperNode with a listed key needs.

A request's head says path, length and who signed it: all are checked before any of the body is taken.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.fleet_pb2 import PushMessagesRequest
from google.protobuf.message import DecodeError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consilium.coordinator.deploy.superlink import called, pem_of
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import STANDING
from consilium.node.flower import fleet_scheme
from consilium.node.keys import public_key

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
    STANDING.removeprefix(PREFIX): 0,
}
"""All that a registered SuperNode calls and a node asks, and how much it may send. Neither self-registration nor
removal is among them."""
REFUSED_BYTES, REFUSED_SECONDS = 64 * 1024, 20.0
"""So much of a refused request is read and forgotten, so that an honest node with a wrong clock gets its answer; before
more than that the connection is closed."""
HEAD_BYTES = 16 * 1024
"""Of a request's line and headers: Flower's are below 2 kB."""
CLOSE = {"connection": "close"}
MOST_REQUESTS = 8
"""Of one node at once: they bound what the SuperLink, which holds whole bodies, can be made to hold. Flower pushes two
objects at once."""
REQUEST_SECONDS, STALL_SECONDS = 280.0, 20.0
"""For a request, from its head to the end of the answer: an object at a quarter of the slowest link that was tried
(1 Mbit/s). And without a byte of its body."""
log = logging.getLogger("consilium.gateway")


class NotLetIn(NamedTuple):
    """Why a request is not taken: in a word or two, and in words for whoever asked. status: of HTTP."""

    why: str
    words: str
    status: int = 401


class NodeKeys:
    """Which node a request comes from, by its headers alone: Flower's signed time, before any body is read. The
    SuperLink checks the same, but only after it has read the whole body. Raises EngineError : it is another Flower."""

    def __init__(self, file: ServedFederation) -> None:
        self._scheme = fleet_scheme()
        self._keys: dict[bytes, tuple[str, bool, ec.EllipticCurvePublicKey]] = {}  # by what a SuperNode sends
        former = {name: keys for name, keys in file.revoked.items() if keys.kind in ("party", "aggregator")}
        for nodes, revoked in ((former, True), (file.members, False)):
            for name, keys in nodes.items():
                if (key := public_key(keys.key)) is not None:
                    self._keys[pem_of(keys.key)] = (name if revoked else called(name, keys), revoked, key)

    def sender(self, headers: Mapping[str, str]) -> str | NotLetIn:
        """The node that signed these headers within Flower's window of time; or why nobody who may connect did. An
        unknown key costs a look-up; only for a key of the lists is a signature checked."""
        try:
            name, revoked, key = self._keys[b64decode(headers[self._scheme.key], validate=True)]
            signature = b64decode(headers[self._scheme.signature], validate=True)
            time = headers[self._scheme.moment]
            age = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
            key.verify(signature, time.encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, UnicodeError, binascii.Error, OverflowError, InvalidSignature):
            return NOT_KNOWN
        if revoked:
            return SHUT_OUT
        if not -self._scheme.ahead < age < self._scheme.behind:
            return NotLetIn(
                "wrong clock",
                f"this node's clock is {abs(age):.0f} s {'behind' if age > 0 else 'ahead of'} the coordinator's:"
                " nothing that it sends is taken. Set both by NTP (timedatectl set-ntp true)",
                503,  # to 401 a SuperNode ends; one whose clock is wrong goes on trying until it is set
            )
        return name


NOT_KNOWN = NotLetIn(
    "unknown",
    "unknown: the coordinator's federation lists no node with this key. Send NAME.enrol.json to the operator; if"
    " that was done, the coordinator has yet to join the newest folder",
)
SHUT_OUT = NotLetIn(
    "revoked",
    "revoked: the operator shut this node out. Talk to the operator; to take part again needs new keys and a new name",
)


class Gateway:
    """An ASGI application before the SuperLink's, for whom `keys` knows."""

    def __init__(self, superlink: ASGIApp, keys: NodeKeys) -> None:
        self._superlink, self._keys = superlink, keys
        self._turns = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(MOST_REQUESTS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._superlink(scope, receive, send)
        elif (answer := await self._checked(Request(scope, receive), send)) is not None:
            await answer(scope, receive, send)

    async def _checked(self, request: Request, send: Send) -> Response | None:
        """What is answered here; None where the SuperLink has answered."""
        path, length = request.scope["path"], _length(request)
        known = path.startswith(PREFIX) and request.method == "POST" and not request.scope["query_string"]
        most = ALLOWED.get(path.removeprefix(PREFIX)) if known else None
        if most is None:
            return await self._refuse(request, 403, "path")
        if length is None:
            return await self._refuse(request, 411, "no length")
        if length > most:
            return await self._refuse(request, 413, f"{length} bytes, at most {most}")
        sender = self._keys.sender(request.headers)
        if isinstance(sender, NotLetIn):
            return await self._refuse(request, sender.status, sender.why, sender.words)
        if path == STANDING:
            return Response("this node may connect", headers=CLOSE)
        try:
            async with asyncio.timeout(REQUEST_SECONDS), self._turns[sender]:
                return await self._pass_on(request, sender, send)
        except (TimeoutError, ClientDisconnect):
            log.warning("%s did not send or take all of %s in time", sender, path)
            return None  # the server breaks off what was begun

    async def _pass_on(self, request: Request, node: str, send: Send) -> Response | None:
        body = await _body(request)
        if request.scope["path"] == PREFIX + REPLY and not _replies(body):
            log.warning("%s sent what is no reply of its own", node)
            return Response("no reply of its own", 403, CLOSE)
        messages = iter(({"type": "http.request", "body": body, "more_body": False},))

        async def receive() -> Message:
            return next(messages, None) or await request.receive()  # then nothing comes until the node is gone

        await self._superlink(request.scope, receive, send)
        return None

    async def _refuse(self, request: Request, status: int, why: str, words: str = "") -> Response:
        """Answer without the body, and close. words: for whoever asked."""
        address = request.client.host if request.client else "?"
        log.warning("refused %r from %s: %s", request.url.path[:80], address, why)
        with contextlib.suppress(TimeoutError, ClientDisconnect):
            if (_length(request) or 0) <= REFUSED_BYTES:
                async with asyncio.timeout(REFUSED_SECONDS):
                    await request.body()
        if status == 401 and request.url.path == PREFIX + "activate-node":
            # as the SuperLink says it to a node that it does not know: the program says so, and ends
            return JSONResponse({"code": 2004, "detail": "Failed to activate SuperNode."}, 412, CLOSE)
        return Response(words or why, status, CLOSE)


async def _body(request: Request) -> bytes:
    """Raises TimeoutError: it stalls."""
    parts, stream = [], request.stream()
    while True:
        async with asyncio.timeout(STALL_SECONDS):
            if not (part := await anext(stream, b"")):
                return b"".join(parts)
        parts.append(part)


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
