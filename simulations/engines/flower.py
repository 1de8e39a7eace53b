"""Simulated nodes as Flower sees them: their Grid, and their ClientApp, the same on each engine. And what is used of
Flower and is not its public API, written for flwr 1.41: outside Flower's own processes nobody sets the identity that
`Message` and `ClientApp` read, nor the ids by which replies are matched.

The app has parties as `party.client_app` has them, made from a `Population`. It alone also answers what teachers say of
an analysis's rows; no app that is deployed does."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from consilium.aggregator.deployed import aggregator
from consilium.aggregator.node import AggregatorNode
from consilium.node.answering import AnsweringNode, refusal_for
from consilium.node.flower import require_flower, unknown_flower
from consilium.party.client_app import log, party
from consilium.party.node import PartyNode
from consilium.party.voting import Latest
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.simulations.said import SaidRequest, said_reply

RUN_ID = COORDINATOR_NODE = 1
FIRST_NODE = COORDINATOR_NODE + 1  # of the nodes that answer
RAISED = 2  # Flower's code for an app that raised
IDENTITY = "flwr.supercore.task_identity"
NAMES = {IDENTITY: ("TaskIdentity", "TaskIdentity._run_id", "TaskIdentity._task_id", "TaskIdentity._node_id")}


@functools.cache
def _task_identity() -> Any:
    require_flower(NAMES)
    return import_module(IDENTITY).TaskIdentity


def assume_identity(run_id: int, node_id: int) -> None:
    """Be that node of that run in this process, as Flower's launcher would set it. Raises EngineError: this Flower
    keeps the identity elsewhere, or is another version."""
    identity = _task_identity()
    identity.run_id = run_id
    identity.task_id = 1
    identity.node_id = node_id


def assign_message_id(message: Message) -> str:
    """Give a message its id, as the SuperLink would. Raises EngineError if this Flower keeps it elsewhere."""
    message_id = uuid.uuid4().hex
    message.metadata.__dict__["_message_id"] = message_id
    if message.metadata.message_id != message_id:
        raise unknown_flower("its messages keep their ids elsewhere")
    return message_id


class NodesGrid(Grid):
    """So many nodes, from `FIRST_NODE` on. A subclass says how they are asked."""

    def __init__(self, nodes: int) -> None:
        self._nodes = range(FIRST_NODE, FIRST_NODE + nodes)

    def set_run(self, run: object) -> None:
        """There is one."""

    @property
    def run(self) -> Any:
        raise NotImplementedError("nodes on this machine have no SuperLink run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._nodes


def answered(app: ClientApp, message: Message) -> Message:
    """What a node's app answers in this process; its context has the node's place as `partition-id`. The text of what
    it raises is not kept."""
    node = message.metadata.dst_node_id
    assume_identity(RUN_ID, node)
    context = Context(RUN_ID, node, {"partition-id": node - FIRST_NODE}, RecordDict(), {})
    try:
        return app(message, context)
    except Exception:
        return Message(Error(code=RAISED, reason="ClientApp raised"), reply_to=message)


Node = PartyNode | AggregatorNode
Opened = Callable[[Context], AbstractContextManager[Node]]
"""The node that the context is of, while the context manager is open."""

_decoded: Latest[tuple[int, type[WireModel]], tuple[RecordDict, WireModel]] = Latest()


def index_of(context: Context) -> int:
    """Of the party in its case, or one more than the last party's for a second aggregator."""
    return int(context.node_config["partition-id"])


def app_of(opened: Opened) -> ClientApp:
    """As Flower calls it."""
    app = ClientApp()
    for model in (*party.answers, *aggregator.answers, SaidRequest):
        category, _, action = model.kind.partition(".")
        {"query": app.query, "train": app.train}[category](action)(_handler(model, opened))
    return app


def _handler(model: type[WireModel], opened: Opened) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        content = message.content
        try:
            # decoded once for all parties that are sent the same: while it is kept, its place in memory is its name
            decoded = _decoded.get((id(content), model), lambda: (content, from_record(content, model)))
            with opened(context) as node:
                reply = _reply(node, decoded[1])
        except Exception as error:  # Flower would send the text of any exception to the coordinator
            reply = refusal_to_record(refusal_for(model.kind, error, log, "node"))
        return Message(reply, reply_to=message)

    return handle


def _reply(node: Node, request: WireModel) -> RecordDict:
    if isinstance(node, PartyNode) and isinstance(request, SaidRequest):
        return to_record(said_reply(node, request))
    kind: AnsweringNode[Any] = party if isinstance(node, PartyNode) else aggregator
    if type(request) not in kind.answers:
        return refusal_to_record(Refusal(rule=Rule.NODE_KIND))
    return kind.reply(node, request)
