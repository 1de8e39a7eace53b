"""Logistic regression as a teacher against scikit-learn's, and what earlier versions kept of theirs."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from consilium.data.private_rows import Rows
from consilium.models import linear
from consilium.models.keys import LogisticRegressionSpec
from consilium.models.linear import LogisticTeacher, NotConverged
from consilium.models.table import fit_teachers

INPUTS = 6


def rows(count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes that are of different sizes, in labels that are not 0, 1, 2."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, INPUTS))
    y = np.maximum(x @ generator.normal(size=(INPUTS, classes)) + np.arange(classes), 0).argmax(axis=1)
    y[:classes] = np.arange(classes)
    return x, 3 * y + 1


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("C", [0.01, 100.0])
@pytest.mark.parametrize("count", [6, 200])
@pytest.mark.parametrize(
    ("classes", "solver", "tol", "few"),
    [(2, "newton-cholesky", 1e-12, linear.FEW_INPUTS), (2, "lbfgs", linear.STEEPEST, 0), (5, "lbfgs", 1e-4, 0)],
)
def test_the_numbers_of_scikit_learn(
    classes: int, solver: Any, tol: float, few: int, count: int, C: float, balanced: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(linear, "FEW_INPUTS", few)
    x, y = rows(count, classes, seed=count)
    weight = "balanced" if balanced else None
    expected = LogisticRegression(C=C, class_weight=weight, max_iter=300, solver=solver, tol=tol).fit(x, y)
    found = LogisticTeacher(C, balanced, 300).fit(x, y)
    assert found.classes_.tolist() == expected.classes_.tolist()
    assert found.coef_.shape == expected.coef_.shape and found.intercept_.shape == expected.intercept_.shape
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-6, atol=1e-8)
    other, _ = rows(300, classes, seed=99)
    assert (found.predict(other) == expected.predict(other)).all()
    np.testing.assert_allclose(found.predict_proba(other), expected.predict_proba(other), atol=1e-7)


def test_rows_that_are_far_away_stay_numbers() -> None:
    """Standardised values reach 1e9: no exponential overflows, and nothing is warned of."""
    x, y = rows(20, 3)
    x[0] = 1e9
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", NotConverged)
        for labels in (y, np.minimum(y, 4)):
            teacher = LogisticTeacher().fit(x, labels)
            assert np.isfinite(teacher.predict_proba(np.concatenate([x, -x]))).all()


def test_float32_stays_float32() -> None:
    x, y = rows(60, 3)
    teacher = LogisticTeacher().fit(x.astype(np.float32), y)
    assert teacher.coef_.dtype == teacher.intercept_.dtype == np.float32
    assert teacher.predict_proba(x.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(teacher.coef_, LogisticTeacher().fit(x, y).coef_, atol=1e-4)


@pytest.mark.parametrize("few", [0, linear.FEW_INPUTS])
def test_a_solver_that_is_stopped_early_says_so(few: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(linear, "FEW_INPUTS", few)
    x, y = rows(60, 2)
    with pytest.warns(NotConverged, match="ITERATIONS"):
        LogisticTeacher(C=100.0, iterations=2).fit(x, y)


def test_a_teacher_is_the_same_whatever_is_trained_beside_it() -> None:
    x, y = rows(90, 3)
    parts = np.array_split(np.arange(90), 6)
    spec = LogisticRegressionSpec()
    together = fit_teachers(spec, Rows(x, y), parts, range(6), 9)
    for index, part in enumerate(parts):
        (alone,) = fit_teachers(spec, Rows(x[part], y[part]), [np.arange(len(part))], [index], 9)
        assert pickle.dumps(alone) == pickle.dumps(together[index])
