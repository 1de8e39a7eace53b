"""Differences of sums: the search finds a vote under rules that look right, and none under the one in use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from consilium.simulations.attack import differences as module
from consilium.simulations.attack.differences import BLOCKS, CONTROLS, NOISE, BlockRule, Searcher, Span, differences
from consilium.simulations.attack.laboratory import broken
from consilium.sums.roster import check_blocks
from tests.simulations.attack.small import everything

SIZES = (16, 2, 11)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORIES", 10)


def test_no_search_finds_a_vote_under_the_rule_in_use() -> None:
    """A party shares its block, so that no combination has more than half of it."""
    found = module.searched(everything(), BLOCKS, BlockRule, False, SIZES, 0.0)
    assert (found.read, found.deviation) == (0, None)
    assert 0.4 < found.nearest <= 0.5 + 1e-9
    assert found.granted > 100


@pytest.mark.parametrize("name", CONTROLS)
def test_control_each_other_rule_is_beaten(name: str) -> None:
    found = module.searched(everything(), name, CONTROLS[name], True, SIZES, 0.0)
    assert found.read >= 3
    assert found.deviation == 0.0


@pytest.mark.parametrize(
    ("collection", "rules"), [("secure", 4), ("distributed", 1), ("verified", 1), ("plaintext", 0)]
)
def test_each_collection_has_its_rules(collection: str, rules: int) -> None:
    searches = differences(everything(f"federation.collection={collection}"))
    assert len(searches) == rules
    for one in searches:
        assert one.control is (one.rule in CONTROLS)
        if one.rule == NOISE:
            assert (one.read, one.granted) == (one.histories, one.asked)
            assert (one.deviation or 0) > 5
    assert broken({"differences": [one.to_json() for one in searches]}) == []


def test_a_vote_that_comes_out_of_exact_sums_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rule switched off where nodes have it."""
    off: Callable[..., None] = lambda *_: None  # noqa: E731
    monkeypatch.setattr(module, "check_whole", off)
    monkeypatch.setattr(module, "check_kept", off)
    searches = differences(everything("federation.collection=secure"))
    assert searches[0].rule == BLOCKS
    assert searches[0].read == searches[0].histories
    assert BLOCKS in broken({"differences": [searches[0].to_json()]})[0]


def test_leverage_says_who_is_alone() -> None:
    span = Span(4)
    for members in ({0, 1, 2}, {1, 2}):
        span.add(frozenset(members))
    assert span.leverage.round(9).tolist() == [1.0, 0.5, 0.5, 0.0]
    assert np.allclose(span.weights(), [1, -1])


def test_what_is_asked_are_rosters_that_nodes_take() -> None:
    searcher = Searcher(*SIZES, np.random.default_rng(0))
    rosters = 0
    for _ in range(200):
        for one in searcher.choices():
            check_blocks(one.numbers, 2)
            assert len(one.summed) >= SIZES[2]
            assert all(one.keys[place] for place in one.summed)
            rosters = max(rosters, one.roster)
    assert rosters > 5
