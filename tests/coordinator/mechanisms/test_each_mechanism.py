"""What a mechanism does by itself: thresholds, checks, phases."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    Immutable,
    ImmutableGaussian,
    Interactive,
)
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.sum_noise import noise_bias
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from tests.coordinator.mechanisms.drawing import CLEAR, MECHANISMS, NoNoise, Parties, release


def test_confident_answers_at_the_threshold_and_not_below() -> None:
    mechanism = Confident(threshold=6, sigma1=1.0, sigma2=1.0)
    assert mechanism.draw(np.array([[6, 4], [5, 5], [4, 6]]), NoNoise()).labels.tolist() == [0, NO_LABEL, 1]


def test_confident_draws_label_noise_for_what_passed_only() -> None:
    noise = NoNoise()
    Confident(threshold=6, sigma1=2.0, sigma2=1.0).draw(np.array([[6, 4], [5, 5], [4, 6]]), noise)
    assert noise.drawn == [("gaussian", 2.0, (3,)), ("gaussian", 1.0, (2, 2))]


def test_interactive_answers_where_teachers_disagree_with_the_student() -> None:
    """M = 5, so p = .5 takes 3 votes away (2.5, rounded half up) and p = .3 takes 2 (1.5)."""
    mechanism = Interactive(threshold=2, sigma1=1.0, sigma2=1.0, confidence=0.6)
    votes = np.array([[5, 0], [4, 1], [1, 4], [4, 1], [4, 1]])
    p = np.array([[0.5, 0.5], [0.5, 0.5], [0.7, 0.3], [0.7, 0.3], [0.6, 0.4]])
    drawn = mechanism.draw(votes, NoNoise(), p)
    assert drawn.labels.tolist() == [0, NO_LABEL, 1, 0, NO_LABEL]
    assert drawn.reinforced.tolist() == [False, False, False, True, False]
    assert drawn.answered.tolist() == [True, False, True, False, False]


def test_interactive_confirms_the_students_label_not_the_teachers() -> None:
    mechanism = Interactive(threshold=4, sigma1=1.0, sigma2=1.0, confidence=0.5)
    drawn = mechanism.draw(np.array([[6, 4]]), NoNoise(), np.array([[0.4, 0.6]]))
    assert drawn.labels.tolist() == [1]
    assert drawn.reinforced.tolist() == [True]


@pytest.mark.parametrize(
    ("probabilities", "error", "told"),
    [
        (None, ConfigError, "none were given"),
        (np.ones((2, 2)), ConfigError, "shape"),
        (np.ones((1, 3)), ConfigError, "shape"),
        (np.array([[np.nan, 1.0]]), Exception, r"\[0, 1\]"),
        (np.array([[-0.1, 1.0]]), Exception, r"\[0, 1\]"),
    ],
)
def test_interactive_refuses_bad_probabilities(probabilities: np.ndarray | None, error: type, told: str) -> None:
    mechanism = Interactive(threshold=4, sigma1=1.0, sigma2=1.0, confidence=0.5)
    with pytest.raises(error, match=told):
        mechanism.draw(np.array([[6, 4]]), NoNoise(), probabilities)


def test_interactive_needs_one_number_of_teachers() -> None:
    mechanism = Interactive(threshold=4, sigma1=1.0, sigma2=1.0, confidence=0.5)
    with pytest.raises(Exception, match="do not sum to the 10 teachers"):
        mechanism.draw(np.array([[6, 4], [6, 5]]), NoNoise(), np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    "mechanism",
    [Immutable(gamma=0.05, constant=2000), ImmutableGaussian(sigma=40.0, constant=2000)],
    ids=lambda each: each.name,
)
def test_immutable_is_the_plurality_on_both_sides_of_its_counterexample(mechanism: Mechanism) -> None:
    """Noise bridges a gap of 2,001 with probability below 1e-40; a private mechanism could not do this."""
    votes = np.tile([[126, 125], [125, 126]], (1000, 1))
    assert (mechanism.draw(votes, SeededNoise(1)).labels == votes.argmax(axis=1)).all()
    event = mechanism.event(
        asked=1, answered=1, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    assert np.isposinf(event.worst_case_rdp([2.0])).all()
    assert "NOT differentially private" in mechanism.describe()


class TestDistributed:
    """The coordinator decides on noisy histograms alone."""

    def test_the_bias_of_the_maximum_is_added_to_the_threshold(self) -> None:
        """4 sqrt(2 ln 3) = 5.93, so a threshold of 6 asks for 12."""
        single, two = MECHANISMS[-2], MECHANISMS[-1]
        assert isinstance(single, Distributed) and isinstance(two, DistributedTwoPhase)
        noisy = np.array([[12, -40, 3], [11, 11, 0], [-5, 0, 12]])
        assert single.decide(noisy).labels.tolist() == [0, NO_LABEL, 2]
        assert two.screen(noisy).tolist() == [True, False, True]

    @pytest.mark.parametrize("classes", [2, 3, 10, 150])
    @pytest.mark.parametrize("sigma", [1.0, 40.0])
    def test_the_bias_is_at_least_the_mean_of_the_largest_noise(self, classes: int, sigma: float) -> None:
        largest = SeededNoise(1).gaussian(sigma, (20_000, classes)).max(axis=1)
        assert 0.5 * largest.mean() < noise_bias(sigma, classes) < 3 * largest.mean() + 4 * sigma
        assert largest.mean() <= noise_bias(sigma, classes)

    def test_narrow_shares_are_drawn_one_by_one(self) -> None:
        noise = NoNoise()
        Distributed(threshold=6, sigma=4.0, noise_shares=16).draw(CLEAR, noise)
        assert noise.drawn == [("gaussian", 1.0, (3, 3))] * 16

    def test_a_second_phase_that_fails_leaves_what_the_first_has_shown_to_be_paid_for(self) -> None:
        mechanism = DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3)
        released = release(mechanism, Parties(CLEAR, failing=2), 3, None)
        assert released.labels.tolist() == [NO_LABEL] * 3
        assert not released.answered.any()
        assert isinstance(released.failure, NotEnoughParties)

    def test_what_did_not_pass_is_not_asked_about_again(self) -> None:
        mechanism = DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3)
        parties = Parties(np.array([[18, 1, 1], [7, 7, 6], [1, 2, 17], [20, 0, 0]]))
        assert release(mechanism, parties, 2, None).labels.tolist() == [0, NO_LABEL, 2, NO_LABEL]
        assert parties.asked == [([0, 1, 2, 3], 1), ([0, 2], 2)]
        none = Parties(np.full((2, 3), 7))
        assert release(mechanism, none, 2, None).labels.tolist() == [NO_LABEL] * 2
        assert none.asked == [([0, 1], 1)]

    def test_the_student_is_promised_less(self) -> None:
        for mechanism in (MECHANISMS[-2], MECHANISMS[-1]):
            assert isinstance(mechanism, Distributed | DistributedTwoPhase)
            coordinator, student = (
                mechanism.event(
                    asked=9,
                    answered=4,
                    unit=Unit.RECORD,
                    neighbouring=Neighbouring.REPLACE,
                    teachers_per_party=1,
                    towards=towards,
                )
                for towards in (Towards.COORDINATOR, Towards.STUDENT)
            )
            assert student.towards is Towards.STUDENT
            assert (student.worst_case_rdp([2.0, 9.0]) < 0.9 * coordinator.worst_case_rdp([2.0, 9.0])).all()
