"""Labels with known noise, from what draws them over the terms to the student: the law that is told is what happens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Histogram,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
)
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import law_of
from consilium.models.base import Outcomes
from consilium.models.likelihood import likelihood_of
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.label_source import NO_LABEL, Answers, LabelLaw, Outcome
from consilium.protocol.label_wire import terms_from_wire, terms_to_wire
from consilium.protocol.noise import SeededNoise
from consilium.student.learn import train
from consilium.student.run import UNKNOWN, Asked
from tests.coordinator.labels.test_service import Votes
from tests.coordinator.mechanisms.drawing import Sums, release
from tests.federation import make_config
from tests.specs import student_of

DRAWS = 100_000
DEVIATIONS = 5.0
"""Each of 49 frequencies is compared with that of as many draws: right laws fail for one in 30,000 seeds, and these
are fixed."""
PREDICTED = np.array([0.5, 0.2, 0.3])
CHECK, LABEL = 60.0, 40.0
IN_SUMS = 55.0, 38.0
"""Deviations of the noise in a first sum, and in a second."""
MECHANISMS = [
    LNMax(gamma=math.sqrt(2) / LABEL),
    GNMax(sigma=LABEL),
    Confident(threshold=190, sigma1=CHECK, sigma2=LABEL),
    Interactive(threshold=5, sigma1=CHECK, sigma2=LABEL),
]
VOTES = [195, 176], [110, 120, 141]


def by_law(law: LabelLaw, votes: np.ndarray, generator: np.random.Generator, laplace: bool) -> np.ndarray:
    """What `LabelLaw` says, word for word: frequencies of each label, and of none at last; no shape of noise."""
    noise, size = generator.laplace if laplace else generator.normal, (DRAWS, len(votes))
    scale = law.deviation / math.sqrt(2) if laplace else law.deviation
    labels = (votes + noise(0, scale, size)).argmax(axis=1)
    if law.threshold is not None:
        predicted = law.votes * PREDICTED[: len(votes)] if law.predicted else 0.0
        largest = (votes - predicted + generator.normal(0, law.cell_deviation, size)).max(axis=1)
        # whole numbers are at the threshold from half a vote below on
        passed = largest + generator.normal(0, law.check_deviation, DRAWS) >= law.threshold - 0.5
        labels = np.where(passed, labels, len(votes))
    return np.bincount(labels, minlength=len(votes) + 1) / DRAWS


@pytest.mark.parametrize(
    ("mechanism", "in_sums", "votes"),
    [
        (Difference(sigma=LABEL * math.sqrt(2)), (), [195, 176]),
        *((each, (), votes) for each in MECHANISMS for votes in VOTES),
        *((each, IN_SUMS, votes) for each in MECHANISMS[1:] for votes in VOTES),
    ],
    ids=str,
)
def test_the_law_is_what_is_drawn(mechanism: Any, in_sums: tuple[float, ...], votes: list[int]) -> None:
    counts, total = np.tile(votes, (DRAWS, 1)), sum(votes)
    probabilities = np.tile(PREDICTED[: len(votes)], (DRAWS, 1))
    held = in_sums[-1:] if mechanism.name == "gnmax" else in_sums
    drawn = release(mechanism, NoisySums(counts, held) if held else counts, SeededNoise(7), probabilities)
    labels = np.where(drawn.labels == NO_LABEL, len(votes), drawn.labels)
    found = np.bincount(labels, minlength=len(votes) + 1) / DRAWS
    law = law_of(mechanism, total, len(votes), held)
    assert law is not None and (law.threshold is None) == mechanism.answers_all
    expected = by_law(law, np.array(votes), np.random.default_rng(8), isinstance(mechanism, LNMax))
    apart = DEVIATIONS * np.sqrt(2 * expected * (1 - expected) / DRAWS)
    # a tie of whole numbers goes to the first class, and rounding moves a count by less than one vote
    assert (np.abs(found - expected) <= apart + 1 / LABEL / 4).all()


class NoisySums(Sums):
    """Each round with fresh noise of its deviation in the sums."""

    def __init__(self, votes: np.ndarray, deviations: tuple[float, ...]) -> None:
        super().__init__(votes, sigma=1.0)
        self.deviations = deviations

    def __call__(self, round_: int, chosen: np.ndarray | None) -> Counts:
        counts = super().__call__(round_, chosen)
        noise = np.random.default_rng(round_).normal(0, self.deviations[round_ - 1], counts.votes.shape)
        return replace(counts, votes=counts.votes + noise.round().astype(np.int64))


def test_exact_winners_have_the_noise_that_they_have_and_counts_no_law() -> None:
    assert law_of(Immutable(gamma=0.05, constant=20), 371, 2, ()) == LabelLaw(371, math.sqrt(2) * 20)
    assert law_of(ImmutableGaussian(sigma=30.0, constant=20), 371, 2, ()) == LabelLaw(371, 30.0)
    assert law_of(Histogram(sigma=90.0), 371, 2, ()) is None


LAW = LabelLaw(6, 9.0, threshold=4.0, check_deviation=2.0)


def answered(outcomes: Sequence[int], labels: list[int], law: LabelLaw | None, predictions: np.ndarray) -> Asked:
    record = Asked(2, law)
    record.add(np.arange(len(outcomes)) + 10, Answers(np.array(outcomes), np.array(labels)), predictions)
    return record


def test_what_was_asked_tells_something_and_without_a_law_labels_alone_do() -> None:
    """Of rows that others asked a label tells what labels tell, and the rest nothing."""
    outcomes = [Outcome.ANSWERED, Outcome.ABSTAINED, Outcome.REINFORCED, Outcome.NOT_ASKED]
    labels, own = [1, NO_LABEL, 0, NO_LABEL], np.tile([0.9, 0.1], (4, 1))
    rows, named, told = answered(outcomes, labels, None, own).told()
    assert (rows.tolist(), named.tolist(), told) == ([10, 12], [1, 0], None)
    for law in (LAW, replace(LAW, predicted=True)):
        rows, named, told = answered(outcomes, labels, law, own).told()
        assert (rows.tolist(), named.tolist()) == ([10, 11, 12], [1, NO_LABEL, 0])
        assert isinstance(told, Outcomes) and told.law == law and told.outcomes.tolist() == outcomes[:3]
        assert (told.predictions is not None) == law.predicted
    rows, _, told = answered(outcomes, labels, replace(LAW, predicted=True), np.full((4, 2), UNKNOWN)).told()
    assert rows.tolist() == [10] and isinstance(told, Outcomes)
    without, shares = replace(told, law=LabelLaw(LAW.votes, LAW.deviation), predictions=None), np.array([[0.3, 0.7]])
    for found, expected in zip(likelihood_of(told).loss(shares), likelihood_of(without).loss(shares), strict=True):
        assert found == pytest.approx(expected)


def test_a_trainer_of_labels_gets_those_rows_that_have_one() -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    spec = student_of(trainer="estimator", factory="sklearn.linear_model.LogisticRegression")
    some, none = np.where(np.arange(60) % 3, y, NO_LABEL), np.zeros((0, 3))
    kept = some != NO_LABEL
    models = (train(x, some, none, 2, spec, 0), train(x[kept], y[kept], x[~kept], 2, spec, 0))
    np.testing.assert_array_equal(models[0].predict_proba(x), models[1].predict_proba(x))


def test_the_terms_say_it_and_no_lie_passes() -> None:
    config = make_config(mechanism=Confident(4, 2.0, 9.0), teachers_per_party=2)
    terms = LabelService(config, Ledger.in_memory(config), Votes(), SeededNoise, 3).describe()
    assert terms_from_wire(terms_to_wire(terms)) == terms and terms.law == LAW
    for lie in (-1.0, math.nan, math.inf):
        with pytest.raises(MalformedMessage, match="law"):
            terms_from_wire(terms_to_wire(replace(terms, law=replace(LAW, deviation=lie))))
