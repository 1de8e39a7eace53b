"""A lying second aggregator that shifts a count learns nothing of it from all that follows (`benchmarks.oracle`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import oracle
from tests.verified.small import VerifiedSmall

SESSIONS = 40


def test_what_follows_is_the_same_whether_the_count_was_below_k_or_not() -> None:
    assert oracle.played(SESSIONS, control=False) == 0.5


def test_control_an_error_for_a_sum_that_votes_do_not_give_tells_it() -> None:
    assert oracle.played(SESSIONS, control=True) == 1.0


@pytest.mark.parametrize("first", [oracle.K, oracle.K - 1])
def test_the_log_and_what_is_signed_are_the_same_too(tmp_path: Path, monkeypatch, first: int) -> None:
    """Control of the play itself: the shifted sum is in the ledger, made to fit where it has to be."""
    kept: list[VerifiedSmall] = []
    made = oracle.made
    monkeypatch.setattr(oracle, "made", lambda *terms, **more: kept.append(made(*terms, **more)) or kept[-1])
    monkeypatch.setattr(oracle.Helper, "_close", oracle.shifted)
    with oracle.federation(tmp_path) as (watched, ask):
        watched.first = first
        ask(0)
    events = [event["event"] for event in kept[0].events()]
    assert events == ["second-aggregator", "stage", *["progress"] * 5, "stage", "progress", "released"]
