"""Figures of all parties at a time are, to the last digit, those of one party after the other."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.simulations.home_scores import PartyRows, area_scores
from consilium.simulations.metrics import auc_row_scores


def made_up(classes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parties 0 to 59 of no row to 40, some of one class only; probabilities with ties; labels."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(0, 40, 60)
    whose = np.repeat(np.arange(60), sizes)
    rates = generator.dirichlet(np.full(classes, 0.3), 60)
    y = np.array([generator.choice(classes, p=rates[party]) for party in whose])
    scores = np.round(generator.normal(size=(len(y), classes)) + np.eye(classes)[y], 1)
    return whose, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_areas_means_and_deviations_are_those_of_one_party_after_the_other(classes: int) -> None:
    whose, probabilities, y = made_up(classes, 1)
    rows = PartyRows.of(whose)
    scores, means, deviations = area_scores(rows, probabilities, y), rows.means(y + 0.1), rows.deviations(y + 0.1)
    undefined = 0
    for index, party in enumerate(rows.party):
        mine = whose == party
        alone = auc_row_scores(probabilities[mine], y[mine])
        if alone is None:
            undefined += 1
            assert np.isnan(scores[mine]).all()
        else:
            assert scores[mine].tolist() == alone.tolist()
        assert (means[index], deviations[index]) == ((y[mine] + 0.1).mean(), (y[mine] + 0.1).std())
    assert 0 < undefined < len(rows.party)


def test_what_is_no_number_spoils_its_own_party_alone() -> None:
    rows, y = PartyRows.of(np.array([0, 0, 1, 1])), np.array([0, 1, 0, 1])
    scores = area_scores(rows, np.array([[0.5, 0.5], [0.5, np.nan], [0.9, 0.1], [0.1, 0.9]]), y)
    assert np.isnan(rows.means(scores)).tolist() == [True, False]
    assert scores[2:].tolist() == [1.0, 1.0]
