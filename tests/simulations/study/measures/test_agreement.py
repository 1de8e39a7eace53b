"""Kappas: scikit-learn's pair by pair, and shared votes against all lots."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from consilium.simulations.study.measures import votes as module
from consilium.simulations.study.measures.votes import agreement
from consilium.simulations.vote import TeacherVotes


def said(votes: Any) -> TeacherVotes:
    """Votes without equal scores, (parties, teachers, rows)."""
    return TeacherVotes(np.asarray(votes).astype(np.uint8))


def drawn(parties: int, teachers: int, rows: int, classes: int, seed: int = 0) -> np.ndarray:
    """Teachers that say the truth half of the time."""
    generator = np.random.default_rng(seed)
    shape = (parties, teachers, rows)
    truth = generator.integers(classes, size=rows)
    return np.where(generator.random(shape) < 0.5, truth, generator.integers(classes, size=shape))


@pytest.mark.parametrize(("parties", "teachers", "classes"), [(7, 1, 2), (4, 3, 5)])
def test_cohen_is_scikit_learns_in_the_mean_over_pairs(parties: int, teachers: int, classes: int) -> None:
    votes = drawn(parties, teachers, 60, classes)
    flat = votes.reshape(parties * teachers, -1)
    pairs = list(itertools.combinations(range(len(flat)), 2))
    kappas = {pair: cohen_kappa_score(flat[pair[0]], flat[pair[1]]) for pair in pairs}
    found = agreement(said(votes), classes, 0)
    assert found.kappa == pytest.approx(np.mean(list(kappas.values())))
    assert found.share == pytest.approx(np.mean([(flat[a] == flat[b]).mean() for a, b in pairs]))


@pytest.mark.parametrize(
    ("votes", "agreed", "cohen"),
    [
        ([[[0, 1, 0, 1]], [[0, 1, 0, 1]]], 1.0, 1.0),
        ([[[0, 1, 0, 1]], [[1, 0, 1, 0]]], 0.0, -1.0),
        ([[[1, 1, 1, 1]], [[1, 1, 1, 1]]], 1.0, np.nan),
    ],
)
def test_ends(votes: Any, agreed: float, cohen: float) -> None:
    found = agreement(said(votes), 2, 0)
    assert found.share == pytest.approx(agreed)
    assert found.kappa == pytest.approx(cohen, nan_ok=True)


def test_a_shared_vote_agrees_as_all_lots_do_in_the_mean() -> None:
    votes = drawn(3, 1, 6, 3)
    tied = {(0, 1): (0, 2), (1, 1): (1, 2), (2, 4): (0, 1, 2)}
    shared = TeacherVotes(
        votes.astype(np.uint8),
        *(
            np.array(each, dtype=np.int32)
            for each in ([party for party, _ in tied], [0, 0, 0], [row for _, row in tied])
        ),
        np.array([[label in equal for label in range(3)] for equal in tied.values()]),
    )
    agreed = []
    for lot in itertools.product(*tied.values()):
        whole = votes.copy()
        for (party, row), label in zip(tied, lot, strict=True):
            whole[party, 0, row] = label
        agreed.append(agreement(said(whole), 3, 0).share)
    assert agreement(shared, 3, 0).share == pytest.approx(np.mean(agreed))


def test_of_many_teachers_fewer_rows_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = drawn(20, 1, 4000, 2)
    whole = agreement(said(votes), 2, 0)
    monkeypatch.setattr(module, "MOST_OPERATIONS", 2.0 * 20**2 * 2 * 1000)
    part = agreement(said(votes), 2, 0)
    assert part.kappa != whole.kappa
    assert part.kappa == pytest.approx(whole.kappa, abs=0.02)
