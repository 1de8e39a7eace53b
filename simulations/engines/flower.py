"""What is used of Flower and is not its public API.

Written for flwr 1.41. Outside Flower's own processes nobody sets the identity that `Message` and `ClientApp` read, nor
the ids by which replies are matched."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from consilium.node.flower import require_flower, unknown_flower

RUN_ID = COORDINATOR_NODE = 1
FIRST_NODE = COORDINATOR_NODE + 1
"""Of the nodes that answer."""
RAISED = 2
"""Flower's code for an app that raised."""
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
        """Not needed: there is one run."""

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
