"""The parts of an audit, each on its own: bounds, pairs, the game, statistics, regions, claims.

Whose claim an audit tries: that of what leaves, whoever draws the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.gaussian import public_offsets
from consilium.accounting.curves.immutable import claimed_epsilon
from consilium.accounting.events import ReleaseEvent, StableEvent
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.coordinator.distinguish.game import (
    EventClaims,
    PaperClaims,
    PooledNoise,
    UserClaims,
    build_mechanism,
    claims_of,
    codes_of,
    play,
)
from consilium.coordinator.distinguish.pairs import candidates, lay_out, pair
from consilium.coordinator.distinguish.regions import (
    choose,
    epsilon_at_least,
    measure,
    probability_at_least,
    probability_at_most,
    statistics_of,
)
from consilium.coordinator.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    Drawn,
    GNMax,
    Immutable,
    Interactive,
    LNMax,
    Mechanism,
    NoisyHistogram,
)
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import NoiseSource, SeededNoise

ALL: tuple[Mechanism, ...] = (
    LNMax(gamma=0.05),
    GNMax(sigma=40.0),
    Confident(threshold=200, sigma1=150.0, sigma2=40.0),
    Interactive(threshold=200, sigma1=150.0, sigma2=40.0, confidence=0.9),
    Immutable(gamma=1e-10, constant=10**12, unsafe_not_private=True),
    Distributed(threshold=100, sigma=40.0, noise_shares=100),
    DistributedTwoPhase(threshold=100, sigma1=100.0, sigma2=40.0, noise_shares=100),
)
SEEDED = SeededNoise(7)


class TestBounds:
    @pytest.mark.parametrize("runs", [1, 20, 200])
    @pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-6])
    def test_each_is_wrong_with_probability_at_most_alpha(self, runs: int, alpha: float) -> None:
        """Exact: the binomial is summed over all counts at which the bound is wrong."""
        hits = np.arange(runs + 1)
        low, high = probability_at_least(hits, runs, alpha), probability_at_most(hits, runs, alpha)
        for p in np.linspace(0.001, 0.999, 97):
            mass = stats.binom.pmf(hits, runs, p)
            assert mass[low > p].sum() <= alpha * (1 + 1e-9)
            assert mass[high < p].sum() <= alpha * (1 + 1e-9)

    def test_they_are_those_of_clopper_and_pearson(self) -> None:
        expected = stats.binomtest(37, 500).proportion_ci(confidence_level=0.98, method="exact")
        assert float(probability_at_least(np.array(37), 500, 0.01)) == pytest.approx(expected.low, rel=1e-12)
        assert float(probability_at_most(np.array(37), 500, 0.01)) == pytest.approx(expected.high, rel=1e-12)

    def test_epsilon(self) -> None:
        found = epsilon_at_least(np.array([0.5, 0.5, 0.1, 0.3]), np.array([0.1, 0.1, 0.5, 0.0001]), 0.1)
        assert found.tolist() == pytest.approx([math.log(4), math.log(4), 0.0, math.log(2000)])


class TestPairs:
    @pytest.mark.parametrize("mechanism", ALL, ids=lambda each: each.name)
    @pytest.mark.parametrize(
        ("classes", "moved", "queries"), [(2, 1, 1), (3, 1, 2), (3, 3, 5), (10, 1, 100), (2, 4, 7)]
    )
    def test_all_are_neighbours_with_one_number_of_teachers(
        self, mechanism: Mechanism, classes: int, moved: int, queries: int
    ) -> None:
        found = candidates(mechanism, classes=classes, moved=moved, queries=queries)
        assert found
        assert len({each.name for each in found}) == len(found)
        for each in found:
            assert each.moved() == moved, each.name
            assert each.d.shape[1] == classes
            assert (each.probabilities is not None) == mechanism.needs_probabilities
            assert each.answered_cap is None or 1 <= each.answered_cap < queries

    def test_a_pair_with_other_teachers_is_seen(self) -> None:
        assert pair("more teachers", [[5, 4]], [[5, 5]]).moved() == -1
        assert pair("more teachers in the second query", [[5, 4], [6, 4]], [[4, 5], [5, 5]]).moved() == -1
        assert pair("negative", [[1, 0]], [[-1, 2]]).moved() == -1
        assert pair("two votes", [[5, 0, 4]], [[4, 1, 4]]).moved() == 1

    @pytest.mark.parametrize("moved", [1, 4])
    def test_checks_are_tried_at_their_threshold(self, moved: int) -> None:
        shape = {"classes": 3, "moved": moved, "queries": 100}

        def at(mechanism: Mechanism, name: str):
            return next(each for each in candidates(mechanism, **shape) if each.name == name)

        found = at(ALL[2], "at the threshold")
        assert found.d.max() - found.d_prime.max() == moved
        assert abs((found.d.max() + found.d_prime.max()) / 2 - 200) <= 0.5
        found = at(ALL[3], "at the threshold, unsure student")
        assert found.probabilities is not None
        offsets = public_offsets(found.probabilities, int(found.d.sum()))
        checked = [int((votes - offsets).max()) for votes in (found.d, found.d_prime)]
        assert checked[0] - checked[1] == moved
        assert abs(sum(checked) / 2 - 200) <= 1.5

    def test_a_second_call_meets_the_other_direction(self) -> None:
        found = next(each for each in candidates(ALL[1], classes=3, moved=1, queries=20) if "to and fro" in each.name)
        layout = lay_out(found, 20)
        gap = (layout.d - layout.d_prime)[:, 0]
        assert set(gap.tolist()) == {1, -1}
        assert layout.calls == (slice(0, 10), slice(10, 20))
        assert (gap[:10] == -gap[10:]).all()
        assert (gap[0::2] == -gap[1::2]).all()

    def test_unknown_mechanism(self) -> None:
        class Other(GNMax):
            @property
            def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
                return "other"

        with pytest.raises(ConfigError, match="no worst pairs"):
            candidates(Other(sigma=1.0), classes=2, moved=1, queries=1)


class Counting:
    """Hands out 0, 1, 2, ... so that every number can be recognised."""

    simulated = True

    def __init__(self) -> None:
        self.next = 0

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        self.next += count
        return np.arange(self.next - count, self.next).reshape(shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return self.gaussian(1 / gamma, shape)


@dataclass
class FirstCallOnly:
    """Labels 0 when it draws for the first time, 1 after that; keeps that in itself."""

    name: str = "first"
    used: bool = False
    needs_probabilities: bool = False

    def count_sigma(self, parties: int) -> float:
        return 0.0

    def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
        labels = np.full(len(votes), int(self.used), dtype=np.int64)
        self.used = True
        return Drawn.from_teachers(labels)


class TestGame:
    def test_pooled_noise_hands_out_every_number_once(self) -> None:
        noise = PooledNoise(Counting())
        drawn = [noise.gaussian(1.0, (7, 3)) for _ in range(10_000)]
        drawn += [noise.gaussian(2.0, (5,)), noise.laplace(1.0, (6,)), noise.gaussian(1.0, (300, 300))]
        everything = np.concatenate([each.ravel() for each in drawn])
        assert len(np.unique(everything)) == len(everything) == 210_000 + 11 + 90_000
        assert drawn[0].shape == (7, 3)

    def test_every_run_starts_afresh_and_calls_are_two(self) -> None:
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]]), 6)
        outcomes = play(FirstCallOnly(), layout.d, layout, 3, SEEDED)  # pyright: ignore[reportArgumentType]
        assert outcomes.tolist() == [[1, 1, 1, 2, 2, 2]] * 3

    def test_nothing_is_asked_after_the_last_answer(self) -> None:
        @dataclass
        class Script:
            labels: tuple[int, ...]
            reinforced: tuple[bool, ...]

            def count_sigma(self, parties: int) -> float:
                return 0.0

            def draw(self, votes: np.ndarray, noise: NoiseSource, probabilities: np.ndarray | None = None) -> Drawn:
                return Drawn(np.array(self.labels[: len(votes)]), np.array(self.reinforced[: len(votes)]))

        script = Script((NO_LABEL, 1, 0, NO_LABEL, 1, 0, 1), (False, False, True, False, False, False, False))
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]], answered_cap=2), 7)
        layout = replace(layout, calls=(slice(0, 7),))
        stop = codes_of(2) - 1
        outcomes = play(script, layout.d, layout, 1, SEEDED)  # pyright: ignore[reportArgumentType]
        assert outcomes.tolist() == [[0, 2, 3, 0, 2, stop, stop]]
        full = replace(layout, answered_cap=7)
        assert stop not in play(script, full.d, full, 1, SEEDED)  # pyright: ignore[reportArgumentType]

    @pytest.mark.parametrize("mechanism", ALL, ids=lambda each: each.name)
    def test_one_call_plays_the_same_game(self, mechanism: Mechanism) -> None:
        """Outcome counts of the two ways of drawing, chi-square at 1e-6 each; the seeds are fixed."""
        found = candidates(mechanism, classes=3, moved=1, queries=4)[0]
        layout = lay_out(found, 4)
        both = [
            play(mechanism, layout.d, layout, 4000, SeededNoise(one_call), one_call=bool(one_call))
            for one_call in (0, 1)
        ]
        counts = np.array([np.bincount(each.ravel(), minlength=codes_of(3)) for each in both])
        counts = counts[:, counts.sum(axis=0) >= 20]
        if counts.shape[1] > 1:
            _, p_value, *_ = stats.chi2_contingency(counts)
            assert float(p_value) > 1e-6  # pyright: ignore[reportArgumentType]
        else:
            assert (counts == 16_000).all()


class TestStatistics:
    def test_single_is_the_log_likelihood_ratio(self) -> None:
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]]), 2)
        d = np.array([[1, 1]] * 30 + [[2, 2]] * 10, dtype=np.int16)
        d_prime = np.array([[1, 1]] * 10 + [[2, 2]] * 30, dtype=np.int16)
        single = statistics_of(layout, codes_of(2))[0].fitted(d, d_prime)
        ratio = math.log(60.5 / 20.5)
        assert single.score(np.array([[1, 1], [1, 2], [2, 2]])).tolist() == pytest.approx([2 * ratio, 0.0, -2 * ratio])

    def test_pairs_see_what_queries_have_in_common_and_single_does_not(self) -> None:
        """Under D two queries agree, under D' they do not; each alone is a fair coin under both."""
        coin = np.random.default_rng(0).integers(1, 3, size=(2000, 1))
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]]), 2)
        d, d_prime = np.hstack([coin, coin]), np.hstack([coin, 3 - coin])
        single, pairs = (each.fitted(d, d_prime) for each in statistics_of(layout, codes_of(2)))
        assert (pairs.score(d) > 5).all()
        assert (pairs.score(d_prime) < -5).all()
        assert abs(single.score(d).mean() - single.score(d_prime).mean()) < 0.1

    @pytest.mark.parametrize("queries", [1, 2, 3, 4, 5, 100, 101])
    def test_symbols_stay_within_their_call_and_tables(self, queries: int) -> None:
        found = next(each for each in candidates(ALL[1], classes=3, moved=1, queries=max(queries, 2)))
        layout = lay_out(found, queries)
        outcomes = np.random.default_rng(1).integers(0, codes_of(3), size=(10, queries)).astype(np.int16)
        for statistic in statistics_of(layout, codes_of(3)):
            assert statistic.fitted(outcomes, outcomes).score(outcomes).tolist() == [0.0] * 10
            if statistic.name == "pairs" and len(layout.calls) == 2:
                half = layout.calls[1].start
                assert statistic.right is not None
                assert ((statistic.left < half) == (statistic.right < half)).all()


class TestRegions:
    @pytest.mark.parametrize("exchanged", [False, True])
    def test_both_directions(self, exchanged: bool) -> None:
        """An outcome that happens under one database only (with 0.1) is found whichever that is."""
        rng = np.random.default_rng(2)
        rare = np.where(rng.random((40_000, 1)) < 0.1, 2, 1).astype(np.int16)
        never = np.ones((40_000, 1), dtype=np.int16)
        d, d_prime = (never, rare) if exchanged else (rare, never)
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]]), 1)
        fitted = [each.fitted(d[:10_000], d_prime[:10_000]) for each in statistics_of(layout, codes_of(2))]
        choice, _ = choose(fitted, d[10_000:20_000], d_prime[10_000:20_000], lambda delta: 1.0, 1e-5, (), 1e-3)
        found = measure(choice[0], d[20_000:], d_prime[20_000:], lambda delta: 1.0, 1e-3)
        expected = math.log(float(probability_at_least(np.array(2000), 20_000, 1e-3)) / (math.log(1e3) / 20_000))
        assert found.lower == pytest.approx(expected, abs=0.2)
        assert found.violated

    def test_a_claim_that_fails_at_a_large_delta_alone_is_tested_there(self) -> None:
        """With 0.5 against 0.3 nothing refutes epsilon 1 at 1e-5, but epsilon 0 at delta 0.1 is refuted."""
        rng = np.random.default_rng(3)
        d, d_prime = (np.where(rng.random((40_000, 1)) < p, 2, 1).astype(np.int16) for p in (0.5, 0.3))
        layout = lay_out(pair("any", [[5, 4]], [[4, 5]]), 1)
        fitted = [each.fitted(d[:10_000], d_prime[:10_000]) for each in statistics_of(layout, codes_of(2))]

        def claim(delta: float) -> float:
            return 1.0 if delta < 0.1 else 0.0

        chosen, _ = choose(fitted, d[10_000:20_000], d_prime[10_000:20_000], claim, 1e-5, (0.01, 0.1), 1e-3)
        found = [measure(region, d[20_000:], d_prime[20_000:], claim, 1e-3) for region in chosen]
        assert [each.violated for each in found] == [False, True]
        assert found[1].delta == 0.1


class TestClaims:
    def test_event_claims_are_the_accountants(self) -> None:
        mechanism = ALL[2]
        accountant = Accountant()
        accountant.commit(
            mechanism.event(
                asked=50, answered=7, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=3
            )
        )
        claims = EventClaims(mechanism, Unit.PARTY, Neighbouring.REPLACE, 3)
        for delta in (1e-5, 0.1):
            assert claims.epsilon(50, 7, delta) == accountant.least_worst_case_epsilon(delta)[0].epsilon

    def test_the_claim_is_the_least_of_all_bounds(self) -> None:
        accountant = Accountant()
        accountant.commit(
            ALL[1].event(
                asked=50, answered=50, unit=Unit.RECORD, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
            )
        )
        assert (
            EventClaims(ALL[1], Unit.RECORD, Neighbouring.REPLACE, 1).epsilon(50, 50, 1e-5)
            == accountant.least_worst_case_epsilon(1e-5)[0].epsilon
            < 0.9 * accountant.exact_worst_case_epsilon(1e-5)
        )

    def test_nothing_is_claimed_below_the_events_own_delta(self) -> None:
        class MayFail(GNMax):
            def event(self, **counts: Any) -> ReleaseEvent:
                return StableEvent(threshold=40, towards=Towards.STUDENT, noise=Noise.DISCRETE, sigma=15.0, **counts)

        claims = EventClaims(MayFail(sigma=15.0), Unit.RECORD, Neighbouring.REPLACE, 1)
        assert claims.epsilon(100, 100, 1e-5) == math.inf
        assert claims.epsilon(100, 100, 0.9) < 5

    def test_immutable_is_held_to_its_paper(self) -> None:
        claims = claims_of(ALL[4], Unit.RECORD, Neighbouring.REPLACE, 1)
        assert isinstance(claims, PaperClaims)
        assert (
            claims.epsilon(9000, 9000, 1e-5)
            == claimed_epsilon(9000, 1e-10, 1e-5).epsilon
            == pytest.approx(0.0231, 1e-2)
        )

    def test_a_users_claim_says_nothing_below_its_delta(self) -> None:
        claims = UserClaims(0.5, 1e-5)
        assert (claims.epsilon(1, 1, 1e-5), claims.epsilon(1, 1, 1e-6)) == (0.5, math.inf)


class TestBuild:
    def test_values_are_read_as_numbers_and_truth(self) -> None:
        found = build_mechanism("immutable", ["gamma=1e-3", "constant=20", "unsafe_not_private=true"])
        assert found == Immutable(gamma=1e-3, constant=20, unsafe_not_private=True)

    @pytest.mark.parametrize(
        ("name", "settings", "words"),
        [
            ("gauss", [], "there is no mechanism 'gauss'. Choose one of confident, distributed"),
            ("gnmax", ["sigma"], "not key=value"),
            ("gnmax", ["sigma=1", "sigma=2"], "sigma is given twice"),
            ("gnmax", ["name=lnmax", "sigma=1"], "name is given twice"),
            ("gnmax", ["sigma=wide"], "sigma: must be a number, got 'wide'"),
            ("gnmax", ["sigma=-1"], "sigma: must be greater than 0, got -1"),
            ("gnmax", ["sigma=1", "gamma=1"], "gamma: unknown key. Its parameters are sigma"),
            ("immutable", ["gamma=1", "constant=1"], "unsafe_not_private: is required"),
            ("distributed", ["threshold=1", "sigma=1", "noise_shares=50"], "raise sigma 1 to at least 7.071"),
        ],
    )
    def test_mistakes_are_named(self, name: str, settings: list[str], words: str) -> None:
        with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
            build_mechanism(name, settings)


@pytest.mark.parametrize(
    ("by_parties", "by_coordinator"),
    [
        (Distributed(threshold=0, sigma=40.0, noise_shares=10), GNMax(sigma=40.0)),
        (Distributed(threshold=0, sigma=40.0, noise_shares=10, release_counts=True), NoisyHistogram(sigma=40.0)),
    ],
    ids=["labels", "histograms"],
)
def test_noise_of_the_parties_claims_towards_the_student_what_noise_of_the_coordinator_does(
    by_parties: Mechanism, by_coordinator: Mechanism
) -> None:
    """An audit plays the student's side; the claim towards a coordinator that sees histograms would be too easy."""
    claimed = [
        EventClaims(each, Unit.PARTY, Neighbouring.REPLACE, 1).epsilon(10, 10, 1e-5)
        for each in (by_parties, by_coordinator)
    ]
    assert claimed[0] == pytest.approx(claimed[1], rel=1e-9)
