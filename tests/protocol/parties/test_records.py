"""Messages on Flower's wire: what goes in comes out, and nothing malformed is taken."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import HelloReply, HelloRequest, VoteReply
from consilium.protocol.records import (
    RAW,
    decode_array,
    encode_array,
    from_record,
    refusal_from_record,
    refusal_to_record,
    to_record,
)
from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Refusal, Rule
from tests.federation import hello_of, make_config

HASH = "a" * 64


@given(hnp.arrays(st.sampled_from(["uint16", "float32", "int64", "bool"]), hnp.array_shapes(max_dims=3, min_side=0)))
def test_arrays_come_back_equal(array: np.ndarray) -> None:
    back = decode_array(encode_array(array))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_whoever_guesses_votes_does_not_know_under_which_hash_flower_keeps_them() -> None:
    votes = np.zeros((1, 12), dtype=np.uint8)
    first, second = ({**get_all_nested_objects(encode_array(votes))} for _ in range(2))
    assert len(first) == len(second) == 2 and not first.keys() & second.keys()
    refused = [refusal_to_record(Refusal(rule=Rule.LEAST_ROWS, limit=20)) for _ in range(2)]
    assert not {*get_all_nested_objects(refused[0])} & {*get_all_nested_objects(refused[1])}


def test_messages_come_back_equal() -> None:
    request = hello_of(make_config())
    assert from_record(to_record(request), HelloRequest) == request
    votes = np.arange(6, dtype=np.uint16).reshape(3, 2)
    reply = from_record(to_record(VoteReply(party="p", query_set=HASH, choices=votes)), VoteReply)
    assert (reply.choices == votes).all()


def test_an_array_that_many_messages_share_is_encoded_once() -> None:
    """Each party is sent a key of its own with the same queries: thousands of copies would not fit into memory."""
    votes, encoded = np.arange(6, dtype=np.uint16).reshape(3, 2), {}
    replies = [VoteReply(party=name, query_set=HASH, choices=votes) for name in ("p", "q")]
    first, second = (to_record(reply, encoded) for reply in replies)
    assert first["arrays"]["choices"].data is second["arrays"]["choices"].data  # type: ignore[index, union-attr]
    assert from_record(second, VoteReply).party == "q"
    other = VoteReply(party="r", query_set=HASH, choices=votes + np.uint16(1))
    assert (from_record(to_record(other, encoded), VoteReply).choices == votes + 1).all()


def test_votes_are_not_in_repr() -> None:
    reply = VoteReply(party="p", query_set=HASH, choices=np.array([[4711, 0]], dtype=np.uint16))
    assert "4711" not in repr(reply)
    assert "4711" not in str(reply)


@pytest.mark.parametrize(
    "array",
    [
        Array(dtype="uint16", shape=(2, 2), stype=RAW, data=b"\0" * 23),
        Array(dtype="uint16", shape=(2, 2), stype=RAW, data=b"\0" * 32),
        Array(dtype="uint16", shape=(10**9, 10**9), stype=RAW, data=b"\0" * 16),
        Array(dtype="uint16", shape=(2**40, 0, 2**40), stype=RAW, data=b"\0" * 16),
        Array(dtype="uint16", shape=(1,) * 60, stype=RAW, data=b"\0" * 18),
        Array(dtype="uint16", shape=(-1, -2), stype=RAW, data=b"\0" * 20),
        Array(dtype="object", shape=(1,), stype=RAW, data=b"\0" * 24),
        Array(dtype="uint16", shape=(2,), stype="numpy.ndarray", data=b"\0" * 20),
    ],
    ids=["short", "long", "huge", "huge and empty", "many sides", "negative", "object", "pickle-able"],
)
def test_arrays_whose_parts_disagree_are_refused(array: Array) -> None:
    with pytest.raises(MalformedMessage):
        decode_array(array)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"party": "p"},
        {"party": "p", "teachers": "1"},
        {"party": "p", "teachers": 0},
        {"party": "p", "teachers": 1, "rows": 17},
        {"party": "../p", "teachers": 1},
        {"party": "p" * 65, "teachers": 1},
        {"party": "p", "teachers": True},
    ],
)
def test_fields_that_are_not_of_the_protocol_are_refused(fields: dict) -> None:
    with pytest.raises(MalformedMessage):
        from_record(RecordDict({"body": ConfigRecord(fields)}), HelloReply)


def test_records_beside_body_and_arrays_are_refused() -> None:
    record = to_record(HelloReply(party="p", teachers=1))
    record["arrays"] = ArrayRecord({})
    record["more"] = ConfigRecord({})
    with pytest.raises(MalformedMessage):
        from_record(record, HelloReply)
    with pytest.raises(MalformedMessage):
        from_record(RecordDict(), HelloReply)


def test_malformed_messages_are_described_without_their_values() -> None:
    with pytest.raises(MalformedMessage) as caught:
        from_record(RecordDict({"body": ConfigRecord({"party": "secret value!", "teachers": 1})}), HelloReply)
    assert "secret" not in str(caught.value)
    assert "party" in str(caught.value)


def test_refusals_come_back_equal() -> None:
    refusal = Refusal(rule=Rule.MOST_QUERIES, limit=10, requested=12)
    assert refusal_from_record(refusal_to_record(refusal)) == refusal
    assert refusal_from_record(to_record(HelloReply(party="p", teachers=1))) is None


@pytest.mark.parametrize("fields", [{}, {"rule": "free text of a party"}, {"rule": "data", "text": "row 17"}])
def test_refusals_carry_no_free_text(fields: dict) -> None:
    with pytest.raises(MalformedMessage):
        refusal_from_record(RecordDict({"refusal": ConfigRecord(fields)}))


@pytest.mark.parametrize("cures", [CURES, CURES_OF_SECOND])
def test_every_rule_has_a_cure_of_which_a_sentence_is_made(cures: dict[Rule, str]) -> None:
    assert all(cures[rule] and not cures[rule].endswith(".") for rule in Rule)
