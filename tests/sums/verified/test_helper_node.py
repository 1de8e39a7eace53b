"""The second aggregator against a coordinator that is not what it says: each refusal, and that nothing is used up."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from consilium.accounting.mechanisms import Confident, GNMax
from consilium.aggregator import deployed as aggregator
from consilium.aggregator.node import AggregatorNode
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.privacy import towards_coordinator
from consilium.node.answering import TO_AGGREGATORS, TO_PARTIES
from consilium.party import client_app as party
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.protocol.records import refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from consilium.sums.errors import BadLink, BadSignature, Replay, StageOrder
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenReply, OpenRequest
from consilium.sums.verified.uploads import VerifiedTerms
from tests.federation import make_config, make_homes
from tests.node.folders import SECOND, allow, asked_of, make_small
from tests.sums.small import make_aggregators, queries_of, second_node, set_policy

QUERIES, OTHERS = queries_of(6), queries_of(4, seed=9)
TEN = {"mechanism": GNMax(sigma=4.0), "query_budget": QueryBudget(queries=10, answers=10)}


def asked(terms: Any, **changes: Any) -> AggregatorRequest:
    return AggregatorRequest(**{**terms.model_dump(), "protocol_version": PROTOCOL_VERSION, "program": "", **changes})


class Board:
    """A second aggregator, and the coordinator's keys with which it is asked."""

    def __init__(self, root: Path, changes: dict[str, Any] | None = None, **policy: Any) -> None:
        self.root, self.home = root, root / "second"
        self.keys = make_aggregators(make_homes(root / "parties", 4), root, **policy)
        self.config = self.other(**{**TEN, **(changes or {})})

    @property
    def node(self) -> AggregatorNode:
        return second_node(self.root)

    def other(self, **values: Any) -> FederationConfig:
        return make_config(collection="verified", roster=self.keys.roster.digest, **values)

    def hello(self, config: FederationConfig | None = None, **changes: Any) -> Any:
        return self.node.hello(asked((config or self.config).terms(), **changes))

    def terms(self, queries: np.ndarray = QUERIES, classes: int = 2, teachers: int = 1, **others: Any) -> VerifiedTerms:
        noise = self.config.node_event(0, 0).party_noise(1)
        values = {"leader_key": "09" * 32, "sigma": noise.sigma if noise else 0, **others}
        roster, federation = self.keys.roster, self.config.digest()
        return VerifiedTerms.of_queries(roster, federation, queries, classes, teachers, **values)

    def open(self, terms: VerifiedTerms, queries: np.ndarray = QUERIES, signer: Identity | None = None) -> OpenReply:
        places, proof = np.zeros(0, dtype=np.uint32), np.zeros((0, 32), dtype=np.uint8)
        signed = {"terms": terms.canonical(), "signature": terms.sign(signer or self.keys.signer)}
        return self.node.open(OpenRequest(**signed, queries=queries, places=places, proof=proof))

    def given(self, config: FederationConfig, queries: np.ndarray) -> None:
        with self.node.store.transaction() as sums:
            for query_id in query_ids(queries):
                sums.execute("INSERT INTO given VALUES (?, 1, ?)", query_id, config.digest())


@pytest.fixture
def board(tmp_path: Path) -> Board:
    board = Board(tmp_path)
    board.hello()
    return board


def refused(rule: Rule, ask: Any, *values: Any, numbers: tuple[int, int] | None = None, **changes: Any) -> None:
    """numbers: limit and requested."""
    with pytest.raises(Refused) as caught:
        ask(*values, **changes)
    found = caught.value.refusal
    assert found.rule is rule and numbers in (None, (found.limit, found.requested))


def test_it_serves_what_its_policy_allows(board: Board) -> None:
    reply = board.hello()
    assert (reply.name, reply.key) == ("board", board.keys.roster.helper.ed25519_pk) and board.hello() == reply
    first = board.open(terms := board.terms())
    assert first.key and board.open(terms) == first, "a session has one key"
    assert stat.S_IMODE((board.home / "state" / "given.db").stat().st_mode) == 0o600
    with pytest.raises(Replay):
        board.open(board.terms(OTHERS).model_copy(update={"sid": terms.sid}), OTHERS)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], Rule]] = {
    "too few parties": ({"least_parties": 4}, {}, Rule.LEAST_PARTIES),
    "too dear": ({"most_epsilon": 0.5}, {}, Rule.MOST_EPSILON),
    "simulated": ({"allow_simulation": False}, {}, Rule.SIMULATION),
    "version": ({}, {"protocol_version": 1}, Rule.VERSION),
    "roster": ({}, {"roster": "0" * 64}, Rule.ROSTER_MISMATCH),
    "plaintext votes": ({}, {"collection": "plaintext"}, Rule.VOTES),
    "no promise": ({}, {"promise": "[]"}, Rule.MALFORMED),
    "promise of nonsense": ({}, {"promise": '[{"type": "gnmax", "sigma": 1e12}]'}, Rule.MALFORMED),
    "pool of nonsense": ({}, {"public": "{}"}, Rule.MALFORMED),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_serve(tmp_path: Path, name: str) -> None:
    policy, changes, rule = REFUSED[name]
    board = Board(tmp_path, **policy)
    refused(rule, board.hello, **changes)
    refused(Rule.PROMISE, board.open, board.terms())  # and it was not introduced


def test_it_is_introduced_with_one_promise_of_noise_in_the_sums_once(board: Board) -> None:
    """A coordinator that lies promises what no federation may have: exact sums, or another release beside the one.
    Terms are those that it came with first, or that the folder pins."""
    noisy, bare = (json.loads(config.terms().promise) for config in (board.config, make_config(**TEN)))
    for wrong in (bare, noisy + bare, bare + noisy, [{**noisy[0], "noise_shares": 2}]):
        refused(Rule.PROMISE, board.hello, promise=json.dumps(wrong))
    refused(Rule.PROMISE, board.hello, teachers=2)
    (board.home / "terms.json").write_text(board.config.terms().model_dump_json())
    board.hello()
    refused(Rule.TERMS, board.hello, board.other(name="another"))


def test_what_other_federations_promised_counts_too(board: Board) -> None:
    """By what each gave: one that was only introduced costs nothing."""
    set_policy(board.home, most_epsilon=1.2 * towards_coordinator(board.config).epsilon)
    other = board.other(**{**TEN, "query_budget": QueryBudget(queries=9, answers=9)})
    board.hello()
    board.hello(other)
    board.given(other, OTHERS)
    refused(Rule.MOST_EPSILON, board.hello)


def test_sessions_that_were_not_promised(board: Board) -> None:
    many, twice = queries_of(11), np.concatenate([QUERIES, QUERIES[:1]])
    cases: list[tuple[VerifiedTerms, np.ndarray, Rule]] = [
        (board.terms(teachers=2), QUERIES, Rule.PROMISE),
        (board.terms(classes=3), QUERIES, Rule.PROMISE),
        (board.terms(sigma=4.0), QUERIES, Rule.PROMISE),
        (board.terms(round=2), QUERIES, Rule.PROMISE),
        (board.terms(many), many, Rule.PROMISE),
        (board.terms(), queries_of(6, seed=9), Rule.MALFORMED),
        (board.terms().model_copy(update={"query_set": query_set_hash(twice)}), twice, Rule.MALFORMED),
    ]
    for terms, queries, rule in cases:
        refused(rule, board.open, terms, queries)
    with pytest.raises(BadSignature):
        board.open(board.terms(), signer=Identity.generate())


def test_queries_of_the_pool_only(tmp_path: Path) -> None:
    board = Board(tmp_path, {"public": PoolTree.of_rows(queries_of(40)).terms(0.0)})
    board.hello()
    refused(Rule.POOL, board.open, board.terms())


def test_the_policys_queries_count_over_all_sums_and_rounds(tmp_path: Path) -> None:
    """A lying coordinator may not have other rows summed in round 2 than it screened; the policy may be changed while
    the federation runs."""
    board = Board(tmp_path, {"mechanism": Confident(threshold=1, sigma1=30.0, sigma2=30.0)}, most_queries=6)
    board.hello()
    board.given(board.config, QUERIES)
    assert board.open(board.terms(QUERIES[:2], round=2), QUERIES[:2]).key  # rows that it had screened
    for terms in (board.terms(OTHERS), board.terms(OTHERS, round=2)):
        refused(Rule.MOST_QUERIES, board.open, terms, OTHERS, numbers=(6, 10))
    set_policy(board.home, most_queries=10)
    assert board.open(board.terms(OTHERS), OTHERS).key


@pytest.mark.parametrize(("ask", "model"), [(AggregatorNode.check, CheckRequest), (AggregatorNode.give, GiveRequest)])
def test_nobody_else_can_ask(board: Board, ask: Any, model: Any) -> None:
    terms = board.terms(leader_key=SealingKey.generate().public.hex())
    empty, zeros = (model(sid=terms.sid_bytes, content=np.zeros(length, dtype=np.uint8)) for length in (0, 60))
    with pytest.raises(StageOrder, match="never opened"):
        ask(board.node, zeros)
    board.open(terms)
    for request in (empty, zeros):
        with pytest.raises(BadLink):
            ask(board.node, request)


@pytest.mark.parametrize("simulation", [False, True])
def test_seeded_noise_needs_a_simulation(tmp_path: Path, simulation: bool) -> None:
    board = Board(tmp_path, {"simulation": False, "noise_seed": None})
    agreed = board.config.terms().model_copy(update={"simulation": simulation})
    assert replace(board.node, noise_seed=1)._noise(board.terms(), agreed).simulated is simulation


# Two kinds of nodes behind one coordinator.


def call(app: Any, home: Path, kind: str, content: RecordDict | None = None) -> Refusal | None:
    assume_identity(1, 1)
    message = Message(content or RecordDict(), dst_node_id=2, message_type=kind)
    assign_message_id(message)
    assume_identity(1, 2)
    return refusal_from_record(app(message, Context(1, 2, {"folder": str(home)}, RecordDict(), {})).content)


def test_each_kind_of_node_refuses_what_is_for_the_other_and_what_is_malformed(tmp_path: Path, caplog) -> None:
    """All are greeted as parties first, and all is well: nothing is logged of that."""
    assert not {*TO_AGGREGATORS} & {*TO_PARTIES} and "query.va_upload" in TO_PARTIES
    for app, foreign, own in ((party.app, TO_AGGREGATORS, TO_PARTIES), (aggregator.app, TO_PARTIES, TO_AGGREGATORS)):
        assert all(call(app, tmp_path, kind) == Refusal(rule=Rule.NODE_KIND) for kind in foreign)
        assert all(call(app, tmp_path, kind) == Refusal(rule=Rule.MALFORMED) for kind in own)
    caplog.clear()
    with caplog.at_level("WARNING"):
        for kind, logged in (("query.hello", False), ("query.vote", True)):
            call(aggregator.app, tmp_path, kind)
            assert any("another kind of node" in message for message in caplog.messages) is logged


def test_the_policy_of_now_holds(tmp_path: Path) -> None:
    made = make_small(tmp_path, "verified")
    folder = made.nodes[SECOND]
    ask = partial(call, aggregator.app, folder.path, "query.va_hello", to_record(asked(made.file.terms)))
    assert ask() == Refusal(rule=Rule.NOT_ACCEPTED)
    lines = asked_of(folder)
    allow(folder, **lines)
    assert ask() is None
    allow(folder, **{**lines, "least_parties": 10})
    assert ask() == Refusal(rule=Rule.NOT_ACCEPTED)
