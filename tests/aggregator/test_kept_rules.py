"""What the second aggregator keeps to whatever it is asked: queries once, caps and budget, sums far enough apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.aggregator.home import open_home
from consilium.aggregator.rules import KeptRules
from consilium.aggregator.store import GivenSums
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.rows.queries import query_ids
from consilium.protocol.secagg.errors import AlreadyAnswered
from consilium.protocol.verified.session import VerifiedSession
from tests.aggregator.test_node import NOISY, Board
from tests.verified.small import queries_of

QUERIES, OTHERS = queries_of(6), queries_of(4, seed=9)
EVERYBODY = frozenset(range(4))


def rules(board: Board, given: GivenSums, queries: np.ndarray) -> KeptRules:
    policy = open_home(board.home).policy
    return KeptRules(given, policy, board.keys.roster, board.config.terms(), query_ids(queries))


def give(board: Board, session: VerifiedSession, queries: np.ndarray = QUERIES) -> None:
    """A session that gives its half, as `Helper.give` does it."""
    with board.node.store.transaction() as given:
        kept = rules(board, given, queries)
        kept.admit(session)
        kept.allow(session, EVERYBODY)
        kept.remember(session, EVERYBODY)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_two_sessions_on_the_same_queries_that_are_both_open_give_one_half(board: Board) -> None:
    """The second was admitted before the first gave its half, and is looked at again when it is to give its own."""
    first, second = board.session(), board.session()
    with board.node.store.transaction() as given:
        kept = rules(board, given, QUERIES)
        kept.admit(first)
        kept.admit(second)
        kept.allow(first, EVERYBODY)
        kept.remember(first, EVERYBODY)
        with pytest.raises(AlreadyAnswered):
            kept.allow(second, EVERYBODY)


def test_an_exact_sum_leaves_nothing_of_its_queries_to_a_noisy_one(board: Board) -> None:
    give(board, board.session())
    with board.node.store.transaction() as given, pytest.raises(AlreadyAnswered):
        rules(board, given, QUERIES).admit(board.session(phase=2, leader_sigma=30.0, helper_sigma=30.0))


def test_a_noisy_sum_uses_its_queries_up_in_its_own_phase(tmp_path: Path) -> None:
    board = Board(tmp_path, {"mechanism": NOISY})
    noise = {"leader_sigma": 30.0, "helper_sigma": 30.0}
    with board.node.store.transaction() as given:
        kept = rules(board, given, QUERIES)
        kept.remember(board.session(**noise), EVERYBODY)
        assert given.given(kept.ids, 0b01) == len(QUERIES)
        assert given.given(kept.ids, 0b10) == 0


def test_the_policys_queries_count_over_all_sums(tmp_path: Path) -> None:
    """In the promise there are 10; the policy, which may be changed while the federation runs, says 9."""
    board = Board(tmp_path)
    give(board, board.session())
    settings = board.home / "aggregator.toml"
    settings.write_text(settings.read_text().replace("[policy]", "[policy]\nmost_queries = 9"))
    with pytest.raises(Refused) as refused:
        give(board, board.session(OTHERS), OTHERS)
    told = refused.value.refusal
    assert (told.rule, told.limit, told.requested) == (Rule.MOST_QUERIES, 9, 10)
    settings.write_text(settings.read_text().replace("most_queries = 9", "most_queries = 10"))
    give(board, board.session(OTHERS), OTHERS)
