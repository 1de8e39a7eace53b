"""Network teachers: the contract of every teacher, and each by itself."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec, MlpSpec, NetworkSpec
from consilium.models.network_teacher import NetworkTeacher
from consilium.models.table import fit_teachers
from consilium.models.teachers import Teacher
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


@pytest.mark.parametrize("model", ["logistic_regression", "random_forest", "gradient_boosting", "ridge", "mlp", "cnn"])
def test_the_contract_of_every_teacher(model: str) -> None:
    spec = SPECS.get(model) or teacher_of(model, trees=10)
    x, y = images(120)
    seen = np.where(y == 1, 3, y)  # of five classes, this party has 0, 2 and 3
    teacher: Teacher = fit_teachers(spec, Rows(x, seen), [np.arange(120)], [3], 5)[0]
    other, truth = images(200, seed=1)
    predicted, probabilities = teacher.predict(other), teacher.predict_proba(other)
    assert teacher.classes_.tolist() == [0, 2, 3]
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


def test_a_shard_of_one_class_gives_a_constant_teacher_among_networks(spec: NetworkSpec) -> None:
    x, y = images(60)
    parts = [np.arange(30), np.flatnonzero(y[:30] == 2), np.arange(30, 60)]
    teachers = fit_teachers(spec, Rows(x, y), parts, [1, 2, 3], 3)
    assert [isinstance(teacher, NetworkTeacher) for teacher in teachers] == [True, False, True]
    assert set(teachers[1].predict(x)) == {2}


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"weight_decay": -1}, {"model": "transformer"}, {"dropout": 0.5}])
def test_what_a_specification_may_not_say(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        CnnSpec.model_validate(wrong)
