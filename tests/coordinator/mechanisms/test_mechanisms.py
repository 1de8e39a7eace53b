"""What every mechanism must do. Statistical tests use fixed seeds; each states how often it would fail by chance.

What each does by itself is in test_each_mechanism.py, the laws that the outcomes must follow in test_mechanism_laws.py,
the noise itself in tests/protocol/test_noise.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Interactive, event_from_json
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.coordinator.mechanisms import MECHANISMS as ALL_MECHANISMS
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SeededNoise
from tests.coordinator.mechanisms.drawing import CLEAR, MECHANISMS, NoNoise, Parties, draw, make_votes, release


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
        assert mechanism.name == event.mechanism.name
        assert (event.asked, event.answered, event.unit, event.teachers_per_party) == (7, 7, Unit.PARTY, 3)
        assert event.noise is Noise.DISCRETE
        assert event.towards is (Towards.COORDINATOR if mechanism.noise_by_parties else Towards.STUDENT)
        assert event_from_json(event.to_json()) == event
        shared = {"asked", "answered", "unit", "neighbouring", "teachers_per_party", "towards", "noise", "slack"}
        own = set(event.to_json()) - shared - {"type"}
        assert own and all(getattr(event.mechanism, key) == getattr(mechanism, key) for key in own)

    def test_every_count_and_every_query_gets_its_own_noise(self, mechanism: Mechanism) -> None:
        """One number for each count, or for each check; none is drawn once and used twice."""
        noise = NoNoise()
        draw(mechanism, np.tile([20, 0, 0], (7, 1)), noise)
        whole = (7, 3)
        wanted = {"confident": [(7,), whole], "interactive": [(7,), whole]}
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
        evidence = event.evidence(votes, probabilities=votes.astype(np.float64))
        assert all(part is None or part.shape == (0,) for part in evidence)

    def test_large_counts_do_not_wrap(self, mechanism: Mechanism) -> None:
        votes = np.array([[2**49, 5, 0], [0, 7, 2**49 - 2], [1, 2**49 + 3, 1]])
        votes[:, 0] += 2**49 + 5 - votes.sum(axis=1)
        assert draw(mechanism, votes, SeededNoise(1)).labels.tolist() == [0, 2, 1]

    def test_narrow_and_unsigned_counts_do_not_wrap(self, mechanism: Mechanism) -> None:
        narrow = np.array([[250, 3, 2], [2, 252, 1]])
        for dtype in (np.int16, np.uint8, np.uint32):
            if dtype is np.int16 or not isinstance(mechanism, Interactive):
                assert draw(mechanism, narrow.astype(dtype), SeededNoise(1)).labels.tolist() == [0, 1]

    def test_evidence_fits_the_event(self, mechanism: Mechanism) -> None:
        """Where there is any, it gives a cost at these votes that is never above that of the whole histogram."""
        votes = make_votes(50, teachers=40)
        drawn = draw(mechanism, votes, SeededNoise(2))
        answered = int(drawn.answered.sum())
        event = mechanism.event(
            asked=50, answered=answered, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        )
        evidence = event.evidence(votes, probabilities=np.full(votes.shape, 1 / 3))
        if mechanism.noise_by_parties or not mechanism.private or mechanism.name == "histogram":
            assert evidence == (None, None)
            return
        orders = [1.5, 2.0, 8.0]
        at_votes, worst = event.data_dependent_rdp(evidence, drawn.answered, orders), event.histogram_rdp(orders)
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

    def test_mechanism_and_event_say_the_same_of_themselves(self, mechanism: Mechanism) -> None:
        event = mechanism.event(
            asked=7, answered=7, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
        )
        for name in ("phases", "noise_by_parties", "answers_all", "private"):
            assert getattr(mechanism, name) == getattr(event.mechanism, name)
        assert mechanism.private == np.isfinite(event.worst_case_rdp([2.0])).all()
        assert mechanism.private == (mechanism.claimed_epsilon(7, 1e-5) is None)
        by_threshold = {"confident", "distributed", "distributed_two_phase"}
        assert mechanism.votes_needed == (6 if mechanism.name in by_threshold else 0)
        for phase in (1, 2):
            noise = event.party_noise(phase)
            assert (noise is not None) == (mechanism.noise_by_parties and phase <= mechanism.phases)
            assert noise is None or noise.shares in (3, 4)

    def test_describe_names_every_parameter(self, mechanism: Mechanism) -> None:
        table = mechanism.model_dump(exclude={"name", "unsafe_not_private", "release_counts"})  # type: ignore[attr-defined]
        assert all(f"{value:g}" in mechanism.describe() for value in table.values())
