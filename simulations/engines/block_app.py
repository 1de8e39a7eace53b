"""Blocks of parties on Flower, at a node: one message asks many parties of a simulation, one answers for them.

The ClientApp hands each request to each party of its block, whose answers travel together: Flower carries as many
messages as there are blocks, and a request is encoded, decoded and checked once. A node without a block, as that of the
second aggregator, is asked as any. What the coordinator does is in `block_server`, which no node imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from consilium import node_app
from consilium.node.answering import home_folder, refusal_for, thread_pools
from consilium.party.client_app import ANSWERS, log, party
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import WireModel
from consilium.protocol.records import from_record, refusal_to_record
from consilium.simulations.engines.block import QUERY_BLOCK, SETTINGS, TRAIN_BLOCK, Block

MEMBERS = "query.members"
BLOCK = "block"
"""Record with the kind of the requests, the places of the parties that are asked, and which request is whose."""
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
