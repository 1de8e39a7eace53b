"""The accountant and its guarantee: releases that compose, and exact composition."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gdp import epsilon_of, mu_squared
from consilium.accounting.errors import AccountingError, OrdersError, UnitError
from consilium.accounting.events import ReleaseEvent
from consilium.accounting.guarantees import Guarantee, Kind, rounded_up
from consilium.accounting.label_costs import VoteBatch, published_rdp
from consilium.accounting.mechanisms import Confident, Distributed, GNMax, LNMax
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from tests.accounting.examples import MASK, VOTES, confident, event_of


def at_caps(event, asked, answered, delta):
    """The epsilon that a whole run cannot exceed, from a query budget that is fixed before it, by the Renyi curve
    alone."""
    return rdp_to_epsilon(event.with_counts(asked, answered).worst_case_rdp(DEFAULT_ORDERS), DEFAULT_ORDERS, delta)


def test_accountant_composes():
    accountant = Accountant()
    event = confident()
    secret = published_rdp(VoteBatch(event, VOTES, MASK))
    accountant.commit(event, secret)
    accountant.commit(event)
    assert len(accountant.events) == 2
    worst = event.worst_case_rdp(DEFAULT_ORDERS)
    both = rdp_to_epsilon(np.minimum(secret, worst) + worst, DEFAULT_ORDERS, 1e-5)
    assert accountant.data_dependent_epsilon(1e-5) == both
    assert accountant.data_dependent_epsilon(1e-5).epsilon < accountant.worst_case_epsilon(1e-5).epsilon
    assert accountant.worst_case_epsilon(1e-5) == at_caps(event, 80, 50, 1e-5)


def test_different_claims_do_not_mix():
    accountant = Accountant()
    accountant.commit(confident())
    for other in (confident(unit=Unit.PARTY), confident(towards=Towards.COORDINATOR)):
        with pytest.raises(UnitError, match="one accountant for each"):
            accountant.commit(other)
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.full(DEFAULT_ORDERS.size, -1.0))
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.zeros(3))
    assert len(accountant.events) == 1


def test_guarantee_says_everything():
    accountant = Accountant()
    with pytest.raises(AccountingError, match="nothing was released"):
        accountant.guarantee(1e-5, Kind.WORST_CASE)
    accountant.commit(confident(unit=Unit.PARTY, k=2))
    worst = accountant.guarantee(1e-5, Kind.WORST_CASE)
    text = str(worst)
    for part in (
        "1e-05",
        "student",
        "worst case",
        "may be published",
        "2 teachers",
        "both directions",
        "backward induction",
    ):
        assert part in text
    secret = accountant.guarantee(1e-5, Kind.DATA_DEPENDENT)
    assert not secret.publishable
    assert "do not publish" in str(secret)
    assert "secret" in repr(secret)
    assert json.loads(json.dumps(worst.to_json(), allow_nan=False))["publishable"] is True
    with pytest.raises(AccountingError, match="sanitised"):
        accountant.guarantee(1e-5, Kind.SANITISED)
    with pytest.raises(AccountingError):
        dataclasses.replace(worst, epsilon=math.nan)


def test_gaussian_parts_compose_exactly():
    exact = accounted(confident(640, 283, noise=Noise.CONTINUOUS)).exact_worst_case_epsilon(1e-5)
    squared = mu_squared(640, 30.0, scalar=True) + mu_squared(283, 10.0)
    assert exact == pytest.approx(epsilon_of(squared, 1e-5))


def test_distributed_composition_is_exact():
    """640 queries, sigma 40, delta 1e-5: 3.849, with real noise, with integer noise, and with its 250 shares."""
    for noise, shares in ((Noise.CONTINUOUS, 250), (Noise.DISCRETE, 1), (Noise.DISCRETE, 250)):
        accountant = Accountant()
        for _ in range(2):
            accountant.commit(event_of(Distributed(40, shares), 320, 100, towards=Towards.COORDINATOR, noise=noise))
        assert accountant.exact_worst_case_epsilon(1e-5) == pytest.approx(3.848610282538026, rel=1e-7)
        assert accountant.worst_case_epsilon(1e-5).epsilon == pytest.approx(4.1619, abs=1e-3)
        guarantee = accountant.guarantee(1e-5, Kind.WORST_CASE)
        assert guarantee.epsilon == pytest.approx(3.848610282538026, rel=1e-7)
        assert "exact composition" in str(guarantee)


def test_no_exact_composition_is_claimed_where_none_is_known():
    accountant = Accountant()
    assert accountant.exact_worst_case_epsilon(1e-5) is None
    accountant.commit(confident())
    assert accountant.exact_worst_case_epsilon(1e-5) is None
    for event in (
        event_of(GNMax(10), unit=Unit.PARTY, k=2),
        event_of(LNMax(0.1)),
        event_of(Distributed(sigma=20, noise_shares=800)),
    ):
        assert accounted(event).exact_worst_case_epsilon(1e-5) is None


DELTA = 1e-5


def accounted(*events: ReleaseEvent) -> Accountant:
    accountant = Accountant()
    for event in events:
        accountant.commit(event)
    return accountant


def test_curves_are_computed_only_where_they_may_be_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few releases, or at a tiny epsilon; elsewhere induction is below, and a curve of new noise takes a second."""
    few, many = (
        accounted(GNMax(sigma=40).event(1)),
        accounted(Confident(threshold=60, sigma1=120, sigma2=40).event(200)),
    )
    asked: list[str] = []
    whole = ReleaseEvent.worst_case_rdp
    monkeypatch.setattr(
        ReleaseEvent, "worst_case_rdp", lambda event, orders: asked.append(event.mechanism.name) or whole(event, orders)
    )
    least = [accountant.least_worst_case_epsilon(DELTA)[0].epsilon for accountant in (few, many)]
    assert asked == ["gnmax"]
    for accountant, epsilon in zip((few, many), least, strict=True):
        assert epsilon <= accountant.worst_case_epsilon(DELTA).epsilon


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


@pytest.mark.parametrize(("delta", "large"), [(1e-5, False), (1e-3, False), (0.0011, True), (0.1, True)])
def test_a_large_delta_is_put_in_words(delta, large):
    guarantee = Guarantee(
        epsilon=0.72101, delta=delta, order=3.0, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE,
        teachers_per_party=1, towards=Towards.STUDENT, kind=Kind.WORST_CASE, method="exact",
    )  # fmt: skip
    text = str(guarantee)
    assert text.startswith(f"epsilon 0.7211 at delta {delta:g}")
    assert ("is large" in text) == large
