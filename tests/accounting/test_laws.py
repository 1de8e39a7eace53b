"""Laws that hold for every mechanism, unit and noise: of its worst case, and of its cost at votes."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.accounting import Confident, Difference, GNMax, Histogram, Interactive, LNMax
from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS
from consilium.accounting.events import Mechanism
from consilium.accounting.label_costs import VoteBatch, exact_rdp, published_rdp
from consilium.accounting.target import as_histograms, worst_case_as_histogram
from consilium.accounting.units import Neighbouring, Noise, Unit
from tests.accounting.examples import votes_for

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
VOTES = np.random.default_rng(5).multinomial(60, [0.7, 0.2, 0.1], size=12)
PREDICTIONS = np.full((12, 3), 1 / 3)
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


def at_votes(mechanism, votes, noise, k):
    """Published and exact curves of these votes, all answered: float64 (2, orders)."""
    event = mechanism.event(len(votes), noise=noise, teachers_per_party=k)
    batch = VoteBatch(event, votes, np.ones(len(votes)), PREDICTIONS[: len(votes)])
    exact, published = exact_rdp(batch, ORDERS), published_rdp(batch, ORDERS)
    return np.stack((exact if published is None else published, exact))


@each
@noises
@pytest.mark.parametrize("k", [1, 2])
def test_a_cost_at_votes_adds_up_and_hangs_on_no_name_of_a_class(mechanism: Mechanism, noise, k):
    votes = votes_for(mechanism, VOTES)
    whole = at_votes(mechanism, votes, noise, k)
    parts = at_votes(mechanism, votes[:5], noise, k) + at_votes(mechanism, votes[5:], noise, k)
    assert whole == pytest.approx(parts, rel=1e-9)
    turned = at_votes(mechanism, votes[:, ::-1], noise, k)
    if noise is Noise.CONTINUOUS:  # of integer noise ties go to the lowest index, which the exact cost knows
        assert turned[1] == pytest.approx(whole[1], rel=1e-9)
    one_vote_more = VOTES + np.array([1, -1, 0])
    if mechanism.name in ("gnmax", "lnmax") and np.all(one_vote_more >= 0):
        assert np.all(at_votes(mechanism, one_vote_more, noise, k)[0] <= whole[0] * (1 + 1e-9))
    ceiling = mechanism.event(len(VOTES), noise=noise, teachers_per_party=k).histogram_rdp(ORDERS)
    assert np.all(whole > 0) and np.all(whole <= ceiling * (1 + 1e-9))
