"""A small federation of verified votes without Flower: real parties and a real second aggregator in homes on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tomli_w
from flwr.app import RecordDict

from consilium.accounting.mechanisms import GNMax
from consilium.aggregator.home import open_home as open_aggregator
from consilium.aggregator.node import AggregatorNode
from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, no_node
from consilium.coordinator.collection.verified import SecondAggregator, VerifiedCollector, VerifiedKeys
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog
from consilium.node.answering import refusal_of
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.voting import Lot
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import WireModel
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.sums.errors import SecAggError
from consilium.sums.roster import AggregatorEntry, VerifiedRoster
from consilium.sums.terms import NO_LEDGER
from consilium.sums.verified import wire
from consilium.sums.verified.uploads import VoteClient
from tests import federation
from tests.federation import FEATURES, FakeTransport, Fault, cast, make_homes, make_rows, node_at
from tests.sums.verified import Forger, NoNoise

SIGMA = 4.0
SECOND = 900
"""Node of the second aggregator."""
TO_PARTIES = {**federation.REQUESTS, "query.va_upload": wire.UploadRequest}
PARTY_ACTIONS: dict[str, Callable[[PartyNode, Any], WireModel]] = {
    **federation.ACTIONS,
    "query.va_upload": lambda node, request: node.verified.upload(request),
}
TO_SECOND = {model.kind: model for model in (wire.AggregatorRequest, wire.OpenRequest, wire.LinkRequest)}
SECOND_ACTIONS: dict[str, Callable[[AggregatorNode, Any], WireModel]] = {
    "query.va_hello": AggregatorNode.hello,
    "query.va_open": AggregatorNode.open,
    "query.va_link": AggregatorNode.link,
}


def make_aggregators(
    homes: list[Path], root: Path, roster_terms: Mapping[str, int] | None = None, **policy: Any
) -> VerifiedKeys:
    """Keys and a roster for parties that are there, and the home of a second aggregator in `root`/second."""
    parties = {open_home(home).name: (home, Identity.generate()) for home in homes}
    signer, sealing, second, second_sealing = (
        Identity.generate(), SealingKey.generate(), Identity.generate(), SealingKey.generate(),
    )  # fmt: skip
    roster = VerifiedRoster.build(
        {name: identity.public.hex() for name, (_, identity) in parties.items()},
        signer.public.hex(),
        sealing=sealing.public.hex(),
        second=AggregatorEntry(ed25519_pk=second.public.hex(), x25519_pk=second_sealing.public.hex()),
        **(roster_terms or {}),
    )
    for home, identity in parties.values():
        identity.save(home / "identity.pem")
        roster.save(home / "roster.json")
    home = root / "second"
    home.mkdir()
    second.save(home / "identity.pem")
    second_sealing.save(home / "sealing.pem")
    roster.save(home / "roster.json")
    settings = {"most_epsilon": float("inf"), "allow_simulation": True, **policy}
    (home / "aggregator.toml").write_text(tomli_w.dumps({"name": "board", "policy": settings}))
    return VerifiedKeys(roster, signer, sealing)


class TwoKinds(FakeTransport):
    """Parties, and a second aggregator as one more node. replies[kind] changes or drops what it says, once each."""

    def __init__(self, homes: list[Path], second: Path, faults: Mapping[tuple[int, str], Fault] | None = None) -> None:
        super().__init__(homes, faults)
        self.second = second
        self.away = False

    def nodes(self) -> list[int]:
        return [*super().nodes(), *([] if self.away else [SECOND])]

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        for done, (node, request) in enumerate(requests.items(), 1):
            self.requests.append((node, request.kind))
            fault = self.faults.get((node, request.kind))
            reply = self._reply(node, request)
            on_reply(done, len(requests))
            yield node, fault(reply) if fault and isinstance(reply, RecordDict) else reply

    def _reply(self, node: int, request: WireModel) -> RecordDict | Failure:
        if node == SECOND and self.away:
            return no_node()
        models, actions = (TO_SECOND, SECOND_ACTIONS) if node == SECOND else (TO_PARTIES, PARTY_ACTIONS)
        if request.kind not in models:
            return refusal_to_record(Refusal(rule=Rule.NODE_KIND))
        received = from_record(to_record(request), models[request.kind])
        # whatever it did before, a process that answers finds it on disk
        answering: Any = AggregatorNode(open_aggregator(self.second)) if node == SECOND else self.parties[node]
        try:
            return to_record(actions[request.kind](answering, received))
        except Refused as error:
            return refusal_to_record(error.refusal)
        except SecAggError as error:
            return refusal_to_record(refusal_of(error))


@dataclass
class VerifiedSmall:
    """Parties that have trained, and what a coordinator needs to ask them."""

    root: Path
    homes: list[Path]
    keys: VerifiedKeys
    config: FederationConfig
    transport: TwoKinds
    log: EventLog

    @property
    def members(self) -> list[Member]:
        return [Member(index, f"p{index:02d}", 1) for index in range(len(self.homes))]

    def collector(self, members: list[Member] | None = None, keys: VerifiedKeys | None = None) -> VerifiedCollector:
        """Of a coordinator that was started just now."""
        members, keys = members or self.members, keys or self.keys
        greeting = Greeting(lambda: NO_LEDGER)
        second = SecondAggregator(
            self.transport, self.config, keys.roster, greeting, lambda: [each.node for each in members], self.log
        )
        folder = self.root / "run" / "sessions"
        return VerifiedCollector(
            self.transport, self.config, members, keys, second, folder, federation.standing(), self.log
        )

    def ask(self, queries: np.ndarray, members: list[Member] | None = None) -> Counts:
        """The sum, by a coordinator that was started just now, and is in its ledger then."""
        collector = self.collector(members)
        found = collector.collect(Queries(queries), SIGMA)
        collector.settle()
        return found

    def true_sum(self, queries: np.ndarray, parties: list[int] | None = None) -> np.ndarray:
        """The clear sum of these parties' votes, int64 (queries, classes)."""
        of = range(len(self.homes)) if parties is None else parties
        return np.sum([self.votes(index, queries) for index in of], axis=0)

    def votes(self, index: int, queries: np.ndarray) -> np.ndarray:
        """Of one party, int64 (queries, classes)."""
        party, digest = node_at(self.homes[index]), self.config.digest()
        lot = Lot(party.settings.name, digest, query_ids(queries))
        return cast(party.teachers(digest), self.config.rows.inputs(queries), lot).astype(int)

    def events(self) -> list[dict]:
        """What the log tells."""
        import json

        return [json.loads(line) for line in (self.root / "run" / "events.jsonl").read_text().splitlines()]

    def left_out(self) -> dict[str, str]:
        """Reason by party."""
        return {each["party"]: each["reason"] for each in self.events() if each["event"] == "left-out"}

    def given(self) -> int:
        """Queries in sums of which the second aggregator gave its half."""
        with AggregatorNode(open_aggregator(self.transport.second)).store.transaction() as given:
            return given.answered()


def made(root: Path, parties: int = 5, second: Mapping[str, Any] | None = None, **changes: Any) -> VerifiedSmall:
    """A federation whose parties have enrolled and trained."""
    homes = make_homes(root / "parties", parties, collection="verified")
    keys = make_aggregators(homes, root, **(second or {}))
    values: dict[str, Any] = {
        "mechanism": GNMax(sigma=SIGMA),
        "query_budget": QueryBudget(queries=100, answers=100),
        **changes,
    }
    config = federation.make_config(collection="verified", roster=keys.roster.digest, **values)
    transport = TwoKinds(homes, root / "second")
    (root / "run").mkdir()
    for node in transport.parties.values():
        node.hello(federation.hello_of(config))
        node.train(config.train_request())
    return VerifiedSmall(root, homes, keys, config, transport, EventLog(root / "run" / "events.jsonl"))


def queries_of(count: int, seed: int = 50) -> np.ndarray:
    """Canonical queries, float32 (count, 3)."""
    return canonical_queries(make_rows(count, seed)[0], len(FEATURES))


def lying(matrix_of: Callable[[np.ndarray], np.ndarray], **changes: Any) -> Callable[[VoteClient, np.ndarray], bytes]:
    """`VoteClient.upload` of a liar: any matrix in place of its votes, with the best proof there is for it. changes: of
    its `Forger`."""

    def upload(client: VoteClient, votes: np.ndarray) -> bytes:
        mine: Any = client
        name = mine._roster.name(mine._place)
        has = SimpleNamespace(session=mine._session, roster=mine._roster, identities={name: mine._identity})
        forger = Forger(has, name, **{"helper_key": mine._helper_key, **changes})  # type: ignore[arg-type]
        return forger(matrix_of(votes.astype(np.int64)))

    return upload


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are held against plain ones."""
    for node in (VerifiedCollector, AggregatorNode):
        monkeypatch.setattr(node, "_noise", lambda self, *_: NoNoise())
