"""Plaintext votes of 250, 1,000 and 5,000 parties on 12,000 queries with 150 classes: what the coordinator needs.

A whole federation in one process on one thread: the coordinator is the real one, from the first hello to the released
labels, over the transport of deployments; of Flower only the network is not there. Parties answer at once and hold
nothing. Their replies are the bytes that Flower's nodes send, which the coordinator reads as Flower's grid does; making
them is not counted. What a federation costs to close (the exact charge at the votes at hand) hangs on queries and
classes alone, and is left out. The control collects as versions before did: matrices, all of them, then their sum.
CONSILIUM_SCALE_PARTIES (default "250 1000 5000") chooses the numbers of parties.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from benchmarks.cells import command_of
from benchmarks.scale.measured import Apart, answering, in_own_process, peak_mb
from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun, Student
from consilium.coordinator.mechanisms import GNMax
from consilium.protocol.choices import packed
from consilium.protocol.label_source import LabelSource
from consilium.protocol.messages import HelloReply, TrainReply, VoteReply, WireModel
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import BODY, decode_array, encode_array, to_record
from consilium.protocol.schema import Schema
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from docs.figures import figure
from tests.federation import make_config

QUERIES, CLASSES, FEATURES = 12_000, 150, 10
PARTIES = "250 1000 5000"
FEATURE_NAMES = tuple(f"f{index}" for index in range(FEATURES))
CLASS_NAMES = tuple(f"c{index:03d}" for index in range(CLASSES))


def said_by(node: int, queries: int = QUERIES, classes: int = CLASSES) -> np.ndarray:
    """Made-up votes int64 (1, queries) of a party's one teacher: three of four agree with the others."""
    generator = np.random.default_rng(node)
    common = np.arange(queries) % classes
    return np.where(generator.random(queries) < 0.75, common, generator.integers(classes, size=queries))[None]


class Parties:
    """Stands for the grid and all its nodes. bytes_up: of the largest reply to each kind of request."""

    def __init__(self, count: int, apart: Apart, queries: int = QUERIES, classes: int = CLASSES) -> None:
        self._count, self._apart, self._queries, self._classes = count, apart, queries, classes
        self._asked: dict[str, Message] = {}
        self.bytes_up: dict[str, int] = {}

    def get_node_ids(self) -> Iterable[int]:
        """See flwr.serverapp.Grid."""
        return range(2, self._count + 2)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """See flwr.serverapp.Grid."""
        sent = {assign_message_id(message): message for message in messages}
        self._asked |= sent
        return list(sent)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """See flwr.serverapp.Grid."""
        return [self._pulled(self._asked.pop(message_id)) for message_id in message_ids]

    def _pulled(self, asked: Message) -> Message:
        kind = asked.metadata.message_type
        with self._apart():
            reply = Message(to_record(self._reply(asked)), reply_to=asked)
            objects = {key: part.deflate() for key, part in get_all_nested_objects(reply).items()}
            self.bytes_up[kind] = max(self.bytes_up.get(kind, 0), sum(map(len, objects.values())))
            metadata = reply.metadata
        read = cast(Message, inflate_object_from_contents(reply.object_id, objects))
        read.metadata.__dict__.update(metadata.__dict__)
        return read

    def _reply(self, asked: Message) -> WireModel:
        node, fields = asked.metadata.dst_node_id, asked.content[BODY]
        party = f"party-{node:05d}"
        match asked.metadata.message_type:
            case "query.hello":
                return HelloReply(party=party, teachers=1)
            case "train.teacher":
                return TrainReply(party=party, teachers=1)
            case _:
                choices = packed(said_by(node, self._queries, self._classes), self._classes)
                return VoteReply(party=party, query_set=str(fields["query_set"]), choices=choices)


class Released(Exception):
    """The labels are there: nothing after this is measured."""


def federation(count: int, queries: int = QUERIES, classes: int = CLASSES, sigma: int = 0) -> dict[str, Any]:
    """A federation of `count` parties; processor seconds of its coordinator by stage, and its memory. sigma: of the
    noise; 0: a twentieth of the parties, whose promise takes the accountant more time and memory the more they are."""
    rows = canonical_queries(np.random.default_rng(0).normal(size=(queries, FEATURES)), FEATURES)
    config = make_config(
        rows=Schema.from_public_rows(FEATURE_NAMES, CLASS_NAMES[:classes], rows.astype(np.float64)),
        minimum_parties=count,
        mechanism=GNMax(sigma=sigma or count / 20),
        query_budget=QueryBudget(queries=queries, answers=queries),
    )
    assume_identity(1, 1)
    apart = Apart()
    parties, before = Parties(count, apart, queries, classes), peak_mb()
    at = {"start": apart.own()}

    def listen(event: dict[str, Any]) -> None:
        at.setdefault(event["event"], apart.own())

    def student(source: LabelSource) -> None:
        at["asks"] = apart.own()
        source.ask(rows)
        at["released"] = apart.own()
        raise Released

    with tempfile.TemporaryDirectory() as folder:
        log = EventLog(Path(folder) / "events.jsonl", listen)
        with contextlib.suppress(Released):
            FederationRun(FlowerTransport(cast(Any, parties)), config, Path(folder), log, Student(student, None)).run()
        log.close()
    return {
        "before": before,
        "memory": peak_mb(),
        "votes": at["voted"] - at["asks"],
        "all": at["released"] - at["start"],
        "up": parties.bytes_up["query.vote"],
    }


def traced(count: int, queries: int, classes: int, sigma: int) -> dict[str, Any]:
    """Bytes at the peak of the same federation, beyond what the program takes before it starts."""
    tracemalloc.start()
    federation(count, queries, classes, sigma)
    return {"memory": tracemalloc.get_traced_memory()[1]}


def matrices(count: int) -> dict[str, Any]:
    """The control: replies with matrices, all of them pulled, then read and checked, then summed."""
    apart = Apart()
    before, start = peak_mb(), apart.own()
    arrays = []
    for node in range(2, count + 2):
        with apart():
            votes = np.zeros((QUERIES, CLASSES), dtype=np.uint16)
            votes[np.arange(QUERIES), said_by(node)[0]] = 1
            arrays.append(encode_array(votes))
    size = len(arrays[0].data)
    counted = {node: decode_array(array) for node, array in enumerate(arrays)}
    for votes in counted.values():
        if (votes.astype(np.int64).sum(axis=1) != 1).any():
            raise SystemExit("a vote is none")
    total = np.zeros((QUERIES, CLASSES), dtype=np.int64)
    for votes in counted.values():
        total += votes
    return {"before": before, "memory": peak_mb(), "votes": apart.own() - start, "up": size}


COLUMNS = ("parties", "memory", "of it before the federation", "votes", "ms a party", "all until labels", "up")


def rows() -> Iterator[list[str]]:
    """A federation for each number of parties, and the control for the smallest, each in a process of its own."""
    counts = [int(each) for each in os.environ.get("CONSILIUM_SCALE_PARTIES", PARTIES).split()]
    for count in counts:
        yield _row(f"{count:,}", count, in_own_process(__spec__.name, "federation", count))
    control = in_own_process(__spec__.name, "matrices", counts[0])
    yield _row(f"{counts[0]:,}, matrices (control)", counts[0], control)


def _row(name: str, count: int, found: dict[str, Any]) -> list[str]:
    return [
        name,
        f"{found['memory']:,.0f} MB",
        f"{found['before']:,.0f} MB",
        f"{found['votes']:.2f} s",
        f"{1000 * found['votes'] / count:.2f}",
        f"{found['all']:.1f} s" if "all" in found else "",
        f"{found['up'] / 1000:,.1f} kB",
    ]


def main() -> None:
    """Print the table."""
    command = command_of("benchmarks.scale.clear", variables=["CONSILIUM_SCALE_PARTIES"])
    with figure("results/thousands-clear", command, COLUMNS, split="made-up votes", timings=COLUMNS[1:6]) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    answering({"federation": federation, "traced": traced, "matrices": matrices}) if len(sys.argv) > 1 else main()
