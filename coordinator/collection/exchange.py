"""One exchange with the parties: a request to each, a checked answer or a named failure from each; and the transport
over Flower's Grid, the only place of the coordinator that sends Flower messages."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from flwr.app import Array, Message, RecordDict
from flwr.serverapp import Grid

from consilium.coordinator.events import EventLog, is_step
from consilium.protocol.errors import MalformedMessage, NotEnoughParties
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_from_record, to_record
from consilium.protocol.refusals import CURES, FOR_DATA, Refusal, Rule
from consilium.report.words import many

Reply = TypeVar("Reply", bound=WireModel)
Tell = Callable[[int, int], None]
"""Gets how many of how many nodes are done with: `Steps`; none of what is done beside a stage that the run is in."""


@dataclass(frozen=True)
class Failure:
    """Why a node is left out of a stage. `reason` is the coordinator's own words, never text of the node. refusal: what
    it answered instead; None where it did not refuse. silent: it said nothing: it is busy, or away, and may answer the
    next time."""

    reason: str
    refusal: Refusal | None = None
    silent: bool = False

    @classmethod
    def of(cls, refusal: Refusal) -> Failure:
        """The node refused.

        >>> Failure.of(Refusal(rule=Rule.STORAGE)).reason
        'refused: storage'
        """
        return cls(f"refused: {refusal}", refusal)

    @property
    def rule(self) -> Rule | None:
        return None if self.refusal is None else self.refusal.rule

    @property
    def for_data(self) -> bool:
        return self.rule in FOR_DATA

    def cure(self, cures: Mapping[Rule, str] = CURES) -> str:
        """What to do about it; empty where nothing is known. cures: of the kind of node that refused."""
        return "" if self.rule is None else cures[self.rule]


def no_answer(seconds: float) -> Failure:
    """The time was up."""
    return Failure(f"no answer within {seconds:g} s", silent=True)


def no_node(fault: str = "is not connected") -> Failure:
    """The node cannot be reached."""
    return Failure(f"node {fault}", silent=True)


class Transport(Protocol):
    """How requests reach nodes. A reply that is missing when the time is up is a `Failure`."""

    def nodes(self) -> list[int]:
        """Ids of the nodes that are connected now."""
        ...

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        """Send, wait at most `timeout` seconds; each node's reply as it comes, those that are missing at the end. A
        reply is held by nobody once the next is asked for, and a bounded number of them is there before."""
        ...


class Replies(NamedTuple, Generic[Reply]):
    """Checked answers and failures, by node id."""

    answers: dict[int, Reply]
    failures: dict[int, Failure]


def exchange(
    transport: Transport,
    requests: Mapping[int, WireModel],
    model: type[Reply],
    timeout: float,
    tell: Tell | None = None,
    most_bytes: int | None = None,
) -> Replies[Reply]:
    """Send the requests, and all that comes back, as `stream` gives it."""
    replies: Replies[Reply] = Replies({}, {})
    for node, reply in stream(transport, requests, model, timeout, tell, most_bytes):
        if isinstance(reply, Failure):
            replies.failures[node] = reply
        else:
            replies.answers[node] = reply
    return replies


def stream(
    transport: Transport,
    requests: Mapping[int, WireModel],
    model: type[Reply],
    timeout: float,
    tell: Tell | None = None,
    most_bytes: int | None = None,
) -> Iterator[tuple[int, Reply | Failure]]:
    """Send the requests and parse what comes back, one after the other as it comes; nothing that a party sends can
    raise here. most_bytes: in an answer's arrays; those of more are not looked into."""
    for done, (node, record) in enumerate(transport.exchange(requests, timeout), 1):
        if tell is not None:
            tell(done, len(requests))
        if isinstance(record, Failure):
            yield node, record
            continue
        try:
            refusal = refusal_from_record(record)
            reply = from_record(record, model, most_bytes) if refusal is None else Failure.of(refusal)
        except MalformedMessage as error:
            reply = Failure(f"malformed answer: {error.what}")
        del record  # nobody else holds it
        yield node, reply


@dataclass(frozen=True)
class Member:
    """A party that serves: its node, its name, and its number of teachers, each of which gives a vote to each query."""

    node: int
    party: str
    teachers: int


class Steps:
    """Tells of a stage: its beginning, and its steps."""

    def __init__(self, log: EventLog, stage: str, total: int) -> None:
        self._log, self._stage = log, stage
        log.write("stage", stage=stage, total=total)

    def __call__(self, done: int, total: int) -> None:
        if is_step(done, total):
            self._log.write("progress", stage=self._stage, done=done, total=total)


def tell_left_out(log: EventLog, stage: str, failures: Mapping[str, Failure]) -> None:
    """Write one event for each party that is left out: its name, and why."""
    for party, failure in sorted(failures.items()):
        log.write("left-out", stage=stage, party=party, reason=failure.reason, rule=failure.rule, silent=failure.silent)


def require(members: int, minimum: int, stage: str, failures: Mapping[str, Failure]) -> None:
    """Raise NotEnoughParties if fewer than `minimum` are left; the reasons are counted, most frequent first. What to do
    about the first for which something is known is said too."""
    if members >= minimum:
        return
    reasons = Counter(failure.reason for failure in failures.values())
    cure = next(filter(None, (failure.cure() for failure in failures.values())), "")
    counted = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
    raise NotEnoughParties(
        f"{many(members, 'party')} after stage {stage!r}, at least {minimum} are required"
        + (f" ({counted})" if counted else ""),
        f"{f'{cure}. ' if cure else ''}See events.jsonl for each party's reason, or lower federation.minimum_parties",
    )


SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
AT_ONCE = 64
"""Most replies that are pulled together: a grid gives all that it has of those that it is asked for."""
# Flower's ErrorCode, in words; the reason text that comes with it may quote a party's exception and is not used.
MEANINGS = {
    0: "ended, nobody knows why",
    1: "could not load the app",
    2: "raised an exception",
    3: "did not fetch the request in time",
    4: "answered, but its answer was lost",
    5: "is not connected",
    8: "crashed",
}


class FlowerTransport:
    """Pushes one message to each node and pulls replies until all are there or the time is up. Exchanges of several
    threads may go on at once: each call of the grid is made by itself. at_once: replies that are pulled together. 1
    where nodes are not trusted: Flower raises for a reply that is no message at all, and all that it was to give with
    it is lost."""

    def __init__(self, grid: Grid, at_once: int = AT_ONCE) -> None:
        self._grid, self._at_once = grid, at_once
        self._lock = threading.Lock()

    def nodes(self) -> list[int]:
        with self._lock:
            return sorted(self._grid.get_node_ids())

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        deadline = time.monotonic() + timeout
        waiting, missing = self._push(requests, timeout), set(requests)
        pause = SHORTEST_PAUSE
        while waiting and time.monotonic() < deadline:
            started, before = time.monotonic(), len(missing)
            for node, answer in self._pull(waiting, deadline):
                missing.discard(node)
                yield node, answer
            if len(missing) < before:
                pause = SHORTEST_PAUSE
            elif waiting:
                now = time.monotonic()  # a grid that waits for replies itself has paused already
                time.sleep(max(0.0, min(pause - (now - started), deadline - now)))
                pause = min(2 * pause, LONGEST_PAUSE)
        for node in sorted(missing):
            yield node, no_answer(timeout)

    def _push(self, requests: Mapping[int, WireModel], timeout: float) -> dict[str, int]:
        """Send the requests: node by the id of the message that was sent to it."""
        # most stages send one object to all, or one array, which is encoded once
        arrays: dict[int, Array] = {}
        records: dict[int, RecordDict] = {}
        for request in requests.values():
            if id(request) not in records:
                records[id(request)] = to_record(request, arrays)
        messages = [
            Message(records[id(request)], dst_node_id=node, message_type=request.kind, group_id="0", ttl=timeout)
            for node, request in requests.items()
        ]
        with self._lock:
            sent = list(self._grid.push_messages(messages))
        return {message_id: node for message_id, node in zip(sent, requests, strict=False) if message_id}

    def _pull(self, waiting: dict[str, int], deadline: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        """What is there by now; it is taken out of `waiting`. Nodes answer about in the order in which they were asked:
        where some did, others soon do, and those behind them are pulled later. So the work is linear in nodes."""
        start = 0
        while start < len(waiting) and time.monotonic() < deadline:
            before = len(waiting)
            asked = list(islice(waiting, start, start + self._at_once))
            try:
                with self._lock:
                    replies = list(self._grid.pull_messages(asked))
            except Exception:
                if len(asked) > 1:
                    raise
                yield waiting.pop(asked[0]), Failure("malformed answer: no message")
                continue
            while replies:
                reply = replies.pop()  # whoever gets it is the only one to hold it
                # errors made by the SuperLink have its own source id: only the id of the request tells the node
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    yield node, _content(reply)
            if len(waiting) == before:
                start += self._at_once


def _content(reply: Message) -> RecordDict | Failure:
    if reply.has_error():
        return no_node(MEANINGS.get(reply.error.code, f"error {reply.error.code}"))
    return reply.content
