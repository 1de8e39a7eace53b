"""Messages on Flower's wire: what goes in comes out, and nothing malformed is taken. Plaintext votes: the counts, in
the smallest type. What the table of a voting rule may say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import TypeAdapter, ValidationError

from consilium.protocol.choices import counted, fault, packed
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
from consilium.protocol.voting_rule import RelativeRule, VotingRuleSpec, voting_rule_from_json
from tests.federation import hello_of, make_config

HASH = "a" * 64


def reply_of(party: str, choices: np.ndarray) -> VoteReply:
    return VoteReply(party=party, query_set=HASH, choices=choices)


@given(hnp.arrays(st.sampled_from(["uint16", "float32", "int64", "bool"]), hnp.array_shapes(max_dims=3, min_side=0)))
def test_arrays_come_back_equal(array: np.ndarray) -> None:
    back = decode_array(encode_array(array))
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()


def test_messages_and_refusals_come_back_equal_and_hold_no_votes_in_their_text() -> None:
    request, votes = hello_of(make_config()), np.array([[4711, 0]], dtype=np.uint16)
    assert from_record(to_record(request), HelloRequest) == request
    reply = from_record(to_record(reply_of("p", votes)), VoteReply)
    assert (reply.choices == votes).all() and "4711" not in repr(reply) + str(reply)
    refusal = Refusal(rule=Rule.MOST_QUERIES, limit=10, requested=12)
    assert refusal_from_record(refusal_to_record(refusal)) == refusal
    assert refusal_from_record(to_record(HelloReply(party="p", teachers=1))) is None


def test_whoever_guesses_votes_does_not_know_under_which_hash_flower_keeps_them() -> None:
    votes = np.zeros((1, 12), dtype=np.uint8)
    first, second = ({**get_all_nested_objects(encode_array(votes))} for _ in range(2))
    assert len(first) == len(second) == 2 and not first.keys() & second.keys()
    refused = [refusal_to_record(Refusal(rule=Rule.LEAST_ROWS, limit=20)) for _ in range(2)]
    assert not {*get_all_nested_objects(refused[0])} & {*get_all_nested_objects(refused[1])}


def test_an_array_that_many_messages_share_is_encoded_once() -> None:
    """Each party is sent a key of its own with the same queries: thousands of copies would not fit into memory."""
    votes, encoded = np.arange(6, dtype=np.uint16).reshape(3, 2), {}
    first, second = (to_record(reply_of(name, votes), encoded) for name in ("p", "q"))
    assert first["arrays"]["choices"].data is second["arrays"]["choices"].data  # type: ignore[index, union-attr]
    assert from_record(second, VoteReply).party == "q"
    other = from_record(to_record(reply_of("r", votes + np.uint16(1)), encoded), VoteReply)
    assert (other.choices == votes + 1).all()


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("uint16", (2, 2), 23),
        ("uint16", (2, 2), 32),
        ("uint16", (10**9, 10**9), 16),
        ("uint16", (2**40, 0, 2**40), 16),
        ("uint16", (1,) * 60, 18),
        ("uint16", (-1, -2), 20),
        ("object", (1,), 24),
    ],
)
def test_arrays_whose_parts_disagree_are_refused(dtype: str, shape: tuple[int, ...], size: int) -> None:
    with pytest.raises(MalformedMessage):
        decode_array(Array(dtype=dtype, shape=shape, stype=RAW, data=bytes(size)))
    with pytest.raises(MalformedMessage):
        decode_array(Array(dtype="uint16", shape=(2,), stype="numpy.ndarray", data=bytes(20)))  # could be a pickle


BODY = {"party": "p", "teachers": 1}
RECORDS = [
    {},
    *(
        {"body": ConfigRecord(fields)}
        for fields in (
            {},
            {"party": "p"},
            {**BODY, "teachers": "1"},
            {**BODY, "teachers": 0},
            {**BODY, "teachers": True},
            {**BODY, "rows": 17},
            {**BODY, "party": "../p"},
            {**BODY, "party": "p" * 65},
        )
    ),
    {"body": ConfigRecord(BODY), "arrays": ArrayRecord({}), "more": ConfigRecord({})},
]


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_not_of_the_protocol_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        from_record(RecordDict(record), HelloReply)


def test_malformed_messages_are_described_without_their_values_and_refusals_carry_no_free_text() -> None:
    with pytest.raises(MalformedMessage) as caught:
        from_record(RecordDict({"body": ConfigRecord({**BODY, "party": "secret value!"})}), HelloReply)
    assert "secret" not in str(caught.value) and "party" in str(caught.value)
    for fields in ({}, {"rule": "free text of a party"}, {"rule": "data", "text": "row 17"}):
        with pytest.raises(MalformedMessage):
            refusal_from_record(RecordDict({"refusal": ConfigRecord(fields)}))
    for cures in (CURES, CURES_OF_SECOND):
        assert all(cures[rule] and not cures[rule].endswith(".") for rule in Rule)


@st.composite
def said(draw) -> tuple[np.ndarray, int]:
    """What teachers said, (teachers, queries), and the number of classes."""
    classes = draw(st.sampled_from([2, 3, 10, 255, 256, 257, 1000]))
    shape = (draw(st.integers(1, 6)), draw(st.integers(0, 8)))
    return draw(hnp.arrays(np.int64, shape, elements=st.integers(0, classes - 1))), classes


@given(said(), st.integers(0, 1000))
def test_choices_are_the_counts_and_hide_who_said_what(drawn, seed) -> None:
    each, classes = drawn
    wire = packed(each, classes)
    assert wire.dtype.itemsize == (1 if classes <= 256 else 2)
    assert fault(wire, each.shape[1], classes, len(each)) is None
    assert counted(wire, classes).tolist() == [np.bincount(query, minlength=classes).tolist() for query in each.T]
    # the teachers change places, in each query by themselves
    shuffled = np.random.default_rng(seed).permuted(each, axis=0)
    assert packed(shuffled, classes).tobytes() == wire.tobytes()


GOOD = np.array([[0, 2], [1, 1], [0, 0]], dtype=np.uint8)
WRONG = [
    (GOOD.astype(np.uint16), "votes are uint16, must be uint8"),
    (GOOD.astype(np.int8), "votes are int8, must be uint8"),
    (np.concatenate([GOOD, GOOD[:1]]), "votes have shape (4, 2), must be (3, 2)"),
    (GOOD[:, :1], "votes have shape (3, 1), must be (3, 2)"),
    (GOOD + np.uint8(1), "a vote is for no class: there are 3"),
    (GOOD[:, ::-1], "votes of a query are not in ascending order"),
]


@pytest.mark.parametrize(("choices", "told"), WRONG)
def test_any_other_form_is_refused_in_words_without_its_numbers(choices: np.ndarray, told: str) -> None:
    assert (fault(GOOD, 3, 3, 2), fault(choices, 3, 3, 2)) == (None, told)


@pytest.mark.parametrize(
    ("table", "classes", "expected", "undeclared"),
    [
        ({}, 2, [0.5, 0.5], True),
        ({"quantile": 0.75}, 2, [0.25, 0.75], False),
        ({"quantile": 0.75}, 3, [0.75, 0.75, 0.75], False),
        ({"shares": [0.75, 0.25]}, 2, [0.25, 0.75], False),
        ({"shares": [0.5, 0.25, 0.25]}, 3, [0.5, 0.75, 0.75], False),
    ],
)
def test_the_orders_of_the_quantiles_and_whether_anybody_says_how_frequent_classes_are(
    table: dict[str, Any], classes: int, expected: list[float], undeclared: bool
) -> None:
    voting_rule = voting_rule_from_json(RelativeRule.model_validate(table).model_dump_json())
    np.testing.assert_allclose(voting_rule.orders(classes), expected)
    assert voting_rule.undeclared == undeclared and not voting_rule_from_json('{"rule": "top"}').undeclared


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"rule": "bottom"}, "rule"),
        ({"rule": "top", "quantile": 0.5}, "Extra inputs"),
        ({"rule": "relative", "quantile": 0.0}, "greater than 0"),
        ({"rule": "relative", "quantile": 1.0}, "less than 1"),
        ({"rule": "relative", "shares": [0.5, 0.4]}, "shares sum to 0.9, they must sum to 1"),
        ({"rule": "relative", "shares": [1.5, -0.5]}, "less than 1"),
        ({"rule": "relative", "shares": [0.5, 0.5], "quantile": 0.9}, "quantile or shares, not both"),
        ({"rule": "relative", "reference": 1}, "greater than or equal to 2"),
        ({"rule": "relative", "reference": 1001}, "less than or equal to 1000"),
    ],
)
def test_what_a_voting_rule_may_not_say(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(VotingRuleSpec).validate_python(table)
