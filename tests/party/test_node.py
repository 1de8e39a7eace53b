"""A party's answers, and what it refuses whatever the coordinator asks. Over Flower no exception text travels, and only
the node says where its home is."""

from __future__ import annotations

import dataclasses
import errno
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from consilium.accounting.mechanisms import Immutable
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.data.mapping import DataRules, MissingRule
from consilium.models.keys import LogisticRegressionSpec
from consilium.node.answering import folder_of
from consilium.node.folder import NodeFolder
from consilium.party import client_app
from consilium.party.client_app import app
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.store import Store
from consilium.party.voting import Lot, votes_of_teachers
from consilium.protocol.databases import unusable
from consilium.protocol.errors import LedgerError
from consilium.protocol.messages import HelloRequest, TrainReply, TrainRequest, VoteRequest
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.records import refusal_from_record, to_record
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from consilium.simulations.said import SaidRequest
from tests.federation import CLASSES, hello_of, make_config, make_home, make_rows, node_at, vote_request
from tests.node.folders import allow, asked_of, make_small

CONFIG = make_config(query_budget=QueryBudget(queries=1000, answers=1000))
HASH = CONFIG.digest()


def hello(config: FederationConfig = CONFIG, **changes) -> HelloRequest:
    return hello_of(config, **changes)


def train(config: FederationConfig = CONFIG, **changes) -> TrainRequest:
    return config.train_request().model_copy(update=changes)


def vote(rows: np.ndarray, config: FederationConfig = CONFIG, **changes) -> VoteRequest:
    return vote_request(config, canonical_queries(rows, rows.shape[1]), **changes)


def node(tmp_path: Path, **policy) -> PartyNode:
    folder = tmp_path / "home"
    if not folder.exists():
        make_home(folder, "p", **policy)
    return node_at(folder)


def member(tmp_path: Path, config: FederationConfig = CONFIG, **policy) -> PartyNode:
    party = node(tmp_path, **policy)
    party.hello(hello(config))
    party.train(train(config))
    return party


def join(party: PartyNode, request: TrainRequest | None = None) -> TrainReply:
    """Enrol in a federation that asks for these teachers, and train them."""
    request = request or train()
    told = {"federation": request.federation, "teachers": request.teachers, "request": request.digest()}
    promise = make_config(teachers_per_party=request.teachers, query_budget=CONFIG.query_budget).promise()
    party.hello(hello(**told, promise=promise))
    return party.train(request)


def refused(action, request) -> Rule:
    with pytest.raises(Refused) as caught:
        action(request)
    return caught.value.refusal.rule


@pytest.mark.parametrize(
    ("policy", "request_change", "rule"),
    [
        ({"allow_simulation": False}, {}, Rule.SIMULATION),
        ({}, {"classes": ["well", "ill", "dead"]}, Rule.CLASSES),
        ({}, {"protocol_version": 99}, Rule.VERSION),
    ],
)
def test_hello_is_refused_by_policy(tmp_path: Path, policy: dict, request_change: dict, rule: Rule) -> None:
    assert refused(node(tmp_path, **policy).hello, hello(**request_change)) is rule


def test_a_seed_that_the_coordinator_chooses_is_refused_outside_a_simulation(tmp_path: Path) -> None:
    """Whoever knows it knows which row is in which shard."""
    party, request = node(tmp_path), train(seed=3)
    party.hello(hello(simulation=False, request=request.digest()))
    assert refused(party.train, request) is Rule.SIMULATION
    assert party.store.secret() is None


def test_least_rows_refusal_does_not_tell_the_number_of_rows(tmp_path: Path) -> None:
    party = node(tmp_path, least_rows_per_teacher=41)
    party.hello(hello())
    with pytest.raises(Refused) as caught:
        party.train(train())
    assert caught.value.refusal.requested is None
    assert "40" not in str(caught.value.refusal)


def test_votes_of_k_teachers_are_k_classes_in_order(tmp_path: Path) -> None:
    """In order: which of its teachers said what, a party does not tell."""
    config = make_config(teachers_per_party=4)
    party = member(tmp_path, config, most_teachers=4)
    x, _ = make_rows(30, 5)
    votes = party.vote(vote(x, config)).choices
    assert votes.dtype == np.uint8
    assert votes.shape == (30, 4)
    assert (np.diff(votes.astype(int), axis=1) >= 0).all()
    assert len(np.unique(votes.sum(axis=1))) > 2
    trained = party.teachers(config.digest())
    rows = canonical_queries(x, 3)
    said = votes_of_teachers(trained, config.rows.inputs(rows), Lot("p", config.digest(), query_ids(rows)))
    assert (np.diff(said, axis=0) < 0).any()  # they were not in order by themselves
    assert votes.tolist() == np.sort(said, axis=0).T.tolist()


def other_data(tmp_path: Path) -> None:
    make_home(tmp_path / "other", "p", seed=9)
    (tmp_path / "other" / "data.npz").replace(tmp_path / "home" / "data.npz")


@pytest.mark.parametrize("change", ["data", "mapping", "own teacher"])
def test_teachers_are_trained_anew_when_what_they_were_made_from_changes(tmp_path: Path, change: str) -> None:
    party = member(tmp_path)
    before = party.teachers(HASH)
    if change == "data":
        other_data(tmp_path)
    changes = {
        "mapping": {"rules": DataRules(missing=MissingRule(codes=("-",)))},
        "own teacher": {"teacher": LogisticRegressionSpec(C=2.0)},
    }
    settings = dataclasses.replace(party.settings, **changes.get(change, {}))
    party = PartyNode(settings, party.rows, party.store)
    party.train(train())
    after = party.teachers(HASH)
    assert after.made_from != before.made_from
    assert after.digest != before.digest  # so the same queries count again


OTHER_ROWS = CONFIG.rows.model_copy(update={"classes": tuple(reversed(CLASSES))}).model_dump_json()


@pytest.mark.parametrize(
    "change",
    [
        {"spec_json": LogisticRegressionSpec(C=2.0).model_dump_json()},
        {"seed": 8},
        {"teachers": 2},
        {"rows_json": OTHER_ROWS},
    ],
)
def test_a_federation_that_asks_for_other_teachers_later_is_refused(tmp_path: Path, change: dict) -> None:
    party = member(tmp_path, most_teachers=4)
    before = party.teachers(HASH)
    again = node(tmp_path, most_teachers=4)  # a new process
    assert refused(again.train, train(**change)) is Rule.PROMISE
    assert refused(again.hello, hello(request=train(**change).digest())) is Rule.PROMISE
    assert party.teachers(HASH).digest == before.digest
    again.train(train())


def test_training_or_voting_before_its_turn_or_for_another_federation_is_refused(tmp_path: Path) -> None:
    party = node(tmp_path)
    x, _ = make_rows(3, 1)
    assert refused(party.vote, vote(x)) is refused(party.train, train()) is Rule.PROMISE
    party.hello(hello())
    assert refused(party.vote, vote(x)) is Rule.NOT_TRAINED
    party.train(train())
    assert refused(party.vote, vote(x, federation="b" * 64)) is Rule.PROMISE


def test_teachers_that_were_changed_on_disk_are_not_loaded(tmp_path: Path) -> None:
    member(tmp_path).store.execute("UPDATE teachers SET content = zeroblob(9)")
    party, (x, _) = node(tmp_path), make_rows(3, 1)
    assert refused(party.vote, vote(x)) is Rule.NOT_TRAINED
    party.train(train())
    party.vote(vote(x))


@pytest.mark.parametrize(
    "asked",
    [
        lambda x: vote(x, query_set="b" * 64),
        lambda x: vote(x[:, :2]),
        lambda x: vote(x, queries=x.astype(np.float64)),
        lambda x: vote(x, queries=x[0]),
        lambda x: vote(np.concatenate([x, x[:1]])),
    ],
)
def test_queries_that_are_not_what_was_hashed_or_stand_twice_are_refused(tmp_path: Path, asked) -> None:
    assert refused(member(tmp_path).vote, asked(make_rows(3, 1)[0])) is Rule.MALFORMED


def test_most_queries_holds_over_runs_and_repeats_are_free(tmp_path: Path) -> None:
    x, _ = make_rows(30, 1)
    for _ in range(3):
        party = member(tmp_path, most_queries=50)  # a run of the coordinator's, in a new process
        party.vote(vote(x))
    second = node(tmp_path)
    other_data(tmp_path)
    second.train(train())  # other teachers: other votes, that count again
    with pytest.raises(Refused) as caught:
        second.vote(vote(x))
    assert caught.value.refusal == Refusal(rule=Rule.MOST_QUERIES, limit=50, requested=60)
    assert second.vote(vote(x[:20])).choices.shape == (20, 1)


def test_votes_do_not_leave_where_the_count_cannot_be_kept(tmp_path: Path) -> None:
    party = member(tmp_path)
    x, _ = make_rows(900, 1)
    pages = party.store.execute("PRAGMA page_count")[0][0]
    party.store.execute(f"PRAGMA max_page_count = {pages}")  # as a full disk says it
    with pytest.raises(LedgerError, match="the disk is full"):
        party.vote(vote(x))
    assert party.store.answered() == 0
    party.store.execute("PRAGMA max_page_count = 100000")
    party.vote(vote(x))


NOTHING = make_config(mechanism=Immutable(gamma=0.05, constant=100), query_budget=QueryBudget(queries=10, answers=10))


@pytest.mark.parametrize(
    ("config", "most"), [(make_config(query_budget=QueryBudget(queries=100_000, answers=50_000)), 3.0), (NOTHING, 1e6)]
)
def test_a_federation_that_promises_too_much_or_nothing_is_refused_before_training(
    tmp_path: Path, config: FederationConfig, most: float
) -> None:
    party = node(tmp_path, most_epsilon=most)
    with pytest.raises(Refused) as caught:
        party.hello(hello(config))
    refusal = caught.value.refusal
    assert (refusal.rule, refusal.limit) == (Rule.MOST_EPSILON, most)
    assert config is NOTHING or (refusal.requested is not None and refusal.requested > 100)
    assert refused(party.train, train(config)) is Rule.PROMISE  # nothing of it was kept


def test_the_coordinator_is_held_to_its_caps(tmp_path: Path) -> None:
    small = make_config(query_budget=QueryBudget(queries=25, answers=25))
    x, _ = make_rows(40, 1)
    party = member(tmp_path, small)
    party.vote(vote(x[:20], small))
    with pytest.raises(Refused) as caught:
        party.vote(vote(x[20:30], small))
    assert caught.value.refusal == Refusal(rule=Rule.QUERY_BUDGET, limit=25, requested=30)
    again = member(tmp_path, small)  # the coordinator resumes in a new run and asks the same set: not counted twice
    again.vote(vote(x[:20], small))
    again.vote(vote(x[20:25], small))
    again.vote(vote(x[10:25], small))  # nor in another set
    assert refused(again.vote, vote(x[24:26], small)) is Rule.QUERY_BUDGET


def context(place: object, **run_config) -> Context:
    return Context(1, 2, {"folder": str(place)}, RecordDict(), run_config)


def party_at(tmp_path: Path) -> NodeFolder:
    folder = make_small(tmp_path).nodes["p00"]
    allow(folder, **asked_of(folder))
    return folder


def greeting(folder: NodeFolder) -> RecordDict:
    terms = open_home(folder).terms
    return to_record(HelloRequest(**{**hello().model_dump(), **terms.model_dump()}))


def call(content: RecordDict, folder: NodeFolder, kind: str = "query.hello") -> RecordDict:
    assume_identity(1, 1)
    message = Message(content, dst_node_id=2, message_type=kind)
    assign_message_id(message)
    assume_identity(1, 2)
    return app(message, context(folder.path)).content


@pytest.mark.parametrize("content", [RecordDict(), RecordDict({"body": ConfigRecord({"x": 1})})])
def test_malformed_requests_are_refused(tmp_path: Path, content: RecordDict) -> None:
    assert refusal_from_record(call(content, party_at(tmp_path))) == Refusal(rule=Rule.MALFORMED)


@pytest.mark.parametrize("name", ["party.toml", "policy.toml", "federation/federation.json"])
def test_a_broken_file_refuses_without_its_text(tmp_path: Path, name: str) -> None:
    folder = party_at(tmp_path)
    request = greeting(folder)
    (folder / name).write_text("secret-text = [")
    assert refusal_from_record(call(request, folder)) == Refusal(rule=Rule.POLICY)


def test_only_the_node_says_where_its_folder_is(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    assert folder_of(context(folder.path, folder="/somewhere/else")) == folder


def test_what_only_a_simulation_asks_has_no_answer_here(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    request = to_record(SaidRequest(federation=HASH, questions=np.zeros(1, dtype=np.uint8)))
    with pytest.raises(ValueError, match="said"):
        call(request, folder, SaidRequest.kind)


def database(error: str) -> Exception:
    failed = sqlite3.OperationalError("of patient-4711")
    failed.sqlite_errorcode = getattr(sqlite3, error)
    return unusable(Path("party.db"), failed)


FILE = "/home/patient-4711.pickle"


@pytest.mark.parametrize(
    ("error", "rule", "logged"),
    [
        (RuntimeError("patient 4711 has a stroke"), Rule.INTERNAL, ""),
        (OSError(errno.ENOSPC, "No space left on device", FILE), Rule.STORAGE, "the disk is full"),
        (FileNotFoundError(errno.ENOENT, "gone", FILE), Rule.INTERNAL, ""),
        (database("SQLITE_FULL"), Rule.STORAGE, "party.db: the disk is full"),
        (database("SQLITE_IOERR_WRITE"), Rule.STORAGE, "party.db: the disk takes no more"),
        (database("SQLITE_CORRUPT"), Rule.STORAGE, "party.db: it is damaged"),
        (database("SQLITE_BUSY"), Rule.LOCKED, "party.db: it is locked"),
        (Refused(Rule.POOL, detail="another row"), Rule.POOL, f"refused: pool: another row. {Rule.POOL.cure}"),
    ],
)
def test_what_is_wrong_is_told_by_its_rule_and_no_text_of_it_travels(
    tmp_path: Path, monkeypatch, caplog, error: Exception, rule: Rule, logged: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    folder = party_at(tmp_path)
    asked = greeting(folder)
    monkeypatch.setattr(client_app, "open_home", fail)
    reply = call(asked, folder)
    assert refusal_from_record(reply) == Refusal(rule=rule)
    assert logged in caplog.text
    assert "4711" not in caplog.text + str(reply)


def test_a_message_is_answered_by_the_files_as_they_are(tmp_path: Path) -> None:
    folder = party_at(tmp_path)
    asked = partial(call, greeting(folder), folder)
    assert refusal_from_record(asked()) is None
    allow(folder, **{**asked_of(folder), "collection": "secure"})
    assert refusal_from_record(asked()) == Refusal(rule=Rule.NOT_ACCEPTED)
    allow(folder, **asked_of(folder))
    (folder / "state" / "party.db").unlink()  # what is put in its place is written to
    assert refusal_from_record(asked()) is None
    with closing(Store(folder / "state" / "party.db")) as store:
        assert store.federation(open_home(folder).terms.federation).terms
