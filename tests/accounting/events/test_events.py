"""Events, accountant and guarantee."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from consilium.accounting.accountant import Accountant, Cap, worst_case_before_run
from consilium.accounting.curves.conversion import rdp_to_epsilon
from consilium.accounting.curves.gaussian import rdp_data_dependent, rdp_gaussian
from consilium.accounting.curves.gdp import discrete_epsilon, epsilon_of, mu_squared
from consilium.accounting.curves.gnmax import log_q_gnmax
from consilium.accounting.curves.orders import DEFAULT_ORDERS
from consilium.accounting.curves.threshold import log_q_threshold
from consilium.accounting.errors import (
    AccountingError,
    CapExceededError,
    ConditionError,
    DeltaError,
    EventError,
    NoDataDependentBoundError,
    NoiseError,
    OrdersError,
    UnitError,
    VotesError,
)
from consilium.accounting.events import (
    EVENTS,
    ConfidentEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    Evidence,
    GNMaxEvent,
    HistogramEvent,
    ImmutableEvent,
    ImmutableGaussianEvent,
    InteractiveEvent,
    LNMaxEvent,
    SanitisedEvent,
    SparseVectorEvent,
    StableEvent,
    event_from_json,
)
from consilium.accounting.guarantee import Guarantee, Kind
from consilium.accounting.label_costs import histogram_rdp
from consilium.accounting.sanitise.release import Answered, SanitisedPlan, check_plan, sanitise, secret_smoothness
from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
from consilium.accounting.worst.argmax import rdp_argmax
from consilium.accounting.worst.check import rdp_check

CONFIDENT = {"threshold": 60.0, "sigma1": 30.0, "sigma2": 10.0}
EXAMPLES = [
    (LNMaxEvent, {"gamma": 0.1}),
    (GNMaxEvent, {"sigma": 10.0}),
    (HistogramEvent, {"sigma": 10.0}),
    (ConfidentEvent, CONFIDENT),
    (InteractiveEvent, CONFIDENT),
    (DistributedEvent, {"sigma": 20.0, "noise_shares": 50}),
    (DistributedTwoPhaseEvent, {"sigma1": 40.0, "sigma2": 20.0, "noise_shares": 50}),
    (StableEvent, {"threshold": 55.0, "sigma": 8.0}),
    (SparseVectorEvent, {"threshold": 900.0, "scale": 30.0, "unstable_cap": 4}),
    (ImmutableEvent, {"gamma": 0.1, "constant": 1000}),
    (ImmutableGaussianEvent, {"sigma": 10.0, "constant": 1000}),
]
NO_EVIDENCE = (
    HistogramEvent,
    DistributedEvent,
    DistributedTwoPhaseEvent,
    SparseVectorEvent,
    ImmutableEvent,
    ImmutableGaussianEvent,
)
ALL = [pytest.param(cls, extra, id=cls.TYPE) for cls, extra in EXAMPLES]
VOTES = np.random.default_rng(5).multinomial(100, [0.75, 0.15, 0.1], size=40).astype(np.int64)


def common(
    asked=40,
    answered=40,
    unit=Unit.RECORD,
    k=1,
    towards=Towards.STUDENT,
    noise=Noise.DISCRETE,
    relation=Neighbouring.REPLACE,
):
    return {
        "asked": asked,
        "answered": answered,
        "unit": unit,
        "neighbouring": relation,
        "teachers_per_party": k,
        "towards": towards,
        "noise": noise,
    }


def confident(asked=40, answered=25, **kwargs):
    return ConfidentEvent(**common(asked, answered, **kwargs), **CONFIDENT)


MASK = np.arange(40) < 25
SHORT = VOTES.copy()
SHORT[7, SHORT[7].argmin()] -= 1
PLAN = SanitisedPlan(order=2.5, beta=0.1, sigma_ss=6.0)


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

    def test_frozen(self, cls, extra):
        event = cls(**common(), **extra)
        with pytest.raises(dataclasses.FrozenInstanceError):
            event.asked = 0

    def test_rows_of_different_numbers_of_votes_are_no_evidence(self, cls, extra):
        """A vote missing in one row of 40 was taken as it came; the error tells where, and no count."""
        event = cls(**common(), **extra)
        p = np.full((40, 3), 1 / 3)
        told = r"^1 of 40 rows of votes \(int64\) have another number of votes than the first \(query 7\)"
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

    def test_worst_case_depends_on_counts_only_and_grows_with_them(self, cls, extra):
        event = cls(**common(), **extra)
        curve = event.worst_case_rdp(DEFAULT_ORDERS)
        assert curve.shape == DEFAULT_ORDERS.shape
        assert np.all(curve > 0)
        fewer = event.with_counts(10, 10).worst_case_rdp(DEFAULT_ORDERS)
        assert np.all(fewer <= curve)

    def test_a_party_of_one_teacher_is_a_record_and_of_more_costs_more(self, cls, extra):
        orders = np.array([1.5, 2.0, 8.0])
        record = cls(**common(), **extra).worst_case_rdp(orders)
        same = cls(**common(unit=Unit.PARTY, k=1), **extra).worst_case_rdp(orders)
        assert same == pytest.approx(record)
        for unit in (Unit.RECORD, Unit.PATIENT):
            one = cls(**common(unit=unit, k=5, relation=Neighbouring.ADD_OR_REMOVE), **extra).worst_case_rdp(orders)
            assert one.tolist() == record.tolist()
            two = cls(**common(unit=unit, k=5), **extra).worst_case_rdp(orders)
            pair = cls(**common(unit=Unit.PARTY, k=2), **extra).worst_case_rdp(orders)
            assert two.tolist() == pair.tolist()
        party = cls(**common(unit=Unit.PARTY, k=3), **extra).worst_case_rdp(orders)
        assert np.all(party > record) or np.isinf(record).all()

    def test_bad_counts_are_refused(self, cls, extra):
        for asked, answered in ((-1, 0), (3, 4), (3, -1), (2.0, 2), (True, 1)):
            with pytest.raises(EventError):
                cls(**common(asked, answered), **extra)
        with pytest.raises(UnitError):
            cls(**common(k=0), **extra)

    def test_the_published_bound_is_never_above_the_histograms_worst_case(self, cls, extra):
        event = cls(**common(), **extra)
        try:
            evidence = event.evidence(VOTES, probabilities=np.full((40, 3), 1 / 3))
        except NoDataDependentBoundError:
            with pytest.raises(NoDataDependentBoundError):
                event.data_dependent_rdp(Evidence(None, None), np.ones(40, dtype=bool), DEFAULT_ORDERS)
            return
        mask = np.ones(40, dtype=bool)
        total = event.data_dependent_rdp(evidence, mask, DEFAULT_ORDERS)
        assert np.all(total <= histogram_rdp(event) * (1 + 1e-12))


PROFILES = {
    "lnmax": (1, False, None, (None, None)),
    "gnmax": (1, False, 10.0, (None, None)),
    "histogram": (1, False, None, (None, None)),
    "confident": (1, False, 10.0, (None, None)),
    "interactive": (1, False, 10.0, (None, None)),
    "distributed": (1, True, None, ((20.0, 50), None)),
    "distributed_two_phase": (2, True, None, ((40.0, 50), (20.0, 50))),
    "stable": (1, False, None, (None, None)),
    "sparse_vector": (1, False, None, (None, None)),
    "immutable": (1, False, None, (None, None)),
    "immutable_gaussian": (1, False, None, (None, None)),
}
"""By name: phases, noise of the parties or not, sigma of labels that can be sanitised, and the parties' noise in phase
1 and 2 as (sigma, shares)."""


@pytest.mark.parametrize(("cls", "extra"), ALL)
def test_an_event_knows_its_own_profile(cls, extra):
    event = cls(**common(40, 40), **extra)
    noise = tuple(event.party_noise(phase) for phase in (1, 2))
    assert (event.phases, event.noise_by_parties, event.label_sigma, noise) == PROFILES[event.TYPE]
    assert [event.queries_in(phase) for phase in (1, 2, 3)] == [40, 40 if event.phases == 2 else 0, 0]
    assert not event.closing
    assert PLAN.event(event).closing


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


def test_the_charge_of_a_sanitised_release():
    """At the plan's order it is what the release adds; elsewhere it is the same release seen at another order."""
    for k, unit in ((1, Unit.RECORD), (3, Unit.RECORD), (3, Unit.PARTY)):
        like = confident(unit=unit, k=k)
        for plan in (PLAN, dataclasses.replace(PLAN, beta=0.02, log_scale_sigma=0.5)):
            if plan.order * (1 - math.exp(-2 * plan.beta * like.votes_moved)) >= 1:
                continue
            event = plan.event(like)
            curve = event.worst_case_rdp(DEFAULT_ORDERS)
            assert event.worst_case_rdp([plan.order])[0] == pytest.approx(plan.cost(like.votes_moved), rel=1e-12)
            assert np.all(np.diff(curve[np.isfinite(curve)]) >= 0)
            assert np.isinf(curve[-1])  # at high orders there is no room, and it costs everything
            assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    accountant = Accountant(DEFAULT_ORDERS)
    accountant.commit(confident())
    alone = accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon
    accountant.commit(PLAN.event(confident()))
    assert accountant.guarantee(1e-5, Kind.WORST_CASE).epsilon > alone


@pytest.mark.parametrize("changes", [{"asked": 1}, {"beta": 0.0}, {"sigma_ss": -1.0}, {"log_scale_sigma": -0.5}])
def test_a_charge_of_a_sanitised_release_that_cannot_be(changes):
    good = PLAN.event(confident()).to_json()
    with pytest.raises(AccountingError):
        event_from_json(good | changes)


def test_batches_with_fewer_teachers_are_sanitised_with_their_own_number():
    few = np.random.default_rng(6).multinomial(90, [0.75, 0.15, 0.1], size=40).astype(np.int64)
    event = confident(noise=Noise.CONTINUOUS)
    both = [Answered(event, VOTES, MASK), Answered(event, few, MASK)]
    parts = [secret_smoothness([one], PLAN, 100) for one in both]
    together = secret_smoothness(both, PLAN, 100)
    assert together.rdp == pytest.approx(sum(part.rdp for part in parts), rel=1e-12)
    assert max(part.smooth for part in parts) < together.smooth <= sum(part.smooth for part in parts) * (1 + 1e-12)
    with pytest.raises(EventError, match="more than the 99 teachers"):
        secret_smoothness(both, PLAN, 99)


@pytest.mark.parametrize(
    ("plan", "event", "why"),
    [
        (SanitisedPlan(order=400.0, beta=1e-4, sigma_ss=5.0), confident(), "condition C"),
        (SanitisedPlan(order=2.5, beta=1.0, sigma_ss=5.0), confident(), "no finite cost"),
        (SanitisedPlan(order=2.5, beta=0.1, sigma_ss=5.0), StableEvent(**common(), threshold=5.0, sigma=8.0), "stable"),
    ],
)
def test_a_plan_that_could_not_be_carried_out_is_refused_before_the_run(plan, event, why):
    check_plan(PLAN, confident(), 100, 3)
    with pytest.raises(AccountingError, match=why):
        check_plan(plan, event, 100, 3)


def test_confident_curves_by_hand():
    event = confident(unit=Unit.PARTY, k=2)
    orders = np.array([2.0, 6.0])
    as_histogram = 40 * orders / (2 * 900) + 25 * orders / 100
    for each, votes in ((event, 2), (confident(), 1)):
        worst = 40 * rdp_check(30.0, orders, Noise.DISCRETE, votes)
        worst += 25 * rdp_argmax(10.0, orders, Noise.DISCRETE, votes)
        assert each.worst_case_rdp(orders) == pytest.approx(worst)
        assert np.all(worst < 0.72 * votes**2 * as_histogram)
    check, label = event.evidence(VOTES)
    assert check == pytest.approx(log_q_threshold(VOTES.max(axis=1), 60.0, 30.0, "discrete"))
    assert label == pytest.approx(log_q_gnmax(VOTES, 10.0, "discrete"))
    got = event.data_dependent_rdp((Evidence(check, label)), MASK, orders)
    by_hand = rdp_data_dependent(check, 30.0 * math.sqrt(2) / 2, orders).sum(axis=0)
    by_hand += rdp_data_dependent(label[MASK], 10.0 / 2, orders).sum(axis=0)
    assert got == pytest.approx(by_hand, rel=1e-11)


def test_interactive_subtracts_public_predictions():
    event = InteractiveEvent(**common(40, 25), **CONFIDENT)
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    top = (VOTES - np.array([50, 25, 25])).max(axis=1)
    expected = log_q_threshold(top, 60.0, 30.0, "discrete")
    assert event.evidence(VOTES, probabilities=p).log_q_check == pytest.approx(expected)
    with pytest.raises(EventError, match="Pass probabilities"):
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
    with pytest.raises(CapExceededError):
        Accountant([2.0], cap=Cap(100.0, 1e-5)).commit(event)


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


def test_sparse_vector_failure_on_the_lattice_is_close_to_the_continuous():
    args = {"threshold": 600.0, "scale": 30.0, "unstable_cap": 4}
    lattice = SparseVectorEvent(**common(), **args).added_delta()
    smooth = SparseVectorEvent(**common(noise=Noise.CONTINUOUS), **args).added_delta()
    assert smooth == pytest.approx(lattice, rel=0.05)
    assert lattice > smooth * 0.99


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
    assert accountant.worst_case_epsilon(1e-5) == worst_case_before_run(event, 80, 50, 1e-5)


def test_a_refused_release_leaves_no_trace_and_the_cap_ignores_the_data():
    event = confident()
    one = worst_case_before_run(event, 40, 25, 1e-5).epsilon
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


def test_sanitised_release_adds_up():
    event = confident(noise=Noise.CONTINUOUS)
    batch = Answered(event, VOTES, MASK)
    secret = secret_smoothness([batch], PLAN, 100)
    exact = event.data_dependent_rdp(event.evidence(VOTES), MASK, [2.5])[0]
    assert secret.rdp == pytest.approx(exact, rel=1e-11)
    assert secret.smooth > 0
    quiet = sanitise([batch], PLAN, 1e-5, 100, lambda: 0.0)
    assert exact <= quiet.released_rdp <= exact + 1e-4
    assert quiet.guarantee.kind is Kind.SANITISED
    assert quiet.guarantee.publishable
    assert quiet.epsilon_limit is None
    total = rdp_to_epsilon([quiet.released_rdp + PLAN.cost()], [2.5], 1e-5).epsilon
    assert quiet.guarantee.epsilon == pytest.approx(total)
    loud = sanitise([batch], PLAN, 1e-5, 100, lambda: 1e9)
    assert loud.released_rdp == pytest.approx(event.worst_case_rdp([2.5])[0])
    assert sanitise([batch], PLAN, 1e-5, 100, lambda: -1e9).released_rdp == 0.0
    for secretive in (secret, batch):
        assert "secret" in repr(secretive)
    assert sanitise([batch], PLAN, 1e-5, 100).guarantee.epsilon > 0


def test_sanitised_release_on_the_lattice_is_a_little_above_the_exact_cost():
    event = confident()
    secret = secret_smoothness([Answered(event, VOTES, MASK)], PLAN, 100)
    exact = event.data_dependent_rdp(event.evidence(VOTES), MASK, [2.5])[0]
    assert exact <= secret.rdp <= exact * 1.05


def test_sanitised_limit_covers_the_true_value():
    """With a confidence of 95 %, at most 5 % of the limits may be too low; more than 8 % of 2,000 has p < 1e-8."""
    rng = np.random.default_rng(3)
    event = confident(noise=Noise.CONTINUOUS)
    plan = dataclasses.replace(PLAN, log_scale_sigma=0.5)
    assert plan.cost() == pytest.approx(PLAN.cost() + 2.5 * 0.01 / (2 * 0.25))
    batch = Answered(event, VOTES, MASK)
    secret = secret_smoothness([batch], plan, 100)
    true = rdp_to_epsilon([secret.rdp + plan.cost()], [2.5], 1e-5).epsilon
    missed = 0
    for _ in range(300):
        release = sanitise([batch], plan, 1e-5, 100, lambda: float(rng.normal()))
        assert release.epsilon_limit is not None
        missed += release.epsilon_limit < true
    assert missed <= 24


def test_sanitised_release_composes_batches_and_refuses_mixed_ones():
    event = confident(noise=Noise.CONTINUOUS)
    batch = Answered(event, VOTES, MASK)
    one, two = (secret_smoothness([batch] * n, PLAN, 100) for n in (1, 2))
    assert two.rdp == pytest.approx(2 * one.rdp)
    assert two.smooth == pytest.approx(2 * one.smooth)
    other = Answered(confident(noise=Noise.CONTINUOUS, towards=Towards.PUBLIC), VOTES, MASK)
    with pytest.raises(UnitError):
        sanitise([batch, other], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="nothing was released"):
        sanitise([], PLAN, 1e-5, 100)
    with pytest.raises(EventError, match="disagree"):
        sanitise([Answered(event, VOTES, ~MASK)], PLAN, 1e-5, 100)
    # A stable release has no sensitivity bound here: it enters at its public worst case. LNMax has one.
    everything = np.ones(40, dtype=bool)
    stable = StableEvent(**common(noise=Noise.CONTINUOUS), threshold=5.0, sigma=8.0)
    mixed = secret_smoothness([batch, Answered(stable, VOTES, everything)], PLAN, 100)
    assert mixed.smooth == one.smooth
    assert mixed.rdp == pytest.approx(one.rdp + stable.worst_case_rdp([2.5])[0])
    lnmax = LNMaxEvent(**common(noise=Noise.CONTINUOUS), gamma=0.05)
    mixed = secret_smoothness([batch, Answered(lnmax, VOTES, everything)], PLAN, 100)
    assert mixed.smooth > one.smooth
    assert mixed.rdp == pytest.approx(one.rdp + lnmax.data_dependent_rdp(lnmax.evidence(VOTES), everything, [2.5])[0])


def test_sanitised_interactive_and_party_level():
    p = np.tile([0.5, 0.25, 0.25], (40, 1))
    event = InteractiveEvent(**common(40, 25, noise=Noise.CONTINUOUS), **CONFIDENT)
    batch = Answered(event, VOTES, MASK, p)
    secret = secret_smoothness([batch], PLAN, 100)
    exact = event.data_dependent_rdp(event.evidence(VOTES, probabilities=p), MASK, [2.5])[0]
    assert secret.rdp == pytest.approx(exact, rel=1e-11)
    with pytest.raises(EventError, match="predictions"):
        secret_smoothness([Answered(event, VOTES, MASK)], PLAN, 100)
    party = confident(noise=Noise.CONTINUOUS, unit=Unit.PARTY, k=2)
    release = sanitise([Answered(party, VOTES, MASK)], dataclasses.replace(PLAN, beta=0.05), 1e-5, 100, lambda: 0.0)
    assert release.guarantee.unit is Unit.PARTY
    half = dataclasses.replace(PLAN, beta=0.05)
    own = secret_smoothness([Answered(party, VOTES, MASK)], half, 100)
    tiny = sanitise([Answered(party, VOTES, MASK)], half, 1e-5, 100, lambda: 1e-2)
    # Two votes per step: the noise is scaled to SS (1 + e^beta), not to SS.
    expected = own.rdp + own.smooth * (1 + math.exp(0.05)) * PLAN.sigma_ss * 1e-2
    assert expected <= tiny.released_rdp <= expected + 1e-4
    assert own.smooth * PLAN.sigma_ss * 1e-2 > 2e-4
    assert dataclasses.replace(PLAN, beta=0.05).cost(2) == pytest.approx(PLAN.cost(1))
    with pytest.raises(NoiseError, match="no finite cost"):
        dataclasses.replace(PLAN, beta=0.3).cost(2)


def test_sanitised_release_refuses_where_the_theorem_is_not_proved():
    event = confident(noise=Noise.CONTINUOUS)
    plan = SanitisedPlan(order=30.0, beta=0.005, sigma_ss=6.0)
    with pytest.raises(ConditionError, match="not proved"):
        sanitise([Answered(event, VOTES, MASK)], plan, 1e-5, 100)


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
