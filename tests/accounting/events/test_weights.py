"""A weight: votes of one answer that move together. What it costs, how it is written, what it is mixed with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.gdp import GaussianPart, exact_epsilon
from consilium.accounting.errors import EventError, UnitError
from consilium.accounting.events import ReleaseEvent, event_from_json
from consilium.accounting.events.mechanisms import (
    ConfidentEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    GNMaxEvent,
    HistogramEvent,
    InteractiveEvent,
    LNMaxEvent,
    SanitisedEvent,
    StableEvent,
)
from consilium.accounting.guarantee import Kind
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from tests.marks import third
from tests.party.lying import lattice_epsilon

ORDERS = np.array([1.5, 2.0, 8.0, 64.0])
STATED = {"unit": Unit.PARTY, "neighbouring": Neighbouring.REPLACE, "towards": Towards.STUDENT, "noise": Noise.DISCRETE}
REAL = {"unit": Unit.PARTY, "neighbouring": Neighbouring.REPLACE, "noise": Noise.CONTINUOUS}
EVENTS: dict[str, Callable[..., ReleaseEvent]] = {
    "gnmax": lambda **more: GNMaxEvent(asked=30, answered=30, sigma=40.0, **STATED, **more),
    "histogram": lambda **more: HistogramEvent(asked=30, answered=30, sigma=40.0, **STATED, **more),
    "confident": lambda **more: ConfidentEvent(
        asked=30, answered=20, threshold=50.0, sigma1=90.0, sigma2=40.0, **STATED, **more
    ),
    "interactive": lambda **more: InteractiveEvent(
        asked=30, answered=20, threshold=50.0, sigma1=90.0, sigma2=40.0, **STATED, **more
    ),
    "lnmax": lambda **more: LNMaxEvent(asked=30, answered=30, gamma=0.05, **STATED, **more),
    "distributed": lambda **more: DistributedEvent(
        asked=30, answered=30, sigma=40.0, noise_shares=10, **{**STATED, "towards": Towards.COORDINATOR}, **more
    ),
    "stable": lambda **more: StableEvent(asked=30, answered=20, threshold=200.0, sigma=30.0, **STATED, **more),
    "sanitised": lambda **more: SanitisedEvent(
        asked=0,
        answered=0,
        beta=0.05,
        sigma_ss=6.0,
        log_scale_sigma=0.0,
        **{**STATED, "noise": Noise.CONTINUOUS},
        **more,
    ),
}


WINNERS = ("gnmax", "lnmax", "confident", "interactive")


@pytest.mark.parametrize("kind", EVENTS)
def test_an_answer_that_counts_three_times_costs_what_three_teachers_of_a_party_do(kind: str) -> None:
    """Three votes move either way; that they move together can only lower the cost, and does so of a winner."""
    weighted, teachers = EVENTS[kind](teachers_per_party=1, weight=3), EVENTS[kind](teachers_per_party=3)
    assert (weighted.votes_moved, weighted.answers_moved) == (3, 1)
    found, other = weighted.worst_case_rdp(ORDERS), teachers.worst_case_rdp(ORDERS)
    assert (found <= other * (1 + 1e-6)).all()
    if kind not in WINNERS:
        assert found.tolist() == other.tolist()
    assert weighted.added_delta() == teachers.added_delta()
    once = EVENTS[kind](teachers_per_party=1)
    assert (once.worst_case_rdp(ORDERS[:2]) < weighted.worst_case_rdp(ORDERS[:2])).all()


SCALED: dict[str, Callable[..., ReleaseEvent]] = {
    "gnmax": lambda by, **more: GNMaxEvent(asked=30, answered=30, sigma=40.0 * by, **REAL, **more),
    "histogram": lambda by, **more: HistogramEvent(asked=30, answered=30, sigma=40.0 * by, **REAL, **more),
    "confident": lambda by, **more: ConfidentEvent(
        asked=30, answered=20, threshold=50.0, sigma1=90.0 * by, sigma2=40.0 * by, **REAL, **more
    ),
    "interactive": lambda by, **more: InteractiveEvent(
        asked=30, answered=20, threshold=50.0, sigma1=90.0 * by, sigma2=40.0 * by, **REAL, **more
    ),
    "lnmax": lambda by, **more: LNMaxEvent(asked=30, answered=30, gamma=0.05 / by, **REAL, **more),
    "distributed": lambda by, **more: DistributedEvent(
        asked=30, answered=30, sigma=40.0 * by, noise_shares=10, **REAL, **more
    ),
    "two_phase": lambda by, **more: DistributedTwoPhaseEvent(
        asked=30, answered=20, sigma1=90.0 * by, sigma2=40.0 * by, noise_shares=10, **REAL, **more
    ),
}


@pytest.mark.parametrize("towards", Towards)
@pytest.mark.parametrize("kind", SCALED)
def test_real_noise_in_units_of_the_weight_is_the_noise_of_one_vote(kind: str, towards: Towards) -> None:
    """Votes that always go together are one vote of another size: every part of a cost knows sigma / weight alone."""
    weighted, once = (SCALED[kind](weight, towards=towards, teachers_per_party=2, weight=weight) for weight in (3, 1))
    np.testing.assert_allclose(weighted.worst_case_rdp(ORDERS), once.worst_case_rdp(ORDERS), rtol=1e-9)
    parts = [event.composed_parts() or () for event in (weighted, once)]
    sizes = [
        [(part.releases, part.what, part.sigma / part.together, part.votes_moved) for part in some] for some in parts
    ]
    assert sizes[0] == sizes[1]


def test_a_weight_multiplies_what_the_unit_moves() -> None:
    event = GNMaxEvent(asked=1, answered=1, sigma=40.0, teachers_per_party=4, weight=5, **STATED)
    moved = {unit: replace(event, unit=unit).votes_moved for unit in Unit}
    assert moved == {Unit.RECORD: 10, Unit.PATIENT: 10, Unit.PARTY: 20}


@pytest.mark.parametrize("kind", EVENTS)
def test_weights_come_back(kind: str) -> None:
    once = EVENTS[kind](teachers_per_party=1)
    assert event_from_json(once.to_json()) == once
    weighted = replace(once, weight=4)
    assert event_from_json(weighted.to_json()) == weighted
    assert weighted.to_json() == {**once.to_json(), "weight": 4}


@pytest.mark.parametrize("weight", [0, -1, 1.5, True, "2"])
def test_what_is_no_weight_is_refused(weight: object) -> None:
    table = {**EVENTS["gnmax"](teachers_per_party=1).to_json(), "weight": weight}
    with pytest.raises((UnitError, EventError)):
        event_from_json(table)


def test_other_weights_are_another_claim_also_where_as_many_votes_move() -> None:
    accountant = Accountant(ORDERS)
    accountant.commit(EVENTS["gnmax"](teachers_per_party=2))
    with pytest.raises(UnitError, match="weight"):
        accountant.commit(EVENTS["gnmax"](teachers_per_party=1, weight=2))


@pytest.mark.parametrize(("queries", "sigma", "weight"), third([(5, 12.0, 3), (1, 6.0, 2), (40, 30.0, 2)]))
def test_votes_that_move_together_have_the_exact_value_of_the_lattice(queries: int, sigma: float, weight: int) -> None:
    event = GNMaxEvent(asked=queries, answered=queries, sigma=sigma, teachers_per_party=1, weight=weight, **STATED)
    accountant = Accountant()
    accountant.commit(event)
    found = accountant.exact_worst_case_epsilon(1e-5)
    assert found == pytest.approx(lattice_epsilon(2 * queries, sigma, weight, 1e-5), rel=1e-6)
    assert accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon <= found  # a winner tells less than its histogram


def test_votes_that_may_part_have_none() -> None:
    assert exact_epsilon([GaussianPart(5, 12.0, False)], Noise.DISCRETE, 3, 1e-5) is None
    assert exact_epsilon([GaussianPart(5, 12.0, False)], Noise.DISCRETE, 6, 1e-5, together=3) is None


def test_a_guarantee_says_how_often_an_answer_counts() -> None:
    found = {}
    for weight in (1, 3):
        accountant = Accountant()
        accountant.commit(EVENTS["gnmax"](teachers_per_party=1, weight=weight))
        found[weight] = accountant.guarantee(1e-5, Kind.WORST_CASE)
    assert found[3].relation == "a whole party, replaced (its one teacher's vote per query changes, counted 3 times)"
    assert found[3].to_json()["weight"] == 3
    assert "weight" not in found[1].to_json()
    assert "counted" not in found[1].relation
