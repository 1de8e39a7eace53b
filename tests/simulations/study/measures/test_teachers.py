"""Votes, agreement and cross-site matrix of real teachers, row by row; and what must not change them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.metrics import wilson
from consilium.simulations.study.measures.figures import hellinger, label_counts, shares
from consilium.simulations.study.measures.votes import cross_site, teacher_matrices, teacher_rows
from consilium.simulations.vote import Ensemble
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
    rows = teacher_rows(case, ensemble)
    found, by_class = told(rows), told(rows, "class")
    for prefix, said, y in (("", ensemble.pool, case.pool_y), ("test_", ensemble.test, case.test_y)):
        teachers = said.cast.reshape(-1, len(y))
        counts = np.array([[(row == label).sum() for label in range(len(case.classes))] for row in teachers.T])
        ordered = np.sort(counts, axis=1)
        gap = ordered[:, -1] - ordered[:, -2]
        assert found["", f"{prefix}consensus"].value == pytest.approx(ordered[:, -1].mean() / len(teachers))
        assert found["", f"{prefix}gap_mean"].value == pytest.approx(gap.mean())
        assert found["", f"{prefix}gap_p10"].value == pytest.approx(np.percentile(gap, 10))
        assert found["", f"{prefix}ambiguity_20"].value == pytest.approx((gap < 0.2 * len(teachers)).mean())
        right = counts.argmax(axis=1) == y
        row = found["", f"{prefix}plurality_right"]
        assert [row.value, row.low, row.high] == pytest.approx([right.mean(), *wilson(right.sum(), len(y))])
        for label, name in enumerate(case.classes):
            called = counts.argmax(axis=1) == label
            assert by_class[name, f"{prefix}plurality_right"].value == pytest.approx(right[y == label].mean())
            assert by_class[name, f"{prefix}plurality_wrong"].value == pytest.approx((y[called] != label).mean())


def test_cross_site_row_by_row(two: tuple[Case, Ensemble]) -> None:
    case, ensemble = two
    crossed, party = cross_site(case, ensemble), case.home_party
    assert crossed.places.tolist() == sorted(set(party.tolist()))
    for at, place in enumerate(crossed.places):
        here = party == place
        y = case.home_y[here]
        for teacher in range(len(case.parties)):
            right = (ensemble.home.cast[teacher, 0, here] == y).mean()
            assert crossed.accuracy[teacher, at] == pytest.approx(right)
            area = np.nan if len(set(y)) < 2 else roc_auc_score(y, ensemble.home_scores[teacher, here])
            assert crossed.auc[teacher, at] == pytest.approx(area, nan_ok=True)


@pytest.mark.parametrize("kind", ["accuracy", "auc"])
def test_own_teachers_against_others(kind: str, two: tuple[Case, Ensemble]) -> None:
    case, ensemble = two
    rows = teacher_rows(case, ensemble)
    found, crossed = told(rows), cross_site(case, ensemble)
    matrix = getattr(crossed, kind)
    own, others = [], []
    for at, place in enumerate(crossed.places):
        if not np.isnan(matrix[place, at]):
            own.append(matrix[place, at])
            others.append(np.mean([matrix[other, at] for other in range(len(matrix)) if other != place]))
    assert found["", f"cross_site_{kind}_own"].value == pytest.approx(np.mean(own))
    assert found["", f"cross_site_{kind}_others"].value == pytest.approx(np.mean(others))
    assert found["", f"cross_site_{kind}_parties"].value == len(own)
    row = found["", f"cross_site_{kind}_shift"]
    assert row.low is not None and row.high is not None
    assert row.value == pytest.approx(np.mean(own) - np.mean(others))
    assert row.low < row.value < row.high


def test_by_party_and_with_distance(two: tuple[Case, Ensemble]) -> None:
    case, ensemble = two
    rows, crossed = teacher_rows(case, ensemble), cross_site(case, ensemble)
    by_party, places = told(rows, "party"), crossed.places
    accuracy = crossed.accuracy
    at, place = 2, int(places[2])
    name = case.parties[place]
    assert by_party[name, "cross_site_accuracy_own"].value == pytest.approx(accuracy[place, at])
    others = np.delete(accuracy[:, at], place).mean()
    assert by_party[name, "cross_site_accuracy_others"].value == pytest.approx(others)
    assert by_party[name, "cross_site_accuracy_abroad"].value == pytest.approx(np.delete(accuracy[place], at).mean())
    p = shares(label_counts(case)[places])
    pairs = [(i, j) for i in range(len(places)) for j in range(len(places)) if i != j]
    lost = [accuracy[places[j], j] - accuracy[places[i], j] for i, j in pairs]
    expected = spearmanr(lost, [float(hellinger(p[i], p[j])) for i, j in pairs]).statistic
    assert told(rows)["", "cross_site_distance_correlation"].value == pytest.approx(expected)


def test_a_rule_of_its_own_at_each_party_shows_as_shift() -> None:
    """Half of the parties call everything the other way round; then others' teachers are right half of the time."""
    rows = made_rows([60] * 12)
    y = (rows.x[:, 0] > np.median(rows.x[:, 0])).astype(np.int64)
    shared, turned = replace(rows, y=y), replace(rows, y=np.where(rows.owner % 2 == 0, y, 1 - y))
    shift = [told(teacher_rows(*taught(each)))["", "cross_site_auc_shift"] for each in (shared, turned)]
    assert shift[0].value == pytest.approx(0, abs=0.05)
    assert shift[1].low is not None and shift[1].low > 0.3


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
    assert told(teacher_rows(case, ensemble))["", "equal_scores"].value > 0.1
    votes, pool = np.zeros((len(case.pool_y), 2)), ensemble.pool
    tied = {(int(party), int(row)) for party, row in zip(pool.tied_party, pool.tied_row, strict=True)}
    for party, row in np.ndindex(*pool.cast.shape[::2]):
        votes[row] += 0.5 if (party, row) in tied else np.eye(2)[pool.cast[party, 0, row]]
    consensus = told(teacher_rows(case, ensemble))["", "consensus"].value
    assert consensus == pytest.approx(votes.max(axis=1).mean() / len(case.parties))


def test_without_rows_at_home_there_is_no_cross_site() -> None:
    case, ensemble = taught(made_rows(SIZES), home_share=0.0)
    found = told(teacher_rows(case, ensemble))
    assert ("", "consensus") in found
    assert not [metric for _, metric in found if metric.startswith("cross_site")]
    assert teacher_matrices(case, ensemble)["cross_site_accuracy"].shape == (0, 0)
