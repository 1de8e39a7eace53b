"""A Flower Grid that calls a ClientApp in this very process, one node after the other: what small models need."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Error, Message
from flwr.clientapp import ClientApp

from consilium.simulations.engines.flower_internals import COORDINATOR_NODE, assign_message_id, assume_identity
from consilium.simulations.engines.nodes_grid import NodesGrid

RUN_ID = 1
CLIENT_APP_RAISED_EXCEPTION = 2
"""Flower's own code."""


class InProcessGrid(NodesGrid):
    """`parties` nodes, each with its `partition-id` in its node_config. Only `send_and_receive` is served.

    left_out: indices of the parties that answered with an error at least once, or whose app raised. Its text is not
    kept.
    """

    def __init__(self, app: ClientApp, parties: int) -> None:
        self._app = app
        super().__init__(RUN_ID, {}, parties)
        self.left_out: set[int] = set()
        assume_identity(RUN_ID, COORDINATOR_NODE)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not served: nobody would answer in between."""
        raise NotImplementedError("parties in this process answer at once: use send_and_receive")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not served, see `push_messages`."""
        raise NotImplementedError("parties in this process answer at once: use send_and_receive")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See flwr.serverapp.Grid; the answers come in the order of the messages, however long they take."""
        replies = [self._answer(message) for message in messages]
        assume_identity(RUN_ID, COORDINATOR_NODE)
        return replies

    def _answer(self, message: Message) -> Message:
        assign_message_id(message)
        node = message.metadata.dst_node_id
        assume_identity(RUN_ID, node)
        try:
            reply = self._app(message, self._contexts[node])
        except Exception:
            reply = Message(Error(code=CLIENT_APP_RAISED_EXCEPTION, reason="ClientApp raised"), reply_to=message)
        if reply.has_error():
            self.left_out.add(node - COORDINATOR_NODE - 1)
        return reply
