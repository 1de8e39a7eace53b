"""Shadow federations: votes are those of the real one, and between two worlds one party alone differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilium.coordinator.mechanisms import Interactive
from consilium.protocol.errors import ConfigError
from consilium.simulations.attack import shadows as module
from consilium.simulations.attack.shadows import (
    check_playable,
    typical_parties,
    typical_records,
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
    ("changes", "reason"),
    [
        ({"most_weight": 2}, "several weights"),
        ({"mechanism": Interactive(threshold=5, sigma1=5, sigma2=5, confidence=0.9)}, "interactive"),
    ],
)
def test_what_is_not_played_is_refused_by_name(changes: dict[str, Any], reason: str) -> None:
    case = small()
    federation = case.scenario.federation.model_copy(update=changes)
    with pytest.raises(ConfigError, match=reason):
        check_playable(replace(case, scenario=case.scenario.model_copy(update={"federation": federation})))
