"""Candidate runs: all of them are charged, as the composition of so many, in every way in which a cost is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.errors import EventError, NoDataDependentBoundError
from consilium.accounting.events import ReleaseEvent, event_from_json
from consilium.accounting.label_costs import VoteBatch, exact_rdp, histogram_rdp, worst_case
from tests.accounting.events.examples import VOTES
from tests.accounting.events.test_weights import EVENTS, ORDERS

DELTA = 1e-5


def accounted(*events: ReleaseEvent) -> Accountant:
    accountant = Accountant()
    for event in events:
        accountant.commit(event)
    return accountant


@pytest.mark.parametrize("kind", EVENTS)
def test_so_many_candidates_cost_what_so_many_releases_do(kind: str) -> None:
    once = EVENTS[kind](teachers_per_party=1)
    four = replace(once, candidates=4)
    np.testing.assert_allclose(four.worst_case_rdp(ORDERS), 4 * once.worst_case_rdp(ORDERS), rtol=1e-12)
    assert four.added_delta() == pytest.approx(4 * once.added_delta())
    np.testing.assert_allclose(histogram_rdp(four, ORDERS), 4 * histogram_rdp(once, ORDERS), rtol=1e-12)
    if four.added_delta() >= DELTA:
        return  # of which nothing can be promised at this delta
    together, apart = accounted(four), accounted(*[once] * 4)
    for bound in (Accountant.exact_worst_case_epsilon, Accountant.composed_worst_case_epsilon):
        found, composed = bound(together, DELTA), bound(apart, DELTA)
        assert (found is None) == (composed is None)
        assert found is None or found == pytest.approx(composed, rel=1e-9)
    least = together.least_worst_case_epsilon(DELTA)[0].epsilon
    assert least == pytest.approx(apart.least_worst_case_epsilon(DELTA)[0].epsilon, rel=1e-9)
    assert least > accounted(once).least_worst_case_epsilon(DELTA)[0].epsilon


@pytest.mark.parametrize("kind", EVENTS)
def test_one_candidate_is_written_as_before_and_more_come_back(kind: str) -> None:
    once = EVENTS[kind](teachers_per_party=1)
    assert "candidates" not in once.to_json()
    assert replace(once, candidates=7).to_json() == {**once.to_json(), "candidates": 7}
    assert event_from_json(replace(once, candidates=7).to_json()) == replace(once, candidates=7)


@pytest.mark.parametrize("candidates", [0, -1, 1.5, True, "2"])
def test_what_is_no_number_of_candidates_is_refused(candidates: object) -> None:
    with pytest.raises(EventError, match="candidates"):
        event_from_json({**EVENTS["histogram"](teachers_per_party=1).to_json(), "candidates": candidates})


@pytest.mark.parametrize("kind", ["gnmax", "confident", "lnmax"])
def test_votes_of_one_run_save_nothing_of_the_others(kind: str) -> None:
    """Control: of one run these votes, nearly unanimous, cost far less than the worst case."""
    make: Callable[..., ReleaseEvent] = EVENTS[kind]
    votes = np.repeat(VOTES[:1], 30, axis=0)
    once = make(teachers_per_party=1)
    batch = VoteBatch(votes, 100, np.full(30, once.answered / 30))
    assert exact_rdp(once, batch, ORDERS)[1] < 0.9 * once.worst_case_rdp(ORDERS)[1]
    four = replace(once, candidates=4)
    with pytest.raises(NoDataDependentBoundError, match="4 candidate runs"):
        four.evidence(votes)
    assert exact_rdp(four, batch, ORDERS).tolist() == four.worst_case_rdp(ORDERS).tolist()


def test_candidates_are_charged_in_a_guarantee() -> None:
    once = EVENTS["histogram"](teachers_per_party=1)
    epsilons = [worst_case(replace(once, candidates=k), DELTA).epsilon for k in (1, 2, 10)]
    assert epsilons == sorted(epsilons)
    assert epsilons[2] > 3 * epsilons[0]
