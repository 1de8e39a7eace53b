"""Engine `local`: Flower's Grid over worker processes of this machine, without a server.

A party stays with one worker, which keeps it in memory. A worker gets all messages of an exchange that are for its
parties at once, and what these share once. A worker that dies ends the run: its parties' memory is gone with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from flwr.app import Context, Message

from consilium.party.store import Store
from consilium.protocol.errors import EngineError
from consilium.simulations.engines.flower import (
    COORDINATOR_NODE,
    FIRST_NODE,
    RUN_ID,
    Node,
    NodesGrid,
    answered,
    app_of,
    assign_message_id,
    assume_identity,
    index_of,
)
from consilium.simulations.engines.process import Finished, Worker
from consilium.simulations.simulated import Population

POLL_SECONDS = 0.05
MOST_REPLIES = 64
"""That wait to be pulled: workers wait with more, rather than fill the memory while the coordinator is busy."""


class LocalGrid(NodesGrid):
    """The parties of a population on workers, node `FIRST_NODE` + i for the party i. Use as a context manager; workers
    that are busy when it is left are ended. Raises EngineError: a worker died; whenever that is noticed, and at the
    latest where the grid is left."""

    def __init__(self, population: Population, workers: list[Worker]) -> None:
        super().__init__(population.nodes)
        self._workers, self._population = workers, population
        self._left: list[list[Message]] = [[] for _ in workers]  # to each worker's parties, not given to it yet
        self._busy: dict[Worker, int] = {}  # and how many replies of theirs are still to come
        self._replies: dict[str, Message] = {}
        self._died = False

    def __enter__(self) -> LocalGrid:
        assume_identity(RUN_ID, COORDINATOR_NODE)
        for place, worker in enumerate(self._workers):
            part = range(place, self._population.nodes, len(self._workers))
            self._begin(worker, 0, settle, self._population.part(part))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for worker in list(self._busy):
            worker.stop()
        if kind is None:
            self._check()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(assign_message_id(message))
            self._left[(message.metadata.dst_node_id - FIRST_NODE) % len(self._left)].append(message)
        for worker in self._workers:
            if worker not in self._busy:
                self._go_on(worker)
        self._check()
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See flwr.serverapp.Grid; waits a moment rather than return nothing at once, but not while there is a reply to
        anybody: whoever waits for thousands asks for some at a time, and would wait at each of the others."""
        seconds = 0.0 if self._replies else POLL_SECONDS
        while len(self._replies) < MOST_REPLIES and self._busy:
            busy: list[Any] = list(self._busy)
            ready: list[Any] = wait(busy, seconds)
            if not ready:
                break
            for worker in ready:
                self._hear(worker)
            seconds = 0.0
        self._check()
        return [self._replies.pop(message_id) for message_id in set(message_ids) & self._replies.keys()]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        waiting = set(self.push_messages(messages))
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        replies: list[Message] = []
        while waiting and time.monotonic() < deadline:
            for reply in self.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                replies.append(reply)
        return replies

    def _begin(self, worker: Worker, replies: int, function: Callable[..., None], content: Any) -> None:
        self._busy[worker] = replies  # before it begins: whoever is interrupted then has to end it
        if not worker.begin(function, content):
            del self._busy[worker]
            self._died = True

    def _go_on(self, worker: Worker) -> None:
        place = self._workers.index(worker)
        if batch := self._left[place]:
            self._left[place] = []
            self._begin(worker, len(batch), answer, batch)

    def _hear(self, worker: Worker) -> None:
        match worker.heard():
            case (reply,):
                self._replies[reply.metadata.reply_to_message_id] = reply
                self._busy[worker] -= 1
                if not self._busy[worker]:  # whoever leaves now need not end it
                    self._hear(worker)
            case Finished():
                del self._busy[worker]
                self._go_on(worker)
            case _:
                del self._busy[worker]
                self._died = True

    def _check(self) -> None:
        if self._died:
            raise EngineError(
                "a worker process died, and with it what its parties remembered",
                "Run again: with more memory, or without the teacher or student of your own that ends its process",
            )


_opened: list[tuple[Population, dict[int, Node]]] = []
"""The nodes of this process, in memory: of one population at most."""


def settle(population: Population, tell: Callable[[Message], None]) -> None:
    """In a worker: be these parties from now on."""
    _opened[:] = [(population, {})]


@contextmanager
def _held(context: Context) -> Iterator[Node]:
    """See `flower.Opened`."""
    ((population, nodes),), index = _opened, index_of(context)
    if index not in nodes:
        known = index in population.parties
        nodes[index] = population.party(index, Store.in_memory()) if known else population.second_aggregator()
    yield nodes[index]


_app = app_of(_held)


def answer(messages: list[Message], tell: Callable[[Message], None]) -> None:
    """In a worker: tell the reply to one message after the other."""
    for message in messages:
        tell(answered(_app, message))
