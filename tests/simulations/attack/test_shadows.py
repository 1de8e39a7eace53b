"""Shadow federations: votes are those of the real one, and between two worlds one party alone differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.attack import shadows as module
from consilium.simulations.attack.shadows import (
    check_playable,
    typical_parties,
    typical_records,
    with_copies,
    worst_party,
    worst_record,
)
from consilium.simulations.vote import train_ensemble
from tests.simulations.attack.small import everything, shadows, small


def test_votes_are_those_that_the_federation_collects() -> None:
    case, mine = small(), shadows()
    ids = [case.pool_ids[row] for row in mine.rows]
    votes = train_ensemble(case).pool.votes(mine.rows, case.parties, case.config.digest(), ids, 2)
    assert np.array_equal(mine.whole, votes)
    few = everything().on(mine.rows)
    assert np.array_equal(few.whole, votes)
    rows = case.partition.parties[case.parties[1]]
    assert np.array_equal(few.votes_of(1, [(case.dataset.x[rows], case.dataset.y[rows])])[0], votes[1])


def test_a_party_that_is_trained_again_on_its_rows_says_the_same() -> None:
    case, mine = small(), shadows()
    rows = case.partition.parties[case.parties[3]]
    again = mine.votes_of(3, [(case.dataset.x[rows], case.dataset.y[rows])])[0]
    assert np.array_equal(again, mine.whole[3])


@pytest.mark.parametrize("insider", [True, False])
def test_between_both_worlds_one_partys_votes_differ(insider: bool) -> None:
    mine = shadows()
    target = typical_records(mine, 1)[0]
    for games in mine.games(target, 5, insider, 0):
        others = games.votes - games.alone
        assert np.array_equal(others[:, 0], others[:, 1])
        assert (games.votes.sum(axis=3) == len(mine.case.parties)).all()
        if insider:
            assert np.array_equal(others[0, 0], mine.whole.sum(axis=0) - mine.whole[target.party])


def test_the_attackers_world_without_a_real_record_is_the_federation_without_it() -> None:
    mine = shadows()
    for target in typical_records(mine, 4):
        assert np.array_equal(target.whole[1], mine.whole[target.party])


@pytest.mark.slow
def test_the_worst_that_is_found_moves_more_than_what_is_typical(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = shadows()
    monkeypatch.setattr(module, "TRIES", 10)
    assert worst_record(mine).moved > np.mean([target.moved for target in typical_records(mine, 6)])
    assert worst_party(mine).moved > np.mean([target.moved for target in typical_parties(mine, 6)])


def test_halves_have_whole_patients() -> None:
    mine = shadows()
    rows = np.arange(11)
    assert len(mine.half(rows, np.random.default_rng(0))) == 6
    assert mine.case.dataset.patient is None


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("student", {"rounds": 2, "selection": "margin"}, "chooses rows by its model"),
        ("simulation", {"policies": ("a policy",)}, "policies of single parties"),
        ("simulation", {"teachers": ("a kind",)}, "teachers of their own"),
    ],
)
def test_what_is_not_played_is_refused_by_name(part: str, changes: dict[str, Any], reason: str) -> None:
    case = small()
    changed = getattr(case.scenario, part).model_copy(update=changes)
    with pytest.raises(ConfigError, match=reason) as refusal:
        check_playable(replace(case, scenario=case.scenario.model_copy(update={part: changed})))
    assert "with --set" in str(refusal.value)


def test_copies_of_a_record_are_asked_and_it_moves_more_of_them() -> None:
    """Half of the queries are near-duplicates of one row, and the record moves votes on nearly all of them."""
    mine = everything()
    rows = np.arange(len(mine.rows))[:60]
    poisoned, target = with_copies(mine, rows)
    assert poisoned.queries == len(set(poisoned.case.pool_ids)) == 60
    copies = poisoned.case.pool_x[30:]
    assert (np.ptp(copies, axis=0) <= 0.001 * mine.case.pool_x.std(axis=0) + 1e-6).all()
    moved = np.abs(target.whole[1] - target.whole[0]).sum(axis=1)
    assert (moved[30:] > 0).mean() > 0.8 > (moved[:30] > 0).mean()
    others = np.delete(poisoned.whole, target.party, axis=0)
    assert np.array_equal(others[:, :30], np.delete(mine.whole, target.party, axis=0)[:, 30:60])
