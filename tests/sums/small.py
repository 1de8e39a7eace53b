"""Small federations of hidden sums without Flower: real parties, and a real second aggregator, in homes on disk."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from flwr.app import RecordDict

from consilium.accounting.mechanisms import GNMax
from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.store import GivenStore
from consilium.coordinator.collection.base import Collector, Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Member, no_node
from consilium.coordinator.collection.kept_sums import SUMS, KeptSum, read_sums
from consilium.coordinator.collection.means import Collecting, VoteKeys
from consilium.coordinator.collection.verified import VerifiedCollector, VerifiedKeys
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog
from consilium.node.limits import NodePolicy
from consilium.party.voting import Lot
from consilium.protocol.config_files import load
from consilium.protocol.files import private_folder
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import Terms, WireModel
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import Refusal, Rule
from consilium.sums.modes import MODES
from consilium.sums.roster import AggregatorEntry, VerifiedRoster
from tests import federation
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.federation import FEATURES, REQUESTS, FakeTransport, answered, cast, make_homes, make_rows, open_home

SIGMA = 4.0
SECOND = 900
"""Node of the second aggregator."""
TO_SECOND = {model.kind: model for model in MODES["verified"].second}
UPLOAD, CHECK, GIVE = "query.va_upload", "query.va_check", "query.va_give"


def make_aggregators(homes: list[Path], root: Path, least: int | None = None, **policy: Any) -> VerifiedKeys:
    """Keys and a roster for parties that are there, and the home of a second aggregator in `root`/second."""
    parties = {open_home(home).name: (home, Identity.generate()) for home in homes}
    signer, second = Identity.generate(), Identity.generate()
    sealing, other = SealingKey.generate(), SealingKey.generate()
    roster = VerifiedRoster.build(
        {name: identity.public.hex() for name, (_, identity) in parties.items()},
        signer.public.hex(),
        least=least,
        sealing=sealing.public.hex(),
        second=AggregatorEntry(ed25519_pk=second.public.hex(), x25519_pk=other.public.hex()),
    )
    home = root / "second"
    home.mkdir()
    for folder, identity in [*parties.values(), (home, second)]:
        identity.save(folder / "identity.pem")
        (folder / "roster.json").write_text(roster.model_dump_json())
    other.save(home / "sealing.pem")
    set_policy(home, **policy)
    return VerifiedKeys(roster, signer, sealing)


def set_policy(home: Path, **policy: Any) -> None:
    """Of one that serves whom it can, but for what is said otherwise."""
    policy = {"most_epsilon": float("inf"), "allow_simulation": True, **policy}
    (home / "policy.toml").write_text(tomli_w.dumps(policy))


def second_node(root: Path) -> AggregatorNode:
    """A process that was started just now: whatever it did before, it finds on disk."""
    home = root / "second"
    terms = home / "terms.json"
    return AggregatorNode(
        GivenStore(private_folder(home / "state") / "given.db"),
        name="board",
        policy=load(home / "policy.toml", NodePolicy),
        roster=load(home / "roster.json", VerifiedRoster),
        identity=Identity.load(home / "identity.pem"),
        sealing=SealingKey.load(home / "sealing.pem"),
        pinned=Terms.model_validate_json(terms.read_bytes()) if terms.exists() else None,
    )


class TwoKinds(FakeTransport):
    def __init__(self, homes: list[Path], root: Path) -> None:
        super().__init__(homes)
        self.root, self.away = root, False
        self.sent: list[tuple[int, WireModel]] = []

    def nodes(self) -> list[int]:
        return [*super().nodes(), *([] if self.away else [SECOND])]

    def _reply(self, node: int, request: WireModel) -> RecordDict | Failure:
        self.sent.append((node, request))
        if node == SECOND and self.away:
            return no_node()
        if request.kind not in (TO_SECOND if node == SECOND else REQUESTS):
            return refusal_to_record(Refusal(rule=Rule.NODE_KIND))
        if node != SECOND:
            return super()._reply(node, request)
        action = getattr(AggregatorNode, request.kind.removeprefix("query.va_"))
        return answered(action, second_node(self.root), request, TO_SECOND)


class Small:
    """Parties that have trained, and what a coordinator needs to ask them."""

    def __init__(self, root: Path, keys: VoteKeys, transport: FakeTransport, config: FederationConfig) -> None:
        self.root, self.keys, self.transport, self.config = root, keys, transport, config
        self.parties = list(transport.parties.values())
        (run := root / "run").mkdir()
        self.run, self.log = run, EventLog(run / "events.jsonl")
        for node in self.parties:
            node.hello(federation.hello_of(config))
            node.train(config.train_request())
        keys.check_reachable(self.means())

    def means(self) -> Collecting:
        members = [Member(index, party.settings.name, 1) for index, party in enumerate(self.parties)]
        return Collecting(self.transport, self.config, members, self.run, federation.standing(), self.log)

    def collector(self) -> Collector:
        """Of a coordinator that was started just now: only files are left of the one before."""
        return self.keys.collector(self.means())

    def ask(self, queries: np.ndarray, round: int = 1, collector: Collector | None = None) -> Counts:
        """The sum, by this coordinator, or one that was started just now and has it in its ledger then."""
        asked = collector or self.collector()
        found = asked.collect(Queries(queries, round), self.config.sigmas[round - 1])
        if collector is None and self.settles:
            asked.settle()
        return found

    settles = True

    def true_sum(self, queries: np.ndarray, parties: list[int] | None = None) -> list:
        """The clear sum of these parties' votes, or of all, (queries, classes)."""
        total, digest, rows = np.zeros((len(queries), 2), dtype=int), self.config.digest(), self.config.rows
        for index in range(len(self.parties)) if parties is None else parties:
            party = self.parties[index]
            lot = Lot(party.settings.name, digest, query_ids(queries))
            total += cast(party.teachers(digest), rows.inputs(queries), lot)
        return total.tolist()

    def events(self, name: str) -> list[dict]:
        lines = map(json.loads, (self.run / "events.jsonl").read_text().splitlines())
        return [each for each in lines if each["event"] == name]

    def sessions(self) -> list[Any]:
        (path,) = (self.run / "sessions").glob("*.db")
        with sqlite3.connect(path) as file:
            return [pickle.loads(content) for (content,) in file.execute("SELECT content FROM sessions")]

    def left_out(self) -> dict[str, str]:
        return {each["party"]: each["reason"] for each in self.events("left-out")}

    def asked(self, kind: str) -> list[int]:
        return [node for node, asked in self.transport.requests if asked == kind]


class VerifiedSmall(Small):
    keys: VerifiedKeys
    transport: TwoKinds

    def sums(self) -> list[KeptSum]:
        return read_sums((self.run / SUMS).read_bytes(), self.keys.roster)

    def given(self) -> int:
        """Queries in sums that the second aggregator gave its half of."""
        with second_node(self.root).store.transaction() as sums:
            return sums.ever()


class SecureSmall(Small):
    """Under masks. What was collected stays on the coordinator's disk until it is settled."""

    settles = False

    def charged(self, round: int = 1) -> set[int]:
        return {party.store.answered_in(self.config.digest(), round) for party in self.parties}


def queries_of(count: int, seed: int = 50) -> np.ndarray:
    return canonical_queries(make_rows(count, seed)[0], len(FEATURES))


def made(
    root: Path, parties: int = 5, second: Mapping[str, Any] | None = None, policy: Mapping[str, Any] | None = None,
    **changes: Any,
) -> VerifiedSmall:  # fmt: skip
    """A federation of verified votes. second: of `make_aggregators`."""
    homes = make_homes(root / "parties", parties, **{"collection": "verified", **(policy or {})})
    keys = make_aggregators(homes, root, **(second or {}))
    values = {"mechanism": GNMax(sigma=SIGMA), "query_budget": QueryBudget(queries=100, answers=100), **changes}
    config = federation.make_config(collection="verified", roster=keys.roster.digest, **values)
    return VerifiedSmall(root, keys, TwoKinds(homes, root), config)


def masked(
    root: Path, make: Callable[..., FederationConfig] = federation.make_config, parties: int = 7, **changes: Any
) -> SecureSmall:
    homes = make_homes(root / "parties", parties)
    keys = federation.make_secure(homes, root)
    config = make(collection="secure", roster=keys.roster.digest, **changes)
    return SecureSmall(root, keys, FakeTransport(homes), config)


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for node in (VerifiedCollector, AggregatorNode):
        monkeypatch.setattr(node, "_noise", lambda self, *_: NoNoise())
