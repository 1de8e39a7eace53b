"""What every mechanism and event must do, what some of them charge, and releases that compose."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import log_pr_answered, rdp_gaussian
from consilium.accounting.errors import AccountingError, EventError, NoiseError, OrdersError, UnitError, VotesError
from consilium.accounting.events import Mechanism, ReleaseEvent
from consilium.accounting.guarantees import Kind, rounded_up
from consilium.accounting.label_costs import VoteBatch, published_rdp
from consilium.accounting.mechanisms import (
    MECHANISMS,
    Distributed,
    DistributedTwoPhase,
    GNMax,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
    Sanitised,
    event_from_json,
)
from consilium.accounting.units import Noise, Towards, Unit
from consilium.accounting.worst.renyi import rdp_argmax
from tests.accounting.examples import CONFIDENT, EXAMPLES, MASK, VOTES, confident, event_of, stated, votes_for

THIRDS = np.full((40, 3), 1 / 3)
SHORT = VOTES.copy()
SHORT[7, SHORT[7].argmin()] -= 1


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
class TestEveryMechanism:
    def test_json_round_trip(self, mechanism: Mechanism):
        event = event_of(mechanism)
        read = json.loads(json.dumps(event.to_json(), allow_nan=False))
        assert event_from_json(read) == event
        assert read["type"] == mechanism.name

    def test_json_is_strict(self, mechanism: Mechanism):
        good = event_of(mechanism).to_json()
        parameter = next(iter(mechanism.parameters()))
        for bad in (
            good | {"colour": "red"},
            good | {"type": "other"},
            good | {"type": []},
            good | {"asked": None},
            good | {"asked": True},
            good | {parameter: "1"},
            good | {parameter: math.nan},
            good | {"unit": "household"},
            *({key: value for key, value in good.items() if key != name} for name in ("type", "unit", parameter)),
            list(good),
        ):
            with pytest.raises(AccountingError):
                event_from_json(bad)

    def test_every_parameter_is_checked(self, mechanism: Mechanism):
        for name, bad in itertools.product(mechanism.parameters(), (-1, math.nan, math.inf, True, "1", None)):
            with pytest.raises(AccountingError, match=name):
                dataclasses.replace(mechanism, **{name: bad})

    def test_unit_and_relation_have_no_default(self, mechanism: Mechanism):
        for name in ("unit", "neighbouring", "towards", "noise", "teachers_per_party", "asked", "answered"):
            with pytest.raises(TypeError, match=name):
                ReleaseEvent(mechanism=mechanism, **{key: value for key, value in stated().items() if key != name})

    def test_rows_of_different_numbers_of_votes_have_no_cost(self, mechanism: Mechanism):
        """A vote missing in one row of 40 was taken as it came; the error tells where, and no count."""
        told = r"^1 of 40 rows of votes \(int64\) have another number of votes than most \(first: query 7\)"
        batch = VoteBatch(event_of(mechanism), votes_for(mechanism, SHORT), np.ones(40, dtype=bool), THIRDS)
        with pytest.raises(VotesError, match=told) as caught:
            published_rdp(batch)
        assert "100" not in str(caught.value)
        assert "99" not in str(caught.value)

    def test_bad_counts_are_refused(self, mechanism: Mechanism):
        for asked, answered in ((-1, 0), (3, 4), (3, -1), (2.0, 2), (True, 1)):
            with pytest.raises(EventError):
                event_of(mechanism, asked, answered)
        with pytest.raises(UnitError):
            event_of(mechanism, k=0)

    def test_a_check_compares_a_number_that_a_vote_moves_as_far_as_is_charged(self, mechanism: Mechanism):
        """For every vote that moves, in both directions; within the range that is named."""
        predicted = np.array([[0.2, 0.7, 0.1]])
        for votes in ([60, 25, 15], [50, 50, 0], [34, 33, 33], [100, 0, 0]):
            there = mechanism.comparison(votes_for(mechanism, np.array([votes])), 100, Noise.DISCRETE, predicted)
            if there is None:
                assert not hasattr(mechanism, "threshold")
                assert event_of(mechanism, 1, 1).log_p_answered(np.array([votes]), 100).tolist() == [0.0]
                continue
            assert there.least <= there.number[0] <= there.most
            for loses, gains in itertools.permutations(range(3), 2):
                moved = np.array([votes])
                moved[0, loses] -= 1
                moved[0, gains] += 1
                if moved.min() >= 0:
                    near = mechanism.comparison(votes_for(mechanism, moved), 100, Noise.DISCRETE, predicted)
                    assert abs(int(near.number[0] - there.number[0])) <= mechanism.moved_by_a_vote


def test_registry_is_complete():
    assert set(MECHANISMS) == {mechanism.name for mechanism in EXAMPLES} | {Sanitised.name}


def test_interactive_subtracts_public_predictions():
    event = event_of(Interactive(60, 30, 10), 40, 25)
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    top = (VOTES - np.array([50, 25, 25])).max(axis=1)
    batch = VoteBatch(event, VOTES, MASK, p)
    assert batch.compared().log_p()[0] == pytest.approx(log_pr_answered(top, 60.0, 30.0, "discrete")[0])
    with pytest.raises(EventError, match="Pass predictions"):
        published_rdp(batch._replace(predictions=None))
    with pytest.raises(EventError, match="one row per query"):
        published_rdp(batch._replace(predictions=p[:3]))
    assert np.array_equal(event.worst_case_rdp([2.0]), confident().worst_case_rdp([2.0]))


def test_noise_by_the_parties_is_charged_by_who_sees_it():
    """The coordinator sees a whole histogram of every query, everybody else at most the winner."""
    orders, shares = np.array([2.0, 10.0]), {"noise_shares": 50}
    single, two = Distributed(sigma=20, **shares), DistributedTwoPhase(sigma1=40, sigma2=20, **shares)
    costs = {
        Towards.COORDINATOR: [orders / sigma**2 for sigma in (40.0, 20.0)],
        Towards.STUDENT: [rdp_argmax(sigma, orders, Noise.CONTINUOUS) for sigma in (40.0, 20.0)],
    }
    for towards, (coarse, fine) in costs.items():
        seen = {"noise": Noise.CONTINUOUS, "towards": towards}
        assert event_of(single, 40, 25, **seen).worst_case_rdp(orders) == pytest.approx(40 * fine)
        assert event_of(two, 40, 25, **seen).worst_case_rdp(orders) == pytest.approx(40 * coarse + 25 * fine)
    assert np.all(costs[Towards.STUDENT][0] < 0.66 * costs[Towards.COORDINATOR][0])


def test_shares_of_integer_noise_are_charged_for_not_being_a_discrete_gaussian():
    def cost(shares):
        return event_of(Distributed(20, shares), towards=Towards.COORDINATOR).worst_case_rdp([2.0])[0]

    exact = 40 * rdp_gaussian(20.0, [2.0])[0]
    assert exact <= cost(50) < exact * (1 + 1e-9)
    assert cost(800) > exact * 1.01
    with pytest.raises(NoiseError, match="one share"):
        cost(5000)


@pytest.mark.parametrize("mechanism", [Immutable(0.1, 1000), ImmutableGaussian(40, 1000)], ids=repr)
def test_immutable_has_no_finite_guarantee(mechanism):
    accountant = accounted(event_of(mechanism))
    assert math.isinf(accountant.worst_case_epsilon(1e-5).epsilon)
    guarantee = accountant.guarantee(1e-5, Kind.WORST_CASE)
    assert "inf" in str(guarantee)
    assert (guarantee.to_json()["epsilon"], guarantee.to_json()["infinite"]) == (None, ["epsilon"])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"answered": np.ones(40, dtype=bool)}, EventError, "marks 40"),
        ({"answered": np.ones(40, dtype=int)}, EventError, "bool mask"),
        ({"answered": np.ones(39, dtype=bool)}, EventError, "bool mask"),
        ({"answered": np.full(40, 1.5)}, AccountingError, "weights"),
        ({"votes": VOTES[:3]}, EventError, "hold 3 queries"),
    ],
)
def test_votes_and_mask_must_fit(change, error, words):
    with pytest.raises(error, match=words):
        published_rdp(VoteBatch(confident(), VOTES, MASK)._replace(**change))


def test_nothing_of_the_votes_is_printed():
    assert repr(VoteBatch(confident(), VOTES, MASK)) == "VoteBatch(<secret>)"
    assert repr(CONFIDENT.comparison(VOTES, 100, Noise.DISCRETE)) == "Comparison(<secret>)"


DELTA = 1e-5


def accounted(*events: ReleaseEvent) -> Accountant:
    accountant = Accountant()
    for event in events:
        accountant.commit(event)
    return accountant


def test_accountant_composes():
    event = confident()
    secret = published_rdp(VoteBatch(event, VOTES, MASK))
    accountant = accounted(event)
    accountant.commit(event, secret)
    worst = event.worst_case_rdp(DEFAULT_ORDERS)
    both = rdp_to_epsilon(np.minimum(secret, worst) + worst, DEFAULT_ORDERS, 1e-5)
    assert accountant.data_dependent_epsilon(1e-5) == both
    assert accountant.data_dependent_epsilon(1e-5).epsilon < accountant.worst_case_epsilon(1e-5).epsilon
    whole = event.with_counts(80, 50).worst_case_rdp(DEFAULT_ORDERS)
    assert accountant.worst_case_epsilon(1e-5) == rdp_to_epsilon(whole, DEFAULT_ORDERS, 1e-5)


def test_different_claims_do_not_mix():
    accountant = accounted(confident())
    for other in (confident(unit=Unit.PARTY), confident(towards=Towards.COORDINATOR)):
        with pytest.raises(UnitError, match="one accountant for each"):
            accountant.commit(other)
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.full(DEFAULT_ORDERS.size, -1.0))
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.zeros(3))
    assert len(accountant.events) == 1


def test_guarantee_says_everything():
    with pytest.raises(AccountingError, match="nothing was released"):
        Accountant().guarantee(1e-5, Kind.WORST_CASE)
    accountant = accounted(confident(unit=Unit.PARTY, k=2))
    worst = accountant.guarantee(1e-5, Kind.WORST_CASE)
    for part in ("1e-05", "student", "worst case", "may be published", "2 teachers", "backward induction"):
        assert part in str(worst)
    secret = accountant.guarantee(1e-5, Kind.DATA_DEPENDENT)
    assert not secret.publishable
    assert "do not publish" in str(secret)
    assert "secret" in repr(secret)
    assert json.loads(json.dumps(worst.to_json(), allow_nan=False))["publishable"] is True
    assert "is large" not in str(worst) and "is large" in str(dataclasses.replace(worst, delta=0.0011))
    with pytest.raises(AccountingError):
        dataclasses.replace(worst, epsilon=math.nan)


def test_distributed_composition_is_exact():
    """640 queries, sigma 40, delta 1e-5: 3.849, with real noise, with integer noise, and with its 250 shares."""
    for noise, shares in ((Noise.CONTINUOUS, 250), (Noise.DISCRETE, 1), (Noise.DISCRETE, 250)):
        event = event_of(Distributed(40, shares), 320, 100, towards=Towards.COORDINATOR, noise=noise)
        accountant = accounted(event, event)
        assert accountant.exact_worst_case_epsilon(1e-5) == pytest.approx(3.848610282538026, rel=1e-7)
        assert accountant.worst_case_epsilon(1e-5).epsilon == pytest.approx(4.1619, abs=1e-3)
        guarantee = accountant.guarantee(1e-5, Kind.WORST_CASE)
        assert guarantee.epsilon == pytest.approx(3.848610282538026, rel=1e-7)
        assert "exact composition" in str(guarantee)
    for event in (event_of(GNMax(10), unit=Unit.PARTY, k=2), event_of(LNMax(0.1)), event_of(Distributed(20, 800))):
        assert accounted(event).exact_worst_case_epsilon(1e-5) is None  # none is claimed where none is known


def lnmax(queries, gamma=0.05, **more):
    return event_of(LNMax(gamma), queries, queries, **more)


def test_one_label_under_laplace_noise_costs_no_more_than_pure_privacy() -> None:
    """2 gamma for each vote that moves; one label at gamma .05 costs .1 at most, whatever the noise, and less here."""
    for noise in Noise:
        few = accounted(lnmax(1, 10.0, noise=noise))
        guarantee = few.guarantee(DELTA, Kind.WORST_CASE)
        assert guarantee.epsilon == few.pure_worst_case_epsilon(DELTA) == 20.0
        assert "epsilons of pure privacy added" in str(guarantee)
        assert few.worst_case_epsilon(DELTA).epsilon > 20.0  # the Renyi curve alone
        assert accounted(lnmax(1, noise=noise)).guarantee(DELTA, Kind.WORST_CASE).epsilon < 0.1


def test_pure_privacy_adds_up_over_releases_and_moves() -> None:
    party = lnmax(3, 0.25, unit=Unit.PARTY, k=4)
    assert party.pure_epsilon() == 3 * 2 * 0.25 * 4
    assert accounted(party, party).pure_worst_case_epsilon(DELTA) == 12.0
    assert accounted(lnmax(3), confident()).pure_worst_case_epsilon(DELTA) is None
    assert Accountant().pure_worst_case_epsilon(DELTA) is None
    assert lnmax(0).pure_epsilon() == 0.0


@given(st.floats(0, 1e6))
def test_a_printed_epsilon_is_never_below_the_real_one(epsilon):
    over = Fraction(rounded_up(epsilon)) - Fraction(repr(epsilon))
    assert 0 <= over < Fraction(1, 10_000)
