"""Blocks of parties on Flower: one message asks many parties of a simulation, one answers for them.

At the coordinator a `BlockTransport` shows each party as a node of its own. At a node the ClientApp hands each request
to each party of its block, whose answers travel together: Flower carries as many messages as there are blocks, and a
request is encoded, decoded and checked once. A node without a block, as that of the second aggregator, is asked as any.

A node that dies takes the answers of a whole block with it, and nothing that was given, since it is written down once
all have answered. So each party of that block is asked again by itself, and only the one at fault is left out. A party
that never ends is not told from the others of its block: all of them are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from consilium import node_app
from consilium.coordinator.collection.exchange import Failure, FlowerTransport, encoded, no_answer
from consilium.coordinator.server_app import serve
from consilium.node.answering import home_folder, refusal_for, thread_pools
from consilium.party.client_app import ANSWERS, log, party
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_to_record
from consilium.simulations.engines.block import QUERY_BLOCK, SETTINGS, TRAIN_BLOCK, Block
from consilium.simulations.engines.flower import COORDINATOR_NODE

MEMBERS = "query.members"
BLOCK = "block"
"""Record with the kind of the requests, the places of the parties that are asked, and which request is whose."""
MEET_SECONDS = 120.0
ALONE = 10**9
MODELS = {model.kind: model for model in ANSWERS}


def joined(records: Mapping[str, RecordDict]) -> dict[str, Any]:
    """Records in one, each under its prefix."""
    return {f"{prefix}/{name}": part for prefix, record in records.items() for name, part in record.items()}


def parted(record: RecordDict) -> dict[str, RecordDict]:
    """The inverse of `joined`, without what has no prefix."""
    parts: dict[str, RecordDict] = {}
    for name, part in record.items():
        prefix, slash, inner = name.partition("/")
        if slash:
            parts.setdefault(prefix, RecordDict())[inner] = part
    return parts


@dataclass(frozen=True)
class BlockRequest:
    """The same or different requests to some parties of a block, all of one kind. places: of the parties. numbers: of
    the request to each of them, among `requests`."""

    asked: str
    places: tuple[int, ...]
    numbers: tuple[int, ...]
    requests: tuple[RecordDict, ...]

    @property
    def kind(self) -> str:
        """As Flower calls the message; that of training by itself, since only then a node reads rows."""
        return TRAIN_BLOCK if self.asked.startswith("train.") else QUERY_BLOCK

    def record(self) -> RecordDict:
        """As it travels."""
        table = ConfigRecord({"kind": self.asked, "places": list(self.places), "numbers": list(self.numbers)})
        return RecordDict({BLOCK: table, **joined({str(n): record for n, record in enumerate(self.requests)})})

    @classmethod
    def of_record(cls, record: RecordDict) -> BlockRequest:
        """What travelled: from the coordinator of this very run."""
        table: dict[str, Any] = dict(record.config_records[BLOCK])
        parts = parted(record)
        requests = tuple(parts[str(number)] for number in range(len(parts)))
        return cls(table["kind"], tuple(table["places"]), tuple(table["numbers"]), requests)


def answer(message: Message, context: Context) -> Message:
    """The answers of the parties that are asked, by place; what was given is written down first."""
    asked = BlockRequest.of_record(message.content)
    model = MODELS[asked.asked]
    try:
        requests = [_fixed(from_record(record, model)) for record in asked.requests]
        with thread_pools().limit(limits=1), Block.alone(home_folder(context)) as block:
            replies = _answers(block, asked, requests)
            block.save()
    except Exception as error:
        refusal = refusal_to_record(refusal_for(model.kind, error, log, "block"))
        replies = dict.fromkeys(asked.places, refusal)
    return Message(RecordDict(joined({str(place): reply for place, reply in replies.items()})), reply_to=message)


def _fixed(request: WireModel) -> WireModel:
    """The same, whose arrays nobody can write to: it is given to one party after the other."""
    for value in vars(request).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return request


def _answers(block: Block, asked: BlockRequest, requests: list[WireModel]) -> dict[int, RecordDict]:
    return {
        place: party.reply(block.node(place), requests[number])
        for place, number in zip(asked.places, asked.numbers, strict=True)
    }


def members(message: Message, context: Context) -> Message:
    """Which parties the node answers for; none where it is a node without a block."""
    first, count = 0, 0
    if _has_block(context):
        settings = Block.open(home_folder(context)).settings
        first, count = settings.first, len(settings.names)
    return Message(RecordDict({BLOCK: ConfigRecord({"first": first, "count": count})}), reply_to=message)


def _has_block(context: Context) -> bool:
    try:
        return (home_folder(context) / SETTINGS).exists()
    except ConfigError:
        return False


class BlockApp(ClientApp):
    """A node's app: of a block, or of the node that is there instead."""

    HANDLERS: Mapping[str, Callable[[Message, Context], Message]] = {
        QUERY_BLOCK: answer,
        TRAIN_BLOCK: answer,
        MEMBERS: members,
    }

    def __call__(self, message: Message, context: Context) -> Message:
        """See flwr.clientapp.ClientApp."""
        return self.HANDLERS.get(message.metadata.message_type, node_app.app)(message, context)


app = BlockApp()
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """See `coordinator.server_app`; the parties are in blocks."""
    serve(BlockTransport(FlowerTransport(grid)), context)


class BlockTransport:
    """See `Transport`: of parties in blocks. A party has the number that it would have with a node of its own; nodes
    without a block have numbers from `ALONE` on."""

    def __init__(self, inner: FlowerTransport) -> None:
        self._inner = inner
        self._places: dict[int, tuple[int, int]] = {}
        """By a party's number: the node of its block, and its place there."""
        self._alone: dict[int, int] = {}
        """By its number: a node without a block."""

    def nodes(self) -> list[int]:
        """See `Transport`."""
        there = self._inner.nodes()
        known = {*self._alone.values(), *(node for node, _ in self._places.values())}
        if new := [node for node in there if node not in known]:
            self._meet(new)
        connected = set(there)
        return sorted(
            [number for number, (node, _) in self._places.items() if node in connected]
            + [number for number, node in self._alone.items() if node in connected]
        )

    def _meet(self, nodes: list[int]) -> None:
        """Ask nodes which parties they answer for; one that does not answer is asked again the next time."""
        kinds, records = dict.fromkeys(nodes, MEMBERS), dict.fromkeys(nodes, RecordDict())
        for node, reply in sorted(self._inner.send(kinds, records, MEET_SECONDS, _untold), key=lambda item: item[0]):
            if isinstance(reply, Failure):
                continue
            table: dict[str, Any] = dict(reply.config_records[BLOCK])
            for place in range(table["count"]):
                self._places[COORDINATOR_NODE + 1 + table["first"] + place] = node, place
            if not table["count"]:
                self._alone[ALONE + len(self._alone)] = node

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        """See `Transport`."""
        deadline, done, records = time.monotonic() + timeout, 0, encoded(requests)
        asked: dict[int, list[int]] = {}
        for number in requests:
            asked.setdefault(self._node(number), []).append(number)
        apart: dict[int, list[int]] = {}
        while asked:
            left = max(0.0, deadline - time.monotonic())
            kinds, sent = self._messages(asked, requests, records)
            for node, reply in self._inner.send(kinds, sent, left, _untold):
                if isinstance(reply, Failure) and reply == no_answer(left):
                    reply = no_answer(timeout)
                elif isinstance(reply, Failure) and len(asked[node]) > 1:
                    apart[node] = asked[node]  # its node died: each by itself
                    continue
                for number, answer in self._replies(asked[node], reply):
                    done += 1
                    on_reply(done, len(requests))
                    yield number, answer
            asked = {node: [numbers.pop(0)] for node, numbers in apart.items() if numbers}

    def _node(self, number: int) -> int:
        return self._places[number][0] if number in self._places else self._alone[number]

    def _messages(
        self, asked: Mapping[int, list[int]], requests: Mapping[int, WireModel], records: Mapping[int, RecordDict]
    ) -> tuple[dict[int, str], dict[int, RecordDict]]:
        """Kind and content of the message to each node."""
        kinds, sent = {}, {}
        for node, numbers in asked.items():
            kinds[node], sent[node] = requests[numbers[0]].kind, records[numbers[0]]
            if numbers[0] in self._places:
                different = {id(records[number]): records[number] for number in numbers}
                order = {key: index for index, key in enumerate(different)}
                request = BlockRequest(
                    kinds[node],
                    tuple(self._places[number][1] for number in numbers),
                    tuple(order[id(records[number])] for number in numbers),
                    tuple(different.values()),
                )
                kinds[node], sent[node] = request.kind, request.record()
        return kinds, sent

    def _replies(self, numbers: list[int], reply: RecordDict | Failure) -> Iterator[tuple[int, RecordDict | Failure]]:
        if isinstance(reply, Failure) or numbers[0] not in self._places:
            yield from ((number, reply) for number in numbers)
            return
        answers = parted(reply)
        for number in numbers:
            yield number, answers.pop(str(self._places[number][1]), RecordDict())


def _untold(done: int, total: int) -> None:
    """Nobody is told of blocks."""
