"""Configuration: what may not be said is refused in a line; its digest; noise that is calibrated to an
epsilon. A seed decides nothing outside a simulation: neither noise nor teachers, whoever sets it."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import consilium.coordinator.label_service
import consilium.party.node
from consilium.accounting.mechanisms import Difference, GNMax, Histogram
from consilium.accounting.target import worst_case
from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.federation import FederationRun, normal_for
from consilium.coordinator.label_service import noise_for
from consilium.coordinator.mechanisms import MECHANISMS
from consilium.coordinator.parts import Privacy, QueryBudget, SanitisedKeys
from consilium.coordinator.privacy import promised, promised_in_other_units
from consilium.protocol.config_files import read_table
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import LabelSource
from consilium.protocol.noise import SeededNoise, SystemNoise
from consilium.protocol.queries import reference_text
from consilium.protocol.voting_rule import RelativeRule, TopRule, VotingRule
from tests.federation import (
    CLASSES,
    FEATURES,
    FakeTransport,
    make_config,
    make_homes,
    make_relative,
    make_rows,
    make_secure,
)
from tests.federation import HomeFile as PartyFile


def test_the_ballot_and_its_reference_rows_are_pinned() -> None:
    base, relative = make_config(), make_relative()
    assert base.federation_digest() != relative.federation_digest()  # the rule
    assert relative.terms().federation == relative.digest()
    rows = relative.reference_rows()
    assert (rows.shape, base.reference_rows().shape) == ((40, len(FEATURES)), (0, len(FEATURES)))
    other = FederationConfig(**{**dict(relative), "reference": reference_text(rows[:-1])})
    assert other.federation_digest() == relative.federation_digest()
    assert len({config.terms().request for config in (base, relative, other)}) == 3
    assert len({config.digest() for config in (base, relative, other)}) == 3
    assert FederationConfig.model_validate_json(relative.model_dump_json()).digest() == relative.digest()


PLAN = SanitisedKeys(order=8.0, beta=0.03, sigma_ss=5.5)
SANITISED = {"privacy": Privacy(unit=Unit.PARTY, delta=1e-5, sanitised=PLAN), "mechanism": GNMax(sigma=40.0)}
HIDDEN = {"query_budget": QueryBudget(queries=10, answers=10), "roster": "0" * 64, **SANITISED}
MAY_NOT_BE: list[tuple[dict, str]] = [
    ({"simulation": False}, "need simulation = true"),
    ({"simulation": False, "seed": -1, "noise_seed": None, "record_votes": True}, "need simulation = true"),
    ({"simulation": False, "seed": 0, "noise_seed": None}, "seed 0 needs simulation = true"),
    ({"minimum_parties": 1}, "minimum_parties"),
    ({"teachers_per_party": 0}, "teachers_per_party"),
    ({"unknown": 1}, "unknown"),
    ({"privacy": {"delta": 1e-5}}, "unit"),
    ({"mechanism": GNMax(sigma=2.0), "query_budget": QueryBudget(queries=10, answers=5)}, "gnmax answers every query"),
    (
        {
            "mechanism": Difference(sigma=40.0),
            "query_budget": QueryBudget(queries=9, answers=9),
            "rows": make_config().rows.model_copy(update={"classes": ("a", "b", "c")}),
        },
        "difference is of 2 classes, and there are 3: choose gnmax",
    ),
    # behind masks one false vote makes a histogram that no votes give, and the release is computed from it
    ({"collection": "secure", **HIDDEN}, "sanitised needs plaintext votes"),
    ({"collection": "verified", **HIDDEN}, "sanitised needs plaintext votes"),
]


@pytest.mark.parametrize(("change", "said"), MAY_NOT_BE)
def test_federations_that_may_not_be(change: dict, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        make_config(**change)


ROWS = make_relative().reference_rows()


@pytest.mark.parametrize(
    ("voting_rule", "reference", "told"),
    [
        (RelativeRule(), "", "reference rows of shape"),
        (TopRule(), reference_text(ROWS), "a voting rule that takes none"),
        (RelativeRule(reference=39), reference_text(ROWS), "there must be 2 to 39 of 3 features"),
        (RelativeRule(), reference_text(ROWS)[:-8], "no whole number of rows"),
        (RelativeRule(), "no base64!", "no base64"),
        (RelativeRule(), reference_text(ROWS.repeat(2, axis=0)), "stands there twice"),
        (RelativeRule(shares=(0.5, 0.25, 0.25)), reference_text(ROWS), f"3 numbers for {len(CLASSES)} classes"),
    ],
)
def test_a_ballot_and_reference_rows_that_do_not_go_together(
    voting_rule: VotingRule, reference: str, told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        make_config(voting_rule=voting_rule, reference=reference)


def test_noise_too_fine_for_its_shares_is_said_as_a_fault_of_the_file() -> None:
    plain = make_config(mechanism=GNMax(sigma=2.0))
    federation = Federation(
        **{name: getattr(plain, name) for name in Federation.model_fields} | {"collection": "secure"}
    )
    added = {"rows": plain.rows, "roster": "0" * 64, "simulation": True}
    with pytest.raises(ConfigError, match=r"^federation: noise of sigma 2 in 3 shares .* raise sigma to 3"):
        FederationConfig.of(federation, noise_shares=3, **added)
    tables = table({"name": "gnmax"}, 300, 300, privacy={"epsilon": 4.0}, collection="secure")
    with pytest.raises(ConfigError, match=r"promise 4\.3.*: its shares are so fine .* collect votes as verified"):
        FederationConfig.of(Federation.model_validate(tables), noise_shares=146, **added)


PARTLY: dict[str, dict[str, Any]] = {
    "gnmax": {},
    "difference": {},
    "histogram": {},
    "lnmax": {},
    "confident": {"threshold": 150},
    "interactive": {"threshold": 150, "confidence": 0.9},
}
PLANNED = {"order": 2.5, "beta": 0.1, "sigma_ss": 6.0}
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
        with_it = Federation.model_validate(table({"name": "gnmax"}, privacy={"epsilon": 8.0, "sanitised": PLANNED}))
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
            ({"name": "difference"}, {"sanitised": PLANNED}, "a difference release has no data-dependent bound"),
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

    def test_it_covers_all_but_time_limits(self) -> None:
        def digest(**change: Any) -> str:
            return Federation.model_validate({**self.BASE, **change}).federation_digest()

        assert digest(timeouts={"enrol": 1}) == digest()
        different: list[dict[str, Any]] = [
            {"name": "other", "minimum_parties": 3, "collection": "secure", "colluders": 1, "least_survivors": 3},
            {"public_least_distance": 0.1, "teachers_per_party": 2, "teacher": {"model": "ridge"}},
            {"mechanism": {"name": "confident", "threshold": 5, "sigma1": 91.0, "sigma2": 60.0}},
            {"privacy": {"unit": "party", "delta": 1e-6}, "query_budget": {"queries": 51, "answers": 20}},
        ]
        assert digest() not in [digest(**{key: value}) for keys in different for key, value in keys.items()]

    def test_what_is_added_to_run_it_leaves_it_alone(self) -> None:
        config, other = make_config(), make_config(seed=8, record_votes=True)
        assert config.federation_digest() == other.federation_digest()
        assert config.digest() != other.digest()
        assert {make_config(noise_seed=seed).digest() for seed in (7, 8, None)} == {config.digest()}
        names = Federation.model_fields.keys()
        plain = Federation(**{name: getattr(config, name) for name in names})
        assert plain.federation_digest() == config.federation_digest()
        added = {name: getattr(config, name) for name in FederationConfig.model_fields.keys() - names}
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


ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = {"simulation": False, "seed": -1, "noise_seed": None}
MAY_SEED = {
    "aggregator/node.py",  # only in a federation whose terms say that it is a simulation, at a home that allows one
    "coordinator/collection/verified.py",  # as noise_for
    "coordinator/label_service.py",  # noise_for: None in a configuration outside simulations
    "coordinator/cli.py",  # `consilium audit mechanism` draws on made-up votes
    "party/node.py",  # only in a federation whose terms say that it is a simulation
    "simulations/papers/measure.py",  # the papers' rows on their public votes, as often as there are seeds
    "simulations/attack/attacks.py",  # games on a simulated case, whose answers nobody gets
}


def test_nobody_else_can_make_seeded_noise() -> None:
    makers = set()
    for path in ROOT.glob("*/**/*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith((".", "tests/", "benchmarks/", "build/")):
            continue
        text = path.read_text(encoding="utf-8")
        for part in ast.walk(ast.parse(text)) if "SeededNoise" in text else ():
            called = part.func if isinstance(part, ast.Call) else None
            if getattr(called, "id", getattr(called, "attr", "")) == "SeededNoise":
                makers.add(name)
    assert makers == MAY_SEED


def test_the_coordinator_draws_from_the_system() -> None:
    deployed = make_config(**DEPLOYED)
    assert [type(noise_for(deployed)(batch)) for batch in range(3)] == [SystemNoise] * 3
    assert normal_for(deployed) is None
    assert isinstance(noise_for(make_config())(0), SeededNoise)  # the control: a simulation with a seed
    for seeded in ({"noise_seed": 1}, {"seed": 1}):
        with pytest.raises(ValueError, match=r"simulation = true"):
            make_config(**(DEPLOYED | seeded))


def with_seed(homes: list[Path]) -> list[Path]:
    """Every party's file names a seed for its noise, and allows simulations."""
    for home in homes:
        settings = read_table(home / "party.toml") | {"simulated_noise_seed": 5}
        (home / "party.toml").write_text(tomli_w.dumps(settings))
        assert PartyFile.model_validate(settings).policy.allow_simulation
    return homes


@pytest.mark.parametrize("simulation", [False, True])
def test_a_whole_federation_makes_no_seeded_noise(
    tmp_path: Path, log, monkeypatch: pytest.MonkeyPatch, simulation: bool
) -> None:
    """Seeds stand in every party's file; they count in a simulation only."""
    made = set[str]()

    def watched(module: str, seed: int) -> SeededNoise:
        made.add(module)
        return SeededNoise(seed)

    for module in (consilium.coordinator.label_service, consilium.party.node):
        monkeypatch.setattr(module, "SeededNoise", partial(watched, module.__name__.rpartition(".")[2]))
    homes = with_seed(make_homes(tmp_path / "homes", 5))
    keys = make_secure(homes, tmp_path)
    config = make_config(
        mechanism=GNMax(sigma=4.0),
        collection="secure",
        roster=keys.roster.digest,
        query_budget=QueryBudget(queries=10, answers=10),
        **({} if simulation else DEPLOYED),
    )
    FederationRun(FakeTransport(homes), config, tmp_path, log, ask, keys).run()
    assert made == ({"label_service", "node"} if simulation else set())


def ask(source: LabelSource) -> None:
    source.ask(make_rows(10, 3)[0])
