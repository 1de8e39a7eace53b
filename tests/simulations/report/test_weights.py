"""The report's table of what the federation means for each party."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consilium.protocol.errors import DataError
from consilium.simulations.report.guarantees import OwnEpsilon, own_epsilons
from tests.simulations.drawing import render_once
from tests.simulations.report.cases import run

BY_PARTY = {
    "hospital-x": {"weight": 3, "epsilon": 2.7181},
    "hospital-a": {"weight": 1, "epsilon": 0.9001},
    "hospital-y": {"weight": 3, "epsilon": 2.7181},
}


def test_one_row_for_each_weight_with_names_where_these_may_be_seen() -> None:
    assert own_epsilons(BY_PARTY) == [
        OwnEpsilon(1, "0.901", 1, ("hospital-a",)),
        OwnEpsilon(3, "2.719", 2, ("hospital-x", "hospital-y")),
    ]
    assert own_epsilons({}) == []


def test_an_epsilon_that_is_none_is_said_to_be() -> None:
    without = {"p": {"weight": 2, "epsilon": None, "infinite": ["epsilon"]}}
    assert own_epsilons(without) == [OwnEpsilon(2, "unbounded", 1, tuple(without))]


@pytest.mark.parametrize("own", [{}, {"weight": 1}, {"weight": 1, "epsilon": "low"}])
def test_what_is_no_epsilon_is_not_shown(own: dict) -> None:
    with pytest.raises(DataError, match="malformed"):
        own_epsilons({"p": own})


@pytest.mark.parametrize("public", [False, True])
def test_the_page_has_the_table_where_parties_have_weights(public: bool) -> None:
    page = render_once(replace(run(), by_party=BY_PARTY), public)
    # which weights there are says which parties took part
    assert [each in page for each in ('id="weights"', "0.901", "2.719", "hospital-x")] == [not public] * 4
    assert 'id="weights"' not in render_once(run(), public)
