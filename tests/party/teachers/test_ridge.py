"""The ridge teacher against scikit-learn's, in both forms, and through the same door as every other teacher."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from consilium.data.private_rows import Rows
from consilium.models.keys import RidgeSpec
from consilium.models.table import fit_teachers
from consilium.models.teachers import RidgeTeacher


def rows(count: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    return generator.normal(size=(count, inputs)) + 1.5 * np.eye(3, inputs)[y], y


@pytest.mark.parametrize(("count", "inputs"), [(40, 200), (40, 40), (300, 20)], ids=["dual", "square", "primal"])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_numbers_of_scikit_learn(count: int, inputs: int, balanced: bool) -> None:
    x, y = rows(count, inputs)
    y[: count // 2] = 0  # classes of different sizes, so that balancing matters
    weights = len(y) / (3 * np.bincount(y)[y]) if balanced else None
    expected = Ridge(alpha=2.5).fit(x, np.eye(3)[y], sample_weight=weights)
    found = RidgeTeacher(2.5, balanced=balanced).fit(x, y)
    np.testing.assert_allclose(found.weights, expected.coef_.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.intercept, expected.intercept_, rtol=1e-8, atol=1e-10)
    assert (found.predict(x) == expected.predict(x).argmax(axis=1)).all()


def test_probabilities_agree_with_the_prediction() -> None:
    x, y = rows(60, 100)
    teacher = RidgeTeacher(0.1).fit(x, y)
    other, _ = rows(500, 100, seed=1)
    probabilities = teacher.predict_proba(other)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities >= 0).all()
    assert (teacher.classes_[probabilities.argmax(axis=1)] == teacher.predict(other)).all()


def test_float32_stays_float32() -> None:
    x, y = rows(30, 80)
    teacher = RidgeTeacher(0.5).fit(x.astype(np.float32), y)
    assert teacher.weights.dtype == teacher.intercept.dtype == np.float32
    np.testing.assert_allclose(teacher.weights, RidgeTeacher(0.5).fit(x, y).weights, atol=1e-4)


def test_classes_that_a_party_lacks_get_no_vote() -> None:
    x, y = rows(60, 30)
    teacher = fit_teachers(RidgeSpec(), Rows(x, np.where(y == 1, 3, y)), [np.arange(60)], [0], 5)[0]
    assert set(teacher.predict(x)) <= {0, 2, 3}
