"""What the second aggregator keeps to whatever it is asked: queries once, query budget, whole blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.mechanisms import DistributedTwoPhase
from consilium.aggregator.home import open_home
from consilium.aggregator.policy import KeptRules
from consilium.aggregator.store import GivenSums
from consilium.protocol.queries import query_ids
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.errors import AlreadyAnswered, BrokenBlock
from tests.aggregator.test_node import NOISY, Board
from tests.verified.small import queries_of

QUERIES, OTHERS = queries_of(6), queries_of(4, seed=9)
EVERYBODY = frozenset(range(4))


def rules(board: Board, given: GivenSums, queries: np.ndarray) -> KeptRules:
    policy = open_home(board.home).policy
    return KeptRules(given, policy, board.keys.roster, board.config.terms(), query_ids(queries))


def give(board: Board, session: VerifiedTerms, queries: np.ndarray = QUERIES) -> None:
    """A session that gives its half, as `Helper.give` does it."""
    with board.node.store.transaction() as given:
        kept = rules(board, given, queries)
        kept.admit(session)
        kept.allow(session, EVERYBODY)
        kept.remember(session, EVERYBODY)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_two_noisy_sessions_on_the_same_queries_that_are_both_open_give_one_half(tmp_path: Path) -> None:
    """The second was admitted before the first gave its half, and is looked at again when it is to give its own."""
    board = Board(tmp_path, {"mechanism": NOISY})
    first, second = (board.session(leader_sigma=30.0, helper_sigma=30.0) for _ in range(2))
    with board.node.store.transaction() as given:
        kept = rules(board, given, QUERIES)
        kept.admit(first)
        kept.admit(second)
        kept.allow(first, EVERYBODY)
        kept.remember(first, EVERYBODY)
        with pytest.raises(AlreadyAnswered):
            kept.allow(second, EVERYBODY)


def test_queries_of_a_second_phase_that_no_first_one_had_count_too(tmp_path: Path) -> None:
    """For the policy's limit: a lying coordinator may not have other rows summed in round 2 than it screened."""
    mechanism = DistributedTwoPhase(threshold=0, sigma1=30.0, sigma2=30.0, noise_shares=1)
    board = Board(tmp_path, {"mechanism": mechanism}, most_queries=len(QUERIES))
    noise = {"leader_sigma": 30.0, "helper_sigma": 30.0}
    give(board, board.session(**noise))
    give(board, board.session(QUERIES[:2], phase=2, **noise), QUERIES[:2])  # rows that it had screened
    with pytest.raises(Refused) as caught:
        give(board, board.session(OTHERS, phase=2, **noise), OTHERS)
    assert caught.value.refusal == Refusal(rule=Rule.MOST_QUERIES, limit=len(QUERIES), requested=10)


def test_an_exact_sum_may_be_asked_again_and_its_queries_count_once(board: Board) -> None:
    """For the policy's limit; the promise's own cap counts every half that was given."""
    give(board, board.session())
    with board.node.store.transaction() as given:
        before = given.answered()
        kept = rules(board, given, QUERIES[:4])
        kept.admit(board.session(QUERIES[:4]))
        kept.allow(board.session(QUERIES[:4]), EVERYBODY)
        kept.remember(board.session(QUERIES[:4]), EVERYBODY)
        assert given.answered() == before == len(QUERIES)


def test_it_remembers_blocks_by_key_for_ever(board: Board) -> None:
    """Parties of one block of an exact sum are in no other block in a later one: not under another roster either."""
    give(board, board.session())
    roster = board.keys.roster
    swapped = [roster.parties[place] for place in (0, 2, 1, 3)]
    others = roster.model_copy(
        update={
            "parties": tuple(
                entry.model_copy(update={"block": number}) for entry, number in zip(swapped, (1, 1, 2, 2), strict=True)
            )
        }
    )
    others.__dict__.pop("blocks", None)
    with board.node.store.transaction() as given:
        kept = replace(rules(board, given, OTHERS), roster=others)
        with pytest.raises(BrokenBlock, match="1 of the 2 parties of a block"):
            kept.allow(board.session(OTHERS), EVERYBODY)
        replace(kept, roster=roster).allow(board.session(OTHERS), frozenset({0, 1}))


def test_a_noisy_sum_uses_its_queries_up_in_its_own_phase(tmp_path: Path) -> None:
    board = Board(tmp_path, {"mechanism": NOISY})
    noise = {"leader_sigma": 30.0, "helper_sigma": 30.0}
    with board.node.store.transaction() as given:
        kept = rules(board, given, QUERIES)
        kept.remember(board.session(**noise), EVERYBODY)
        assert given.in_sums(kept.ids, 0b01) == len(QUERIES)
        assert given.in_sums(kept.ids, 0b10) == 0


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
