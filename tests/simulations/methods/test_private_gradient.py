"""Private gradient descent costs what it says: how far a unit moves a sum, how much noise there is, what it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from sklearn.linear_model import LogisticRegression

from consilium.accounting.units import Neighbouring, Unit
from consilium.simulations.methods import private_gradient
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.private_gradient import (
    PrivateGradient,
    Setting,
    UnitRows,
    descend,
    seeded,
    unit_of_rows,
)
from tests.simulations.methods.cases import taught

INPUTS, CLASSES = 3, 3


def made_up(units: list[int], seed: int = 0, classes: int = CLASSES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, classes and unit of rows: so many of each unit, not side by side."""
    generator = np.random.default_rng(seed)
    of_rows = generator.permutation(np.repeat(np.arange(len(units)), units))
    x = generator.normal(size=(len(of_rows), INPUTS)) * generator.choice([0.01, 1.0, 50.0], size=(len(of_rows), 1))
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
    models = np.random.default_rng(1).normal(size=(2, INPUTS + 1, CLASSES))
    clips = np.array([0.1, 30.0])
    found = UnitRows.of(x, y, of_rows, CLASSES).clipped_sum(models, clips)
    for model, clip, total in zip(models, clips.tolist(), found, strict=True):
        np.testing.assert_allclose(total, sum_by_hand(x, y, of_rows, model, clip), rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10_000), st.sampled_from([[1] * 6, [3, 1, 2], [5, 5]]), st.sampled_from([0.1, 1.0]))
def test_no_unit_moves_a_sum_by_more_than_its_norm(seed: int, units: list[int], clip: float) -> None:
    """Nor by more than twice of it where another stands in its place, whatever its rows are."""
    x, y, of_rows = made_up(units, seed)
    model = np.random.default_rng(seed).normal(size=(1, INPUTS + 1, CLASSES)) * 3

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
    x = generator.normal(size=(400, INPUTS))
    y = (x @ generator.normal(size=(INPUTS, classes)) + generator.normal(size=(400, classes))).argmax(axis=1)
    rows = UnitRows.of(x, y, np.arange(400), classes)
    model = descend(rows, np.zeros((INPUTS + 1, classes)), [Setting(1e6, 3e6)], 600, seeded(0.0, [0]))[0]
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
    np.testing.assert_array_equal(unit_of_rows(case, Unit.PATIENT), np.arange(len(order)))  # nobody says whose rows


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
