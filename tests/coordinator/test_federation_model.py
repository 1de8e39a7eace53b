"""The one model of a federation: its digest, its defaults, and noise that is calibrated to an epsilon."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from consilium.accounting.mechanisms import Difference, Histogram
from consilium.accounting.target import worst_case
from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.mechanisms import MECHANISMS
from consilium.coordinator.parts import QueryBudget
from consilium.coordinator.privacy import promised, promised_in_other_units
from tests.federation import make_config

PARTLY: dict[str, dict[str, Any]] = {
    "gnmax": {},
    "difference": {},
    "histogram": {},
    "lnmax": {},
    "confident": {"threshold": 150},
    "interactive": {"threshold": 150, "confidence": 0.9},
}
SANITISED = {"order": 2.5, "beta": 0.1, "sigma_ss": 6.0}
ALL_ANSWERED = {"gnmax", "difference", "histogram", "lnmax"}


def table(mechanism: dict[str, Any], queries: int = 100, answers: int = 100, **changes: Any) -> dict[str, Any]:
    privacy = {"unit": "party", "delta": 1e-5, "epsilon": 1.0, **changes.pop("privacy", {})}
    return {
        "name": "small",
        "minimum_parties": 2,
        "collection": "plaintext",
        "mechanism": mechanism,
        "privacy": privacy,
        "query_budget": {"queries": queries, "answers": answers},
        **changes,
    }


def promise(federation: Federation) -> float:
    return worst_case(federation.promised_events(), federation.privacy.delta).epsilon


class TestCalibration:
    def test_every_private_mechanism_is_among_the_cases(self) -> None:
        assert set(PARTLY) == set(MECHANISMS) - {"immutable", "immutable_gaussian"}

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.nightly if name == "gnmax" or "threshold" in PARTLY[name] else [])
            for name in PARTLY
        ],
    )
    @given(data=st.data())
    @settings(max_examples=1, deadline=None)
    def test_the_promise_is_just_below_the_target(self, name: str, data: st.DataObject) -> None:
        queries = data.draw(st.integers(20, 800), "queries")
        answers = queries if name in ALL_ANSWERED else data.draw(st.integers(10, queries), "answers")
        epsilon = data.draw(st.floats(0.2, 8), "epsilon")
        privacy = {
            "epsilon": epsilon,
            "unit": data.draw(st.sampled_from(["record", "patient", "party"]), "unit"),
            "neighbouring": data.draw(st.sampled_from(["replace", "add_or_remove"]), "relation"),
            "delta": data.draw(st.sampled_from([1e-6, 1e-5, 1e-3]), "delta"),
        }
        teachers = data.draw(st.integers(1, 4), "teachers")
        resolved = Federation.model_validate(
            table({"name": name, **PARTLY[name]}, queries, answers, privacy=privacy, teachers_per_party=teachers)
        )
        assert 0.995 * epsilon <= promise(resolved) <= epsilon
        assert Federation.model_validate_json(resolved.model_dump_json()) == resolved

    @pytest.mark.nightly
    def test_the_ratio_of_two_scales_and_a_scale_that_is_given(self) -> None:
        two = {"name": "confident", "threshold": 150}
        both = Federation.model_validate(table(two, 80, 30)).mechanism
        assert both.sigma1 / both.sigma2 == pytest.approx((3 * 80 / 30) ** 0.5, rel=2e-3)  # pyright: ignore
        one = Federation.model_validate(table({**two, "sigma1": 90.0}, 80, 30))
        assert one.mechanism.sigma1 == 90.0  # pyright: ignore
        assert 0.995 <= promise(one) <= 1.0

    def test_the_cost_of_a_sanitised_epsilon_is_part_of_the_target(self) -> None:
        without = Federation.model_validate(table({"name": "gnmax"}, privacy={"epsilon": 8.0}))
        with_it = Federation.model_validate(table({"name": "gnmax"}, privacy={"epsilon": 8.0, "sanitised": SANITISED}))
        assert with_it.mechanism.sigma > without.mechanism.sigma  # pyright: ignore
        assert 0.995 * 8 <= promise(with_it) <= 8.0

    @pytest.mark.parametrize(
        ("mechanism", "privacy", "said"),
        [
            (
                {"name": "gnmax", "sigma": 10.0},
                {},
                "privacy.epsilon is 1, but this noise and this query budget promise 5",
            ),
            ({"name": "gnmax"}, {"epsilon": 0}, "greater than 0"),
            ({"name": "gnmax"}, {"epsilon": float("inf")}, "finite"),
            ({"name": "gnmax"}, {"epsilon": None}, "sigma"),
            ({"name": "confident"}, {}, "threshold"),
            ({"name": "gnmix"}, {}, "gnmix"),
            ({"name": "immutable", "constant": 9, "unsafe_not_private": True}, {}, "no amount of noise"),
            ({"name": "immutable_gaussian", "constant": 9, "unsafe_not_private": True}, {}, "no amount of noise"),
            ({"name": "gnmax", "sigma1": 3.0}, {}, "sigma1"),
            ({"name": "difference", "sigma": 3.0}, {"collection": "secure"}, "drawn on exact counts"),
            ({"name": "difference", "sigma": 3.0}, {"collection": "verified"}, "drawn on exact counts"),
            ({"name": "difference"}, {"sanitised": SANITISED}, "a difference release has no data-dependent bound"),
            ({"name": "distributed", "noise_shares": 3}, {}, "distributed"),
        ],
    )
    def test_what_is_refused(self, mechanism: dict, privacy: dict, said: str) -> None:
        changes = {"privacy": privacy} if "collection" not in privacy else {"privacy": {"epsilon": None}, **privacy}
        with pytest.raises(ValidationError, match=said):
            Federation.model_validate(table(mechanism, **changes))


class TestDigest:
    BASE = table(
        {"name": "confident", "threshold": 5, "sigma1": 90.0, "sigma2": 60.0}, 50, 20, privacy={"epsilon": None}
    )

    @pytest.mark.parametrize(
        ("change", "same"),
        [
            ({}, True),
            ({"timeouts": {"enrol": 1}}, True),
            ({"name": "other"}, False),
            ({"minimum_parties": 3}, False),
            ({"collection": "secure"}, False),
            ({"colluders": 1}, False),
            ({"least_survivors": 3}, False),
            ({"public_least_distance": 0.1}, False),
            ({"teachers_per_party": 2}, False),
            ({"teacher": {"model": "ridge"}}, False),
            ({"mechanism": {"name": "confident", "threshold": 5, "sigma1": 91.0, "sigma2": 60.0}}, False),
            ({"privacy": {"unit": "party", "delta": 1e-6}}, False),
            ({"query_budget": {"queries": 51, "answers": 20}}, False),
        ],
    )
    def test_what_it_covers(self, change: dict, same: bool) -> None:
        base = Federation.model_validate(self.BASE).federation_digest()
        assert (Federation.model_validate({**self.BASE, **change}).federation_digest() == base) == same

    def test_what_is_added_to_run_it_leaves_it_alone(self) -> None:
        config, other = make_config(), make_config(seed=8, record_votes=True)
        assert config.federation_digest() == other.federation_digest()
        assert config.digest() != other.digest()
        plain = Federation(**{name: getattr(config, name) for name in Federation.model_fields})
        assert plain.federation_digest() == config.federation_digest()
        added = {
            name: getattr(config, name) for name in set(FederationConfig.model_fields) - set(Federation.model_fields)
        }
        assert FederationConfig.of(plain, **added) == config


def test_votes_are_secret_unless_they_are_said_not_to_be() -> None:
    said = TestDigest.BASE
    left_out = {key: value for key, value in said.items() if key != "collection"}
    assert Federation.model_validate(left_out).collection == "secure"


def test_a_promise_is_stated_for_other_units_where_they_differ() -> None:
    one, several = (make_config(teachers_per_party=count, mechanism=Histogram(sigma=40.0)) for count in (1, 4))
    assert promised_in_other_units(one) == {}
    found = promised_in_other_units(several)
    assert promised(several).unit is Unit.PARTY
    assert set(found) == {"guarantee_record"}  # rows of one patient, whom nobody named, may be in all shards
    assert found["guarantee_record"].epsilon < promised(several).epsilon
    assert found["guarantee_record"].publishable


def test_a_difference_of_three_classes_is_refused() -> None:
    with pytest.raises(ValidationError, match="difference is of 2 classes, and there are 3: choose gnmax"):
        make_config(
            mechanism=Difference(sigma=40.0),
            query_budget=QueryBudget(queries=9, answers=9),
            rows=make_config().rows.model_copy(update={"classes": ("a", "b", "c")}),
        )
