"""The Transport over Flower's Grid: the only place of the coordinator that sends Flower messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from consilium.coordinator.collection.exchange import Failure
from consilium.protocol.parties.messages import WireModel
from consilium.protocol.parties.records import to_record

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
# Flower's ErrorCode, in words; the reason text that comes with it may quote a party's exception and is not used.
MEANINGS = {
    1: "could not load the app",
    2: "raised an exception",
    3: "did not fetch the request in time",
    4: "answered, but its answer was lost",
    5: "is not connected",
    8: "crashed",
}


class FlowerTransport:
    """Pushes one message to each node and pulls replies until all are there or the time is up.

    Exchanges of several threads may go on at once: each call of the grid is made by itself.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._lock = threading.Lock()

    def nodes(self) -> list[int]:
        """See `Transport.nodes`."""
        with self._lock:
            return sorted(self._grid.get_node_ids())

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> dict[int, RecordDict | Failure]:
        """See `Transport.exchange`."""
        shared: dict[int, RecordDict] = {}  # most stages send one object to all: encode it once
        messages = []
        for node, request in requests.items():
            if id(request) not in shared:
                shared[id(request)] = to_record(request)
            content = shared[id(request)]
            messages.append(Message(content, dst_node_id=node, message_type=request.kind, group_id="0", ttl=timeout))
        deadline = time.monotonic() + timeout
        waiting: dict[str, int] = {}
        result: dict[int, RecordDict | Failure] = {}
        with self._lock:
            sent = list(self._grid.push_messages(messages))
        for message, message_id in zip(messages, sent, strict=False):
            if message_id:
                waiting[message_id] = message.metadata.dst_node_id
        pause = SHORTEST_PAUSE
        while waiting and time.monotonic() < deadline:
            started = time.monotonic()
            with self._lock:
                replies = list(self._grid.pull_messages(list(waiting)))
            for reply in replies:
                # errors made by the SuperLink have its own source id: only the id of the request tells the node
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is None:
                    continue
                if reply.has_error():
                    result[node] = Failure(f"node {MEANINGS.get(reply.error.code, f'error {reply.error.code}')}")
                else:
                    result[node] = reply.content
            if replies:
                on_reply(len(result), len(requests))
                pause = SHORTEST_PAUSE
            elif waiting:
                now = time.monotonic()  # a grid that waits for replies itself has paused already
                time.sleep(max(0.0, min(pause - (now - started), deadline - now)))
                pause = min(2 * pause, LONGEST_PAUSE)
        for node in requests:
            result.setdefault(node, Failure(f"no answer within {timeout:g} s"))
        return result
