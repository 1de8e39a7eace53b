"""What every mechanism must do. Statistical tests use fixed seeds; each states how often it would fail by chance.

The laws that the outcomes must follow are in test_mechanism_laws.py, the noise itself in tests/protocol/test_noise.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from consilium.accounting.events import event_from_json
from consilium.accounting.label_costs import histogram_rdp
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.coordinator.mechanisms import (
    ALL_MECHANISMS,
    AnyMechanism,
    Confident,
    Distributed,
    DistributedTwoPhase,
    Drawn,
    GNMax,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
    Mechanism,
    NoisyHistogram,
    Stable,
)
from consilium.coordinator.mechanisms.distributed import noise_bias
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.labels.service import NO_LABEL
from consilium.protocol.noise import NoiseSource, SeededNoise


class NoNoise:
    """Zero noise, and a record of what was asked for: (law, scale, shape)."""

    simulated = True

    def __init__(self) -> None:
        self.drawn: list[tuple[str, float, tuple[int, ...]]] = []

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.drawn.append(("gaussian", sigma, shape))
        return np.zeros(shape, dtype=np.int64)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        self.drawn.append(("laplace", gamma, shape))
        return np.zeros(shape, dtype=np.int64)


class TripledAndPermuted:
    """Seeded noise times 3, its columns in another order: no ties among counts that differ modulo 3."""

    simulated = True

    def __init__(self, seed: int, order: list[int]) -> None:
        self._noise, self._order = SeededNoise(seed), order

    def _arrange(self, noise: np.ndarray) -> np.ndarray:
        return 3 * (noise[:, self._order] if noise.ndim == 2 else noise)

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return self._arrange(self._noise.gaussian(sigma, shape))

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return self._arrange(self._noise.laplace(gamma, shape))


MECHANISMS: list[Mechanism] = [
    LNMax(gamma=0.3),
    GNMax(sigma=3.0),
    NoisyHistogram(sigma=3.0),
    Confident(threshold=6, sigma1=4.0, sigma2=3.0),
    Interactive(threshold=4, sigma1=4.0, sigma2=3.0, confidence=0.9),
    Stable(threshold=5, sigma=4.0),
    Immutable(gamma=0.3, constant=3, unsafe_not_private=True),
    ImmutableGaussian(sigma=3.0, constant=3, unsafe_not_private=True),
    Distributed(threshold=6, sigma=4.0, noise_shares=4),
    DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3),
]
CLEAR = np.array([[18, 1, 1], [0, 19, 1], [1, 2, 17]])


def draw(mechanism: Mechanism, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
    """Draws with even probabilities where the mechanism needs some and none are given."""
    if mechanism.needs_probabilities and probabilities is None:
        probabilities = np.full(votes.shape, 1 / votes.shape[1])
    return mechanism.draw(votes, noise, probabilities)


class Parties:
    """Sums of these votes for a mechanism's `release`, and a record of what was asked: (positions, phase).

    failing : the phase in which the parties do not answer.
    """

    def __init__(self, votes: np.ndarray, failing: int = 0) -> None:
        self.votes, self.failing = votes, failing
        self.asked: list[tuple[list[int], int]] = []

    def __call__(self, positions: np.ndarray, phase: int) -> np.ndarray:
        if phase == self.failing:
            raise NotEnoughParties(f"nobody answers in phase {phase}")
        self.asked.append((positions.tolist(), phase))
        return self.votes[positions]


def release(mechanism: Mechanism, parties: Parties, room: int, noise: NoiseSource | None) -> Drawn:
    """What `draw` above draws, released."""
    queries, classes = parties.votes.shape
    p = np.full((queries, classes), 1 / classes) if mechanism.needs_probabilities else None
    return mechanism.release(parties, queries, room, noise, p)


def make_votes(queries: int, seed: int = 0, teachers: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(teachers, [0.2, 0.5, 0.3], size=queries).astype(np.int64)


def test_the_contract_covers_all() -> None:
    assert tuple(type(mechanism) for mechanism in MECHANISMS) == ALL_MECHANISMS


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
class TestContract:
    """What every mechanism must do."""

    def test_labels_are_classes_or_none(self, mechanism: Mechanism) -> None:
        drawn = draw(mechanism, make_votes(500), SeededNoise(1))
        assert drawn.labels.dtype == np.int64
        assert drawn.labels.shape == drawn.reinforced.shape == (500,)
        assert drawn.reinforced.dtype == np.bool_
        assert set(np.unique(drawn.labels)) == ({0, 1, 2} if mechanism.answers_all else {NO_LABEL, 0, 1, 2})
        assert not drawn.reinforced.any()

    def test_draws_the_noise_that_it_is_charged_for(self, mechanism: Mechanism) -> None:
        noise = NoNoise()
        draw(mechanism, CLEAR, noise)
        event = mechanism.event(
            asked=3, answered=3, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        ).to_json()
        laws = {"sigma": "gaussian", "sigma1": "gaussian", "sigma2": "gaussian", "gamma": "laplace"}
        charged = [(laws[key], value) for key, value in event.items() if key in laws]
        assert [(law, scale) for law, scale, _ in noise.drawn] == charged

    def test_the_event_says_what_the_mechanism_is(self, mechanism: Mechanism) -> None:
        event = mechanism.event(
            asked=7, answered=7, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=3
        )
        assert mechanism.name == event.TYPE
        assert (event.asked, event.answered, event.unit, event.teachers_per_party) == (7, 7, Unit.PARTY, 3)
        assert event.noise is Noise.DISCRETE
        assert event.towards is (Towards.COORDINATOR if mechanism.noise_by_parties else Towards.STUDENT)
        assert event_from_json(event.to_json()) == event
        shared = {"asked", "answered", "unit", "neighbouring", "teachers_per_party", "towards", "noise"}
        own = set(event.to_json()) - shared - {"type", "version"}
        assert own and all(getattr(event, key) == getattr(mechanism, key) for key in own)

    def test_every_count_and_every_query_gets_its_own_noise(self, mechanism: Mechanism) -> None:
        """One number for each count, or for each check; none is drawn once and used twice."""
        noise = NoNoise()
        draw(mechanism, np.tile([20, 0, 0], (7, 1)), noise)
        whole = (7, 3)
        wanted = {"confident": [(7,), whole], "interactive": [(7,), whole], "stable": [(7,)]}
        wanted["distributed_two_phase"] = [whole, whole]
        assert [shape for _, _, shape in noise.drawn] == wanted.get(mechanism.name, [whole])

    def test_outcomes_of_equal_queries_are_uncorrelated(self, mechanism: Mechanism) -> None:
        """Lags 1 to 5 within a batch, and two batches one after the other: 6 tests of 4,000 equal queries on the
        normal law of a correlation, each at 1e-7: a sound mechanism fails for less than one seed in a million."""
        votes = np.tile([5, 7, 8], (4000, 1))
        source = SeededNoise(3)
        first, second = (draw(mechanism, votes, source).labels for _ in range(2))
        for marked in (lambda labels: labels == 2, lambda labels: labels == NO_LABEL):
            a, b = marked(first).astype(float), marked(second).astype(float)
            if a.any():
                pairs = [(a[lag:], a[:-lag]) for lag in range(1, 6)] + [(a, b)]
                found = [np.corrcoef(x, y)[0, 1] * np.sqrt(len(x)) for x, y in pairs]
                assert np.abs(found).max() < stats.norm.isf(1e-7 / 4)
        assert (first == 2).any()

    def test_without_noise_it_is_the_plurality(self, mechanism: Mechanism) -> None:
        assert draw(mechanism, CLEAR, NoNoise()).labels.tolist() == [0, 1, 2]

    def test_ties_go_to_one_of_those_that_are_tied(self, mechanism: Mechanism) -> None:
        tied = np.array([[10, 10, 0], [0, 10, 10], [10, 0, 10]])
        labels = draw(mechanism, tied, NoNoise()).labels
        assert labels.tolist() in ([0, 1, 0], [NO_LABEL] * 3)

    def test_order_of_the_classes_does_not_matter(self, mechanism: Mechanism) -> None:
        order = [2, 0, 1]
        votes = 3 * make_votes(300) + np.array([0, 1, 2])
        p = np.random.default_rng(1).dirichlet([1, 1, 1], size=300)
        plain = draw(mechanism, votes, TripledAndPermuted(5, [0, 1, 2]), p)
        moved = draw(mechanism, votes[:, order], TripledAndPermuted(5, order), p[:, order])
        back = np.where(moved.labels == NO_LABEL, NO_LABEL, np.array(order)[moved.labels])
        assert (back == plain.labels).all()
        assert (moved.reinforced == plain.reinforced).all()
        assert set(plain.labels.tolist()) >= {0, 1, 2}

    def test_same_seed_same_labels_and_votes_are_not_changed(self, mechanism: Mechanism) -> None:
        votes = make_votes(200)
        before = votes.copy()
        votes.setflags(write=False)
        assert (draw(mechanism, votes, SeededNoise(5)).labels == draw(mechanism, votes, SeededNoise(5)).labels).all()
        assert (draw(mechanism, votes, SeededNoise(5)).labels != draw(mechanism, votes, SeededNoise(6)).labels).any()
        assert (votes == before).all()

    def test_no_queries(self, mechanism: Mechanism) -> None:
        votes = np.zeros((0, 2), dtype=np.int64)
        drawn = draw(mechanism, votes, SeededNoise(1))
        assert drawn.labels.shape == drawn.reinforced.shape == (0,)
        event = mechanism.event(
            asked=0, answered=0, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        )
        assert event.worst_case_rdp([2.0]).tolist() == [0.0]
        evidence = mechanism.evidence(event, votes, votes.astype(np.float64))
        assert all(part is None or part.shape == (0,) for part in evidence)

    def test_large_counts_do_not_wrap(self, mechanism: Mechanism) -> None:
        votes = np.array([[2**60, 5, 0], [0, 7, 2**60 - 2], [1, 2**60 + 3, 1]])
        votes[:, 0] += 2**60 + 5 - votes.sum(axis=1)
        assert draw(mechanism, votes, SeededNoise(1)).labels.tolist() == [0, 2, 1]

    def test_narrow_and_unsigned_counts_do_not_wrap(self, mechanism: Mechanism) -> None:
        narrow = np.array([[250, 3, 2], [2, 252, 1]])
        for dtype in (np.int16, np.uint8, np.uint32):
            if dtype is np.int16 or not isinstance(mechanism, Interactive | Stable):
                assert draw(mechanism, narrow.astype(dtype), SeededNoise(1)).labels.tolist() == [0, 1]

    def test_evidence_fits_the_event(self, mechanism: Mechanism) -> None:
        """Where there is any, it gives a cost at these votes that is never above that of the whole histogram."""
        votes = make_votes(50, teachers=40)
        drawn = draw(mechanism, votes, SeededNoise(2))
        answered = int(drawn.answered.sum())
        event = mechanism.event(
            asked=50, answered=answered, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        )
        evidence = mechanism.evidence(event, votes, np.full(votes.shape, 1 / 3))
        if mechanism.noise_by_parties or not mechanism.private or mechanism.name == "histogram":
            assert evidence == (None, None)
            return
        orders = [1.5, 2.0, 8.0]
        at_votes, worst = event.data_dependent_rdp(evidence, drawn.answered, orders), histogram_rdp(event, orders)
        assert (at_votes >= 0).all() and (at_votes <= worst * (1 + 1e-12)).all() and np.isfinite(worst).all()

    def test_a_release_is_what_is_drawn_on_votes_that_are_collected_once(self, mechanism: Mechanism) -> None:
        votes = make_votes(200)
        parties = Parties(votes)
        released, drawn = release(mechanism, parties, 200, SeededNoise(5)), draw(mechanism, votes, SeededNoise(5))
        assert released.labels.tolist() == drawn.labels.tolist()
        assert released.reinforced.tolist() == drawn.reinforced.tolist()
        assert released.failure is None
        assert parties.asked == [(list(range(200)), 1)]

    @pytest.mark.parametrize("room", [1, 7, 15])
    def test_a_release_ends_with_the_last_answer_that_there_is_room_for(self, mechanism: Mechanism, room: int) -> None:
        """Where the coordinator sees the sums, all of them are charged: the second phase alone keeps to the room."""
        votes = make_votes(200)
        drawn = draw(mechanism, votes, SeededNoise(5))
        released = release(mechanism, Parties(votes), room, SeededNoise(5))
        given = int(drawn.answered.sum())
        assert given > 15
        end = 200 if mechanism.noise_by_parties else int(np.flatnonzero(drawn.answered)[room - 1]) + 1
        assert len(released.labels) == len(released.reinforced) == end
        assert released.answered.sum() == (given if mechanism.name == "distributed" else room)
        if mechanism.phases == 1:
            assert released.labels.tolist() == drawn.labels[:end].tolist()

    def test_noise_of_the_parties_is_not_added_again(self, mechanism: Mechanism) -> None:
        """And a mechanism that adds its own never goes without it: nothing is then asked of the parties."""
        parties = Parties(CLEAR)
        if not mechanism.noise_by_parties:
            with pytest.raises(ConfigError, match="no noise was given"):
                release(mechanism, parties, 3, None)
            assert parties.asked == []
            return
        assert release(mechanism, parties, 3, None).labels.tolist() == [0, 1, 2]
        assert parties.asked == [([0, 1, 2], phase) for phase in range(1, mechanism.phases + 1)]

    def test_no_sums_no_labels(self, mechanism: Mechanism) -> None:
        with pytest.raises(NotEnoughParties):
            release(mechanism, Parties(CLEAR, failing=1), 3, None if mechanism.noise_by_parties else NoNoise())

    def test_no_queries_release_nothing(self, mechanism: Mechanism) -> None:
        assert release(mechanism, Parties(np.zeros((0, 2), dtype=np.int64)), 1, NoNoise()).labels.shape == (0,)

    def test_mechanism_and_event_say_the_same_of_themselves(self, mechanism: Mechanism) -> None:
        event = mechanism.event(
            asked=7, answered=7, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        )
        assert (mechanism.phases, mechanism.noise_by_parties) == (event.phases, event.noise_by_parties)
        assert mechanism.private == np.isfinite(event.worst_case_rdp([2.0])).all()
        assert mechanism.private == (mechanism.claimed_epsilon(7, 1e-5) is None)
        by_threshold = {"confident", "distributed", "distributed_two_phase"}
        assert mechanism.votes_needed == (6 if mechanism.name in by_threshold else 0)
        for phase in (1, 2):
            noise = event.party_noise(phase)
            assert (noise is not None) == (mechanism.noise_by_parties and phase <= mechanism.phases)
            assert noise is None or noise.shares in (3, 4)

    def test_parameters_cannot_be_changed(self, mechanism: Mechanism) -> None:
        for name in type(mechanism).model_fields:  # type: ignore[attr-defined]
            with pytest.raises(ValidationError, match="frozen"):
                setattr(mechanism, name, getattr(mechanism, name))

    def test_describe_names_every_parameter(self, mechanism: Mechanism) -> None:
        table = mechanism.model_dump(exclude={"name", "unsafe_not_private", "release_counts"})  # type: ignore[attr-defined]
        assert all(f"{value:g}" in mechanism.describe() for value in table.values())

    def test_a_configuration_reads_back(self, mechanism: Mechanism) -> None:
        adapter = TypeAdapter(AnyMechanism)
        read = adapter.validate_json(adapter.dump_json(mechanism))  # type: ignore[arg-type]
        assert read == mechanism
        assert type(read) is type(mechanism)


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
    event = mechanism.event(
        asked=1, answered=1, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    with pytest.raises(error, match=told):
        mechanism.draw(np.array([[6, 4]]), NoNoise(), probabilities)
    with pytest.raises(error, match=told):
        mechanism.evidence(event, np.array([[6, 4]]), probabilities)


def test_interactive_needs_one_number_of_teachers() -> None:
    mechanism = Interactive(threshold=4, sigma1=1.0, sigma2=1.0, confidence=0.5)
    with pytest.raises(Exception, match="do not sum to the 10 teachers"):
        mechanism.draw(np.array([[6, 4], [6, 5]]), NoNoise(), np.full((2, 2), 0.5))


def test_stable_releases_from_its_distance_on() -> None:
    """(126, 125) could turn with one vote; gaps 9, 10 and 11 are 4, 4 and 5 votes from turning."""
    mechanism = Stable(threshold=5, sigma=1.0)
    votes = np.array([[126, 125], [130, 121], [130, 120], [120, 131]])
    assert mechanism.draw(votes, NoNoise()).labels.tolist() == [NO_LABEL, NO_LABEL, NO_LABEL, 1]


@pytest.mark.parametrize(
    "mechanism",
    [
        Immutable(gamma=0.05, constant=2000, unsafe_not_private=True),
        ImmutableGaussian(sigma=40.0, constant=2000, unsafe_not_private=True),
    ],
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

    def test_draw_is_decide_on_the_sum_of_votes_and_shares(self) -> None:
        mechanism = Distributed(threshold=6, sigma=4.0, noise_shares=4)
        votes = make_votes(300)
        noisy = votes + SeededNoise(9).gaussian(4.0, votes.shape)
        assert (mechanism.draw(votes, SeededNoise(9)).labels == mechanism.decide(noisy).labels).all()

    def test_narrow_shares_are_drawn_one_by_one(self) -> None:
        noise = NoNoise()
        Distributed(threshold=6, sigma=4.0, noise_shares=16).draw(CLEAR, noise)
        assert noise.drawn == [("gaussian", 1.0, (3, 3))] * 16

    def test_second_phase_labels_what_passed_in_order(self) -> None:
        mechanism = DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3)
        passed = np.array([True, False, True, True])
        drawn = mechanism.decide(passed, np.array([[0, 3], [5, 1], [2, 8]]))
        assert drawn.labels.tolist() == [1, NO_LABEL, 0, 1]
        cut = mechanism.decide(passed, np.array([[0, 3], [5, 1]]))
        assert cut.labels.tolist() == [1, NO_LABEL, 0, NO_LABEL]

    def test_second_phase_gets_fresh_noise_for_what_passed_only(self) -> None:
        noise = NoNoise()
        mechanism = DistributedTwoPhase(threshold=6, sigma1=4.0, sigma2=3.5, noise_shares=3)
        mechanism.draw(np.array([[18, 2], [10, 10], [2, 18]]), noise)
        assert noise.drawn == [("gaussian", 4.0, (3, 2)), ("gaussian", 3.5, (2, 2))]

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
