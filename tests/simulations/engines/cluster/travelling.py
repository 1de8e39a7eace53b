"""A cluster in this process: the real apps, on desks that come and go as nodes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Message

from consilium.party.client_app import app
from consilium.simulations.engines.cluster_node import NodeDesk
from consilium.simulations.engines.flower import COORDINATOR_NODE, NodesGrid, assign_message_id, assume_identity
from consilium.simulations.engines.travelling_homes import RECORD, Brought, Homes

RUN_ID = 1


class Store:
    """Ray's object store: references are numbers."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}
        self.fetched: list[int] = []

    def put(self, content: bytes) -> int:
        self.held[len(self.held)] = content
        return len(self.held) - 1

    def get(self, reference: int) -> bytes:
        self.fetched.append(reference)
        return self.held[reference]


class TravellingGrid(NodesGrid):
    """Each message is computed on another of two desks. dies: asked with party and kind of a message whether the node
    dies after its ClientApp has answered; then the message is done again on a new node, as `ClusterBackend` does.
    brings: whether what a party wrote comes back."""

    def __init__(
        self,
        run_config: Mapping[str, Any],
        parties: int,
        nodes: Path,
        dies: Callable[[str, str], bool] = lambda party, kind: False,
        brings: bool = True,
    ) -> None:
        super().__init__(RUN_ID, run_config, parties)
        self.store = Store()
        work = Path(run_config["party-root"]).parent
        self.homes = Homes(work, "run", self.store.put, ("roster.json",))
        self._folder, self._dies, self._brings = nodes, dies, brings
        self._made = 0
        self._desks = [self._new(), self._new()]
        self.deaths: Counter[str] = Counter()
        self._replies: dict[str, Message] = {}

    def _new(self) -> NodeDesk:
        self._made += 1
        folder = self._folder / f"node{self._made}"
        folder.mkdir(parents=True)
        return NodeDesk(folder)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(assign_message_id(message))
            self._replies[ids[-1]] = self._answer(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(message_id) for message_id in message_ids if message_id in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        context = self._contexts[message.metadata.dst_node_id]
        party, kind = f"{int(context.node_config['partition-id']):05d}", message.metadata.message_type
        assume_identity(RUN_ID, context.node_id)
        try:
            while True:
                parcel = self.homes.parcel(party, kind)
                self._desks.reverse()
                reply, brought = self._desks[0].answer(parcel, message, context, app, self.store.get, "a node")
                if not self._dies(party, kind):
                    break
                self.deaths[kind] += 1
                self._desks[0] = self._new()
            context.state[RECORD] = brought.record()
            brought = Brought.of_record(context.state.pop(RECORD), parcel)  # pyright: ignore
            if self._brings:
                self.homes.receive(party, brought)
            return reply
        finally:
            assume_identity(RUN_ID, COORDINATOR_NODE)
