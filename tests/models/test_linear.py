"""Linear models: logistic regression as a teacher against scikit-learn's, students brought to public rows with labels,
and models of such rows alone."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from consilium.data.private_rows import Rows
from consilium.models.adapted import ALONE, LEVEL, SETTINGS, Adapted, adapt, averaged, fit_labels
from consilium.models.base import softmax
from consilium.models.keys import LogisticRegressionSpec
from consilium.models.linear import LogisticTeacher
from consilium.models.table import fit_teachers
from consilium.protocol.errors import DataError

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
@pytest.mark.parametrize(("classes", "solver", "tol"), [(2, "newton-cholesky", 1e-12), (5, "lbfgs", 1e-4)])
def test_the_numbers_of_scikit_learn(
    classes: int, solver: Any, tol: float, count: int, C: float, balanced: bool
) -> None:
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


def test_few_rows_of_many_classes_are_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        LogisticTeacher().fit(*rows(24, 20))


def test_rows_that_are_far_away_stay_numbers() -> None:
    """Standardised values reach 1e9: no exponential overflows, and nothing is warned of."""
    x, y = rows(20, 3)
    x[0] = 1e9
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        for labels in (y, np.minimum(y, 4)):
            teacher = LogisticTeacher().fit(x, labels)
            assert np.isfinite(teacher.predict_proba(np.concatenate([x, -x]))).all()


def test_float32_stays_float32() -> None:
    x, y = rows(60, 3)
    teacher = LogisticTeacher().fit(x.astype(np.float32), y)
    assert teacher.coef_.dtype == teacher.intercept_.dtype == np.float32
    assert teacher.predict_proba(x.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(teacher.coef_, LogisticTeacher().fit(x, y).coef_, atol=1e-4)


def test_a_solver_that_is_stopped_early_says_so() -> None:
    x, y = rows(60, 2)
    with pytest.warns(UserWarning, match="ITERATIONS"):
        LogisticTeacher(C=100.0, iterations=2).fit(x, y)


def test_a_teacher_is_the_same_whatever_is_trained_beside_it() -> None:
    x, y = rows(90, 3)
    parts = np.array_split(np.arange(90), 6)
    spec = LogisticRegressionSpec()
    together = fit_teachers(spec, Rows(x, y), parts, range(6), 9)
    for index, part in enumerate(parts):
        (alone,) = fit_teachers(spec, Rows(x[part], y[part]), [np.arange(len(part))], [index], 9)
        assert pickle.dumps(alone) == pickle.dumps(together[index])


WEIGHTS = np.array([1.5, -1.0, 0.5, 0.0])


def owners(count: int, rows: int, classes: int = 2, seed: int = 0, shift: float = 0.5):
    """Each one's x, y and the probabilities of a student who knows the common weights, and not the owner's shift."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(4, classes))
    directions[:, -1] += WEIGHTS
    for _ in range(count):
        x = generator.normal(size=(rows, 4))
        scores = x @ directions
        y = (scores + shift * generator.normal(size=classes) + generator.gumbel(size=scores.shape)).argmax(axis=1)
        yield x, y, softmax(scores)


def brier(probabilities: np.ndarray, y: np.ndarray) -> float:
    return float(((probabilities - np.eye(probabilities.shape[1])[y]) ** 2).sum(axis=1).mean())


def brought(x: np.ndarray, y: np.ndarray, student: np.ndarray) -> Adapted:
    found = adapt(x, y, student)
    assert found is not None
    return found


def alone(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    return fit_labels(x, y, int(y.max()) + 1).predict_proba(new)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_good_student_helps_where_rows_are_few(classes: int) -> None:
    gains = []
    for x, y, said in owners(30, 124, classes):
        few, others = (x[:24], y[:24], said[:24]), (x[24:], said[24:])
        mine, both = alone(*few[:2], others[0]), brought(*few).probabilities(*others)
        gains.append(brier(mine, y[24:]) - brier(both, y[24:]))
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(len(gains)) > 0
    assert np.mean(np.array(gains) > 0) > 0.8


def test_a_useless_student_costs_no_more_than_chance() -> None:
    generator, losses = np.random.default_rng(1), []
    for x, y, _ in owners(30, 140):
        noise = expit(3 * generator.normal(size=len(y)))
        said = np.stack([1 - noise, noise], axis=1)
        few, others = (x[:40], y[:40], said[:40]), (x[40:], said[40:])
        mine, both = alone(*few[:2], others[0]), brought(*few).probabilities(*others)
        losses.append(brier(both, y[40:]) - brier(mine, y[40:]))
    assert np.mean(losses) < 2 * np.std(losses) / np.sqrt(len(losses))
    assert brought(*few).weight < 0.35


def test_an_average_of_scores_is_one_formula() -> None:
    ((x, y, said),) = owners(1, 30, 3)
    settings, one = SETTINGS[[4, 7]], np.ones(1)
    first, second = (averaged(x, y, said, setting[None], one) for setting in settings)
    mixed = averaged(x, y, said, settings, np.array([0.7, 0.3]))
    share = (mixed.weight - second.weight) / (first.weight - second.weight)
    assert 0.01 < share < 0.99
    logs = [np.log(each.probabilities(x, said)) for each in (first, second)]  # scores, but for a number of each row
    expected = softmax(share * logs[0] + (1 - share) * logs[1])
    np.testing.assert_allclose(mixed.probabilities(x, said), expected, atol=1e-12)
    moved = averaged(x + 5, y, said, settings, np.array([0.7, 0.3]))
    np.testing.assert_allclose(moved.probabilities(x + 5, said), expected, atol=1e-9)


def test_evidence_is_the_integral_over_the_weights() -> None:
    """Of one input and two classes against a sum over a grid of intercept and weight; Laplace's is near it. The share
    of a setting in the average of two is that of its evidence."""
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(40, 1)), np.tile([0, 1], 20)
    nobody = np.full((40, 2), 0.5)
    parts = (ALONE[:1], ALONE[1:2], ALONE[:2])
    first, second, mixed = (averaged(x, y, nobody, part, np.ones(len(part))).coefficients[1, 0] for part in parts)
    odds, spread = np.linspace(-6, 6, 121), (x - x.mean()) / x.std()
    density = []
    for _, reach, level in ALONE[:2]:
        scores = odds[:, None, None] + odds[None, :, None] * spread[:, 0]
        likelihood = -np.logaddexp(0, np.where(y == 1, -scores, scores)).sum(axis=2)
        prior = -0.5 * ((odds[:, None] / level) ** 2 + (odds[None, :] / reach) ** 2) - np.log(level * reach)
        density.append(np.log(np.exp(likelihood + prior).sum()))
    assert logit((mixed - second) / (first - second)) == pytest.approx(density[0] - density[1], abs=0.05)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
def test_few_rows_one_class_and_constant_columns(classes: int, rows: int) -> None:
    said = np.full((rows, classes), 1 / classes)
    for y in (np.zeros(rows, dtype=np.int64), np.arange(rows) % classes):
        for x in (np.ones((rows, 3)), np.zeros((rows, 600)), np.eye(rows, 5) * 1e8):
            if (found := adapt(x, y, said)) is None:
                assert rows < 2
                continue
            for probabilities in (found.probabilities(x, said), fit_labels(x, y, classes).predict_proba(x)):
                assert np.isfinite(probabilities).all()
                np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.full((3, 1), np.nan), np.zeros(3, dtype=np.int64), np.full((3, 2), 0.5)),
        (np.zeros((3, 1)), np.zeros(2, dtype=np.int64), np.full((3, 2), 0.5)),
        (np.zeros((3, 1)), np.array([0, 1, 2]), np.full((3, 2), 0.5)),
        (np.zeros((3, 1)), np.array([0, 1, -1]), np.full((3, 2), 0.5)),
    ],
)
def test_rows_that_do_not_fit(x: np.ndarray, y: np.ndarray, said: np.ndarray) -> None:
    with pytest.raises(DataError):
        adapt(x, y, said)


def test_a_mean_of_weights_of_one_is_no_more_than_one() -> None:
    generator = np.random.default_rng(0)
    assert max(float(softmax(row) @ np.ones(9)) for row in generator.normal(size=(500, 9))) > 1  # by rounding
    settings = np.array([(1.0, reach, LEVEL) for reach in np.linspace(0.1, 2, 9)])
    for x, y, said in owners(200, 6):
        assert averaged(x, y, said, settings, np.ones(9)).weight <= 1
