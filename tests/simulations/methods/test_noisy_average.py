"""The average of linear teachers' weights with noise: what it costs, and that it is what it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm as gaussian
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from consilium.accounting.units import Neighbouring, Unit
from consilium.models.teachers import RidgeTeacher
from consilium.protocol.teachers import (
    CnnSpec,
    GradientBoostingSpec,
    LogisticRegressionSpec,
    MlpSpec,
    RandomForestSpec,
    RidgeSpec,
    TeacherKind,
)
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import judged_noisy_average, noisy_averages, sensitivity, why_none
from consilium.simulations.teach import NORMS, ClippedSums, clipped, linear_scores

INPUTS = 4
UNITS = [(unit, relation) for unit in Unit for relation in Neighbouring]


def rows(classes: int, count: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, INPUTS))
    return x, (x @ np.random.default_rng(9).normal(size=(INPUTS, classes))).argmax(axis=1)


def trained(spec: TeacherKind, classes: int, seed: int = 0) -> Any:
    x, y = rows(classes, seed=seed)
    return {"ridge": RidgeTeacher(1.0), "logistic_regression": LogisticRegression()}[spec.model].fit(x, y)


def parties(count: int, teachers: int = 1, classes: int = 2) -> ClippedSums:
    sums = ClippedSums()
    for party in range(count):
        spec = LogisticRegressionSpec()
        own = [linear_scores(spec, trained(spec, classes, 10 * party + k), INPUTS, classes) for k in range(teachers)]
        sums.add(np.stack([each for each in own if each is not None]))
    return sums


def deviation_by_hand(epsilon: float, delta: float) -> float:
    """Least noise of a Gaussian of sensitivity 1: Balle and Wang 2018, theorem 8, by bisection."""

    def cost(sigma: float) -> float:
        near, far = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        return float(gaussian.cdf(near) - math.exp(epsilon) * gaussian.cdf(far))

    low, high = 1e-3, 1e3
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize(("unit", "relation"), UNITS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.99, 1e-5), (0.3, 1e-6), (8.0, 1e-5)])
def test_noise_is_what_the_promise_needs(unit: Unit, relation: Neighbouring, epsilon: float, delta: float) -> None:
    found = noisy_averages(
        parties(12, teachers=4), StatedGuarantee(epsilon, delta, unit, relation), *rows(2, seed=5), 0
    )
    # of the sum: a party's mean of four moves by C if it leaves; a teacher trained anew moves it by 2 C / 4
    per_norm = {
        (Unit.PARTY, Neighbouring.REPLACE): 2,
        (Unit.PARTY, Neighbouring.ADD_OR_REMOVE): 1,
        (Unit.PATIENT, Neighbouring.REPLACE): 1,
        (Unit.PATIENT, Neighbouring.ADD_OR_REMOVE): 0.5,
        (Unit.RECORD, Neighbouring.REPLACE): 1,
        (Unit.RECORD, Neighbouring.ADD_OR_REMOVE): 0.5,
    }[unit, relation]
    expected = deviation_by_hand(epsilon, delta) * per_norm * found.norm / 12
    assert found.noise_deviation == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(UNITS), st.integers(1, 5), st.sampled_from(NORMS))
def test_no_neighbour_moves_the_sum_further(
    seed: int, which: tuple[Unit, Neighbouring], teachers: int, norm: float
) -> None:
    """A party's teachers before and after; what else is in the sum stays."""
    unit, relation = which
    generator = np.random.default_rng(seed)
    before = generator.normal(size=(teachers, INPUTS + 1, 2)) * generator.choice([0.01, 1.0, 100.0])
    after = before.copy()
    if unit is Unit.PARTY:
        after = -after if relation is Neighbouring.REPLACE else np.zeros_like(after)
    else:
        changed = 1 if relation is Neighbouring.ADD_OR_REMOVE else min(2, teachers)
        after[:changed] = -after[:changed]  # trained anew, on other rows
    moved = clipped(before, norm).mean(axis=0) - clipped(after, norm).mean(axis=0)
    assert np.sqrt((moved**2).sum()) <= sensitivity(norm, unit, relation, teachers) * (1 + 1e-12)


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
    for epsilon in (0.01, 0.1, 1.0, 10.0, 1e5):
        averages = noisy_averages(sums, StatedGuarantee(epsilon, 1e-5, Unit.PARTY, Neighbouring.REPLACE), *pool, 0)
        aucs.append(judged_noisy_average(averages, *test, ("a", "b"))["auc"])
    assert aucs == sorted(aucs) and aucs[0] < 0.9 < 0.99 < aucs[-1]


def test_is_seeded() -> None:
    promise = StatedGuarantee(0.1, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
    made = [noisy_averages(parties(5), promise, *rows(2, seed=5), seed) for seed in (0, 0, 1)]
    first, again, other = (judged_noisy_average(each, *rows(2, seed=6), ("a", "b")) for each in made)
    assert first == again != other


def test_the_norm_is_chosen_on_the_pool_and_its_probabilities_are_the_softmax_of_each_draw() -> None:
    """Whatever the labels of the pool say, and nothing else: with all of them wrong, other norms lead."""
    promise, (x, y) = StatedGuarantee(0.5, 1e-5, Unit.PARTY, Neighbouring.REPLACE), rows(2, seed=5)
    right, wrong = (noisy_averages(parties(12), promise, x, labels, 0) for labels in (y, 1 - y))
    assert right.norm != wrong.norm
    for weights, found in zip(right.weights, right.probabilities(x), strict=True):
        scores = x @ weights[:-1] + weights[-1]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, odds / odds.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize(
    ("spec", "epsilon", "mixed", "expected"),
    [
        (LogisticRegressionSpec(), 1.0, False, ""),
        (RidgeSpec(alpha=1.0), 1.0, False, ""),
        (RandomForestSpec(), 1.0, False, "teachers of kind random_forest are not linear"),
        (GradientBoostingSpec(), 1.0, False, "teachers of kind gradient_boosting are not linear"),
        (MlpSpec(), 1.0, False, "teachers of kind mlp are not linear"),
        (CnnSpec(), 1.0, False, "teachers of kind cnn are not linear"),
        (RidgeSpec(alpha=1.0), 1.0, True, "the parties train teachers of different kinds"),
        (RidgeSpec(alpha=1.0), math.inf, False, "the run promises no epsilon"),
        (RidgeSpec(alpha=1.0), 0.0, False, "the run may spend nothing"),
    ],
)
def test_where_there_is_none(spec: TeacherKind, epsilon: float, mixed: bool, expected: str) -> None:
    assert why_none(spec, epsilon, mixed) == expected
