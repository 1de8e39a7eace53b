"""What hangs on one party: every winner counted again by hand, without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from consilium.simulations.study.measures.influence import influence_rows, winners_flipped
from consilium.simulations.vote import TeacherVotes
from tests.simulations.study.measures.made import made_rows, taught

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35]


def test_a_party_whose_votes_are_on_all_classes_alike_changes_nothing() -> None:
    case, ensemble = taught(made_rows(SIZES), federation={"teachers_per_party": 2})
    votes = ensemble.pool.cast.copy()
    votes[3] = np.array([[0], [1]])
    pool = replace(ensemble.pool, cast=votes)
    if len(pool.tied_row):
        keep = pool.tied_party != 3
        pool = TeacherVotes(
            votes, *(each[keep] for each in (pool.tied_party, pool.tied_teacher, pool.tied_row, pool.tied))
        )
    rows = influence_rows(case, replace(ensemble, pool=pool))
    (flips,) = (row.value for row in rows if row.scope == "party" and row.name == case.parties[3])
    assert flips == 0


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    case, ensemble = taught(made_rows(SIZES, classes, skew=0.4))
    teachers = ensemble.pool.cast[:, 0]
    counts = np.array([[(row == label).sum() for label in range(classes)] for row in teachers.T])
    expected = []
    for party in range(len(case.parties)):
        less = counts - np.eye(classes, dtype=np.int64)[teachers[party]]
        expected.append((less.argmax(axis=1) != counts.argmax(axis=1)).sum())
    assert winners_flipped(ensemble.pool, classes).tolist() == expected
    assert max(expected) > 0


def test_rows_are_finite_and_stand_once() -> None:
    case, ensemble = taught(made_rows(SIZES, 3))
    rows = influence_rows(case, ensemble)
    assert all(np.isfinite(row.value) for row in rows)
    assert len({row[:4] for row in rows}) == len(rows)
    assert sum(row.scope == "group" for row in rows) == 4
