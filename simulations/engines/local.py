"""Engine `local`: Flower's Grid over worker processes of this machine, without a server.

A party stays with one worker, which keeps it in memory. A worker gets all messages of an exchange that are for its
parties at once, and what these share once. A simulated party is the fold of the messages that it answered: where a
worker dies, another gets its parties' messages again, and goes on. A message that ends two workers is given up, and its
party is called crashed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from flwr.app import Context, Error, Message

from consilium.party.store import Store
from consilium.simulations.beside import Task
from consilium.simulations.engines.flower import (
    COORDINATOR_NODE,
    CRASHED,
    FIRST_NODE,
    RUN_ID,
    NodesGrid,
    answered,
    assign_message_id,
    assume_identity,
)
from consilium.simulations.engines.node_app import Node, app_of, index_of
from consilium.simulations.engines.process import Worker
from consilium.simulations.said import SaidRequest
from consilium.simulations.simulated import Population

POLL_SECONDS = 0.05
MOST_REPLIES = 64
"""That wait to be pulled: workers wait with more, rather than fill the memory while the coordinator is busy."""

Take = Callable[[Message], None]


class LocalGrid(NodesGrid):
    """The parties of a population on workers, node `FIRST_NODE` + i for the party i. Use as a context manager; workers
    that are busy when it is left are killed. The list of workers is the grid's to change: a dead one is replaced."""

    def __init__(self, population: Population, workers: list[Worker]) -> None:
        super().__init__(population.nodes)
        parts = [population.part(range(place, population.nodes, len(workers))) for place in range(len(workers))]
        self._pinned = [_Pinned(part, workers, place) for place, part in enumerate(parts)]
        self._replies: dict[str, Message] = {}
        self._changed = threading.Condition()
        self._closed = False

    def __enter__(self) -> LocalGrid:
        assume_identity(RUN_ID, COORDINATOR_NODE)
        for pinned in self._pinned:
            pinned.start(self._offer)
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for pinned in self._pinned:
            pinned.end()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """See flwr.serverapp.Grid."""
        batches: list[list[Message]] = [[] for _ in self._pinned]
        ids = []
        for message in messages:
            ids.append(assign_message_id(message))
            batches[(message.metadata.dst_node_id - FIRST_NODE) % len(batches)].append(message)
        for pinned, batch in zip(self._pinned, batches, strict=True):
            pinned.ask(batch)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See flwr.serverapp.Grid; waits a moment rather than return nothing at once, but not while there is a reply to
        anybody: whoever waits for thousands asks for some at a time, and would wait at each of the others."""
        wanted = set(message_ids)
        with self._changed:
            self._changed.wait_for(lambda: bool(self._replies), timeout=POLL_SECONDS)
            replies = [self._replies.pop(message_id) for message_id in wanted & self._replies.keys()]
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

    def _offer(self, reply: Message) -> None:
        """Put a reply where it can be pulled, once there is room."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._replies) < MOST_REPLIES or self._closed)
            self._replies[reply.metadata.reply_to_message_id] = reply
            self._changed.notify_all()


class _Pinned:
    """The parties of one worker, whichever process that is."""

    def __init__(self, part: Population, workers: list[Worker], place: int) -> None:
        self._part, self._workers, self._place = part, workers, place
        self._batches: SimpleQueue[list[Message] | None] = SimpleQueue()
        self._answered: list[Message] = []
        """In order: what the parties are the fold of."""
        self._lost: set[int] = set()
        """Nodes that cannot be made again, since what they answered before ends a process now."""
        self._lock = threading.Lock()
        self._busy = self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, offer: Take) -> None:
        """Give the worker its parties; replies are offered from now on, in a thread."""
        self._thread = threading.Thread(target=self._work, args=(offer,), daemon=True)
        self._thread.start()

    def ask(self, batch: list[Message]) -> None:
        """Hand messages over."""
        self._batches.put(batch)

    def end(self) -> None:
        """Wait until nobody touches the worker any more; one that is busy is killed."""
        with self._lock:
            self._closed = True
            if self._busy:
                self._workers[self._place].kill()  # ends the wait for its reply
        self._batches.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self, offer: Take) -> None:
        self._do(Task(settle, (self._part,)), _untold)
        suspect = ""
        while (batch := self._batches.get()) is not None:
            while batch and not self._closed:
                if batch[0].metadata.dst_node_id in self._lost:
                    offer(_crashed(batch.pop(0)))
                    continue
                done = self._hand(batch, offer)
                self._answered += [each for each in batch[:done] if each.metadata.message_type != SaidRequest.kind]
                batch = batch[done:]
                if not batch or self._closed:
                    continue
                if batch[0].metadata.message_id == suspect:
                    offer(_crashed(batch.pop(0)))
                else:
                    suspect = batch[0].metadata.message_id
                self._make_again()

    def _hand(self, messages: list[Message], take: Take) -> int:
        """How many were answered: all, unless the worker died."""
        done = 0

        def count(reply: Message) -> None:
            nonlocal done
            done += 1
            if done == len(messages):  # who leaves now need not kill it
                self._is_busy(False)
            take(reply)

        self._do(Task(answer, (messages,)), count)
        return done

    def _do(self, task: Task, take: Take) -> None:
        """Until the task, or the worker, has ended."""
        worker = self._workers[self._place]
        if self._is_busy(True) and worker.begin(task):
            while isinstance(told := worker.heard(), tuple):
                take(*told)
        self._is_busy(False)

    def _is_busy(self, busy: bool) -> bool:
        """Say so; whether it may be."""
        with self._lock:
            self._busy = busy
            return not self._closed

    def _make_again(self) -> None:
        """Another worker with these parties, as far as messages were answered."""
        while not self._closed:
            with self._lock:
                self._workers[self._place].stop()
                self._workers[self._place] = Worker()
            self._do(Task(settle, (self._part,)), _untold)
            done = self._hand(self._answered, _untold)
            if done == len(self._answered):
                return
            gone = self._answered[done].metadata.dst_node_id
            self._lost.add(gone)
            self._answered = [each for each in self._answered if each.metadata.dst_node_id != gone]


def _untold(reply: Message) -> None:
    """Nobody waits for it."""


def _crashed(message: Message) -> Message:
    return Message(Error(code=CRASHED, reason="worker process died"), reply_to=message)


class Held:
    """The nodes of one process, in memory."""

    def __init__(self, population: Population) -> None:
        self._population = population
        self._nodes: dict[int, Node] = {}

    @contextmanager
    def __call__(self, context: Context) -> Iterator[Node]:
        """See `node_app.Opened`."""
        index = index_of(context)
        if index not in self._nodes:
            known = index in self._population.parties
            self._nodes[index] = (
                self._population.party(index, Store.in_memory()) if known else self._population.second_aggregator()
            )
        yield self._nodes[index]


_held: list[Held] = []
"""Of this process, one at most."""


def settle(population: Population, tell: Callable[[Message], None]) -> None:
    """In a worker: be these parties from now on."""
    _held[:] = [Held(population)]


def answer(messages: list[Message], tell: Take) -> None:
    """In a worker: tell the reply to one message after the other."""
    (held,) = _held
    app = app_of(held)
    for message in messages:
        tell(answered(app, message))
