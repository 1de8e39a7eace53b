"""Rules by which a teacher votes: what their tables may say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from consilium.protocol.voting_rule import VOTING_RULES, RelativeRule, TopRule, VotingRuleSpec, voting_rule_from_json

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


def test_shares_are_of_the_classes() -> None:
    voting_rule = RelativeRule(shares=(0.5, 0.25, 0.25))
    voting_rule.check_classes(3)
    with pytest.raises(ValueError, match=r"voting_rule.shares has 3 numbers for 2 classes"):
        voting_rule.check_classes(2)


def test_only_a_relative_ballot_takes_reference_rows() -> None:
    assert [(kind.relative, kind().reference_rows) for kind in VOTING_RULES] == [(False, 0), (True, 200)]
    assert voting_rule_from_json('{"rule": "top"}') == TopRule()


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
