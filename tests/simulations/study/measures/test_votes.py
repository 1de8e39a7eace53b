"""Votes of real teachers, row by row, and what must not change them; who gains at home, by hand and by chance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.metrics import wilson
from consilium.simulations.study.measures.figures import gain_rows, kappa, shares_of, teacher_rows, winners_flipped
from consilium.simulations.vote import TeacherVotes
from tests.simulations.study.measures.made import made_case, made_rows, taught

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35, 60, 22, 18, 44]


def told(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


@pytest.mark.parametrize("classes", [2, 3])
def test_votes_row_by_row(classes: int) -> None:
    data = made_rows(SIZES[:12], classes, skew=0.4, far=1.0)
    case, ensemble = taught(data, federation={"teachers_per_party": classes - 1})
    rows, y = teacher_rows(case, ensemble), case.pool_y
    found, by_class = told(rows), told(rows, "class")
    teachers = ensemble.pool.cast.reshape(-1, len(y))
    counts = np.array([[(row == label).sum() for label in range(classes)] for row in teachers.T])
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
        assert by_class[name, "plurality_right"].value == pytest.approx(right[y == label].mean())


def test_neither_mechanism_nor_promise_changes_a_figure() -> None:
    """Under a relative voting rule equal scores are decided by a lot of the federation's digest; teachers of one class
    have nothing but equal scores."""
    rows = made_rows([4] * 8 + [30] * 4, skew=0.9)
    federation = {"voting_rule": {"rule": "relative", "shares": [0.5, 0.5]}}
    case, ensemble = taught(rows, federation=federation)
    mechanism = {"mechanism": {"name": "histogram", "sigma": 9.0}, "query_budget": {"queries": 7, "answers": 7}}
    changed, again = taught(rows, federation=federation | mechanism)
    assert case.config.digest() != changed.config.digest()
    assert teacher_rows(case, ensemble) == teacher_rows(changed, again)
    assert len(ensemble.pool.tied_row) > 0.1 * ensemble.pool.cast.size
    votes, pool = np.zeros((len(case.pool_y), 2)), ensemble.pool
    tied = {(int(party), int(row)) for party, row in zip(pool.tied_party, pool.tied_row, strict=True)}
    for party, row in np.ndindex(*pool.cast.shape[::2]):
        votes[row] += 0.5 if (party, row) in tied else np.eye(2)[pool.cast[party, 0, row]]
    consensus = told(teacher_rows(case, ensemble))["", "consensus"].value
    assert consensus == pytest.approx(votes.max(axis=1).mean() / len(case.parties))


def drawn(parties: int, teachers: int, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes of teachers that say the truth half of the time, (parties, teachers, rows); and their shares."""
    generator = np.random.default_rng(0)
    shape = (parties, teachers, rows)
    truth = generator.integers(classes, size=rows)
    votes = np.where(generator.random(shape) < 0.5, truth, generator.integers(classes, size=shape))
    return votes, shares_of(TeacherVotes(votes.astype(np.uint8)), classes)


@pytest.mark.parametrize(("parties", "teachers", "classes"), [(7, 1, 2), (4, 3, 5)])
def test_cohens_kappa_is_scikit_learns_in_the_mean_over_pairs(parties: int, teachers: int, classes: int) -> None:
    votes, shares = drawn(parties, teachers, 60, classes)
    pairs = itertools.combinations(votes.reshape(parties * teachers, -1), 2)
    assert kappa(shares) == pytest.approx(np.mean([cohen_kappa_score(*pair) for pair in pairs]))


@pytest.mark.parametrize("classes", [2, 3])
def test_clear_winners_without_each_party_by_hand(classes: int) -> None:
    votes, shares = drawn(6, 1, 80, classes)
    counts = np.array([np.bincount(row, minlength=classes) for row in votes[:, 0].T])
    ones = np.eye(classes, dtype=int)
    without = [(counts - ones[own]).argmax(axis=1) != counts.argmax(axis=1) for own in votes[:, 0]]
    expected = [flipped.sum() for flipped in without]
    assert winners_flipped(shares).tolist() == expected and max(expected) > 0


# -- gains at home ----------------------------------------------------------------------------------------------------


def probabilities(case: Case, right: float, seed: int) -> np.ndarray:
    """Of the rows at home, float64 (home, classes): more of the true class the larger `right`."""
    generator, classes = np.random.default_rng(seed), len(case.classes)
    found = generator.dirichlet(np.ones(classes), size=len(case.home_y)) + right * np.eye(classes)[case.home_y]
    return found / found.sum(axis=1, keepdims=True)


def compared(case: Case, alone: np.ndarray, method: np.ndarray) -> list[Row]:
    return gain_rows(case, {"local": Predicted(home=alone), "mine": Predicted(home=method)})


@pytest.mark.parametrize("classes", [2, 3])
def test_gains_by_hand(classes: int) -> None:
    case = made_case(made_rows(SIZES, classes, skew=0.4))
    alone, method = probabilities(case, 0.1, 0), probabilities(case, 0.3, 1)
    rows = compared(case, alone, method)
    found, by_party = told(rows), told(rows, "party")
    points = (method.argmax(axis=1) == case.home_y) * 1.0 - (alone.argmax(axis=1) == case.home_y)
    each = {case.parties[at]: points[case.home_party == at].mean() for at in np.unique(case.home_party)}
    assert {name: row.value for (name, _), row in by_party.items()} == pytest.approx(each)
    values = np.array(list(each.values()))
    expected = {
        "": points.mean(), "_parties": len(values), "_better": (values > 0).sum(), "_worse": (values < 0).sum(),
        "_worst_decile": np.sort(values)[:2].mean(),
        "_by_size": spearmanr([len(case.partition.parties[name]) for name in each], values)[0],  # pyright: ignore
    }  # fmt: skip
    assert {end: found["", f"gain_accuracy{end}"].value for end in expected} == pytest.approx(expected, abs=0.02)


def test_small_parties_spread_by_chance_and_a_party_that_loses_stands_out() -> None:
    """Rows that gain alike wherever they are: the worst decile is within its floor in most of 20 draws (nominal .95;
    fewer than 14 has probability below 1e-4). Where one of 18 parties loses it is below."""
    case, within = made_case(made_rows(SIZES), home_share=0.5), 0
    for seed in range(20):
        found = told(compared(case, probabilities(case, 0.1, seed), probabilities(case, 0.3, 100 + seed)))
        floor = found["", "gain_accuracy_worst_decile_floor"]
        assert floor.low is not None and floor.high is not None
        within += floor.low <= found["", "gain_accuracy_worst_decile"].value <= floor.high
    assert within >= 14
    case = made_case(made_rows([60] * 24), home_share=0.5)
    alone, method = probabilities(case, 0.3, 0), probabilities(case, 0.3, 1)
    loses = case.home_party == 5
    alone[loses] = np.eye(2)[case.home_y[loses]]
    method[loses] = 1 - alone[loses]
    found = told(compared(case, alone, method))
    low = found["", "gain_accuracy_worst_decile_floor"].low
    assert low is not None and found["", "gain_accuracy_worst_decile"].value < low


def test_what_has_nothing_at_home_is_left_out() -> None:
    case = made_case(made_rows(SIZES))
    home = probabilities(case, 0.2, 0)
    mine = {"local": Predicted(home=home), "public": Predicted(test=home), "none": Predicted(absent="too few")}
    assert gain_rows(case, mine) == gain_rows(case, {"mine": Predicted(home=home)}) == []
    bare, empty = made_case(made_rows(SIZES), home_share=0.0), Predicted(home=np.zeros((0, 2)))
    assert gain_rows(bare, {"local": empty, "mine": empty}) == []
