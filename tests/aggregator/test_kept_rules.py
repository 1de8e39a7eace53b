"""What the second aggregator keeps to whatever it is asked: queries once, and the query budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.mechanisms import Confident
from consilium.aggregator.home import open_home
from consilium.aggregator.policy import KeptRules
from consilium.aggregator.store import GivenSums
from consilium.protocol.queries import query_ids
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.sums.errors import AlreadyAnswered
from consilium.sums.verified.terms import VerifiedTerms
from tests.aggregator.test_node import Board
from tests.verified.small import queries_of

QUERIES, OTHERS = queries_of(6), queries_of(4, seed=9)


def rules(board: Board, given: GivenSums, queries: np.ndarray) -> KeptRules:
    policy = open_home(board.home).policy
    return KeptRules(given, policy, board.config.terms(), query_ids(queries))


def give(board: Board, session: VerifiedTerms, queries: np.ndarray = QUERIES) -> None:
    """A session that gives its half, as `Helper.give` does it."""
    with board.node.store.transaction() as given:
        kept = rules(board, given, queries)
        kept.admit(session)
        kept.remember(session)


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
        kept.remember(first)
        assert (given.in_sums(kept.ids, 0b01), given.in_sums(kept.ids, 0b10)) == (len(QUERIES), 0)
        with pytest.raises(AlreadyAnswered):
            kept.remember(second)


def test_queries_of_a_second_round_that_no_first_one_had_count_too(tmp_path: Path) -> None:
    """For the policy's limit: a lying coordinator may not have other rows summed in round 2 than it screened."""
    mechanism = Confident(threshold=1, sigma1=30.0, sigma2=30.0)
    board = Board(tmp_path, {"mechanism": mechanism}, most_queries=len(QUERIES))
    give(board, board.session())
    give(board, board.session(QUERIES[:2], phase=2), QUERIES[:2])  # rows that it had screened
    with pytest.raises(Refused) as caught:
        give(board, board.session(OTHERS, phase=2), OTHERS)
    assert caught.value.refusal == Refusal(rule=Rule.MOST_QUERIES, limit=len(QUERIES), requested=10)


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
