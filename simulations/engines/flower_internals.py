"""Every use of Flower that is not public API: what an in-process Grid needs. Written for flwr 1.41.

Outside Flower's own processes nobody sets the identity that `Message` and `ClientApp` read, nor the ids by which
replies are matched.
"""

from __future__ import annotations

import uuid

from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

COORDINATOR_NODE = 1


def assume_identity(run_id: int, node_id: int) -> None:
    """Be that node of that run in this process, as Flower's launcher would set it."""
    TaskIdentity.run_id = run_id
    TaskIdentity.task_id = 1
    TaskIdentity.node_id = node_id


def assign_message_id(message: Message) -> str:
    """Give a message its id, as the SuperLink would."""
    message_id = uuid.uuid4().hex
    message.metadata.__dict__["_message_id"] = message_id
    return message_id
