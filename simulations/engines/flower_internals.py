"""Every use of Flower that is not public API: what an in-process Grid needs. Written for flwr 1.41.

Outside Flower's own processes nobody sets the identity that `Message` and `ClientApp` read, nor the ids by which
replies are matched.
"""

from __future__ import annotations

import functools
import uuid
from importlib import import_module
from typing import Any

from flwr.app import Message

from consilium.node.flower import require_flower, unknown_flower

COORDINATOR_NODE = 1
IDENTITY = "flwr.supercore.task_identity"
NAMES = {IDENTITY: ("TaskIdentity", "TaskIdentity._run_id", "TaskIdentity._task_id", "TaskIdentity._node_id")}


@functools.cache
def _task_identity() -> Any:
    require_flower(NAMES)
    return import_module(IDENTITY).TaskIdentity


def assume_identity(run_id: int, node_id: int) -> None:
    """Be that node of that run in this process, as Flower's launcher would set it.

    Raises
    ------
    EngineError : this Flower keeps the identity elsewhere, or is another version.
    """
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
