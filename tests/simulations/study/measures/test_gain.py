"""Who gains at home: differences by hand, scikit-learn's areas, and what chance alone gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.methods.base import Predicted
from consilium.simulations.study.measures.gain import gain_rows
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6, 20, 35, 60, 22, 18, 44]


def probabilities(case: Case, right: float, seed: int) -> np.ndarray:
    """Of the rows at home, float64 (home, classes): more of the true class the larger `right`."""
    generator, classes = np.random.default_rng(seed), len(case.classes)
    found = generator.dirichlet(np.ones(classes), size=len(case.home_y)) + right * np.eye(classes)[case.home_y]
    return found / found.sum(axis=1, keepdims=True)


def compared(case: Case, alone: np.ndarray, method: np.ndarray) -> list[Row]:
    return gain_rows(case, {"local": Predicted(home=alone), "mine": Predicted(home=method)})


def told(rows: list[Row], scope: str = "run") -> dict[tuple[str, str], Row]:
    return {(row.name, row.metric): row for row in rows if row.scope == scope}


@pytest.mark.parametrize("classes", [2, 3])
def test_gains_by_hand(classes: int) -> None:
    case = made_case(made_rows(SIZES, classes, skew=0.4))
    alone, method = probabilities(case, 0.1, 0), probabilities(case, 0.3, 1)
    rows = compared(case, alone, method)
    found, by_party = told(rows), told(rows, "party")
    points = (method.argmax(axis=1) == case.home_y) * 1.0 - (alone.argmax(axis=1) == case.home_y)
    each = {case.parties[at]: points[case.home_party == at].mean() for at in np.unique(case.home_party)}
    assert {name: row.value for (name, key), row in by_party.items() if key == "gain_accuracy"} == pytest.approx(each)
    values = np.array(list(each.values()))
    expected = {
        "": points.mean(), "_parties": len(values), "_better": (values > 0).sum(), "_worse": (values < 0).sum(),
        "_worst_decile": np.sort(values)[:2].mean(),
        "_by_size": spearmanr([len(case.partition.parties[name]) for name in each], values)[0],  # pyright: ignore
    }  # fmt: skip
    assert {end: found["", f"gain_accuracy{end}"].value for end in expected} == pytest.approx(expected, abs=0.02)
    assert ("", "gain_auc") in found if classes == 2 else ("", "gain_auc") not in found


def test_areas_are_scikit_learns() -> None:
    case = made_case(made_rows(SIZES, skew=0.4))
    alone, method = probabilities(case, 0.1, 0).round(1), probabilities(case, 0.3, 1).round(1)
    rows = compared(case, alone, method)
    by_party, ordered, of = told(rows, "party"), 0.0, 0.0
    for at in np.unique(case.home_party):
        here = case.home_party == at
        y = case.home_y[here]
        if len(set(y)) == 2:
            gained = roc_auc_score(y, method[here, 1]) - roc_auc_score(y, alone[here, 1])
            assert by_party[case.parties[at], "gain_auc"].value == pytest.approx(gained)
            pairs = y.sum() * (1 - y).sum()
            ordered, of = ordered + pairs * gained, of + pairs
        else:
            assert (case.parties[at], "gain_auc") not in by_party
    assert told(rows)["", "gain_auc"].value == pytest.approx(ordered / of)


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
    assert gain_rows(case, mine) == []
    assert gain_rows(case, {"mine": Predicted(home=home)}) == []
    bare = made_case(made_rows(SIZES), home_share=0.0)
    empty = Predicted(home=np.zeros((0, 2)))
    assert gain_rows(bare, {"local": empty, "mine": empty}) == []
