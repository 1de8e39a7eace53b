"""Choices: the same votes as a matrix of counts, in the smallest type, and every other form refused.

Rules by which a teacher votes: what their tables may say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import TypeAdapter, ValidationError

from consilium.protocol.choices import counted, fault, packed
from consilium.protocol.voting_rule import RelativeRule, VotingRuleSpec, voting_rule_from_json


@st.composite
def said(draw) -> tuple[np.ndarray, int]:
    """What teachers said, (teachers, queries), and the number of classes."""
    classes = draw(st.sampled_from([2, 3, 10, 255, 256, 257, 1000]))
    shape = (draw(st.integers(1, 6)), draw(st.integers(0, 8)))
    return draw(arrays(np.int64, shape, elements=st.integers(0, classes - 1))), classes


@given(said(), st.randoms())
def test_choices_are_the_counts_and_hide_who_said_what(drawn, random) -> None:
    each, classes = drawn
    wire = packed(each, classes)
    assert wire.dtype.itemsize == (1 if classes <= 256 else 2)
    assert fault(wire, each.shape[1], classes, len(each)) is None
    assert counted(wire, classes).tolist() == [np.bincount(query, minlength=classes).tolist() for query in each.T]
    shuffled = each.copy()
    for query in range(each.shape[1]):  # the teachers change places, in each query by themselves
        order = list(range(len(each)))
        random.shuffle(order)
        shuffled[:, query] = each[order, query]
    assert packed(shuffled, classes).tobytes() == wire.tobytes()


GOOD = np.array([[0, 2], [1, 1], [0, 0]], dtype=np.uint8)
WRONG = {
    "another type": (GOOD.astype(np.uint16), "votes are uint16, must be uint8"),
    "signed": (GOOD.astype(np.int8), "votes are int8, must be uint8"),
    "a query more": (np.concatenate([GOOD, GOOD[:1]]), "votes have shape (4, 2), must be (3, 2)"),
    "a teacher less": (GOOD[:, :1], "votes have shape (3, 1), must be (3, 2)"),
    "the class after the last": (GOOD + np.uint8(1), "a vote is for no class: there are 3"),
    "not in order": (GOOD[:, ::-1], "votes of a query are not in ascending order"),
}


@pytest.mark.parametrize("case", WRONG)
def test_any_other_form_is_refused_in_words_without_its_numbers(case: str) -> None:
    assert fault(GOOD, 3, 3, 2) is None
    choices, told = WRONG[case]
    assert fault(choices, 3, 3, 2) == told


TABLES: dict[str, tuple[dict[str, Any], int, list[float]]] = {
    "the median": ({}, 2, [0.5, 0.5]),
    "a quantile of the log-odds": ({"quantile": 0.75}, 2, [0.25, 0.75]),
    "a quantile of each of three": ({"quantile": 0.75}, 3, [0.75, 0.75, 0.75]),
    "shares of two": ({"shares": [0.75, 0.25]}, 2, [0.25, 0.75]),
    "shares of three": ({"shares": [0.5, 0.25, 0.25]}, 3, [0.5, 0.75, 0.75]),
}


@pytest.mark.parametrize("case", TABLES)
def test_the_orders_of_the_quantiles(case: str) -> None:
    table, classes, expected = TABLES[case]
    voting_rule = voting_rule_from_json(RelativeRule.model_validate(table).model_dump_json())
    np.testing.assert_allclose(voting_rule.orders(classes), expected)


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
def test_what_a_ballot_may_not_say(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(VotingRuleSpec).validate_python(table)


@pytest.mark.parametrize(
    ("table", "undeclared"),
    [
        ({"rule": "top"}, False),
        ({"rule": "relative"}, True),
        ({"rule": "relative", "quantile": 0.9}, False),
        ({"rule": "relative", "shares": [0.9, 0.1]}, False),
    ],
)
def test_whether_anybody_says_how_frequent_classes_are(table: dict[str, Any], undeclared: bool) -> None:
    assert TypeAdapter(VotingRuleSpec).validate_python(table).undeclared == undeclared
