"""Votes of real teachers, row by row; and what must not change them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.metrics import wilson
from consilium.simulations.study.measures.votes import agreement, shares_of, teacher_rows, winners_flipped
from consilium.simulations.vote import Ensemble, TeacherVotes
from tests.simulations.study.measures.made import made_rows, taught

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35]


@pytest.fixture(scope="module")
def two() -> tuple[Case, Ensemble]:
    return taught(made_rows(SIZES, skew=0.4, far=1.0))


@pytest.fixture(scope="module")
def three() -> tuple[Case, Ensemble]:
    return taught(made_rows(SIZES, 3, skew=0.4, far=1.0), federation={"teachers_per_party": 2})


def told(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


@pytest.mark.parametrize("which", ["two", "three"])
def test_votes_row_by_row(which: str, request: pytest.FixtureRequest) -> None:
    case, ensemble = request.getfixturevalue(which)
    rows, y = teacher_rows(case, ensemble), case.pool_y
    found, by_class = told(rows), told(rows, "class")
    teachers = ensemble.pool.cast.reshape(-1, len(y))
    counts = np.array([[(row == label).sum() for label in range(len(case.classes))] for row in teachers.T])
    ordered = np.sort(counts, axis=1)
    gap = ordered[:, -1] - ordered[:, -2]
    assert found["", "consensus"].value == pytest.approx(ordered[:, -1].mean() / len(teachers))
    assert found["", "gap_mean"].value == pytest.approx(gap.mean())
    assert found["", "gap_p10"].value == pytest.approx(np.percentile(gap, 10))
    assert found["", "ambiguity_10"].value == pytest.approx((gap < 0.1 * len(teachers)).mean())
    right = counts.argmax(axis=1) == y
    row = found["", "plurality_right"]
    assert [row.value, row.low, row.high] == pytest.approx([right.mean(), *wilson(right.sum(), len(y))])
    for label, name in enumerate(case.classes):
        called = counts.argmax(axis=1) == label
        assert by_class[name, "plurality_right"].value == pytest.approx(right[y == label].mean())
        assert by_class[name, "plurality_wrong"].value == pytest.approx((y[called] != label).mean())


def test_neither_mechanism_nor_promise_changes_a_figure() -> None:
    """Under a relative voting rule equal scores are decided by a lot of the federation's digest; teachers of one class
    have nothing but equal scores."""
    rows = made_rows([4] * 8 + [30] * 4, skew=0.9)
    voting_rule = {"voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}
    case, ensemble = taught(rows, federation=voting_rule)
    other = {
        **voting_rule,
        "mechanism": {"name": "histogram", "sigma": 9.0},
        "query_budget": {"queries": 7, "answers": 7},
    }
    changed, again = taught(rows, federation=other)
    assert case.config.digest() != changed.config.digest()
    assert teacher_rows(case, ensemble) == teacher_rows(changed, again)
    assert len(ensemble.pool.tied_row) > 0.1 * ensemble.pool.cast.size
    votes, pool = np.zeros((len(case.pool_y), 2)), ensemble.pool
    tied = {(int(party), int(row)) for party, row in zip(pool.tied_party, pool.tied_row, strict=True)}
    for party, row in np.ndindex(*pool.cast.shape[::2]):
        votes[row] += 0.5 if (party, row) in tied else np.eye(2)[pool.cast[party, 0, row]]
    consensus = told(teacher_rows(case, ensemble))["", "consensus"].value
    assert consensus == pytest.approx(votes.max(axis=1).mean() / len(case.parties))


def said(votes: Any, classes: int = 2) -> np.ndarray:
    """Shares of votes without equal scores, (parties, teachers, rows)."""
    return shares_of(TeacherVotes(np.asarray(votes).astype(np.uint8)), classes)


def drawn(parties: int, teachers: int, rows: int, classes: int) -> np.ndarray:
    """Teachers that say the truth half of the time."""
    generator = np.random.default_rng(0)
    shape = (parties, teachers, rows)
    truth = generator.integers(classes, size=rows)
    return np.where(generator.random(shape) < 0.5, truth, generator.integers(classes, size=shape))


@pytest.mark.parametrize(("parties", "teachers", "classes"), [(7, 1, 2), (4, 3, 5)])
def test_cohen_is_scikit_learns_in_the_mean_over_pairs(parties: int, teachers: int, classes: int) -> None:
    votes = drawn(parties, teachers, 60, classes)
    flat = votes.reshape(parties * teachers, -1)
    pairs = list(itertools.combinations(flat, 2))
    share, kappa = agreement(said(votes, classes))
    assert kappa == pytest.approx(np.mean([cohen_kappa_score(*pair) for pair in pairs]))
    assert share == pytest.approx(np.mean([(a == b).mean() for a, b in pairs]))


def test_a_shared_vote_agrees_as_all_lots_do_in_the_mean() -> None:
    votes = drawn(3, 1, 6, 3)
    tied = {(0, 1): (0, 2), (1, 1): (1, 2), (2, 4): (0, 1, 2)}
    parties, rows = np.array(list(tied), dtype=np.int32).T
    classes = np.array([[label in equal for label in range(3)] for equal in tied.values()])
    shared = TeacherVotes(votes.astype(np.uint8), parties, np.zeros(3, dtype=np.int32), rows, classes)
    agreed = []
    for lot in itertools.product(*tied.values()):
        whole = votes.copy()
        for (party, row), label in zip(tied, lot, strict=True):
            whole[party, 0, row] = label
        agreed.append(agreement(said(whole, 3))[0])
    assert agreement(shares_of(shared, 3))[0] == pytest.approx(np.mean(agreed))


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    votes = drawn(6, 1, 80, classes)
    counts = np.array([np.bincount(row, minlength=classes) for row in votes[:, 0].T])
    expected = [
        ((counts - np.eye(classes, dtype=int)[own]).argmax(axis=1) != counts.argmax(axis=1)).sum()
        for own in votes[:, 0]
    ]
    assert winners_flipped(said(votes, classes)).tolist() == expected
    assert max(expected) > 0
