"""Trainers: one contract for all."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from consilium.models import table
from consilium.models.evaluation import evaluate
from consilium.models.keys import TRAINERS, OwnTeacher
from consilium.student.config import StudentSpec
from consilium.student.learn import train
from tests.federation import make_rows
from tests.specs import student_of

SPECS = {
    "logistic regression": student_of(C=1.0),
    "graph": student_of(trainer="graph", gamma=0.2),
    "estimator": student_of(trainer="estimator", factory="sklearn.linear_model.LogisticRegression"),
    "estimator without weights": student_of(trainer="estimator", factory="tests.strangers:Nearest"),
    "torch": student_of(trainer="torch", factory="tests.strangers:Net", epochs=60, batch=64, parameters={"hidden": 8}),
}


def standardised(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_rows(count, seed)
    return (x.astype(np.float64) - [60, 140, 0]) / [10, 20, 1], y


def test_every_kind_of_keys_has_what_fits_it() -> None:
    """A configuration may name it: then it must be in the table."""
    (own, _) = get_args(OwnTeacher)
    assert set(table.TEACHERS) == set(get_args(own))
    assert set(table.STUDENTS) == set(TRAINERS)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
class TestContract:
    """What every trainer must do."""

    def test_learns(self, spec: StudentSpec) -> None:
        x, y = standardised(200, 1)
        test_x, test_y = standardised(500, 3)
        model = train(x, y, standardised(50, 2)[0], 2, spec, seed=0)
        assert (model.predict_proba(test_x).argmax(axis=1) == test_y).mean() > 0.8

    def test_same_seed_same_model(self, spec: StudentSpec) -> None:
        x, y = standardised(60, 1)
        rest = standardised(50, 2)[0]
        first, second = (train(x, y, rest, 2, spec, seed=4).predict_proba(x) for _ in range(2))
        assert (first == second).all()

    @pytest.mark.parametrize("count", [0, 1, 5])
    def test_labels_of_one_class_or_none(self, spec: StudentSpec, count: int) -> None:
        x, _ = standardised(10, 1)
        model = train(x[:count], np.ones(count, dtype=np.int64), x, 2, spec, seed=0)
        assert model.predict_proba(x).tolist() == [[0.5, 0.5] if count == 0 else [0.0, 1.0]] * 10


@pytest.mark.parametrize(
    ("y", "auc", "ill"), [([0, 0, 1, 1], 0.75, 0.5), ([0, 1, 0, 1], 0.5, 0.5), ([0] * 4, None, None)]
)
def test_evaluation_by_hand(y: list[int], auc: float | None, ill: float | None) -> None:
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    result = evaluate(probabilities, np.array(y), ("well", "ill"))
    assert (result["auc"], result["recall_per_class"]["ill"]) == (auc, ill)
