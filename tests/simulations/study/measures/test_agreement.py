"""Kappas pair by pair by scikit-learn; shared votes against all lots; winners without a party by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from consilium.simulations.study.measures.votes import agreement, shares_of, winners_flipped
from consilium.simulations.vote import TeacherVotes


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
