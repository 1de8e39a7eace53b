"""What a schedule promises, what a federation without one is, and where a schedule is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from consilium.accounting.accountant import Accountant
from consilium.accounting.curves.conversion import DEFAULT_ORDERS, rdp_to_epsilon
from consilium.accounting.target import worst_case
from consilium.coordinator.config import Federation, QueryBudget, check_threshold
from consilium.coordinator.mechanisms import (
    Confident,
    Distributed,
    DistributedTwoPhase,
    GNMax,
    Immutable,
    LNMax,
    NoisyHistogram,
)
from consilium.coordinator.privacy import by_phase, expected, promised
from consilium.coordinator.provision.plan import Plan
from consilium.coordinator.stages import Phase, Privacy, Sanitised
from consilium.party.promise import parse_promise
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import MOST_RELEASES
from consilium.student.config import StudentSpec
from tests.federation import make_config
from tests.schedule.small import FIRST, SECOND, scheduled


class TestWithoutASchedule:
    def test_nothing_is_told_of_phases(self) -> None:
        assert by_phase(make_config(), []) == {}
        assert make_config().phase_numbers == (None,)
        assert make_config().whole_budget == make_config().query_budget


class TestPromise:
    def test_it_is_the_sum_of_the_phases_curves(self) -> None:
        config = scheduled()
        alone = [
            FIRST.event(asked=20, answered=15, **_whose(config)),
            SECOND.mechanism.event(asked=30, answered=20, **_whose(config)),
        ]
        assert config.promised_events() == alone
        total = np.sum([event.worst_case_rdp(DEFAULT_ORDERS) for event in alone], axis=0)
        accountant = Accountant(DEFAULT_ORDERS)
        for event in alone:
            accountant.commit(event)
        assert accountant.worst_case_rdp() == pytest.approx(total, rel=1e-12)
        bound = rdp_to_epsilon(total, DEFAULT_ORDERS, config.privacy.delta).epsilon
        each = [worst_case([event], config.privacy.delta).epsilon for event in alone]
        assert max(each) < promised(config).epsilon <= bound
        assert [phase["epsilon"] for phase in by_phase(config, [])["stages"]] == each

    @pytest.mark.slow
    def test_gaussian_phases_compose_exactly(self) -> None:
        """Two phases of one mechanism are what one phase of both query budgets is."""
        query_budget, mechanism = QueryBudget(queries=20, answers=20), GNMax(sigma=20.0)
        two = make_config(
            mechanism=mechanism,
            query_budget=query_budget,
            schedule=(Phase(mechanism=mechanism, query_budget=query_budget),),
        )
        one = make_config(mechanism=mechanism, query_budget=QueryBudget(queries=40, answers=40))
        assert promised(two).epsilon == pytest.approx(promised(one).epsilon, rel=1e-9)

    def test_the_order_of_the_phases_is_part_of_the_federation(self) -> None:
        turned = make_config(
            mechanism=SECOND.mechanism,
            query_budget=SECOND.query_budget,
            schedule=(Phase(mechanism=FIRST, query_budget=QueryBudget(queries=20, answers=15)),),
        )
        assert promised(turned).epsilon == pytest.approx(promised(scheduled()).epsilon, rel=1e-9)
        assert turned.digest() != scheduled().digest()

    def test_caps_and_words_are_those_of_all_phases(self) -> None:
        config = scheduled()
        assert config.whole_budget == QueryBudget(queries=50, answers=35)
        assert config.phase_numbers == (1, 2)
        assert FIRST.describe() in config.describe()
        assert "stage 2: Interactive GNMax" in config.describe()
        assert expected(config, 4, 2, asks_typical=None).answers == 35
        assert expected(config, 4, 2, asks_typical=None).noise == 1.5

    def test_it_reads_as_it_was_written(self) -> None:
        config = scheduled()
        assert type(config).model_validate_json(config.model_dump_json()) == config
        assert len(config.promise()) < 4000

    def test_the_longest_promise_fits_into_the_terms(self) -> None:
        config = scheduled(schedule=(SECOND,) * (MOST_RELEASES - 1))
        assert len(json.loads(config.terms().promise)) == MOST_RELEASES


def _whose(config) -> dict[str, Any]:
    privacy = config.privacy
    return {"unit": privacy.unit, "neighbouring": privacy.neighbouring, "teachers_per_party": 1}


def table(first: dict[str, Any], second: dict[str, Any], epsilon: float | None = 1.0) -> dict[str, Any]:
    """A federation of two phases of 40 queries, as a file has it."""
    query_budget = {"queries": 40, "answers": 40}
    return {
        "name": "small",
        "minimum_parties": 2,
        "collection": "plaintext",
        "privacy": {"unit": "party", "delta": 1e-5, "epsilon": epsilon},
        "query_budget": query_budget,
        "mechanism": first,
        "schedule": [{"mechanism": second, "query_budget": query_budget}],
    }


def alone(federation: Federation) -> list[float]:
    """What each phase costs by itself."""
    return [worst_case([event], federation.privacy.delta).epsilon for event in federation.promised_events()]


class TestEqualSpend:
    def test_open_noise_costs_the_same_in_every_phase_and_what_is_stated_stays(self) -> None:
        phases = table({"name": "lnmax"}, {"name": "lnmax"})
        phases["schedule"][0]["query_budget"] = {"queries": 10, "answers": 10}
        phases["schedule"].append(
            {"mechanism": {"name": "lnmax", "gamma": 0.02}, "query_budget": {"queries": 5, "answers": 5}}
        )
        made = Federation.model_validate(phases)
        first, second, third = alone(made)
        assert first == pytest.approx(second, rel=0.01)
        assert third < first
        assert made.schedule[1].mechanism == LNMax(gamma=0.02)
        assert 0.99 <= worst_case(made.promised_events(), 1e-5).epsilon <= 1.0
        assert Federation.model_validate_json(made.model_dump_json()) == made

    @pytest.mark.parametrize(
        ("first", "second", "epsilon", "says"),
        [
            ({"name": "gnmax", "sigma": 5.0}, {"name": "gnmax"}, 1.0, "state their noise cost epsilon"),
            ({"name": "gnmax", "sigma": 5.0}, {"name": "gnmax", "sigma": 5.0}, 1.0, "promise"),
            ({"name": "gnmax", "sigma": 5.0}, {"name": "gnmax"}, None, "schedule.0.mechanism.gnmax.sigma"),
            ({"name": "gnmax", "sigma": 5.0}, {"name": "auto"}, 1.0, "schedule.0.mechanism"),
            ({"name": "gnmax", "sigma": 5.0}, {}, 1.0, "schedule.0.mechanism"),
            ({"name": "gnmax"}, {"name": "confident"}, 1.0, "schedule.0.mechanism.confident.threshold"),
            ({"name": "gnmax"}, {"name": "gnmax", "sigma": -1.0}, 1.0, "schedule.0.mechanism.gnmax.sigma"),
            ({"name": "gnmax", "sigma": "x"}, {"name": "gnmax"}, 1.0, "mechanism.gnmax.sigma"),
        ],
    )
    def test_what_cannot_be(self, first, second, epsilon, says) -> None:
        with pytest.raises(ValidationError) as caught:
            Federation.model_validate(table(first, second, epsilon))
        told = str(caught.value).replace("\n", " ")
        assert says in told

    def test_caps_that_are_not_those_of_the_mechanism(self) -> None:
        phases = table({"name": "gnmax", "sigma": 80.0}, {"name": "gnmax"})
        phases["schedule"][0]["query_budget"] = {"queries": 40, "answers": 30}
        with pytest.raises(ValidationError, match="gnmax answers every query"):
            Federation.model_validate(phases)

    @pytest.mark.parametrize("schedule", ["x", [1], [{}], [{"query_budget": {}}], {"mechanism": {}}, [[]]])
    def test_what_is_no_schedule(self, schedule) -> None:
        with pytest.raises(ValidationError, match="schedule"):
            Federation.model_validate({**table({"name": "gnmax", "sigma": 50.0}, {}), "schedule": schedule})


CAPS = QueryBudget(queries=5, answers=5)
BY_PARTIES = Distributed(threshold=3, sigma=4.0, noise_shares=3)
TWO_BY_PARTIES = Phase(
    mechanism=DistributedTwoPhase(threshold=2, sigma1=9.0, sigma2=9.0, noise_shares=3),
    query_budget=QueryBudget(queries=9, answers=5),
)


class TestWhereItRuns:
    @pytest.mark.parametrize(
        "changes",
        [
            {"simulation": False, "noise_seed": None},
            {"collection": "secure", "roster": "a" * 64},
            {"collection": "secure", "roster": "a" * 64, "simulation": False, "noise_seed": None},
            {
                "collection": "distributed",
                "roster": "a" * 64,
                "mechanism": BY_PARTIES,
                "query_budget": CAPS,
                "schedule": (TWO_BY_PARTIES,),
            },
        ],
        ids=["deployed", "secure", "deployed, secure", "distributed"],
    )
    def test_terms_carry_all_phases(self, changes: dict[str, Any]) -> None:
        config = scheduled(**changes)
        terms = config.terms()
        promise = parse_promise(terms.promise, terms.collection, terms.teachers, terms.simulation)
        assert list(promise.events) == config.promised_events()
        assert len(promise.by_release) == 2

    def test_kits(self) -> None:
        plan = {
            "federation": scheduled().model_dump(mode="json", include=set(Federation.model_fields)),
            "rows": {"features": ["a"], "classes": ["x", "y"], "center": [0.0], "scale": [1.0]},
            "coordinator": {"hosts": ["localhost"]},
            "party": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "student": [{"name": "s"}],
        }
        assert Plan.model_validate(plan).federation.schedule == (SECOND,)


class TestRefused:
    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"collection": "distributed", "roster": "a" * 64}, "noise_shares is left out"),
            (
                {"collection": "distributed", "roster": "a" * 64, "mechanism": BY_PARTIES, "query_budget": CAPS},
                "in one schedule",
            ),
            ({"schedule": (Phase(mechanism=BY_PARTIES, query_budget=CAPS),)}, "stage 2: distributed and confident"),
            (
                {
                    "mechanism": BY_PARTIES,
                    "query_budget": CAPS,
                    "schedule": (Phase(mechanism=BY_PARTIES, query_budget=CAPS),),
                    "simulation": False,
                    "noise_seed": None,
                },
                "needs noise that is in the sums already",
            ),
            (
                {"mechanism": BY_PARTIES, "query_budget": CAPS, "schedule": (TWO_BY_PARTIES,)},
                "stage 2: .* charges for all",
            ),
            (
                {"schedule": (Phase(mechanism=NoisyHistogram(sigma=9.0), query_budget=CAPS),)},
                "stage 2: histogram cannot be",
            ),
            ({"mechanism": NoisyHistogram(sigma=9.0), "query_budget": CAPS}, "stage 1: histogram cannot be"),
            (
                {
                    "schedule": (
                        Phase(mechanism=Immutable(gamma=1, constant=2, unsafe_not_private=True), query_budget=CAPS),
                    )
                },
                "stage 2: immutable cannot be",
            ),
            ({"schedule": (SECOND,) * MOST_RELEASES}, "at most 7 items"),
            (
                {"privacy": Privacy(unit="record", delta=1e-5, sanitised=Sanitised(order=2.5, beta=0.05, sigma_ss=6))},
                "privacy.sanitised is planned for one mechanism",
            ),
            ({"privacy": Privacy(unit="party", delta=1e-5, epsilon=1.0)}, "leave the noise out"),
        ],
    )
    def test_by_the_model(self, changes: dict[str, Any], says: str) -> None:
        with pytest.raises(ValidationError, match=says):
            scheduled(**changes)

    def test_a_threshold_of_any_phase_above_all_votes(self) -> None:
        high = Phase(mechanism=Confident(threshold=9, sigma1=2.0, sigma2=1.0), query_budget=CAPS)
        check_threshold(scheduled(schedule=(SECOND, high)), 9)
        with pytest.raises(ConfigError, match=r"federation.schedule\[1\].mechanism.threshold 9"):
            check_threshold(scheduled(schedule=(SECOND, high)), 8)


class TestStudents:
    def test_the_last_has_the_declared_shares(self) -> None:
        spec = StudentSpec(prevalence=(0.5, 0.5), later=(StudentSpec(rounds=2),))
        assert [each.prevalence for each in spec.phases] == [(), (0.5, 0.5)]
        assert spec.last.rounds == 2
        assert StudentSpec(rounds=3).last == StudentSpec(rounds=3)

    @pytest.mark.parametrize(
        "later", [StudentSpec(prevalence=(0.5, 0.5)), StudentSpec(later=(StudentSpec(),))], ids=["shares", "later"]
    )
    def test_a_later_one_has_neither_shares_nor_others_after_it(self, later: StudentSpec) -> None:
        with pytest.raises(ValidationError, match="a later student"):
            StudentSpec(later=(later,))
