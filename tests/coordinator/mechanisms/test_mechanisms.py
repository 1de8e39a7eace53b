"""What every mechanism must do, by both of its laws, and what its table may say. Seeds are fixed.

Outcomes against the exact laws that the accounting charges, by chi-square at 1e-6 over all outcomes: a sound mechanism
fails such a test for one seed in a million. Ties go to the lowest class, so the laws count them there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from consilium.accounting.curves.discrete import log_pr_loss_table, log_pr_loss_table_laplace, log_tail_table
from consilium.accounting.curves.gaussian import log_pr_answered, public_offsets
from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
    event_from_json,
)
from consilium.accounting.units import Noise
from consilium.coordinator.draw import Drawn, draw, projected
from consilium.coordinator.mechanisms import MECHANISMS as BY_NAME
from consilium.coordinator.mechanisms import AnyMechanism, table_of
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from tests.coordinator.mechanisms.drawing import IN_SUMS, MECHANISMS, WINNERS, NoNoise, Sums, for_, make_votes, release


def test_the_contract_covers_all() -> None:
    assert [mechanism.name for mechanism in MECHANISMS] == list(BY_NAME)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
class TestOfExactCounts:
    def test_labels_are_classes_or_none(self, mechanism: Mechanism) -> None:
        drawn = release(mechanism, for_(mechanism, make_votes(500)), SeededNoise(1))
        assert drawn.labels.dtype == np.int64
        assert drawn.labels.shape == drawn.reinforced.shape == (500,)
        classes = set(range(mechanism.classes or 3))
        assert set(np.unique(drawn.labels)) == (classes if mechanism.answers_all else {NO_LABEL, *classes})
        assert not drawn.reinforced.any()
        assert (drawn.counts is not None) == (mechanism.count_sigma > 0)

    def test_draws_the_noise_that_it_is_charged_for_once_for_every_count_or_check(self, mechanism: Mechanism) -> None:
        noise = NoNoise()
        release(mechanism, for_(mechanism, np.tile([20, 0, 0], (7, 1))), noise)
        laws = {"sigma": "gaussian", "sigma1": "gaussian", "sigma2": "gaussian", "gamma": "laplace"}
        charged = [(laws[key], value) for key, value in mechanism.event(7).to_json().items() if key in laws]
        assert [(law, scale) for law, scale, _ in noise.drawn] == charged
        assert [shape for _, _, shape in noise.drawn] == [
            *[(7,)] * (len(charged) - 1),
            (7, 3) if mechanism.classes is None else (7,),
        ]

    def test_what_it_says_of_itself(self, mechanism: Mechanism) -> None:
        event = mechanism.event(7, 7, teachers_per_party=3)
        assert event_from_json(event.to_json()) == event
        assert mechanism.private == np.isfinite(event.worst_case_rdp([2.0])).all()
        assert mechanism.private == (mechanism.claimed_epsilon(7, 1e-5) is None)
        assert mechanism.votes_needed == (6 if mechanism.name == "confident" else 0)
        assert all(f"{value:g}" in mechanism.describe() for value in mechanism.parameters().values())
        assert mechanism.private == ("NOT differentially private" not in mechanism.describe())

    def test_without_noise_it_is_the_plurality(self, mechanism: Mechanism) -> None:
        sums = Sums(for_(mechanism, WINNERS))
        assert release(mechanism, sums, NoNoise()).labels.tolist() == sums.votes.argmax(axis=1).tolist()
        assert sums.asked == [([0, 1, 2], 1)]

    def test_large_counts_do_not_wrap(self, mechanism: Mechanism) -> None:
        votes = np.array([[2**49, 5, 0], [0, 7, 2**49 - 2], [1, 2**49 + 3, 1]])
        votes[:, 0] += 2**49 + 5 - votes.sum(axis=1)
        votes = for_(mechanism, votes)
        assert release(mechanism, votes, SeededNoise(1)).labels.tolist() == votes.argmax(axis=1).tolist()

    @pytest.mark.parametrize("room", [1, 7, 15])
    def test_it_ends_with_the_last_answer_that_there_is_room_for(self, mechanism: Mechanism, room: int) -> None:
        votes = for_(mechanism, make_votes(200))
        whole, cut = (release(mechanism, votes, SeededNoise(5), room=most) for most in (200, room))
        assert whole.answered.sum() > 15
        end = 200 if mechanism.answers_all else int(np.flatnonzero(whole.answered)[room - 1]) + 1
        assert cut.labels.tolist() == whole.labels[:end].tolist() and len(cut.reinforced) == end


@pytest.mark.parametrize("mechanism", IN_SUMS, ids=lambda mechanism: mechanism.name)
class TestOfCountsThatHoldNoise:
    def test_they_decide_and_a_check_has_noise_of_its_own_and_a_second_sum(self, mechanism: Mechanism) -> None:
        noise, sums = NoNoise(), Sums(WINNERS, sigma=3.0)
        assert release(mechanism, sums, noise).labels.tolist() == [0, 1, 2]
        assert sums.asked == [([0, 1, 2], round_) for round_ in range(1, len(noise.drawn) + 2)]
        assert noise.drawn == ([("gaussian", 4.0, (3,))] if isinstance(mechanism, Confident) else [])

    @given(lie=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=2, max_size=2))
    def test_whether_there_is_an_answer_does_not_depend_on_what_rows_add_up_to(
        self, mechanism: Mechanism, lie: list[int]
    ) -> None:
        """A lying party or aggregator learns nothing from an error."""
        sums = Sums(np.array([lie] * 3), sigma=3.0, teachers=20)
        assert len(release(mechanism, sums, NoNoise()).labels) == 3

    @given(
        noisy=st.lists(st.integers(-(2**15), 2**15 - 1), min_size=3, max_size=3),
        move=st.permutations(range(3)),
        p=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    )
    def test_a_moved_vote_moves_what_is_checked_by_at_most_one(
        self, mechanism: Mechanism, noisy: list[int], move: list[int], p: list[float]
    ) -> None:
        if not isinstance(mechanism, Confident):
            return
        votes = np.array([noisy, noisy])
        votes[1, move[0]] -= 1
        votes[1, move[1]] += 1
        both = mechanism.comparison(projected(votes, 20), 20, "discrete", np.array([p, p]))  # type: ignore[arg-type]
        assert abs(int(both.number[0] - both.number[1])) <= 1


@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if each not in IN_SUMS], ids=lambda each: each.name)
def test_others_refuse_counts_that_hold_noise(mechanism: Mechanism) -> None:
    with pytest.raises(ConfigError, match="exact counts alone"):
        release(mechanism, Sums(WINNERS, sigma=3.0), NoNoise())


SECOND_SUM = Confident(threshold=15, sigma1=3.0, sigma2=2.5)


def test_all_that_was_asked_is_returned_and_no_more_than_there_is_room_for_is_answered() -> None:
    sums = Sums(np.array([[10, 10], [20, 0], [0, 20], [18, 2], [2, 18]]), sigma=3.0)
    drawn = release(SECOND_SUM, sums, NoNoise(), room=3)
    assert drawn.labels.tolist() == [NO_LABEL, 0, 1, 0, NO_LABEL]
    assert sums.asked == [([0, 1, 2, 3, 4], 1), ([1, 2, 3], 2)]
    none = Sums(np.full((2, 2), 7), sigma=3.0)
    assert release(SECOND_SUM, none, NoNoise()).labels.tolist() == [NO_LABEL] * 2
    assert none.asked == [([0, 1], 1)]


def test_what_is_checked_adds_up_to_the_votes_that_were_given() -> None:
    """Three counts of 30 altogether, of 21 votes: each loses 3, so that 18 passes a threshold of 15, and 17 not."""
    sums = Sums(np.array([[18, 7, 5], [17, 8, 5]]), sigma=3.0, teachers=21)
    assert release(SECOND_SUM, sums, NoNoise()).labels.tolist() == [0, NO_LABEL]


def test_a_second_sum_that_fails_leaves_what_the_first_has_shown_to_be_paid_for() -> None:
    drawn = release(SECOND_SUM, Sums(WINNERS, sigma=3.0, failing=2), NoNoise())
    assert drawn.labels.tolist() == [NO_LABEL] * 3 and not drawn.answered.any()
    assert isinstance(drawn.failure, NotEnoughParties)


def test_what_a_check_let_pass_before_a_crash_passes_again() -> None:
    def before(unanswered, passed):
        return unanswered, np.array([False, True, False])

    sums = Sums(WINNERS, sigma=3.0)
    drawn = draw(SECOND_SUM, sums, NoNoise(), room=3, shown=before)
    assert drawn.labels.tolist() == [NO_LABEL, 1, NO_LABEL] and sums.asked[1] == ([1], 2)


def test_confident_answers_at_the_threshold_and_draws_label_noise_for_what_passed_only() -> None:
    noise = NoNoise()
    votes = np.array([[6, 4], [5, 5], [4, 6]])
    drawn = release(Confident(threshold=6, sigma1=2.0, sigma2=1.0), votes, noise)
    assert drawn.labels.tolist() == [0, NO_LABEL, 1]
    assert noise.drawn == [("gaussian", 2.0, (3,)), ("gaussian", 1.0, (2, 2))]


def test_interactive_answers_where_teachers_disagree_with_the_student() -> None:
    """M = 5, so p = .5 takes 3 votes away (2.5, rounded half up) and p = .3 takes 2 (1.5). What is confirmed is the
    student's label, and not the teachers'."""
    mechanism = Interactive(threshold=2, sigma1=1.0, sigma2=1.0, confidence=0.6)
    votes = np.array([[5, 0], [4, 1], [1, 4], [4, 1], [4, 1], [3, 2]])
    p = np.array([[0.5, 0.5], [0.5, 0.5], [0.7, 0.3], [0.7, 0.3], [0.6, 0.4], [0.3, 0.7]])
    drawn = release(mechanism, votes, NoNoise(), p)
    assert drawn.labels.tolist() == [0, NO_LABEL, 1, 0, NO_LABEL, 1]
    assert drawn.reinforced.tolist() == [False, False, False, True, False, True]
    assert drawn.answered.tolist() == [True, False, True, False, False, False]


GOOD = {each.name: {key: value for key, value in table_of(each).items() if key != "name"} for each in MECHANISMS}
SCALE: list[Any] = [0, -1, math.nan, math.inf, -math.inf, None, "much", [40.0]]
COUNT: list[Any] = [-1, 1.5, math.nan, math.inf, None, "many", 2**63]
BAD: dict[str, list[Any]] = {
    "gamma": [*SCALE, 1e-13, 1e4],
    "sigma": [*SCALE, 1e6],
    "sigma1": [*SCALE, 1e6],
    "sigma2": [*SCALE, 1e6],
    "threshold": COUNT,
    "constant": COUNT,
    "confidence": [-0.1, 1.1, math.nan, math.inf, None, "sure"],
    "unsafe_not_private": [False, None, "true", "yes", 0],
}
ADAPTER = TypeAdapter(AnyMechanism)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_table_is_the_mechanism_and_is_written_as_it_was_read(name: str) -> None:
    mechanism = ADAPTER.validate_python({"name": name, **GOOD[name]})
    assert type(mechanism) is BY_NAME[name]
    assert mechanism.parameters() == {key: value for key, value in GOOD[name].items() if key != "unsafe_not_private"}
    assert ADAPTER.dump_python(mechanism) == table_of(mechanism) == {"name": name, **GOOD[name]}
    assert ADAPTER.validate_json(ADAPTER.dump_json(mechanism)) == ADAPTER.validate_python(mechanism) == mechanism


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, table in GOOD.items() for key in table])
def test_bad_unknown_and_missing_values_are_refused(name: str, key: str) -> None:
    for value in BAD[key]:
        with pytest.raises(ValidationError, match=key):
            ADAPTER.validate_python({"name": name, **GOOD[name], key: value})
    with pytest.raises(ValidationError, match="extra"):
        ADAPTER.validate_python({"name": name, **GOOD[name], "epsilon": 1.0})
    if key != "confidence":  # left out, nothing is confirmed
        with pytest.raises(ValidationError, match=key):
            ADAPTER.validate_python({"name": name, **{other: GOOD[name][other] for other in GOOD[name].keys() - {key}}})


QUERIES = 40_000
ROW = np.array([60, 75, 72, 70])


def gaussian_pmf(sigma: float) -> np.ndarray:
    """Of -R..R, from the accounting's table of tails."""
    tails = np.exp(log_tail_table(sigma, int(12 * sigma) + 12))
    half = -np.diff(tails)
    return np.concatenate((half[:0:-1], half))


def laplace_pmf(gamma: float) -> np.ndarray:
    z = np.arange(-int(60 / gamma), int(60 / gamma) + 1)
    return np.tanh(gamma / 2) * np.exp(-gamma * np.abs(z))


def law_of_argmax(row: np.ndarray, pmf: np.ndarray) -> np.ndarray:
    """Pr[j wins], float64 (classes,), for integer noise with that pmf on every count."""
    reach = len(pmf) // 2
    spread = int(np.ptp(row))
    values = np.arange(-reach - spread, reach + spread + 1)
    mass = np.stack([np.interp(row.max() + values - n, np.arange(-reach, reach + 1), pmf, 0, 0) for n in row])
    at_most = np.cumsum(mass, axis=1)
    out = np.empty(len(row))
    for j in range(len(row)):
        below = [at_most[i] - mass[i] if i < j else at_most[i] for i in range(len(row)) if i != j]
        wins = mass[j] * np.prod(below, axis=0)
        out[j] = wins.sum()
    return out


def agrees(drawn: Drawn, law: np.ndarray) -> None:
    """Counts of (no label, class 0, class 1, ...) against Pr of each class, by chi-square at 1e-6."""
    assert law.min() >= 0 and law.sum() <= 1 + 1e-9
    expected = np.append(max(0.0, 1 - law.sum()), law) * len(drawn.labels)
    counts = np.bincount(drawn.labels + 1, minlength=len(expected))
    assert counts[expected < 1e-6].sum() == 0
    common = expected >= 5
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 1e-6
    scaled = expected[keep] / expected[keep].sum() * counts[keep].sum()
    assert stats.chisquare(counts[keep], scaled).pvalue > 1e-6


def same(row: np.ndarray) -> np.ndarray:
    return np.tile(row, (QUERIES, 1))


@pytest.mark.parametrize("row", [ROW, np.array([70, 70]), np.array([4, 4, 1, 1])], ids=str)
def test_noise_on_every_count(row: np.ndarray) -> None:
    agrees(release(LNMax(gamma=0.1), same(row), SeededNoise(1)), law_of_argmax(row, laplace_pmf(0.1)))
    agrees(release(GNMax(sigma=12.0), same(row), SeededNoise(2)), law_of_argmax(row, gaussian_pmf(12.0)))


def test_two_classes_follow_the_tables_of_the_accounting() -> None:
    """Class 0 wins ties, so it overtakes a lead of 8 with exactly the probability that the accounting charges."""
    row = np.array([50, 58])
    gaussian, laplace = np.exp(log_pr_loss_table(12.0, 8)[8]), np.exp(log_pr_loss_table_laplace(0.1, 8)[8])
    assert law_of_argmax(row, gaussian_pmf(12.0))[0] == pytest.approx(gaussian, rel=1e-9)
    assert law_of_argmax(row, laplace_pmf(0.1))[0] == pytest.approx(laplace, rel=1e-9)
    agrees(release(GNMax(sigma=12.0), same(row), SeededNoise(3)), np.array([gaussian, 1 - gaussian]))
    agrees(release(LNMax(gamma=0.1), same(row), SeededNoise(4)), np.array([laplace, 1 - laplace]))


@pytest.mark.parametrize("row", [[50, 58], [70, 70], [90, 71]], ids=str)
def test_difference(row: list[int]) -> None:
    """One noise on one number, which has to be above 0 for class 1."""
    pmf = gaussian_pmf(12.0)
    first = pmf[np.arange(-(len(pmf) // 2), len(pmf) // 2 + 1) + row[1] - row[0] >= 1].sum()
    agrees(release(Difference(sigma=12.0), same(np.array(row)), SeededNoise(8)), np.array([1 - first, first]))


def test_confident() -> None:
    mechanism = Confident(threshold=80, sigma1=20.0, sigma2=12.0)
    answered = np.exp(log_pr_answered(ROW[None].max(axis=1), 80, 20.0, Noise.DISCRETE)[0][0])
    agrees(release(mechanism, same(ROW), SeededNoise(5)), answered * law_of_argmax(ROW, gaussian_pmf(12.0)))


def test_interactive() -> None:
    """The check passes or fails on votes minus M p; then labels follow GNMax on the votes, or the student."""
    p = np.array([0.1, 0.5, 0.3, 0.1])
    top = (ROW - public_offsets(p[None], int(ROW.sum()))).max(axis=1)
    answered = np.exp(log_pr_answered(top, 50, 20.0, Noise.DISCRETE)[0][0])
    probabilities = np.tile(p, (QUERIES, 1))
    mechanism = Interactive(threshold=50, sigma1=20.0, sigma2=12.0, confidence=0.5)
    law = answered * law_of_argmax(ROW, gaussian_pmf(12.0))
    drawn = release(mechanism, same(ROW), SeededNoise(6), probabilities)
    agrees(drawn, law)
    assert not drawn.reinforced.any()
    sure = Interactive(threshold=50, sigma1=20.0, sigma2=12.0, confidence=0.4)
    drawn = release(sure, same(ROW), SeededNoise(7), probabilities)
    assert (drawn.labels[drawn.reinforced] == 1).all()
    agrees(replace(drawn, labels=np.where(drawn.reinforced, -1, drawn.labels)), law)
    agrees(drawn, law + np.array([0, 1 - answered, 0, 0]))


def test_immutable() -> None:
    flips = np.exp(log_pr_loss_table_laplace(0.2, 4)[4])
    laplace, gaussian = Immutable(gamma=0.2, constant=3), ImmutableGaussian(sigma=8.0, constant=3)
    agrees(release(laplace, same(np.array([125, 126])), SeededNoise(9)), np.array([flips, 1 - flips]))
    raised = law_of_argmax(np.array([40, 52 + 3, 30]), gaussian_pmf(8.0))
    agrees(release(gaussian, same(np.array([40, 52, 30])), SeededNoise(9)), raised)
