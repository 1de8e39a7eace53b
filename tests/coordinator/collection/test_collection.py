"""Members and plaintext votes: a bad, missing or lying party is left out by name, and the run goes on while enough are
left; answers are added and dropped as they come, and kept where a simulation wants them."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from consilium.accounting.mechanisms import Confident
from consilium.coordinator.collection import exchange
from consilium.coordinator.collection.admission import enrol, train
from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.exchange import (
    AT_ONCE,
    Failure,
    FlowerTransport,
    Member,
    no_answer,
    no_node,
    stream,
)
from consilium.coordinator.collection.plaintext import PATTERN, keep_votes, kept_votes
from consilium.coordinator.events import EventLog
from consilium.protocol.choices import counted
from consilium.protocol.errors import DataError, NotEnoughParties
from consilium.protocol.messages import VoteReply
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash
from consilium.protocol.records import to_record
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from tests.coordinator.collection.test_admission import Clock
from tests.federation import (
    FakeTransport,
    counts_over,
    drop,
    make_config,
    make_home,
    make_relative,
    make_rows,
    standing,
    vote_request,
    with_array,
    with_field,
)

CONFIG, STANDING = make_config(), standing()
KEPT = make_config(record_votes=True)
X = canonical_queries(make_rows(20, 5)[0], 3)


def left_out(log: EventLog) -> dict[str, Any]:
    events = [json.loads(line) for line in Path(log._file.name).read_text().splitlines()]
    return {event["party"]: event["reason"] for event in events if event["event"] == "left-out"}


def joined(transport, log, config=CONFIG):
    return train(transport, config, enrol(transport, config, log, STANDING), log).members


def kept_in(folder: Path) -> dict[str, np.ndarray]:
    (path,) = (folder / "private").glob(PATTERN)
    return {party: counted(choices, 2) for party, choices in kept_votes(path, 2)[1].items()}


def vote_with(homes, log, faults, config=CONFIG):
    transport = FakeTransport(homes, faults)
    members = joined(transport, log, config)
    return counts_over(transport, config, members, X, log)


def test_all_good_votes_are_counted_exactly(homes, tmp_path, log) -> None:
    transport = FakeTransport(homes)
    members = joined(transport, log, KEPT)
    histogram = counts_over(transport, KEPT, members, X, log, tmp_path)
    assert histogram.parties == ("p00", "p01", "p02", "p03", "p04")
    assert (histogram.votes.sum(axis=1) == 5).all()
    assert (histogram.votes == sum(kept_in(tmp_path).values())).all()
    assert histogram.votes.dtype == np.int64
    assert left_out(log) == {}


MALFORMED = {
    "not a number": (lambda v: np.full(v.shape, np.nan), "float64"),
    "a teacher too many": (lambda v: np.column_stack([v, v]), "shape"),
    "flat": (lambda v: v.ravel(), "shape"),
    "the class after the last": (lambda v: np.where(v == 1, 2, v).astype(np.uint8), "no class"),
    "one vote for no class": (lambda v: np.concatenate([v[:-1], [[2]]]).astype(np.uint8), "no class"),
    "too many bytes": (lambda v: np.zeros((1_000_000, 1), dtype=np.uint8), "more than 160 bytes"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_votes_leave_their_party_out_by_name(homes, log, case: str) -> None:
    change, told = MALFORMED[case]
    histogram = vote_with(homes, log, {(1, "query.vote"): with_array("choices", change)})
    assert histogram.parties == ("p00", "p02", "p03", "p04")
    assert histogram.teachers == 4
    assert (histogram.votes.sum(axis=1) == 4).all()
    assert list(left_out(log)) == ["p01"]
    assert told in left_out(log)["p01"]


LIES = {
    "gone": drop,
    "another party's name": with_field("party", "p02"),
    "another query set": with_field("query_set", "b" * 64),
    "an unknown field": with_field("note", "x"),
    "a field of another type": with_field("party", 7),
    "nothing": lambda _: RecordDict(),
    "an unknown refusal": lambda _: RecordDict({"refusal": ConfigRecord({"rule": "because"})}),
}


@pytest.mark.parametrize("kind", ["query.hello", "train.teacher", "query.vote"])
@pytest.mark.parametrize("case", LIES)
def test_a_party_that_lies_or_is_gone_at_any_stage_is_left_out(homes, log, kind: str, case: str) -> None:
    if (kind, case) in {("query.hello", "another query set"), ("train.teacher", "another query set")}:
        pytest.skip("no query set in this message")
    histogram = vote_with(homes, log, {(1, kind): LIES[case]})
    left = left_out(log)
    if (kind, case) == ("query.hello", "another party's name"):
        # nobody can tell which of the two is p02: both stay outside
        assert histogram.parties == ("p00", "p03", "p04")
        assert "claim this name" in left["p02"]
    else:
        assert histogram.parties == ("p00", "p02", "p03", "p04")
        assert len(left) == 1


@pytest.mark.parametrize("kind", ["query.hello", "train.teacher", "query.vote"])
def test_too_few_left_ends_the_run_with_the_reasons(homes, log, kind: str) -> None:
    faults = {(index, kind): drop for index in range(3)}
    with pytest.raises(NotEnoughParties, match=r"2 parties after stage.*at least 3.*3 x no answer") as caught:
        vote_with(homes, log, faults)
    assert caught.value.exit_code == 4


def write_rows(home: Path, **changes: np.ndarray) -> Path:
    with np.load(home / "data.npz") as file:
        arrays = {**file, **changes}
    np.savez(home / "data.npz", **arrays)
    return home


def test_parties_that_are_left_out_for_what_their_data_hold_are_counted_as_such(homes, tmp_path, log) -> None:
    few = make_home(tmp_path / "few", "few", rows=4)  # the policy asks for 5
    x = np.full((40, 3), np.nan)
    gaps = write_rows(make_home(tmp_path / "gaps", "gaps"), x=x)
    columns = write_rows(make_home(tmp_path / "columns", "columns"), features=np.array(["a", "b", "c"]))
    transport = FakeTransport([*homes, few, gaps, columns], {(1, "train.teacher"): drop})
    trained = train(transport, CONFIG, enrol(transport, CONFIG, log, STANDING), log)
    assert [member.party for member in trained.members] == ["p00", "p02", "p03", "p04"]
    assert trained.left_out_for_data == 3
    assert {*left_out(log)} == {"few", "gaps", "columns", "p01"}


@pytest.mark.parametrize("make", [make_config, make_relative])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_a_party_of_one_class_takes_part_and_votes(tmp_path, log, make, rows: int) -> None:
    """With one row, and with many; refused, it would tell by being away what its labels are."""
    homes = [
        write_rows(make_home(tmp_path / name, name, rows=rows, least_rows_per_teacher=1), y=np.full(rows, label))
        for label, name in enumerate(("well", "ill"))
    ]
    config = make(minimum_parties=2, record_votes=True, mechanism=Confident(threshold=1, sigma1=2.0, sigma2=1.0))
    transport = FakeTransport(homes)
    counts_over(transport, config, joined(transport, log, config), X, log, tmp_path)
    shares = {name: votes[:, 1].mean() for name, votes in kept_in(tmp_path).items()}
    if config.voting_rule.relative:  # by the lot, in whose favour neither class is
        assert all(0 < share < 1 for share in shares.values())
    else:
        assert shares == {"well": 0, "ill": 1}


def test_text_of_a_party_never_reaches_the_log(homes, log) -> None:
    vote_with(homes, log, {(1, "query.vote"): with_field("party", "patient-4711\x1b[31m")})
    assert "4711" not in Path(log._file.name).read_text()


def test_refusals_are_told_with_their_rule(homes, log) -> None:
    rows = CONFIG.rows.model_copy(update={"classes": ("alive", "dead")})
    with pytest.raises(NotEnoughParties, match="refused: classes"):
        vote_with(homes, log, {}, make_config(rows=rows))
    assert left_out(log)["node 0"].startswith("refused: classes, ")  # it has not told its name


# Answers as they come, whatever the transport.

PARTIES = 3 * AT_ONCE + 5
MEMBERS = [Member(node, f"p{node:04d}", 1) for node in range(PARTIES)]


def choices_of(node: int) -> np.ndarray:
    return np.random.default_rng(node).integers(2, size=(len(X), 1)).astype(np.uint8)


def reply_of(node: int) -> RecordDict:
    reply = VoteReply(party=f"p{node:04d}", query_set=query_set_hash(X), choices=choices_of(node))
    return to_record(reply)


class Prompt:
    """A transport of parties that answer at once. most: how many of their answers anybody held at a time."""

    def __init__(self) -> None:
        self.given: list[weakref.ref] = []
        self.most = 0

    def nodes(self) -> list[int]:
        return list(range(PARTIES))

    def exchange(self, requests, timeout):
        for node in requests:
            record = reply_of(node)
            self.given.append(weakref.ref(record))
            self.most = max(self.most, sum(each() is not None for each in self.given))
            yield node, record
            del record


def test_one_reply_is_held_at_a_time_however_many_parties_there_are(log) -> None:
    transport = Prompt()
    histogram = counts_over(transport, CONFIG, MEMBERS, X, log)
    assert transport.most <= 2
    assert histogram.parties == tuple(member.party for member in MEMBERS)
    assert histogram.votes.tolist() == sum(counted(choices_of(node), 2) for node in range(PARTIES)).tolist()


class Shelf:
    """As much of a Grid as the transport uses. ready: which of the messages are answered, by node, and how."""

    def __init__(self, ready: Callable[[int], bool] = lambda _: True) -> None:
        self.ready, self.sent, self.asked = ready, {}, []
        self.again: list[Message] = []

    def get_node_ids(self) -> Iterable[int]:
        return range(PARTIES)

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            ids.append(assign_message_id(message) if node != 7 else None)  # one cannot be pushed
            self.sent[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        wanted = list(message_ids)
        self.asked.append(len(wanted))
        found, self.again = self.again, []
        for message_id in wanted:
            message = self.sent[message_id]
            node = message.metadata.dst_node_id
            if node == 9:
                found.append(Message(Error(code=8, reason="patient 4711"), reply_to=message))
            elif self.ready(node):
                found.append(Message(reply_of(node), reply_to=message))
        self.again = found[-1:]  # a grid that gives one reply twice
        return found


@pytest.fixture
def requests() -> dict[int, Any]:
    assume_identity(1, 1)
    return dict.fromkeys(range(PARTIES), vote_request(CONFIG, X))


def test_replies_are_pulled_a_bounded_number_at_a_time_and_each_counts_once(requests, monkeypatch) -> None:
    """Who does not answer in time is named, and holds up nobody."""
    clock = Clock()
    monkeypatch.setattr(exchange, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    silent = {0, 1, AT_ONCE, PARTIES - 1}
    shelf = Shelf(lambda node: node not in silent)
    transport = FlowerTransport(cast(Any, shelf))
    found = list(transport.exchange(requests, 0.5))
    assert max(shelf.asked) == AT_ONCE
    assert sorted(node for node, _ in found) == list(range(PARTIES))  # everybody once
    failed = {node: answer for node, answer in found if isinstance(answer, Failure)}
    assert failed == {**dict.fromkeys((*silent, 7), no_answer(0.5)), 9: no_node("crashed")}


def test_an_answer_of_too_many_bytes_is_refused_and_the_next_one_is_read() -> None:
    transport = Prompt()
    told: list[tuple[int, int]] = []
    found = dict(stream(transport, dict.fromkeys(range(3)), VoteReply, 1, lambda *done: told.append(done), len(X)))
    assert all(isinstance(reply, VoteReply) for reply in found.values())
    assert told == [(1, 3), (2, 3), (3, 3)]
    small = dict(stream(transport, dict.fromkeys(range(3)), VoteReply, 1, None, len(X) - 1))
    assert set(small.values()) == {Failure(f"malformed answer: query.vote: arrays of more than {len(X) - 1} bytes")}


# Votes that are kept.

FOUR = canonical_queries(make_rows(4, 5)[0], 3)
SAID = {
    "p02": np.array([[0, 2], [1, 1], [0, 0], [2, 2]], dtype=np.uint8),
    "query_ids": np.array([[0, 1], [0, 1], [0, 1], [0, 1]], dtype=np.uint8),  # a party may be called so
    "p01": np.array([[1, 1], [1, 1], [1, 1], [1, 2]], dtype=np.uint8),
}
GOOD = np.stack(list(SAID.values()))


@pytest.mark.parametrize(
    "damage",
    [{}, {"choices": None}, {"choices": np.where(GOOD == 2, 3, GOOD)}],
    ids=["none", "no votes", "a class that is none"],
)
def test_what_is_kept_is_read_by_party_and_a_damaged_file_is_a_typed_error(tmp_path: Path, damage: dict) -> None:
    keep_votes(tmp_path, Queries(FOUR), SAID)
    (path,) = tmp_path.glob(PATTERN)
    ids, choices = kept_votes(path, 3)
    assert ids == query_ids(FOUR) and {name: each.tolist() for name, each in choices.items()} == {
        name: each.tolist() for name, each in SAID.items()
    }
    with np.load(path) as file:
        content = {**file, **damage}
    np.savez(path, allow_pickle=True, **{name: array for name, array in content.items() if array is not None})
    with pytest.raises(DataError, match="cannot be read") if damage else nullcontext():
        kept_votes(path, 3)
