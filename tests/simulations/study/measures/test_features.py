"""Distances of features: a classifier against chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from consilium.simulations.study.measures.division import division_rows, told_apart
from consilium.simulations.study.measures.figures import capped
from tests.simulations.study.measures.made import made_case, made_rows

SIZES = [30, 8, 50, 4, 16, 90, 25, 12, 40, 6]


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_shifted_parties_are_told_apart() -> None:
    found = {row.metric: row for row in division_rows(made_case(made_rows(SIZES, far=1.0)))}
    low = found["c2st_auc_mean"].low
    assert low is not None and low > 0.5


def test_of_many_rows_each_party_gives_as_many_as_fit() -> None:
    party = np.repeat(np.arange(4), [90, 10, 3, 60])
    taken = capped(party, generator(), 100)
    sizes = np.bincount(party[taken])
    assert sizes.tolist() == [43, 10, 3, 43]
    assert (np.diff(taken) > 0).all()


@pytest.mark.parametrize(("apart", "low", "high"), [(0.0, 0.42, 0.58), (1.0, 0.7, 0.82), (9.0, 0.999, 1.0)])
def test_a_classifier_tells_shifted_rows(apart: float, low: float, high: float) -> None:
    """A shift by d along one axis has area Phi(d / sqrt 2): .5, .760, 1."""
    x, own = generator().normal(size=(900, 3)), np.arange(900) < 300
    x[own, 0] += apart
    assert low <= told_apart(x, own, np.arange(900), generator()) <= high


def test_rows_of_one_patient_do_not_give_it_away() -> None:
    """30 patients with 30 equal rows each: with each patient in one fold there is nothing to tell."""
    x = np.repeat(generator().normal(size=(30, 40)), 30, axis=0)
    own, patient = np.arange(900) < 300, np.repeat(np.arange(30), 30)
    assert told_apart(x, own, np.arange(900), generator()) > 0.9
    assert told_apart(x, own, patient, generator()) < 0.75


def test_public_rows_that_are_all_alike() -> None:
    rows = made_rows(SIZES)
    case = made_case(replace(rows, x=np.zeros_like(rows.x)))
    found = {row.metric: row.value for row in division_rows(case) if row.scope == "run"}
    assert found["c2st_auc_mean"] == 0.5
