"""An in-process Flower Grid: the same ClientApp, on worker processes of this machine, without a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from queue import SimpleQueue
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import ServerApp

from consilium.coordinator.server_app import app
from consilium.simulations.engines.flower import COORDINATOR_NODE, NodesGrid, assign_message_id, assume_identity
from consilium.simulations.engines.process import Worker

CLIENT_APP_CRASHED = 8
POLL_SECONDS = 0.05
MOST_REPLIES = 64
"""That wait to be pulled: workers wait with more, rather than fill the memory while the coordinator is busy."""


class LocalGrid(NodesGrid):
    """Routes messages to ClientApps on worker processes, one thread for each worker. Use as a context manager; workers
    that are busy when it is left are killed.

    The list of workers is the grid's to change: a party that does not answer within its message's time to live is
    killed with its worker, which is replaced.
    """

    def __init__(self, run_id: int, run_config: Mapping[str, Any], partitions: int, workers: list[Worker]) -> None:
        super().__init__(run_id, run_config, partitions)
        self._workers = workers
        self._waiting: SimpleQueue[Message | None] = SimpleQueue()
        self._replies: dict[str, tuple[Message, float]] = {}
        """Each with the time until which somebody may wait for it."""
        self._changed = threading.Condition()
        self._closed = False
        self._busy: set[int] = set()
        """Workers that have a message."""
        self._replacing = threading.Lock()
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(len(workers))]

    def __enter__(self) -> LocalGrid:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._replacing:
            self._closed = True
            for index in self._busy:
                self._workers[index].kill()  # ends the thread that waits for its reply
        with self._changed:
            self._changed.notify_all()
        for _thread in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()  # from here on nobody else touches a worker

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """See flwr.serverapp.Grid."""
        ids = []
        for message in messages:
            ids.append(assign_message_id(message))
            self._waiting.put(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See flwr.serverapp.Grid; waits a moment rather than return nothing at once, but not while there is a reply to
        anybody: whoever waits for thousands asks for some at a time, and would wait at each of the others."""
        wanted = set(message_ids)
        with self._changed:
            self._drop_stale()
            self._changed.wait_for(lambda: bool(self._replies), timeout=POLL_SECONDS)
            replies = [self._replies.pop(message_id)[0] for message_id in wanted & self._replies.keys()]
            self._changed.notify_all()
            return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See flwr.serverapp.Grid."""
        waiting = set(self.push_messages(messages))
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        replies: list[Message] = []
        while waiting and time.monotonic() < deadline:
            for reply in self.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
        return replies

    def _work(self, index: int) -> None:
        """Hand one message after the other to one worker, until the grid is closed."""
        while (message := self._waiting.get()) is not None and not self._closed:
            ends = message.metadata.created_at + message.metadata.ttl
            left = ends - time.time()
            if left <= 0:
                continue  # nobody waits for it any more
            context = self._contexts[message.metadata.dst_node_id]
            with self._replacing:
                if self._closed:
                    return
                self._busy.add(index)
            try:
                done = self._workers[index].handle(message, context, left)
            except (EOFError, OSError):
                self._replace(index)
                done = Message(Error(code=CLIENT_APP_CRASHED, reason="worker process died"), reply_to=message), None
            finally:
                with self._replacing:
                    self._busy.discard(index)
            if done is None:
                self._replace(index)
                continue
            reply, state = done
            if state is not None:
                context.state = state
            self._offer(message.metadata.message_id, reply, ends)

    def _offer(self, message_id: str, reply: Message, ends: float) -> None:
        """Put a reply where it can be pulled, once there is room; given up when nobody waits for it any more."""
        with self._changed:
            while len(self._replies) >= MOST_REPLIES and not self._closed:
                if time.time() >= ends:
                    return
                if not self._drop_stale():
                    self._changed.wait(timeout=POLL_SECONDS)
            self._replies[message_id] = reply, ends
            self._changed.notify_all()

    def _drop_stale(self) -> int:
        """Drop the replies that nobody waits for any more; how many they were. With the lock."""
        now = time.time()
        stale = [message_id for message_id, (_, until) in self._replies.items() if until <= now]
        for message_id in stale:
            del self._replies[message_id]
        return len(stale)

    def _replace(self, index: int) -> None:
        with self._replacing:
            self._workers[index].stop()
            if not self._closed:
                self._workers[index] = Worker()


RUN_ID = 1


def run_local(run_config: dict[str, str], grid: LocalGrid, app: ServerApp = app) -> None:
    """Run the ServerApp to its end on an open grid. Raises what the ServerApp raises."""
    assume_identity(RUN_ID, COORDINATOR_NODE)
    app(grid, Context(RUN_ID, COORDINATOR_NODE, {}, RecordDict(), dict(run_config)))
