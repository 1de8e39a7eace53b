"""Rivals with noise: the average of linear teachers' weights, and private gradient descent. How far a unit moves a sum,
how much noise there is, and that they are what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from consilium.accounting.units import Neighbouring, Unit
from consilium.models.keys import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.models.linear import RidgeTeacher
from consilium.protocol.errors import ConfigError
from consilium.simulations.methods import noisy_average, private_gradient
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.noisy_average import LinearDraws, noisy_averages, sensitivity
from consilium.simulations.methods.private_gradient import (
    PrivateGradient,
    Setting,
    UnitRows,
    descend,
    seeded,
    unit_of_rows,
)
from consilium.simulations.said import directions, linear_scores
from tests.simulations.methods.cases import taught

INPUTS = 4
UNITS = [(unit, relation) for unit in Unit for relation in Neighbouring]


def rows(classes: int, count: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, INPUTS))
    return x, (x @ np.random.default_rng(9).normal(size=(INPUTS, classes))).argmax(axis=1)


def trained(spec: TeacherKind, classes: int, seed: int = 0) -> Any:
    x, y = rows(classes, seed=seed)
    return {"ridge": RidgeTeacher(1.0), "logistic_regression": LogisticRegression()}[spec.model].fit(x, y)


def given_by(weights: np.ndarray) -> np.ndarray:
    """By a party whose teachers have these weights."""
    return directions(weights[:, :-1]).mean(axis=0)


def parties(count: int, teachers: int = 1, classes: int = 2) -> list[np.ndarray]:
    summed, spec = [], LogisticRegressionSpec()
    for party in range(count):
        own = [linear_scores(spec, trained(spec, classes, 10 * party + k), INPUTS, classes) for k in range(teachers)]
        summed.append(given_by(np.stack([each for each in own if each is not None])))
    return summed


def auc(averages: LinearDraws, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean([roc_auc_score(y, probabilities[:, 1]) for probabilities in averages.probabilities(x)]))


@pytest.mark.parametrize(("unit", "relation"), UNITS)
def test_noise_is_what_the_promise_needs(unit: Unit, relation: Neighbouring) -> None:
    epsilon, delta = 0.99, 1e-5
    found = noisy_averages(
        parties(12, teachers=4), 4, StatedGuarantee(epsilon, delta, unit, relation), *rows(2, seed=5), 0
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
        gone = unit is Unit.PARTY and relation is Neighbouring.ADD_OR_REMOVE
        moved = float(np.linalg.norm(given_by(before) - (0 if gone else given_by(mixed))))
        assert moved <= sensitivity(unit, relation, teachers) * (1 + 1e-12)


def test_shrinking_helps_where_public_rows_hardly_vary() -> None:
    """Two directions that say the class, and forty of next to no variance: their weights are noise alone."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3000, 42)) * np.concatenate([[1.0, 1.0], np.full(40, 0.3)])
    y = (x[:, 0] + x[:, 1] + generator.normal(size=3000) > 0).astype(np.int64)
    promise = StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
    signal = np.concatenate([[1.0, 1.0], np.zeros(41)])[:, None] * [-0.5, 0.5]
    summed = [given_by(signal[None])] * 30
    shrunk = noisy_averages(summed, 1, promise, x[:1500], y[:1500], 0)
    assert shrunk.figures["shrinkage"] > 0
    on_test = x[1500:], y[1500:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_average, "SHRINKAGES", (0.0,))
        plain = noisy_averages(summed, 1, promise, x[:1500], y[:1500], 0)
    areas = [auc(each, *on_test) for each in (plain, shrunk)]
    assert areas[1] > areas[0] + 0.02


def test_a_class_that_no_public_row_has_is_never_called() -> None:
    summed, promise = parties(6, classes=3), StatedGuarantee(1.0, 1e-5, Unit.PARTY, Neighbouring.REPLACE)
    x, y = rows(3, seed=5)
    found = noisy_averages(summed, 1, promise, x[y < 2], y[y < 2], 0)
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
        averages = noisy_averages(sums, 1, StatedGuarantee(epsilon, 1e-5, Unit.PARTY, Neighbouring.REPLACE), *pool, 0)
        aucs.append(auc(averages, *test))
    assert aucs == sorted(aucs) and aucs[0] < 0.9 < 0.99 < aucs[-1]


def test_all_is_chosen_on_the_pool_and_probabilities_are_the_softmax_of_each_draw() -> None:
    """Whatever the labels of the pool say, and nothing else; of two classes factors keep the order of the average."""
    promise, (x, y) = StatedGuarantee(0.5, 1e-5, Unit.PARTY, Neighbouring.REPLACE), rows(2, seed=5)
    rare = y * (np.random.default_rng(0).random(len(y)) < 0.2)
    found, fewer = (noisy_averages(parties(12), 1, promise, x, labels, 0) for labels in (y, rare))
    shares = [np.mean(each.probabilities(x), axis=(0, 1))[1] for each in (found, fewer)]
    assert shares == pytest.approx([y.mean(), rare.mean()], abs=0.01)
    for weights, probabilities in zip(found.weights, found.probabilities(x), strict=True):
        scores = x @ weights[:-1] + weights[-1]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        np.testing.assert_allclose(probabilities, odds / odds.sum(axis=1, keepdims=True), rtol=1e-12)


COLUMNS, CLASSES = 3, 3


def made_up(units: list[int], seed: int = 0, classes: int = CLASSES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, classes and unit of rows: so many of each unit, not side by side."""
    generator = np.random.default_rng(seed)
    of_rows = generator.permutation(np.repeat(np.arange(len(units)), units))
    x = generator.normal(size=(len(of_rows), COLUMNS)) * generator.choice([0.01, 1.0, 50.0], size=(len(of_rows), 1))
    return x, generator.integers(classes, size=len(of_rows)), of_rows


def sum_by_hand(x: np.ndarray, y: np.ndarray, units: np.ndarray, model: np.ndarray, clip: float) -> np.ndarray:
    total, rows = np.zeros_like(model), np.concatenate([x, np.ones((len(x), 1))], axis=1)
    for unit in np.unique(units):
        gradients = []
        for row, label in zip(rows[units == unit], y[units == unit], strict=True):
            odds = np.exp(row @ model - (row @ model).max())
            gradients.append(np.outer(row, odds / odds.sum() - np.eye(model.shape[1])[label]))
        mean = np.mean(gradients, axis=0)
        total += mean * min(1.0, clip / np.linalg.norm(mean))
    return total


@pytest.mark.parametrize("units", [[1] * 30, [4, 1, 1, 7, 4, 1], [25]], ids=["records", "patients", "one party"])
def test_the_sum_is_that_of_each_units_clipped_mean(units: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_gradient, "_AT_ONCE", 60)  # several blocks
    x, y, of_rows = made_up(units)
    models = np.random.default_rng(1).normal(size=(2, COLUMNS + 1, CLASSES))
    clips = np.array([0.1, 30.0])
    found = UnitRows.of(x, y, of_rows, CLASSES).clipped_sum(models, clips)
    for model, clip, total in zip(models, clips.tolist(), found, strict=True):
        np.testing.assert_allclose(total, sum_by_hand(x, y, of_rows, model, clip), rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10_000), st.sampled_from([[1] * 6, [3, 1, 2], [5, 5]]), st.sampled_from([0.1, 1.0]))
def test_no_unit_moves_a_sum_by_more_than_its_norm(seed: int, units: list[int], clip: float) -> None:
    """Nor by more than twice of it where another stands in its place, whatever its rows are."""
    x, y, of_rows = made_up(units, seed)
    model = np.random.default_rng(seed).normal(size=(1, COLUMNS + 1, CLASSES)) * 3

    def total(x: np.ndarray, y: np.ndarray, of_rows: np.ndarray) -> np.ndarray:
        return UnitRows.of(x, y, of_rows, CLASSES).clipped_sum(model, np.array([clip]))

    there, mine = total(x, y, of_rows), of_rows == 0
    gone = total(x[~mine], y[~mine], of_rows[~mine])
    other = np.where(mine[:, None], -1000 * x, x), np.where(mine, (y + 1) % CLASSES, y)
    assert np.linalg.norm(there - gone) <= clip * (1 + 1e-5)
    assert np.linalg.norm(there - total(*other, of_rows)) <= 2 * clip * (1 + 1e-5)


@pytest.mark.parametrize(("relation", "moved"), [(Neighbouring.REPLACE, 2), (Neighbouring.ADD_OR_REMOVE, 1)])
@pytest.mark.parametrize("rounds", [1, 30])
@pytest.mark.parametrize("epsilon", [0.3, 8.0])
def test_all_rounds_together_cost_epsilon(relation: Neighbouring, moved: int, rounds: int, epsilon: float) -> None:
    """The exact profile of so many Gaussian releases (Balle, Wang 2018, theorem 8; Dong, Roth, Su, corollary 1)."""
    noise = StatedGuarantee(epsilon, 1e-5, Unit.RECORD, relation).noise_multiplier(rounds)
    mu = math.sqrt(rounds) * moved / noise
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-5)


@pytest.mark.parametrize("rounds", [1, 4])
def test_each_round_has_noise_of_its_own(rounds: int) -> None:
    """Two rows alike of either class: what moves the model is noise. False alarms: 1e-6, seed fixed."""
    wide, noise, setting = 2000, 23.0, Setting(clip=0.1, step=1e-6)
    rows = UnitRows.of(np.ones((2, wide)), np.array([0, 1]), np.arange(2), 2)
    found = descend(rows, np.zeros((wide + 1, 2)), [setting], rounds, seeded(noise, [3]))[0]
    deviation = setting.step * noise * math.sqrt(rounds) / 2
    squares, count = float(((found / deviation) ** 2).sum()), found.size
    assert chi2.ppf(5e-7, count) < squares < chi2.ppf(1 - 5e-7, count)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_and_clipping_it_is_logistic_regression_on_all_rows(classes: int) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, COLUMNS))
    y = (x @ generator.normal(size=(COLUMNS, classes)) + generator.normal(size=(400, classes))).argmax(axis=1)
    rows = UnitRows.of(x, y, np.arange(400), classes)
    model = descend(rows, np.zeros((COLUMNS + 1, classes)), [Setting(1e6, 3e6)], 600, seeded(0.0, [0]))[0]
    expected = LogisticRegression(C=1e8, max_iter=5000).fit(x, y).predict_proba(x)
    scores = x @ model[:-1] + model[-1]
    found = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_units_are_rows_patients_at_a_party_or_parties() -> None:
    case, _ = taught(0.2)
    patient = np.arange(len(case.dataset.y)) // 3
    with_patients = replace(case, dataset=replace(case.dataset, patient=patient))
    order = np.concatenate([case.partition.parties[party] for party in case.parties])
    party = np.repeat(np.arange(len(case.parties)), [len(case.partition.parties[name]) for name in case.parties])
    for unit, expected in (
        (Unit.RECORD, [(row,) for row in order.tolist()]),
        (Unit.PATIENT, list(zip(party.tolist(), patient[order].tolist(), strict=True))),
        (Unit.PARTY, [(index,) for index in party.tolist()]),
    ):
        found = unit_of_rows(with_patients, unit).tolist()
        assert len(set(found)) == len(set(expected)) == len(set(zip(found, expected, strict=True)))
    with pytest.raises(ConfigError, match="nobody says which rows are of one"):
        unit_of_rows(case, Unit.PATIENT)
    data = case.scenario.data.model_copy(update={"partition": "groups"})  # of owners, as nobody is a patient
    dealt = replace(case, scenario=case.scenario.model_copy(update={"data": data}))
    assert len(set(unit_of_rows(dealt, Unit.PATIENT))) == len(set(zip(party, case.dataset.owner[order], strict=True)))


def test_it_learns_more_the_smaller_its_unit() -> None:
    """Of the same federation and epsilon: two thousand records hide one of them better than sixteen parties one."""
    case, _ = taught(0.2)
    areas = []
    for unit in (Unit.PARTY, Unit.RECORD):
        promise = StatedGuarantee(1.0, 1e-5, unit, Neighbouring.REPLACE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PrivateGradient, "guarantee", lambda *_, promise=promise: promise)
            found = PrivateGradient().predict(case, None)
        assert found.figures["units"] == (16 if unit is Unit.PARTY else len(unit_of_rows(case, unit)))
        assert found.test is not None
        scores = np.asarray(found.test)[:, 1]
        above = scores[case.test_y == 1][:, None] > scores[case.test_y == 0]
        areas.append(above.mean())
    assert areas[1] > areas[0] and areas[1] > 0.7


def test_what_is_set_is_not_chosen_and_too_much_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    case, _ = taught(0.2)
    figures = PrivateGradient(rounds=2, clip=0.5, step=0.2).predict(case, None).figures
    assert (figures["rounds"], figures["clip"], figures["step"]) == (2, 0.5, 0.2)
    monkeypatch.setattr(private_gradient, "MOST_NUMBERS", 1000)
    assert "above the 1,000" in PrivateGradient().predict(case, None).absent
