"""The contract of every teacher; networks, of images in colour too; and the ridge teacher against scikit-learn's."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec, EstimatorSpec, MlpSpec, NetworkSpec
from consilium.models.network_teacher import NetworkTeacher
from consilium.models.own_model import OwnCodeTeacher
from consilium.models.table import fit_teachers
from consilium.models.teachers import RidgeTeacher, Teacher
from consilium.protocol.images import ImageShape, image_shape
from tests.specs import teacher_of

SIDE = 16
SPECS = {
    "mlp": MlpSpec(hidden=16, epochs=15, batch=16, learning_rate=0.01),
    "cnn": CnnSpec(hidden=16, channels=4, epochs=8, batch=16, learning_rate=0.01),
}


def images(count: int, seed: int = 0, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A bright bar whose height tells the class, on noise."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, count)
    x = generator.uniform(0, 0.4, size=(count, SIDE, SIDE))
    for index, label in enumerate(y):
        x[index, 2 + 4 * label : 5 + 4 * label, generator.integers(0, 4) :] += 0.6
    return x.reshape(count, -1), y


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> NetworkSpec:
    return SPECS[request.param]


@pytest.mark.parametrize(
    "model", ["logistic_regression", "random_forest", "gradient_boosting", "ridge", "mlp", "cnn", "own"]
)
def test_the_contract_of_every_teacher(model: str) -> None:
    own = EstimatorSpec(factory="tests.strangers:Nearest")
    spec = own if model == "own" else SPECS.get(model) or teacher_of(model, trees=10)
    x, y = images(120)
    seen = np.where(y == 1, 3, y)  # of five classes, this party has 0, 2 and 3
    teacher: Teacher = fit_teachers(spec, Rows(x, seen), [np.arange(120)], [3], 5)[0]
    other, truth = images(200, seed=1)
    predicted, probabilities = teacher.predict(other), teacher.predict_proba(other)
    assert teacher.classes_.tolist() == [0, 2, 3]
    if isinstance(teacher, OwnCodeTeacher):  # whole numbers from 0, as xgboost insists on
        assert teacher.trained.estimator.classes_.tolist() == [0, 1, 2]
    assert probabilities.shape == (200, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (probabilities >= 0).all()
    assert (teacher.classes_[probabilities.argmax(axis=1)] == predicted).all()
    assert (predicted == np.where(truth == 1, 3, truth)).mean() > 0.85
    loaded = pickle.loads(pickle.dumps(teacher))
    assert (loaded.predict_proba(other) == probabilities).all()
    again = fit_teachers(spec, Rows(x, seen), [np.arange(120)], [3], 5)[0]
    assert (again.predict_proba(other) == probabilities).all()


def uneven() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Parts of other sizes, one with a batch more than the rest, one smaller than a batch, one without a class."""
    x, y = images(110)
    lacking = np.flatnonzero(y[:40] != 1)
    return x, y, [lacking, np.arange(40, 73), np.arange(73, 100), np.arange(100, 110)]


@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_a_teacher_is_the_same_whatever_others_are_trained_with_it(spec: NetworkSpec, weight: str) -> None:
    """To the last bit. Steps move its weights, and weights of classes count."""
    x, y, parts = uneven()
    spec = spec.model_copy(update={"class_weight": weight, "epochs": 3})
    together = fit_teachers(spec, Rows(x, y), parts, [5, 6, 7, 8], 3)
    for teacher, part, seed in zip(together, parts, [5, 6, 7, 8], strict=True):
        alone = NetworkTeacher(spec, seed).fit(x[part], y[part])
        assert isinstance(teacher, NetworkTeacher) and teacher.classes_.tolist() == np.unique(y[part]).tolist()
        assert (teacher.predict_proba(x) == alone.predict_proba(x)).all()
        for changed in ({"learning_rate": 1e-9}, {"class_weight": "balanced" if weight == "none" else "none"}):
            other = NetworkTeacher(spec.model_copy(update=changed), seed).fit(x[part], y[part])
            assert (other.predict_proba(x) != alone.predict_proba(x)).any()


@pytest.mark.parametrize(
    ("inputs", "least", "expected"),
    [
        (256, 16, (1, 16)), (768, 16, (3, 16)), (192, 16, None), (2, 1, None), (3071, 1, None),
    ],
)  # fmt: skip
def test_what_a_row_is(inputs: int, least: int, expected: tuple[int, int] | None) -> None:
    assert image_shape(inputs, least) == expected


def test_planes_of_pixels_beside_each_other() -> None:
    rows = np.arange(2 * 12).reshape(2, 12)
    planes = ImageShape(3, 2).planes(rows)
    assert planes[1].tolist() == [[[12, 15], [18, 21]], [[13, 16], [19, 22]], [[14, 17], [20, 23]]]
    assert ImageShape(1, 2).planes(rows[:, :4]).tolist() == rows[:, :4].reshape(2, 1, 2, 2).tolist()
    assert ImageShape(3, 2).planes(rows[:0]).shape == (0, 3, 2, 2)


def blobs(count: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    return generator.normal(size=(count, inputs)) + 1.5 * np.eye(3, inputs)[y], y


@pytest.mark.parametrize(("count", "inputs"), [(40, 200), (40, 40), (300, 20)], ids=["dual", "square", "primal"])
@pytest.mark.parametrize("balanced", [False, True])
def test_the_numbers_of_scikit_learn(count: int, inputs: int, balanced: bool) -> None:
    x, y = blobs(count, inputs)
    y[: count // 2] = 0  # classes of different sizes, so that balancing matters
    weights = len(y) / (3 * np.bincount(y)[y]) if balanced else None
    expected = Ridge(alpha=2.5).fit(x, np.eye(3)[y], sample_weight=weights)
    found = RidgeTeacher(2.5, balanced=balanced).fit(x, y)
    np.testing.assert_allclose(found.weights, expected.coef_.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.intercept, expected.intercept_, rtol=1e-8, atol=1e-10)
    assert (found.predict(x) == expected.predict(x).argmax(axis=1)).all()
    small = RidgeTeacher(2.5, balanced=balanced).fit(x.astype(np.float32), y)
    assert small.weights.dtype == small.intercept.dtype == np.float32
    np.testing.assert_allclose(small.weights, found.weights, atol=1e-4)
