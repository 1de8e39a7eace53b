"""Laws of every mechanism, unit and noise; a vote that is not counted costs no more than is charged; the least noise
for a target, and the rule that says whether noise drowns a federation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.drowned import MOST_DIRECTIONS, signal, votes_of_units
from consilium.accounting.errors import EventError
from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import Confident, Difference, GNMax, Histogram, Interactive, LNMax
from consilium.accounting.sanitise.release import SanitisedPlan, check_plan
from consilium.accounting.sanitise.smooth import CheckProfile, smooth_sensitivity
from consilium.accounting.target import as_histograms, least_noise, worst_case_as_histogram
from consilium.accounting.units import Neighbouring, Noise, Unit, votes_moved
from consilium.report.warnings import LEAST_SIGNAL
from tests.accounting.outcome.oracle import Oracle
from tests.accounting.worst.oracles import lattice_noise, renyi

ORDERS = DEFAULT_ORDERS[::20]
MECHANISMS = [
    GNMax(9.0),
    Difference(13.0),
    LNMax(0.05),
    Confident(30, 40.0, 12.0),
    Interactive(30, 12.0, 12.0),
    Histogram(9.0),
]
UNITS = [(Unit.PARTY, 1), (Unit.RECORD, 5)]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
noises = pytest.mark.parametrize("noise", list(Noise))


def by_formulas(events, delta=1e-5):
    """Without backward induction, whose lattices differ, and which is tried against adversaries."""
    released = Accountant()
    for event in events:
        released.commit(event)
    bounds = released.pure_worst_case_epsilon(delta), released.exact_worst_case_epsilon(delta)
    return min([released.worst_case_epsilon(delta).epsilon, *(bound for bound in bounds if bound is not None)])


def epsilon(mechanism, asked=40, delta=1e-5, **claim):
    return by_formulas([mechanism.event(asked, **claim)], delta)


@each
@noises
@pytest.mark.parametrize(("unit", "k"), UNITS)
class TestWorstCase:
    def test_rises_with_queries_and_falls_with_noise_and_delta(self, mechanism: Mechanism, noise, unit, k):
        claim = {"noise": noise, "unit": unit, "teachers_per_party": k}
        base = epsilon(mechanism, **claim)
        noisier = mechanism.with_noise(
            {"lnmax": 20.2, "gnmax": 9.1, "histogram": 9.1, "difference": 13.1}.get(mechanism.name, 12.1)
        )
        assert epsilon(mechanism, 41, **claim) >= base >= epsilon(noisier, **claim)
        assert epsilon(mechanism, delta=1e-9, **claim) >= base >= epsilon(mechanism, delta=1e-3, **claim) >= 0

    def test_adds_up_and_is_never_above_the_histogram(self, mechanism: Mechanism, noise, unit, k):
        claim = {"noise": noise, "unit": unit, "teachers_per_party": k}
        one, two, both = (mechanism.event(n, **claim) for n in (3, 4, 7))
        curves = [event.worst_case_rdp(ORDERS) for event in (one, two, both)]
        assert curves[2] == pytest.approx(curves[0] + curves[1], rel=1e-12)
        assert np.all(curves[0] > 0)
        assert np.all(curves[0] <= one.histogram_rdp(ORDERS) * (1 + 1e-12))
        together = by_formulas([one, two])
        assert together == pytest.approx(by_formulas([both]), rel=1e-9)
        assert together <= worst_case_as_histogram([one, two], 1e-5) <= as_histograms([both], 1e-5) * (1 + 1e-12)

    def test_grows_with_the_votes_that_a_unit_moves(self, mechanism: Mechanism, noise, unit, k):
        moved = {Unit.PARTY: k}.get(unit, min(2, k))
        given = mechanism.event(5, noise=noise, unit=unit, teachers_per_party=k)
        party = mechanism.event(5, noise=noise, unit=Unit.PARTY, teachers_per_party=moved)
        assert given.worst_case_rdp(ORDERS).tolist() == party.worst_case_rdp(ORDERS).tolist()
        single = mechanism.event(
            5, noise=noise, unit=Unit.RECORD, teachers_per_party=k, neighbouring=Neighbouring.ADD_OR_REMOVE
        )
        assert np.all(single.worst_case_rdp(ORDERS) <= given.worst_case_rdp(ORDERS) * (1 + 1e-12))


FEW_ORDERS = [1.5, 2.0, 5.0, 12.0]
VOTERS = 5
P = np.array([0.62, 0.3, 0.08])
COUNTED = {"neighbouring": Neighbouring.ADD_OR_REMOVE, "unit": Unit.PARTY}


def passes(number: int, threshold: float, sigma: float) -> float:
    pmf, _ = lattice_noise(sigma, 60)
    return float(pmf[np.arange(-60, 61) + number >= threshold].sum())


def outcomes(mechanism: Mechanism, counts: tuple[int, ...], winner: Oracle) -> np.ndarray:
    """Probability of each label, and of none."""
    labels = winner.law(counts, VOTERS).astype(np.float64)
    if not hasattr(mechanism, "threshold"):
        return labels
    offsets = np.floor(sum(counts) * P + 0.5) if mechanism.needs_probabilities else np.zeros(3)
    number = int((np.array(counts) - offsets).max())
    answered = passes(number, mechanism.threshold, mechanism.sigma1)
    return np.append(answered * labels, passes(-number, 1 - mechanism.threshold, mechanism.sigma1))


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (GNMax(2.0), ("gaussian", 2.0)),
        (LNMax(0.6), ("laplace", 0.6)),
        (Confident(3, 2.5, 1.5), ("gaussian", 1.5)),
        (Interactive(1, 2.5, 1.5), ("gaussian", 1.5)),
    ],
    ids=repr,
)
def test_no_curve_is_below_what_a_vote_that_is_gone_changes(mechanism: Mechanism, law: tuple[str, float]) -> None:
    winner, charged = Oracle(*law, "discrete", VOTERS + 1), mechanism.event(1, **COUNTED).worst_case_rdp(FEW_ORDERS)
    worst = np.zeros(len(FEW_ORDERS))
    for counts in itertools.product(range(VOTERS + 1), repeat=3):
        for gone in np.flatnonzero(counts):
            fewer = tuple(n - (j == gone) for j, n in enumerate(counts))
            p, q = (outcomes(mechanism, each, winner) for each in (counts, fewer))
            both = [max(renyi(p, q, order), renyi(q, p, order)) for order in FEW_ORDERS]
            worst = np.maximum(worst, both)
    assert np.all(worst <= charged)
    assert np.all(worst >= charged / 8)  # the laws are not blind


def test_nor_is_that_of_a_histogram() -> None:
    """One count changes by one: all of the loss is in it."""
    pmf, _ = lattice_noise(1.5, 40)
    charged = Histogram(1.5).event(1, **COUNTED).worst_case_rdp(FEW_ORDERS)
    truth = [renyi(pmf[1:], pmf[:-1], order) for order in FEW_ORDERS]
    assert np.all(np.array(truth) <= charged)


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("relation", Neighbouring)
@pytest.mark.parametrize("k", [1, 2])
def test_a_difference_is_charged_for_as_far_as_it_moves(unit: Unit, relation: Neighbouring, k: int) -> None:
    """Every difference of 30 votes, and whatever the unit's votes may become: the curve is reached but for little.

    A vote that changes moves it by 2, one that is not counted by 1.
    """
    gone = unit is Unit.PARTY and relation is Neighbouring.ADD_OR_REMOVE
    far = votes_moved(unit, k, relation) * (1 if gone else 2)
    event = Difference(15.0).event(1, unit=unit, neighbouring=relation, teachers_per_party=k)
    pmf, _ = lattice_noise(15.0, 200)
    tail = {d: pmf[np.arange(-200, 201) + d >= 1].sum() for d in range(-40, 41)}
    law = {d: np.array([1 - p, p]) for d, p in tail.items()}
    pairs = [(law[d], law[d + step]) for d in range(-30, 31) for step in range(-far, far + 1)]
    truth = np.array([max(renyi(p, q, order) for p, q in pairs) for order in FEW_ORDERS])
    charged = event.worst_case_rdp(FEW_ORDERS)
    assert np.all(truth <= charged)
    assert np.all(charged <= 1.01 * truth)


def test_a_difference_is_of_two_classes() -> None:
    with pytest.raises(EventError, match="two classes, got 3"):
        Difference(7.0).comparison(np.zeros((4, 3), dtype=np.int64), 0, "discrete")


def test_no_smooth_sensitivity_covers_a_vote_that_comes() -> None:
    """At a unanimous query of 19 the twentieth vote changes the cost by more than the sensitivity there: refused."""
    mechanism, order, beta = Confident(24, 3.0, 6.0), np.array([8.0]), np.array([0.3])
    event = mechanism.event(1, **COUNTED)
    less, more = (
        CheckProfile(mechanism.comparison(np.array([[votes, 0]]), votes, event.noise), order) for votes in (19, 20)
    )
    assert abs(more.cost() - less.cost()) > smooth_sensitivity([less], order, beta, 19)
    with pytest.raises(EventError, match="number of votes"):
        check_plan(SanitisedPlan(order=4.0, beta=0.02, sigma_ss=4.0), event, 20, 2)


def power(amount: float) -> float:
    return 30 / amount**1.7


def in_steps(amount: float) -> float:
    """A power that jumps by three thousandths, as a cost does that is computed on lattices."""
    return power(amount) * (1 + 0.003 * (math.floor(amount * 7) % 2))


@pytest.mark.parametrize("cost", [power, in_steps])
@given(epsilon=st.floats(0.01, 20), spare=st.floats(1.001, 3.0))
def test_beside_an_amount_that_is_enough(cost, epsilon: float, spare: float) -> None:
    enough = (30 * 1.003 / epsilon) ** (1 / 1.7) * spare
    found = least_noise(cost, epsilon, enough)
    assert cost(found) <= epsilon
    assert cost(found) >= epsilon * (1 - 0.006)


def rising(amount: float) -> float:
    """Never below 5: as of a mechanism whose check fails more often under more noise."""
    return max(30 / amount, 5.0) * (1 + amount / 1e4)


def test_what_is_not_enough_is_looked_for_elsewhere() -> None:
    assert rising(least_noise(rising, 6.0, enough=2.0)) <= 6.0


def test_it_is_the_rule_of_the_held_out_divisions() -> None:
    """K mu / (2 sqrt r), below 3 of 40 parties at epsilon 1 and above it of 200; a tenth direction and more are ten."""
    assert signal(40, 1.0, 1e-5, 100) == pytest.approx(40 * 0.26805 / (2 * math.sqrt(10)), rel=1e-3)
    assert signal(40, 1.0, 1e-5, 100) < LEAST_SIGNAL < signal(200, 1.0, 1e-5, 100)
    assert signal(40, 1.0, 1e-5, MOST_DIRECTIONS) == signal(40, 1.0, 1e-5, 1000)
    assert signal(40, 1.0, 1e-5, 2.5) == pytest.approx(2 * signal(40, 1.0, 1e-5, 10))
    assert signal(40, math.inf, 1e-5, 10) == math.inf


def test_votes_count_by_what_a_unit_moves() -> None:
    def of(unit: Unit, relation: Neighbouring, mechanism: Mechanism) -> float:
        event = mechanism.event(1, unit=unit, neighbouring=relation, teachers_per_party=10)
        return votes_of_units(40, event)

    counts, difference = GNMax(1.0), Difference(1.0)
    assert of(Unit.PARTY, Neighbouring.REPLACE, counts) == of(Unit.PARTY, Neighbouring.REPLACE, difference) == 40
    assert of(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, counts) == 400
    assert of(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, difference) == 400
    assert of(Unit.PATIENT, Neighbouring.REPLACE, counts) == 200
    assert of(Unit.PARTY, Neighbouring.ADD_OR_REMOVE, counts) == 40
    assert of(Unit.PARTY, Neighbouring.ADD_OR_REMOVE, difference) == 80
