"""The second aggregator against a coordinator that is not what it says: each refusal, and that nothing is used up."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from consilium.accounting.mechanisms import GNMax
from consilium.aggregator.home import open_home
from consilium.aggregator.node import AggregatorNode
from consilium.aggregator.policy import AggregatorFile
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.privacy import promised_to_nodes
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, LedgerError, OutputExists
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.pool import PoolTree
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.agreement import new_private, public_of
from consilium.sums.errors import BadLink, BadSignature, Replay, StageOrder
from consilium.sums.terms import NO_LEDGER
from consilium.sums.verified.terms import VerifiedTerms
from consilium.sums.verified.wire import AggregatorRequest, LinkRequest, OpenRequest, as_array
from tests.federation import make_config, make_homes
from tests.verified.small import make_aggregators, queries_of

QUERIES = queries_of(6)


class Board:
    """A second aggregator, and the coordinator's keys with which it is asked."""

    def __init__(self, root: Path, changes: dict[str, Any] | None = None, **policy: Any) -> None:
        homes = make_homes(root / "parties", 4)
        self.keys = make_aggregators(homes, root, **policy)
        values: dict[str, Any] = {"mechanism": GNMax(sigma=4.0), "query_budget": QueryBudget(queries=10, answers=10)}
        self.config = make_config(
            collection="verified", roster=self.keys.roster.digest, **{**values, **(changes or {})}
        )
        self.home, self.leader_key = root / "second", public_of(new_private())

    @property
    def node(self) -> AggregatorNode:
        return AggregatorNode(open_home(self.home))

    def hello(self, config: FederationConfig | None = None, **changes: Any) -> AggregatorRequest:
        terms = (config or self.config).terms().model_dump()
        fields = {**terms, "protocol_version": PROTOCOL_VERSION, **NO_LEDGER.model_dump(), "program": "", **changes}
        return AggregatorRequest(**fields)

    def session(self, queries: np.ndarray = QUERIES, **terms: Any) -> VerifiedTerms:
        noise = self.config.node_event(0, 0).party_noise(1)
        assert noise is not None
        fields = {"federation": self.config.digest(), "classes": 2, "teachers": 1, "sigma": noise.sigma, **terms}
        return VerifiedTerms.of_queries(
            self.keys.roster,
            fields.pop("federation"),
            queries,
            fields.pop("classes"),
            fields.pop("teachers"),
            leader_key=self.leader_key.hex(),
            **fields,
        )

    def open(self, session: VerifiedTerms, queries: np.ndarray = QUERIES, signer: Identity | None = None) -> Any:
        request = OpenRequest(
            terms=session.canonical(),
            signature=session.sign(signer or self.keys.signer),
            queries=queries,
            places=np.zeros(0, dtype=np.uint32),
            proof=np.zeros((0, 32), dtype=np.uint8),
        )
        return self.node.open(request)


def test_it_serves_what_its_policy_allows(tmp_path: Path) -> None:
    board = Board(tmp_path)
    reply = board.node.hello(board.hello())
    assert (reply.name, reply.key) == ("board", board.keys.roster.helper.ed25519_pk)
    assert board.node.hello(board.hello()) == reply
    assert board.open(board.session()).sid
    assert stat.S_IMODE((tmp_path / "second" / "state" / "given.db").stat().st_mode) == 0o600


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], Rule]] = {
    "too few parties": ({"least_parties": 4}, {}, Rule.LEAST_PARTIES),
    "too dear": ({"most_epsilon": 0.5}, {}, Rule.MOST_EPSILON),
    "simulated": ({"allow_simulation": False}, {}, Rule.SIMULATION),
    "version": ({}, {"protocol_version": 1}, Rule.VERSION),
    "roster": ({}, {"roster": "0" * 64}, Rule.ROSTER_MISMATCH),
    "plaintext votes": ({}, {"collection": "plaintext"}, Rule.VOTES),
    "secure votes": ({}, {"collection": "secure"}, Rule.VOTES),
    "no promise": ({}, {"promise": "[]"}, Rule.MALFORMED),
    "promise of nonsense": ({}, {"promise": '[{"type": "gnmax", "sigma": 1e12}]'}, Rule.MALFORMED),
    "pool of nonsense": ({}, {"public": "{}"}, Rule.MALFORMED),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_serve(tmp_path: Path, name: str) -> None:
    policy, changes, rule = REFUSED[name]
    board = Board(tmp_path, **policy)
    with pytest.raises(Refused) as caught:
        board.node.hello(board.hello(**changes))
    assert caught.value.refusal.rule is rule
    with pytest.raises(Refused) as caught:  # and it was not introduced
        board.open(board.session())
    assert caught.value.refusal.rule is Rule.PROMISE


def test_a_promise_of_other_noise_or_several_releases_is_refused(tmp_path: Path) -> None:
    """A coordinator that lies promises what no federation may have: exact sums, or another release beside the one."""
    board = Board(tmp_path)
    exact = make_config(mechanism=GNMax(sigma=4.0), query_budget=QueryBudget(queries=10, answers=10))
    noisy, bare = (json.loads(config.terms().promise) for config in (board.config, exact))
    for wrong in (bare, noisy + bare, bare + noisy, [{**noisy[0], "noise_shares": 2}]):
        with pytest.raises(Refused) as caught:
            board.node.hello(board.hello(promise=json.dumps(wrong)))
        assert caught.value.refusal.rule is Rule.PROMISE


def test_what_other_federations_promised_counts_too(tmp_path: Path) -> None:
    """By what each gave: one that was only introduced costs nothing."""
    board = Board(tmp_path)
    alone = promised_to_nodes(board.config).epsilon
    settings = load(board.home / "aggregator.toml", AggregatorFile).model_dump(mode="json", exclude_none=True)
    settings["policy"]["most_epsilon"] = 1.2 * alone
    (board.home / "aggregator.toml").write_text(tomli_w.dumps(settings))
    other = make_config(
        collection="verified",
        roster=board.keys.roster.digest,
        mechanism=GNMax(sigma=4.0),
        query_budget=QueryBudget(queries=9, answers=9),
    )
    board.node.hello(board.hello())
    board.node.hello(board.hello(other))
    with board.node.store.transaction() as given:
        given.charge(other.digest(), 1, ["00" * 32], 0b11)
    with pytest.raises(Refused) as caught:
        board.node.hello(board.hello())
    assert caught.value.refusal.rule is Rule.MOST_EPSILON


def test_terms_are_those_it_came_with_first(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.node.hello(board.hello())
    with pytest.raises(Refused) as caught:
        board.node.hello(board.hello(teachers=2))
    assert caught.value.refusal.rule is Rule.PROMISE


def test_pinned_terms_are_the_only_ones(tmp_path: Path) -> None:
    board = Board(tmp_path)
    settings = load(board.home / "aggregator.toml", AggregatorFile).model_dump(mode="json", exclude_none=True)
    (board.home / "aggregator.toml").write_text(tomli_w.dumps({**settings, "terms": "terms.json"}))
    (board.home / "terms.json").write_text(board.config.terms().model_dump_json())
    board.node.hello(board.hello())
    other = make_config(collection="verified", roster=board.keys.roster.digest, name="another")
    with pytest.raises(Refused) as caught:
        board.node.hello(board.hello(other))
    assert caught.value.refusal.rule is Rule.TERMS
    (board.home / "terms.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be read"):
        board.node.hello(board.hello())


def test_sessions_that_were_not_promised(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.node.hello(board.hello())
    many = queries_of(11)
    cases: list[tuple[VerifiedTerms, np.ndarray, Rule]] = [
        (board.session(teachers=2), QUERIES, Rule.PROMISE),
        (board.session(classes=3), QUERIES, Rule.PROMISE),
        (board.session(sigma=4.0), QUERIES, Rule.PROMISE),
        (board.session(round=2), QUERIES, Rule.PROMISE),
        (board.session(many), many, Rule.PROMISE),
        (board.session(), queries_of(6, seed=9), Rule.MALFORMED),
    ]
    for session, queries, rule in cases:
        with pytest.raises(Refused) as caught:
            board.open(session, queries)
        assert caught.value.refusal.rule is rule
    with pytest.raises(BadSignature):
        board.open(board.session(), signer=Identity.generate())


def test_queries_of_the_pool_only(tmp_path: Path) -> None:
    tree = PoolTree.of_rows(queries_of(40))
    board = Board(tmp_path, {"public": tree.terms(0.0)})
    board.node.hello(board.hello())
    with pytest.raises(Refused) as caught:
        board.open(board.session())
    assert caught.value.refusal.rule is Rule.POOL


def test_one_session_is_not_another(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.node.hello(board.hello())
    session = board.session()
    first, again = board.open(session), board.open(session)
    assert first == again
    others = queries_of(6, seed=9)
    same = board.session(others).model_copy(update={"sid": session.sid})
    with pytest.raises(Replay):
        board.open(same, others)


@pytest.mark.parametrize("content", [b"", bytes([2]) + bytes(60), bytes([9]) + bytes(60)])
def test_what_is_no_message_of_the_first_aggregator(tmp_path: Path, content: bytes) -> None:
    board = Board(tmp_path)
    board.node.hello(board.hello())
    session = board.session()
    board.open(session)
    with pytest.raises(Refused) as caught:
        board.node.link(LinkRequest(sid=bytes.fromhex(session.sid), content=as_array(content)))
    assert caught.value.refusal.rule is Rule.MALFORMED


@pytest.mark.parametrize("kind", [1, 3])
def test_nobody_else_can_ask(tmp_path: Path, kind: int) -> None:
    board = Board(tmp_path)
    board.node.hello(board.hello())
    session = board.session()
    content = as_array(bytes([kind]) + bytes(60))
    with pytest.raises(StageOrder, match="never opened"):
        board.node.link(LinkRequest(sid=bytes.fromhex(session.sid), content=content))
    board.open(session)
    with pytest.raises(BadLink):
        board.node.link(LinkRequest(sid=bytes.fromhex(session.sid), content=content))


def test_a_roster_with_other_keys_is_not_its_own(tmp_path: Path) -> None:
    board = Board(tmp_path)
    (board.home / "sealing.pem").unlink()
    SealingKey.generate().save(board.home / "sealing.pem")
    with pytest.raises(ConfigError, match="with other keys than this node has"):
        board.node.hello(board.hello())


def test_a_key_is_kept_private_and_never_shown(tmp_path: Path) -> None:
    key = SealingKey.generate()
    key.save(tmp_path / "key.pem")
    assert SealingKey.load(tmp_path / "key.pem").private() == key.private()
    assert key.private().hex() not in repr(key)
    with pytest.raises(OutputExists):
        key.save(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o644)
    with pytest.raises(ConfigError, match="others than its owner"):
        SealingKey.load(tmp_path / "key.pem")
    Identity.generate().save(tmp_path / "other.pem")
    with pytest.raises(ConfigError, match="not an unencrypted X25519 key"):
        SealingKey.load(tmp_path / "other.pem")


def test_a_newer_program_s_memory_is_not_read(tmp_path: Path) -> None:
    import sqlite3

    board = Board(tmp_path)
    board.node.hello(board.hello())
    with sqlite3.connect(board.home / "state" / "given.db") as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="has format 99"):
        board.node.hello(board.hello())


def test_seeded_noise_needs_a_simulation(tmp_path: Path) -> None:
    board = Board(tmp_path, {"simulation": False, "noise_seed": None})
    settings = load(board.home / "aggregator.toml", AggregatorFile).model_dump(mode="json", exclude_none=True)
    settings["simulated_noise_seed"] = 1
    (board.home / "aggregator.toml").write_text(tomli_w.dumps(settings))
    for simulation in (False, True):
        agreed = board.config.terms().model_copy(update={"simulation": simulation})
        assert board.node._noise(board.session(), agreed).simulated is simulation
    settings["policy"]["allow_simulation"] = False
    (board.home / "aggregator.toml").write_text(tomli_w.dumps(settings))
    with pytest.raises(ConfigError, match="seeded noise protects nobody"):
        open_home(board.home)
