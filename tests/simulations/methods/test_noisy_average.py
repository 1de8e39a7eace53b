"""The average of linear teachers' weights with noise: what it costs, and that it is what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from consilium.accounting.units import Neighbouring, Unit
from consilium.models.keys import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.models.linear import RidgeTeacher
from consilium.simulations.methods import noisy_average
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import LinearDraws, noisy_averages, sensitivity
from consilium.simulations.said import DirectionSum, directions, linear_scores

INPUTS = 4
UNITS = [(unit, relation) for unit in Unit for relation in Neighbouring]


def rows(classes: int, count: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, INPUTS))
    return x, (x @ np.random.default_rng(9).normal(size=(INPUTS, classes))).argmax(axis=1)


def trained(spec: TeacherKind, classes: int, seed: int = 0) -> Any:
    x, y = rows(classes, seed=seed)
    return {"ridge": RidgeTeacher(1.0), "logistic_regression": LogisticRegression()}[spec.model].fit(x, y)


def add(summed: DirectionSum, weights: np.ndarray) -> None:
    summed.add(directions(weights[:, :-1]).mean(axis=0), len(weights))


def parties(count: int, teachers: int = 1, classes: int = 2) -> DirectionSum:
    summed = DirectionSum()
    for party in range(count):
        spec = LogisticRegressionSpec()
        own = [linear_scores(spec, trained(spec, classes, 10 * party + k), INPUTS, classes) for k in range(teachers)]
        add(summed, np.stack([each for each in own if each is not None]))
    return summed


def auc(averages: LinearDraws, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([roc_auc_score(y, probabilities[:, 1]) for probabilities in averages.probabilities(x)]))


@pytest.mark.parametrize(("unit", "relation"), UNITS)
def test_noise_is_what_the_promise_needs(unit: Unit, relation: Neighbouring) -> None:
    epsilon, delta = 0.99, 1e-5
    found = noisy_averages(
        parties(12, teachers=4), StatedGuarantee(epsilon, delta, unit, relation), *rows(2, seed=5), 0
    )
    # of the sum: a party's mean of four moves by 1 if it leaves; a teacher trained anew moves it by 2 / 4
    moved = {
        (Unit.PARTY, Neighbouring.REPLACE): 2,
        (Unit.PARTY, Neighbouring.ADD_OR_REMOVE): 1,
        (Unit.PATIENT, Neighbouring.REPLACE): 1,
        (Unit.PATIENT, Neighbouring.ADD_OR_REMOVE): 0.5,
        (Unit.RECORD, Neighbouring.REPLACE): 1,
        (Unit.RECORD, Neighbouring.ADD_OR_REMOVE): 0.5,
    }[unit, relation]
    one = StatedGuarantee(epsilon, delta, unit, Neighbouring.ADD_OR_REMOVE).noise_multiplier(1)
    assert found.figures["noise_deviation"] == pytest.approx(one * moved / 12, rel=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(UNITS), st.integers(1, 5))
def test_no_neighbour_moves_the_sum_further(seed: int, which: tuple[Unit, Neighbouring], teachers: int) -> None:
    """A party's teachers before and after, turned round or any others; what else is in the sum stays."""
    unit, relation = which
    generator = np.random.default_rng(seed)
    shape = (teachers, INPUTS + 1, 2)
    before = generator.normal(size=shape) * generator.choice([0.0, 1e-300, 0.01, 100.0, 1e200], size=(teachers, 1, 1))
    for after in (-before, generator.normal(size=shape), np.zeros(shape)):
        changed = teachers if unit is Unit.PARTY else 1 if relation is Neighbouring.ADD_OR_REMOVE else min(2, teachers)
        mixed = np.concatenate([after[:changed], before[changed:]])  # trained anew, on other rows
        sums = [DirectionSum(), DirectionSum()]
        for summed, weights in zip(sums, (before, mixed), strict=True):
            add(summed, weights)
        if unit is Unit.PARTY and relation is Neighbouring.ADD_OR_REMOVE:
            sums[1].total = np.zeros_like(sums[0].total)
        moved = float(np.linalg.norm(sums[0].total - sums[1].total))
        assert moved <= sensitivity(unit, relation, teachers) * (1 + 1e-12)


def test_nothing_is_spent_on_intercepts() -> None:
    """Parties with other shares of the classes, and the same order of cases, give the same."""
    sums = [DirectionSum(), DirectionSum()]
    for summed, shift in zip(sums, (0, 40), strict=True):
        weights = np.random.default_rng(1).normal(size=(3, INPUTS + 1, 2))
        weights[:, -1] += [-shift, shift]
        add(summed, weights)
    np.testing.assert_array_equal(sums[0].total, sums[1].total)


def test_shrinking_helps_where_public_rows_hardly_vary() -> None:
    """Two directions that say the class, and forty of next to no variance: their weights are noise alone."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3000, 42)) * np.concatenate([[1.0, 1.0], np.full(40, 0.3)])
    y = (x[:, 0] + x[:, 1] + generator.normal(size=3000) > 0).astype(np.int64)
    summed, promise = DirectionSum(), StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
    signal = np.concatenate([[1.0, 1.0], np.zeros(41)])[:, None] * [-0.5, 0.5]
    for _ in range(30):
        add(summed, signal[None])
    shrunk = noisy_averages(summed, promise, x[:1500], y[:1500], 0)
    assert shrunk.figures["shrinkage"] > 0
    on_test = x[1500:], y[1500:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_average, "SHRINKAGES", (0.0,))
        plain = noisy_averages(summed, promise, x[:1500], y[:1500], 0)
    areas = [auc(each, *on_test) for each in (plain, shrunk)]
    assert areas[1] > areas[0] + 0.02


def test_a_class_that_no_public_row_has_is_never_called() -> None:
    summed, promise = parties(6, classes=3), StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
    x, y = rows(3, seed=5)
    found = noisy_averages(summed, promise, x[y < 2], y[y < 2], 0)
    assert max(float(draw[:, 2].max()) for draw in found.probabilities(x)) < 1e-3


@pytest.mark.parametrize("spec", [LogisticRegressionSpec(), RidgeSpec(alpha=1.0)], ids=["logistic", "ridge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_decide_as_the_teacher_does(spec: TeacherKind, classes: int) -> None:
    teacher, (x, _) = trained(spec, classes), rows(classes, seed=5)
    weights = linear_scores(spec, teacher, INPUTS, classes)
    assert weights is not None and weights.shape == (INPUTS + 1, classes)
    scores = np.concatenate([x, np.ones((len(x), 1))], axis=1) @ weights
    assert scores.argmax(axis=1).tolist() == teacher.predict(x).tolist()
    np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-9)


@pytest.mark.parametrize("spec", [LogisticRegressionSpec(), RidgeSpec(alpha=1.0)], ids=["logistic", "ridge"])
def test_a_class_that_was_not_seen(spec: TeacherKind) -> None:
    weights = linear_scores(spec, trained(spec, 2), INPUTS, 4)
    assert weights is not None
    np.testing.assert_allclose(weights[:, 2], weights[:, 3])
    constant = DummyClassifier(strategy="most_frequent").fit(np.zeros((3, INPUTS)), [1, 1, 1])
    assert not np.any(linear_scores(spec, constant, INPUTS, 2))


def test_more_epsilon_is_never_worse_and_without_noise_it_is_the_average() -> None:
    sums, pool, test = parties(12), rows(2, seed=4), rows(2, seed=5)
    aucs = []
    for epsilon in (0.01, 1.0, 1e5):
        averages = noisy_averages(sums, StatedGuarantee(epsilon, 1e-5, Unit.PARTY, Neighbouring.REPLACE), *pool, 0)
        aucs.append(auc(averages, *test))
    assert aucs == sorted(aucs) and aucs[0] < 0.9 < 0.99 < aucs[-1]


def test_all_is_chosen_on_the_pool_and_probabilities_are_the_softmax_of_each_draw() -> None:
    """Whatever the labels of the pool say, and nothing else; of two classes factors keep the order of the average."""
    promise, (x, y) = StatedGuarantee(0.5, 1e-5, Unit.PARTY, Neighbouring.REPLACE), rows(2, seed=5)
    rare = y * (np.random.default_rng(0).random(len(y)) < 0.2)
    found, fewer = (noisy_averages(parties(12), promise, x, labels, 0) for labels in (y, rare))
    shares = [np.mean(each.probabilities(x), axis=(0, 1))[1] for each in (found, fewer)]
    assert shares == pytest.approx([y.mean(), rare.mean()], abs=0.01)
    for weights, probabilities in zip(found.weights, found.probabilities(x), strict=True):
        scores = x @ weights[:-1] + weights[-1]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        np.testing.assert_allclose(probabilities, odds / odds.sum(axis=1, keepdims=True), rtol=1e-12)
