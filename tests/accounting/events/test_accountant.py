"""The accountant and its guarantee: releases that compose, a cap that refuses without a trace, exact composition."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant, Cap
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gdp import discrete_epsilon, epsilon_of, mu_squared
from consilium.accounting.errors import AccountingError, CapExceededError, OrdersError, UnitError
from consilium.accounting.events import DistributedEvent, GNMaxEvent, LNMaxEvent, StableEvent
from consilium.accounting.guarantee import Guarantee, Kind
from consilium.accounting.units import Noise, Towards, Unit
from tests.accounting.events.examples import MASK, VOTES, common, confident


def at_caps(event, asked, answered, delta, method="cks"):
    """The epsilon that a whole run cannot exceed, from a query budget that is fixed before it, by the Renyi curve
    alone."""
    return rdp_to_epsilon(
        event.with_counts(asked, answered).worst_case_rdp(DEFAULT_ORDERS), DEFAULT_ORDERS, delta, method
    )


def test_accountant_composes_and_previews_without_trace():
    accountant = Accountant(DEFAULT_ORDERS)
    event = confident()
    evidence = event.evidence(VOTES)
    secret = event.data_dependent_rdp(evidence, MASK, DEFAULT_ORDERS)
    before = repr(accountant)
    spend = accountant.preview(event)
    assert repr(accountant) == before
    assert spend.allowed
    accountant.commit(event, secret)
    accountant.commit(event)
    assert len(accountant.events) == 2
    assert accountant.worst_case_rdp() == pytest.approx(2 * event.worst_case_rdp(DEFAULT_ORDERS))
    worst = event.worst_case_rdp(DEFAULT_ORDERS)
    assert accountant.data_dependent_rdp() == pytest.approx(np.minimum(secret, worst) + worst)
    assert accountant.data_dependent_epsilon(1e-5).epsilon < accountant.worst_case_epsilon(1e-5).epsilon
    assert accountant.worst_case_epsilon(1e-5) == at_caps(event, 80, 50, 1e-5)


def test_a_refused_release_leaves_no_trace_and_the_cap_ignores_the_data():
    event = confident()
    one = at_caps(event, 40, 25, 1e-5).epsilon
    accountant = Accountant(cap=Cap(one * 1.2, 1e-5))
    accountant.commit(event, np.zeros(DEFAULT_ORDERS.size))
    state = accountant.worst_case_rdp(), accountant.data_dependent_rdp(), accountant.events
    # Nothing was spent on this data, and still the second release is refused: the cap never looks at the data.
    assert accountant.data_dependent_epsilon(1e-5).epsilon == 0.0
    assert not accountant.preview(event).allowed
    with pytest.raises(CapExceededError, match="nothing was charged"):
        accountant.commit(event, np.zeros(DEFAULT_ORDERS.size))
    after = accountant.worst_case_rdp(), accountant.data_dependent_rdp(), accountant.events
    assert np.array_equal(state[0], after[0])
    assert np.array_equal(state[1], after[1])
    assert state[2] == after[2]


def test_different_claims_do_not_mix():
    accountant = Accountant()
    accountant.commit(confident())
    for other in (
        confident(unit=Unit.PARTY),
        confident(towards=Towards.COORDINATOR),
    ):
        with pytest.raises(UnitError, match="one accountant for each"):
            accountant.preview(other)
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.full(DEFAULT_ORDERS.size, -1.0))
    with pytest.raises(OrdersError):
        accountant.commit(confident(), np.zeros(3))
    assert len(accountant.events) == 1


def test_guarantee_says_everything():
    accountant = Accountant()
    with pytest.raises(AccountingError, match="nothing was released"):
        accountant.guarantee(1e-5, Kind.WORST_CASE)
    accountant.commit(confident(unit=Unit.PARTY, k=4))
    worst = accountant.guarantee(1e-5, Kind.WORST_CASE)
    text = str(worst)
    for part in ("1e-05", "student", "worst case", "may be published", "4 teachers", "both directions", "cks"):
        assert part in text
    secret = accountant.guarantee(1e-5, Kind.DATA_DEPENDENT)
    assert not secret.publishable
    assert "do not publish" in str(secret)
    assert "one direction" in str(secret)
    assert "secret" in repr(secret)
    assert json.loads(json.dumps(worst.to_json(), allow_nan=False))["publishable"] is True
    with pytest.raises(AccountingError, match="sanitised"):
        accountant.guarantee(1e-5, Kind.SANITISED)
    with pytest.raises(AccountingError):
        dataclasses.replace(worst, epsilon=math.nan)


def test_one_teacher_per_party_says_that_it_covers_the_party():
    accountant = Accountant()
    accountant.commit(confident())
    assert "also the guarantee of a whole party" in str(accountant.guarantee(1e-5, Kind.WORST_CASE))
    assert isinstance(accountant.guarantee(1e-5, Kind.WORST_CASE), Guarantee)


def test_gaussian_parts_compose_exactly():
    event = confident(640, 283, noise=Noise.CONTINUOUS)
    parts = event.gaussian_parts()
    assert parts is not None
    squared = sum(mu_squared(part.releases, part.sigma, scalar=part.scalar) for part in parts)
    accountant = Accountant()
    accountant.commit(event)
    assert accountant.exact_worst_case_epsilon(1e-5) == pytest.approx(epsilon_of(squared, 1e-5))
    assert LNMaxEvent(**common(), gamma=0.1).gaussian_parts() is None


def test_distributed_composition_is_exact():
    """640 queries, sigma 40, delta 1e-5: 3.849, with real noise, with integer noise, and with its 250 shares."""
    for noise, shares in ((Noise.CONTINUOUS, 250), (Noise.DISCRETE, 1), (Noise.DISCRETE, 250)):
        accountant = Accountant()
        for _ in range(2):
            accountant.commit(
                DistributedEvent(
                    **common(320, 100, towards=Towards.COORDINATOR, noise=noise), sigma=40.0, noise_shares=shares
                )
            )
        assert accountant.exact_worst_case_epsilon(1e-5) == pytest.approx(3.848610282538026, rel=1e-7)
        assert accountant.worst_case_epsilon(1e-5).epsilon == pytest.approx(4.1619, abs=1e-3)
        guarantee = accountant.guarantee(1e-5, Kind.WORST_CASE)
        assert guarantee.epsilon == pytest.approx(3.848610282538026, rel=1e-7)
        assert "exact composition" in str(guarantee)
        classic = accountant.guarantee(1e-5, Kind.WORST_CASE, "classic")
        assert classic.epsilon == pytest.approx(4.69, abs=1e-2)


def test_no_exact_composition_is_claimed_where_none_is_known():
    accountant = Accountant()
    assert accountant.exact_worst_case_epsilon(1e-5) is None
    accountant.commit(confident())
    assert accountant.exact_worst_case_epsilon(1e-5) is None
    party = Accountant()
    party.commit(GNMaxEvent(**common(unit=Unit.PARTY, k=2), sigma=10.0))
    assert party.exact_worst_case_epsilon(1e-5) is None
    laplace = Accountant()
    laplace.commit(LNMaxEvent(**common(), gamma=0.1))
    assert laplace.exact_worst_case_epsilon(1e-5) is None
    coarse = Accountant()
    coarse.commit(DistributedEvent(**common(), sigma=20.0, noise_shares=800))
    assert coarse.exact_worst_case_epsilon(1e-5) is None
    stable = Accountant()
    stable.commit(StableEvent(**common(), threshold=45.0, sigma=8.0))
    exact = stable.exact_worst_case_epsilon(1e-5)
    assert exact == pytest.approx(discrete_epsilon(40, 8.0, 1, 1e-5 - stable.events[0].added_delta()), rel=1e-12)
    assert exact != pytest.approx(discrete_epsilon(40, 8.0, 1, 1e-5), rel=1e-9)
    assert exact is not None
    assert exact < stable.worst_case_epsilon(1e-5).epsilon
