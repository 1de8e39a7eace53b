"""A party's answers, and what it refuses whatever the coordinator asks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from coordinator.config import Caps
from coordinator.mechanisms import GNMax, Immutable
from party import store
from party.data.rules import DataRules, MissingRule
from party.home import open_home
from party.node import PartyNode
from party.spend import epsilon, parse_promise
from protocol.messages import PROTOCOL_VERSION, HelloRequest, TeacherSpec, TrainRequest, VoteRequest
from protocol.queries import canonical_queries, query_set_hash
from protocol.refusals import Refusal, Refused, Rule
from tests.federation import CLASSES, make_config, make_home, make_rows

CONFIG = make_config(caps=Caps(queries=1000, answers=1000))
HASH = CONFIG.digest()


def hello(**changes) -> HelloRequest:
    values = {
        "protocol_version": PROTOCOL_VERSION,
        "federation": HASH,
        "classes": list(CLASSES),
        "teachers": 1,
        "simulation": True,
        "promise": CONFIG.promise(),
    }
    return HelloRequest(**{**values, **changes})


def train(**changes) -> TrainRequest:
    values = {
        "federation": HASH,
        "rows_json": CONFIG.rows.model_dump_json(),
        "spec_json": TeacherSpec().model_dump_json(),
        "teachers": 1,
        "seed": 1,
    }
    return TrainRequest(**{**values, **changes})


OTHER_ROWS = CONFIG.rows.model_copy(update={"classes": tuple(reversed(CLASSES))}).model_dump_json()


def vote(rows: np.ndarray, **changes) -> VoteRequest:
    queries = canonical_queries(rows, rows.shape[1])
    values = {
        "federation": HASH,
        "promise": CONFIG.promise(),
        "query_set": query_set_hash(queries),
        "queries": queries,
    }
    return VoteRequest(**{**values, **changes})


def node(tmp_path: Path, **policy) -> PartyNode:
    folder = tmp_path / "home"
    if not folder.exists():
        make_home(folder, "p", **policy)
    return PartyNode(open_home(folder))


def refused(action, request) -> Rule:
    with pytest.raises(Refused) as caught:
        action(request)
    return caught.value.refusal.rule


def test_hello_tells_name_and_teachers_only(tmp_path: Path) -> None:
    reply = node(tmp_path).hello(hello())
    assert reply.model_dump() == {"party": "p", "teachers": 1}


@pytest.mark.parametrize(
    ("policy", "request_change", "rule"),
    [
        ({"allow_simulation": False}, {}, Rule.SIMULATION),
        ({}, {"classes": ["well", "dead"]}, Rule.CLASSES),
        ({}, {"classes": ["well", "ill", "dead"]}, Rule.CLASSES),
        ({}, {"teachers": 2}, Rule.MOST_TEACHERS),
        ({}, {"protocol_version": 99}, Rule.VERSION),
    ],
)
def test_hello_is_refused_by_policy(tmp_path: Path, policy: dict, request_change: dict, rule: Rule) -> None:
    assert refused(node(tmp_path, **policy).hello, hello(**request_change)) is rule


def test_simulations_are_refused_by_default(tmp_path: Path) -> None:
    from party.policy import Policy

    assert Policy(allowed_classes=("a", "b")).allow_simulation is False


@pytest.mark.parametrize(
    ("policy", "request_change", "rule"),
    [
        ({"least_rows_per_teacher": 41}, {}, Rule.LEAST_ROWS),
        ({"most_teachers": 5, "least_rows_per_teacher": 20}, {"teachers": 3}, Rule.LEAST_ROWS),
        ({}, {"teachers": 2}, Rule.MOST_TEACHERS),
        ({}, {"spec_json": "{}}"}, Rule.MALFORMED),
        ({}, {"spec_json": '{"model": "pickle"}'}, Rule.MALFORMED),
        ({}, {"rows_json": "[]"}, Rule.MALFORMED),
    ],
)
def test_training_is_refused(tmp_path: Path, policy: dict, request_change: dict, rule: Rule) -> None:
    assert refused(node(tmp_path, **policy).train, train(**request_change)) is rule


def test_least_rows_refusal_does_not_tell_the_number_of_rows(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        node(tmp_path, least_rows_per_teacher=41).train(train())
    assert caught.value.refusal.requested is None
    assert "40" not in str(caught.value.refusal)


def test_votes_of_k_teachers_sum_to_k(tmp_path: Path) -> None:
    party = node(tmp_path, most_teachers=4)
    party.train(train(teachers=4))
    x, _ = make_rows(30, 5)
    votes = party.vote(vote(x)).votes
    assert votes.dtype == np.uint16
    assert votes.shape == (30, 2)
    assert (votes.sum(axis=1) == 4).all()
    assert len(np.unique(votes[:, 0])) > 1


def test_teachers_learn(tmp_path: Path) -> None:
    party = node(tmp_path)
    party.train(train())
    x, y = make_rows(500, 6)
    assert (party.vote(vote(x)).votes.argmax(axis=1) == y).mean() > 0.75


def test_same_seed_same_votes_and_a_new_process_goes_on(tmp_path: Path) -> None:
    x, _ = make_rows(50, 5)
    spec = TeacherSpec(model="random_forest", trees=5).model_dump_json()
    votes = []
    for place in ("one", "other"):
        node(tmp_path / place, most_teachers=2).train(train(spec_json=spec, teachers=2))
        votes.append(node(tmp_path / place).vote(vote(x)).votes)  # a new object: only the disk remembers
    assert (votes[0] == votes[1]).all()


def test_training_again_changes_nothing(tmp_path: Path) -> None:
    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in party.home.teachers(HASH).iterdir()}

    party = node(tmp_path)
    party.train(train(seed=-1))
    before = written()
    node(tmp_path).train(train(seed=-1))  # another process, another run of the coordinator's
    assert written() == before


@pytest.mark.parametrize("change", ["data", "mapping", "own teacher"])
def test_teachers_are_trained_anew_when_what_they_were_made_from_changes(tmp_path: Path, change: str) -> None:
    party = node(tmp_path)
    party.train(train())
    before = store.load(party.home.teachers(HASH), HASH)
    match change:
        case "data":
            make_home(tmp_path / "other", "p", seed=9)
            (tmp_path / "other" / "data.npz").replace(party.home.data_file)
        case "mapping":
            party = PartyNode(dataclasses.replace(party.home, rules=DataRules(missing=MissingRule(codes=("-",)))))
        case "own teacher":
            party = PartyNode(dataclasses.replace(party.home, teacher=TeacherSpec(C=2.0)))
    party.train(train())
    after = store.load(party.home.teachers(HASH), HASH)
    assert after.made_from != before.made_from
    assert after.digest != before.digest  # so the same queries count again


@pytest.mark.parametrize(
    "change",
    [{"spec_json": TeacherSpec(C=2.0).model_dump_json()}, {"seed": 8}, {"teachers": 2}, {"rows_json": OTHER_ROWS}],
)
def test_a_federation_that_asks_for_other_teachers_later_is_refused(tmp_path: Path, change: dict) -> None:
    party = node(tmp_path, most_teachers=4)
    party.train(train())
    before = store.load(party.home.teachers(HASH), HASH)
    again = node(tmp_path, most_teachers=4)  # a new process
    assert refused(again.train, train(**change)) is Rule.PROMISE
    assert store.load(party.home.teachers(HASH), HASH).digest == before.digest
    again.train(train())
    again.train(train(**change, federation="b" * 64))  # another federation may ask for them, and pays for itself


def test_a_request_that_was_refused_binds_no_one(tmp_path: Path) -> None:
    assert refused(node(tmp_path, most_teachers=1).train, train(teachers=2)) is Rule.MOST_TEACHERS
    node(tmp_path).train(train())


def test_voting_before_training_or_for_another_federation_is_refused(tmp_path: Path) -> None:
    party = node(tmp_path)
    x, _ = make_rows(3, 1)
    assert refused(party.vote, vote(x)) is Rule.NOT_TRAINED
    party.train(train())
    assert refused(party.vote, vote(x, federation="b" * 64)) is Rule.NOT_TRAINED


def test_teachers_that_were_changed_on_disk_are_not_loaded(tmp_path: Path) -> None:
    party = node(tmp_path)
    party.train(train())
    file = next(party.home.teachers(HASH).glob("*.pickle"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    x, _ = make_rows(3, 1)
    assert refused(party.vote, vote(x)) is Rule.NOT_TRAINED


def test_queries_that_are_not_what_was_hashed_are_refused(tmp_path: Path) -> None:
    party = node(tmp_path)
    party.train(train())
    x, _ = make_rows(3, 1)
    assert refused(party.vote, vote(x, query_set="b" * 64)) is Rule.MALFORMED
    assert refused(party.vote, vote(x[:, :2])) is Rule.MALFORMED
    assert refused(party.vote, vote(x, queries=x.astype(np.float64))) is Rule.MALFORMED


def test_most_queries_holds_over_runs_and_repeats_are_free(tmp_path: Path) -> None:
    x, _ = make_rows(30, 1)
    for _ in range(3):
        party = node(tmp_path, most_queries=50)  # a run of the coordinator's, in a new process
        party.train(train())
        party.vote(vote(x))
    second = node(tmp_path)
    make_home(tmp_path / "other", "p", seed=9)
    (tmp_path / "other" / "data.npz").replace(second.home.data_file)
    second.train(train())  # other teachers: other votes, that count again
    with pytest.raises(Refused) as caught:
        second.vote(vote(x))
    assert caught.value.refusal == Refusal(rule=Rule.MOST_QUERIES, limit=50, requested=60)
    assert second.vote(vote(x[:20])).votes.shape == (20, 2)


def test_votes_do_not_leave_where_the_count_cannot_be_kept(tmp_path: Path) -> None:
    party = node(tmp_path)
    party.train(train())
    (party.home.state / "spend.db").unlink()
    (party.home.state / "spend.db").mkdir()
    x, _ = make_rows(3, 1)
    assert refused(party.vote, vote(x)) is Rule.POLICY


@pytest.mark.parametrize("model", ["logistic_regression", "random_forest", "gradient_boosting"])
@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_every_kind_of_teacher_votes(tmp_path: Path, model: str, weight: str) -> None:
    party = node(tmp_path)
    party.train(train(spec_json=TeacherSpec(model=model, class_weight=weight, trees=5).model_dump_json()))  # pyright: ignore
    x, y = make_rows(200, 6)
    assert (party.vote(vote(x)).votes.argmax(axis=1) == y).mean() > 0.7


BIG = make_config(caps=Caps(queries=100_000, answers=50_000))


def test_a_federation_that_promises_too_much_epsilon_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        node(tmp_path, most_epsilon=3.0).hello(hello(promise=BIG.promise()))
    refusal = caught.value.refusal
    assert refusal.rule is Rule.MOST_EPSILON
    assert refusal.limit == 3.0
    assert refusal.requested is not None
    assert refusal.requested > 100
    assert not (tmp_path / "home" / "state" / "spend.db").exists()


def test_epsilon_composes_over_federations_and_survives_new_processes(tmp_path: Path) -> None:
    def federation(index: int) -> dict:
        config = make_config(name=f"federation {index}", mechanism=GNMax(sigma=60.0))
        return {"federation": config.digest(), "promise": config.promise()}

    x, _ = make_rows(10, 1)
    served = 0
    for index in range(20):
        party = node(tmp_path, most_epsilon=2.0)
        try:
            party.hello(hello(**federation(index)))
        except Refused as error:
            assert error.refusal.rule is Rule.MOST_EPSILON
            break
        party.train(train(federation=federation(index)["federation"]))
        party.vote(vote(x, **federation(index)))
        served += 1
    events = [event for index in range(served + 1) for event in parse_promise(federation(index)["promise"])]
    assert epsilon(events[:-1], 1e-5) <= 2.0 < epsilon(events, 1e-5)
    assert served >= 2
    # a federation that was served before may go on: its caps are counted already
    node(tmp_path).vote(vote(x[:5], **federation(0)))


def test_the_coordinator_is_held_to_its_caps_and_terms(tmp_path: Path) -> None:
    small = make_config(caps=Caps(queries=25, answers=25))
    terms = {"federation": small.digest(), "promise": small.promise()}
    x, _ = make_rows(40, 1)
    party = node(tmp_path)
    party.train(train(federation=small.digest()))
    party.vote(vote(x[:20], **terms))
    with pytest.raises(Refused) as caught:
        party.vote(vote(x[20:30], **terms))
    assert caught.value.refusal == Refusal(rule=Rule.PROMISE, limit=25, requested=30)
    assert refused(party.vote, vote(x[20:25], **{**terms, "promise": CONFIG.promise()})) is Rule.PROMISE
    again = node(tmp_path)  # the coordinator resumes in a new run and asks the same set: not counted twice
    again.train(train(federation=small.digest()))
    again.vote(vote(x[:20], **terms))
    again.vote(vote(x[20:25], **terms))


@pytest.mark.parametrize("promise", ["", "{}", "[]", '{"type": "gnmax"}', '{"type": "free"}'])
def test_promises_that_are_none_are_refused(tmp_path: Path, promise: str) -> None:
    assert refused(node(tmp_path).hello, hello(promise=promise)) is Rule.MALFORMED


def test_mechanisms_that_promise_nothing_are_refused(tmp_path: Path) -> None:
    unsafe = make_config(
        mechanism=Immutable(gamma=0.05, constant=100, unsafe_not_private=True), caps=Caps(queries=10, answers=10)
    )
    with pytest.raises(Refused) as caught:
        node(tmp_path, most_epsilon=1e6).hello(hello(promise=unsafe.promise()))
    assert caught.value.refusal.rule is Rule.MOST_EPSILON
