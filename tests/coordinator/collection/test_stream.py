"""Answers are added and dropped as they come, whatever the transport, and pulled a bounded number at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Error, Message, RecordDict

from consilium.coordinator.collection.exchange import (
    AT_ONCE,
    Failure,
    FlowerTransport,
    Member,
    no_answer,
    no_node,
    stream,
)
from consilium.protocol.choices import counted
from consilium.protocol.messages import VoteReply
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.protocol.records import to_record
from consilium.simulations.engines.flower import assign_message_id, assume_identity
from tests.federation import counts_over, make_config, make_rows, vote_request

CONFIG = make_config()
X = canonical_queries(make_rows(20, 5)[0], 3)
PARTIES = 3 * AT_ONCE + 5
MEMBERS = [Member(node, f"p{node:04d}", 1) for node in range(PARTIES)]


def choices_of(node: int) -> np.ndarray:
    return np.random.default_rng(node).integers(2, size=(len(X), 1)).astype(np.uint8)


def reply_of(node: int) -> RecordDict:
    reply = VoteReply(party=f"p{node:04d}", query_set=query_set_hash(X), choices=choices_of(node))
    return to_record(reply)


class Held:
    """How many of the objects that were shown to it are still held by anybody, and how many were at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def note(self, thing: object) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        weakref.finalize(thing, self._gone)

    def _gone(self) -> None:
        self.now -= 1


class Prompt:
    """A transport of parties that answer at once."""

    def __init__(self, held: Held) -> None:
        self.held = held

    def nodes(self) -> list[int]:
        return list(range(PARTIES))

    def exchange(self, requests, timeout, on_reply):
        for node in requests:
            record = reply_of(node)
            self.held.note(record)
            yield node, record
            del record


def test_one_reply_is_held_at_a_time_however_many_parties_there_are(log) -> None:
    records = Held()
    histogram = counts_over(Prompt(records), CONFIG, MEMBERS, X, log)
    assert records.most <= 2
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


def test_replies_are_pulled_a_bounded_number_at_a_time_and_each_counts_once(requests) -> None:
    """Who does not answer in time is named, and holds up nobody."""
    silent = {0, 1, AT_ONCE, PARTIES - 1}
    shelf, told = Shelf(lambda node: node not in silent), []
    transport = FlowerTransport(cast(Any, shelf))
    found = list(transport.exchange(requests, 0.5, lambda done, total: told.append((done, total))))
    assert max(shelf.asked) == AT_ONCE
    assert sorted(node for node, _ in found) == list(range(PARTIES))  # everybody once
    failed = {node: answer for node, answer in found if isinstance(answer, Failure)}
    assert failed == {**dict.fromkeys((*silent, 7), no_answer(0.5)), 9: no_node("crashed")}
    assert told == [(done, PARTIES) for done in range(1, PARTIES - len(silent))]


def test_while_nodes_answer_in_order_those_behind_them_are_not_pulled(requests) -> None:
    answered: list[int] = []
    shelf = Shelf(lambda node: node <= len(answered) + 4)
    for node, _ in FlowerTransport(cast(Any, shelf)).exchange(requests, 60.0, lambda done, total: None):
        answered.append(node)
    assert len(answered) == PARTIES
    assert len(shelf.asked) < PARTIES / 3  # each time through all of them: PARTIES / 2


def test_an_answer_of_too_many_bytes_is_refused_and_the_next_one_is_read() -> None:
    transport = Prompt(Held())
    found = dict(stream(transport, dict.fromkeys(range(3)), VoteReply, 1, lambda *_: None, len(X)))
    assert all(isinstance(reply, VoteReply) for reply in found.values())
    small = dict(stream(transport, dict.fromkeys(range(3)), VoteReply, 1, lambda *_: None, len(X) - 1))
    assert set(small.values()) == {Failure(f"malformed answer: query.vote: arrays of more than {len(X) - 1} bytes")}
