"""What nodes reach: of Flower's fleet API what a SuperNode with a listed key needs; and behind it Flower's SuperLink
in the coordinator's own process: its fleet API for the gateway, its nodes, and the one run.

A request's head says path, length and who signed it: all are checked before any of the body is taken.

Flower's program serves three APIs on one port, without login: whoever reaches it may submit, stop and list. Here only
the fleet API is ever called; the run calls Flower's handlers as functions, and no port is open behind the
gateway's. What a SuperLink knows is in memory, and nothing of it outlives the process: the ledger is the record. Nodes
and the run have the same numbers at every start (`number_of`): a SuperNode that is still connected
goes on, and needs no restart when the coordinator has one.

It rests on names inside Flower, which are asserted before anything starts.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
import os
import threading
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, NamedTuple

import tomli_w
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.serverapp import Grid
from google.protobuf.message import DecodeError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consilium.coordinator.served import ServedFederation
from consilium.node.checks import STANDING
from consilium.node.flower import fleet_scheme, require_flower
from consilium.node.keys import PublicKeys, public_key
from consilium.protocol.errors import ConfigError

STATE, MAIN = "flwr.server.superlink.linkstate.in_memory_linkstate", "flwr.superlink.main"
GRID, HANDLERS = "flwr.superlink.grid.http_grid", "flwr.superlink.servicer.runtime.runtime_handlers"
IDENTITY = "flwr.supercore.task_identity"
DRAW = "generate_rand_int_from_bytes"
CALLS = {
    "GetNodes": "get_nodes",
    "PushMessages": "push_messages",
    "PullMessages": "pull_messages",
    "PushObject": "push_object",
    "PullObject": "pull_object",
    "ConfirmMessageReceived": "confirm_message_received",
}
"""What a grid calls of the Runtime API, and Flower's handler of it."""
NAMES = {
    STATE: (DRAW, "InMemoryLinkState.create_node", "InMemoryLinkState.create_run"),
    MAIN: ("create_app",),
    GRID: ("HttpGrid.set_run", "HttpGrid._runtime_client"),
    HANDLERS: tuple(CALLS.values()),
    IDENTITY: ("TaskIdentity",),
    "flwr.cli.build": ("build_fab_from_files",),
    "flwr.common.constant": ("HEARTBEAT_DEFAULT_INTERVAL", "NOOP_ACCOUNT_NAME", "NOOP_FLWR_AID"),
    "flwr.supercore.constant": ("NOOP_FEDERATION_ID", "TaskType.SERVER_APP"),
    "flwr.supercore.fab": ("Fab",),
}
"""Names that are not Flower's public API, and are used here."""
CHANGES = ("FLWR_DATABASE", "FLWR_ENABLE_EVENT_LOG", "FLWR_OIDC_ENABLED")
"""Variables by which Flower would keep another state, or another log, than the one in memory."""
BEAT_SECONDS = 10.0
"""Between two signs of life of the run: Flower takes a run for dead after 60 s without one."""


def number_of(text: str) -> int:
    """The number of a node, by its public key, and of a run, by the federation: the same at every start."""
    return int.from_bytes(sha256(text.encode()).digest()[:8]) | 2  # 0 and 1 are Flower's own


def pem_of(key: str) -> bytes:
    """A node's key, an OpenSSH line, as a SuperNode sends it."""
    return load_ssh_public_key(key.encode()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class SuperLink:
    """Flower's own, on memory. app: its ASGI application, of which the gateway lets the fleet API through."""

    def __init__(self, members: Mapping[str, PublicKeys]) -> None:
        """members: nodes that may connect, by name. Raises EngineError: another Flower. ConfigError: the environment
        changes how it remembers."""
        require_flower(NAMES)
        if changed := [name for name in CHANGES if name in os.environ]:
            raise ConfigError(f"{changed[0]} is set in the environment", "Unset it: nothing of Flower's is kept here")
        self.app = import_module(MAIN).create_app()
        self.app.state.enable_supernode_auth = True
        self._state = self.app.state.linkstate_factory.state()
        self._constants: Any = import_module("flwr.common.constant")
        known = self._constants
        for name, keys in members.items():
            with _numbered(number_of(keys.key)):
                self._state.create_node(
                    known.NOOP_FLWR_AID, known.NOOP_ACCOUNT_NAME, pem_of(keys.key), known.HEARTBEAT_DEFAULT_INTERVAL,
                    name=name,
                )  # fmt: skip

    def begin(self, name: str) -> tuple[Grid, int]:
        """Begin the one run, as if it had been submitted and its ServerApp been started: the grid that that is called
        with, and the run's number, which is made from `name`."""
        state, core = self._state, import_module("flwr.supercore.constant")
        bundle = _bundle()
        fab = import_module("flwr.supercore.fab").Fab(sha256(bundle).hexdigest(), bundle, {})
        state.store_fab(fab)
        with _numbered(number_of(name)):
            run_id = state.create_run(
                "consilium/consilium-flower", version("flwr"), fab.hash_str, {}, core.NOOP_FEDERATION_ID, None,
                self._constants.NOOP_FLWR_AID, core.TaskType.SERVER_APP,
            )  # fmt: skip
        (run,) = state.get_run_info(run_ids=[run_id])
        state.claim_task(run.primary_task_id)
        state.activate_task(run.primary_task_id)
        (task,) = state.get_tasks(task_ids=[run.primary_task_id])
        threading.Thread(target=self._beat, args=(run.primary_task_id,), name="heartbeat", daemon=True).start()
        handlers = import_module(HANDLERS)
        grid = import_module(GRID).HttpGrid(token="none: its calls do not leave the process")
        grid._client = SimpleNamespace(
            **{call: partial(getattr(handlers, of), state=state, task=task) for call, of in CALLS.items()}
        )
        grid.set_run(run)
        identity: Any = import_module(IDENTITY).TaskIdentity
        identity.run_id, identity.task_id, identity.node_id = run_id, task.task_id, grid.node.node_id
        return grid, run_id

    def _beat(self, task_id: int) -> None:
        while self._state.acknowledge_task_heartbeat(task_id):
            threading.Event().wait(BEAT_SECONDS)


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """What Flower creates meanwhile has this number, and not one at random."""
    module: Any = import_module(STATE)
    draw = vars(module)[DRAW]
    setattr(module, DRAW, lambda *_, **__: number)
    try:
        yield
    finally:
        setattr(module, DRAW, draw)


def _bundle() -> bytes:
    """A bundle without code, since Flower asks for one. Nodes do not open it: they run what is installed there."""
    project = {"name": "consilium-flower", "version": version("flwr"), "license": "Apache-2.0", "dependencies": []}
    components = {"serverapp": "consilium_flower:app", "clientapp": "consilium_flower:app"}
    app = {"publisher": "consilium", "components": components, "config": {}}
    files = {
        "pyproject.toml": tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}}).encode(),
        "consilium_flower/__init__.py": b"app = None\n",
    }
    content, _ = import_module("flwr.cli.build").build_fab_from_files(files)
    return content


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
                    self._keys[pem_of(keys.key)] = (name, revoked, key)

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
        begun = set[str]()
        try:
            async with asyncio.timeout(REQUEST_SECONDS), self._turns[sender]:
                return await self._pass_on(request, sender, lambda part: begun.add(part["type"]) or send(part))
        except (TimeoutError, ClientDisconnect):
            log.warning("%s did not send or take all of %s in time", sender, path)
            return None if begun else Response("not in time", 408, CLOSE)  # the server breaks off what was begun

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
    message it is: as the run's, a message would be another node's to answer."""
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
