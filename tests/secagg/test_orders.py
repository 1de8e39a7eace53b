"""Random orders of sessions, and parties that lack a check."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.secagg.network import blocks_unchecked
from tests.secagg.orders import Forgery, Sessions

pytestmark = pytest.mark.fuzz


def sessions(folder: Path, seeds: range, steps: int) -> Counter[str]:
    """Outcomes of a lying coordinator's sessions with some federations."""
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        (folder / str(seed)).mkdir()
        tried = Sessions(folder / str(seed), seed)
        for _ in range(steps):
            tried.step()
        tried.check()
        outcomes += tried.outcomes
    return outcomes


def test_no_order_of_sessions_unmasks_noise_twice_or_a_part_of_a_block(tmp_path: Path) -> None:
    outcomes = sessions(tmp_path, range(3), 80)
    assert outcomes["unmasked"] >= 2 and outcomes["unmasked, exact"] >= 2
    assert outcomes["advertise, AlreadyAnswered"] + outcomes["masked, AlreadyAnswered"] > 10
    assert outcomes["consistency, BrokenBlock"] > 20


def test_the_sessions_would_find_parties_that_do_not_check_blocks(tmp_path: Path) -> None:
    with blocks_unchecked(), pytest.raises(Forgery, match="part of a block"):
        sessions(tmp_path, range(6), 80)


@pytest.mark.parametrize("late", ["check_unanswered", "use_up"])
def test_the_sessions_would_find_parties_that_answer_twice(tmp_path: Path, monkeypatch, late: str) -> None:
    """Without any check, and without the one in the transaction that gives the shares."""
    monkeypatch.setattr(f"consilium.party.sum_store.{late}", lambda *arguments: None)
    with pytest.raises(Forgery, match="two noisy sums that were unmasked"):
        sessions(tmp_path, range(6), 80)
