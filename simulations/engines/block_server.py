"""Blocks of parties on Flower, at the coordinator: a `BlockTransport` shows each party as a node of its own.

A node that dies takes the answers of a whole block with it, and nothing that was given, since it is written down once
all have answered. So each party of that block is asked again by itself, and only the one at fault is left out. A party
that never ends is not told from the others of its block: all of them are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from consilium.coordinator.collection.exchange import Failure, FlowerTransport, encoded, no_answer
from consilium.coordinator.parts import PATIENCE
from consilium.coordinator.server_app import serve
from consilium.protocol.errors import EngineError
from consilium.protocol.messages import WireModel
from consilium.simulations.engines.block_app import BLOCK, MEMBERS, BlockRequest, parted
from consilium.simulations.engines.flower import COORDINATOR_NODE

MEETINGS = 3
"""How often a node is asked which parties it answers for, where it dies of that."""
ALONE = 10**9
"""The first number of a node without a block; no federation has so many parties."""
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
        """Ask nodes which parties they answer for; the first message waits until a node's libraries are imported.

        Raises
        ------
        EngineError : of a node nobody knows it, whose parties would be missing without a word.
        """
        reasons: dict[int, str] = {}
        for _ in range(MEETINGS):
            kinds, records, reasons = dict.fromkeys(nodes, MEMBERS), dict.fromkeys(nodes, RecordDict()), {}
            for node, reply in sorted(self._inner.send(kinds, records, PATIENCE, _untold), key=lambda item: item[0]):
                if isinstance(reply, Failure):
                    reasons[node] = reply.reason
                    continue
                table: dict[str, Any] = dict(reply.config_records[BLOCK])
                for place in range(table["count"]):
                    self._places[COORDINATOR_NODE + 1 + table["first"] + place] = node, place
                if not table["count"]:
                    self._alone[ALONE + len(self._alone)] = node
            if not (nodes := list(reasons)):
                return
        raise EngineError(
            f"{len(reasons)} nodes do not say which parties they answer for: {next(iter(reasons.values()))}",
            "Is there memory enough? Lower OMP_NUM_THREADS or the number of parties, and run it again",
        )

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
