"""What every event must do, and what each of them charges."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.curves.gaussian import log_q_threshold, rdp_data_dependent, rdp_gaussian
from consilium.accounting.errors import AccountingError, DeltaError, EventError, NoiseError, UnitError, VotesError
from consilium.accounting.events import (
    EVENTS,
    ConfidentEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    Evidence,
    HistogramEvent,
    ImmutableEvent,
    ImmutableGaussianEvent,
    InteractiveEvent,
    SanitisedEvent,
    StableEvent,
    event_from_json,
)
from consilium.accounting.guarantees import Kind
from consilium.accounting.units import Noise, Towards, Unit
from consilium.accounting.worst.renyi import rdp_argmax
from tests.accounting.events.examples import CONFIDENT, EXAMPLES, MASK, VOTES, common, confident

NO_EVIDENCE = (HistogramEvent, DistributedEvent, DistributedTwoPhaseEvent, ImmutableEvent, ImmutableGaussianEvent)
ALL = [pytest.param(cls, extra, id=cls.TYPE) for cls, extra in EXAMPLES]
SHORT = VOTES.copy()
SHORT[7, SHORT[7].argmin()] -= 1


@pytest.mark.parametrize(("cls", "extra"), ALL)
class TestEveryEvent:
    def test_json_round_trip(self, cls, extra):
        event = cls(**common(), **extra)
        text = json.dumps(event.to_json(), allow_nan=False)
        assert event_from_json(json.loads(text)) == event
        assert json.loads(text)["type"] == cls.TYPE

    def test_json_is_strict(self, cls, extra):
        good = cls(**common(), **extra).to_json()
        for bad in (
            good | {"colour": "red"},
            good | {"version": 2},
            good | {"version": True},
            good | {"type": "other"},
            good | {"asked": None},
            good | {"asked": True},
            {key: value for key, value in good.items() if key != "unit"},
            good | {"unit": "household"},
            list(good),
        ):
            with pytest.raises(AccountingError):
                event_from_json(bad)

    def test_unit_and_relation_have_no_default(self, cls, extra):
        for name in ("unit", "neighbouring", "towards", "noise", "teachers_per_party", "asked", "answered"):
            fields = {key: value for key, value in common().items() if key != name}
            with pytest.raises(TypeError, match=name):
                cls(**fields, **extra)

    def test_rows_of_different_numbers_of_votes_are_no_evidence(self, cls, extra):
        """A vote missing in one row of 40 was taken as it came; the error tells where, and no count."""
        event = cls(**common(), **extra)
        p = np.full((40, 3), 1 / 3)
        told = r"^1 of 40 rows of votes \(int64\) have another number of votes than most \(first: query 7\)"
        with pytest.raises(VotesError, match=told) as caught:
            event.evidence(SHORT, None, p)
        assert "100" not in str(caught.value)
        assert "99" not in str(caught.value)
        with pytest.raises(VotesError, match="101 teachers"):
            event.evidence(VOTES, 101, p)
        if cls not in NO_EVIDENCE:  # control: it is that check alone which refuses
            kept = event._evidence(SHORT, 100, p)
            assert len(kept.log_q_label if kept.log_q_label is not None else kept.log_q_check) == 40
            event.evidence(VOTES, 100, p)

    def test_bad_counts_are_refused(self, cls, extra):
        for asked, answered in ((-1, 0), (3, 4), (3, -1), (2.0, 2), (True, 1)):
            with pytest.raises(EventError):
                cls(**common(asked, answered), **extra)
        with pytest.raises(UnitError):
            cls(**common(k=0), **extra)


@pytest.mark.parametrize(("cls", "extra"), ALL)
def test_a_check_compares_a_number_that_one_vote_moves_by_one(cls, extra):
    """For every vote that moves, in both directions; within the range that the event names."""
    event = cls(**common(1, 1), **extra)
    for votes in ([60, 25, 15], [50, 50, 0], [34, 33, 33], [100, 0, 0]):
        there = event.comparison(np.array([votes]), 100, np.array([[0.2, 0.7, 0.1]]))
        if there is None:
            assert cls not in (ConfidentEvent, InteractiveEvent, StableEvent)
            assert event.log_p_answered(np.array([votes]), 100).tolist() == [0.0]
            continue
        assert there.least <= there.number[0] <= there.most
        for loses, gains in itertools.permutations(range(3), 2):
            moved = np.array([votes])
            moved[0, loses] -= 1
            moved[0, gains] += 1
            if moved.min() >= 0:
                near = event.comparison(moved, 100, np.array([[0.2, 0.7, 0.1]]))
                assert abs(int(near.number[0] - there.number[0])) <= 1


def test_a_comparison_tells_nothing_of_the_votes_when_it_is_printed():
    assert repr(confident().comparison(VOTES, 100)) == "Comparison(<secret>)"


def test_expected_answers_cost_between_none_and_all():
    event = confident(40, 40)
    evidence, orders = event.evidence(VOTES), [2.0, 8.0]
    p = np.exp(event.log_p_answered(VOTES, 100))
    none, some, every = (event.expected_rdp(evidence, weights, orders) for weights in (np.zeros(40), p, np.ones(40)))
    assert (every == event.data_dependent_rdp(evidence, np.ones(40, dtype=bool), orders)).all()
    check, label = evidence
    by_hand = rdp_data_dependent(check, 30.0, orders, scalar=True).sum(axis=0)
    assert none == pytest.approx(by_hand, rel=1e-11)
    by_hand += (p[:, None] * rdp_data_dependent(label, 10.0, orders)).sum(axis=0)
    assert some == pytest.approx(by_hand, rel=1e-11)
    assert (none < some).all()
    assert (some < every).all()


def test_registry_is_complete():
    assert set(EVENTS) == {cls.TYPE for cls, _ in EXAMPLES} | {SanitisedEvent.TYPE}


def test_interactive_subtracts_public_predictions():
    event = InteractiveEvent(**common(40, 25), **CONFIDENT)
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    top = (VOTES - np.array([50, 25, 25])).max(axis=1)
    expected = log_q_threshold(top, 60.0, 30.0, "discrete")
    assert event.evidence(VOTES, probabilities=p).log_q_check == pytest.approx(expected)
    with pytest.raises(EventError, match="Pass predictions"):
        event.evidence(VOTES)
    with pytest.raises(EventError, match="one row per query"):
        event.evidence(VOTES, probabilities=p[:3])
    assert np.array_equal(event.worst_case_rdp([2.0]), confident().worst_case_rdp([2.0]))


def test_distributed_charges_every_screened_query_a_whole_histogram():
    orders = np.array([2.0, 10.0])
    seen = common(40, 25, noise=Noise.CONTINUOUS, towards=Towards.COORDINATOR)
    single = DistributedEvent(**seen, sigma=20.0, noise_shares=50)
    assert single.worst_case_rdp(orders) == pytest.approx(40 * orders / 400)
    two = DistributedTwoPhaseEvent(**seen, sigma1=40.0, sigma2=20.0, noise_shares=50)
    assert two.worst_case_rdp(orders) == pytest.approx(40 * orders / 1600 + 25 * orders / 400)


def test_whoever_sees_labels_alone_is_promised_less_than_the_coordinator():
    orders = np.array([2.0, 10.0])
    seen = common(40, 25, noise=Noise.CONTINUOUS, towards=Towards.STUDENT)
    coarse, fine = (rdp_argmax(sigma, orders, Noise.CONTINUOUS) for sigma in (40.0, 20.0))
    single = DistributedEvent(**seen, sigma=20.0, noise_shares=50)
    assert single.worst_case_rdp(orders) == pytest.approx(40 * fine)
    two = DistributedTwoPhaseEvent(**seen, sigma1=40.0, sigma2=20.0, noise_shares=50)
    assert two.worst_case_rdp(orders) == pytest.approx(40 * coarse + 25 * fine)
    for event in (single, two):
        to_coordinator = dataclasses.replace(event, towards=Towards.COORDINATOR)
        assert np.all(event.worst_case_rdp(orders) < 0.66 * to_coordinator.worst_case_rdp(orders))


def test_shares_of_integer_noise_are_charged_for_not_being_a_discrete_gaussian():
    seen = common(towards=Towards.COORDINATOR)
    fine = DistributedEvent(**seen, sigma=20.0, noise_shares=50).worst_case_rdp([2.0])
    exact = 40 * rdp_gaussian(20.0, [2.0])
    assert exact[0] <= fine[0] < exact[0] * (1 + 1e-9)
    rough = DistributedEvent(**seen, sigma=20.0, noise_shares=800).worst_case_rdp([2.0])
    assert rough[0] > exact[0] * 1.01
    with pytest.raises(NoiseError, match="one share"):
        DistributedEvent(**seen, sigma=20.0, noise_shares=5000).worst_case_rdp([2.0])


@pytest.mark.parametrize(
    "event",
    [
        ImmutableEvent(**common(), gamma=0.1, constant=1000),
        ImmutableGaussianEvent(**common(), sigma=40.0, constant=1000),
    ],
    ids=lambda each: each.TYPE,
)
def test_immutable_has_no_finite_guarantee(event):
    accountant = Accountant([2.0, 4.0])
    accountant.commit(event)
    assert math.isinf(accountant.worst_case_epsilon(1e-5).epsilon)
    text = str(accountant.guarantee(1e-5, Kind.WORST_CASE))
    assert "inf" in text
    told = accountant.guarantee(1e-5, Kind.WORST_CASE).to_json()
    assert (told["epsilon"], told["infinite"]) == (None, ["epsilon"])


def test_stable_release_pays_in_delta():
    event = StableEvent(**common(640, 500, noise=Noise.CONTINUOUS), threshold=84.81833422528733, sigma=15.0)
    assert event.added_delta() == pytest.approx(5e-6, rel=1e-9)
    accountant = Accountant()
    accountant.commit(event)
    expected = rdp_to_epsilon(event.worst_case_rdp(DEFAULT_ORDERS), DEFAULT_ORDERS, 1e-5 - event.added_delta())
    assert accountant.worst_case_epsilon(1e-5) == expected
    with pytest.raises(DeltaError, match="already"):
        accountant.worst_case_epsilon(4e-6)
    party = StableEvent(**common(640, 500, Unit.PARTY, 3, noise=Noise.CONTINUOUS), threshold=84.8, sigma=15.0)
    assert party.added_delta() > event.added_delta()
    lattice = StableEvent(**common(640, 500), threshold=85.0, sigma=15.0)
    assert lattice.added_delta() == pytest.approx(event.added_delta(), rel=0.2)


def test_evidence_and_mask_must_fit():
    event = confident()
    evidence = event.evidence(VOTES)
    with pytest.raises(EventError, match="marks"):
        event.data_dependent_rdp(evidence, np.ones(40, dtype=bool), [2.0])
    with pytest.raises(EventError, match="bool mask"):
        event.data_dependent_rdp(evidence, np.ones(40), [2.0])
    with pytest.raises(EventError, match="cover"):
        event.data_dependent_rdp(Evidence(None, evidence.log_q_label), MASK, [2.0])
    with pytest.raises(EventError, match="hold 3 queries"):
        event.evidence(VOTES[:3])
    assert "secret" in repr(evidence)
    assert "-" not in repr(evidence)
