"""Configuration: what may not be said is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from consilium.accounting.mechanisms import GNMax
from consilium.accounting.units import Unit
from consilium.coordinator.config import Federation, FederationConfig, QueryBudget
from consilium.coordinator.parts import Privacy, SanitisedKeys
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.queries import reference_text
from consilium.protocol.voting_rule import RelativeRule, TopRule, VotingRule
from tests.federation import CLASSES, FEATURES, make_config, make_relative


def test_digest_ignores_the_noise_seed_only() -> None:
    base = make_config()
    assert make_config(noise_seed=8).digest() == base.digest()
    for change in (
        {"seed": 8},
        {"query_budget": QueryBudget(queries=9, answers=9)},
        {"minimum_parties": 4},
        {"noise_seed": None},
    ):
        changed = make_config(**change).digest() != base.digest()
        assert changed == (change != {"noise_seed": None})


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = [", "not valid TOML"),
        ("nam = 1", "name: is required(\n.*)*nam: unknown key; did you mean name"),
        ("", "6 faults\n  name: is required\n  minimum_parties: is required\n"),
    ],
)
def test_files_are_explained_in_a_line_for_each_fault(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        load(path, FederationConfig)
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "absent.toml", FederationConfig)


def test_noise_too_fine_for_its_shares_is_said_as_a_fault_of_the_file() -> None:
    plain = make_config(mechanism=GNMax(sigma=2.0))
    federation = Federation(
        **{name: getattr(plain, name) for name in Federation.model_fields} | {"collection": "secure"}
    )
    with pytest.raises(ConfigError, match=r"^federation: noise of sigma 2 in 3 shares .* raise sigma to 3"):
        FederationConfig.of(federation, rows=plain.rows, roster="0" * 64, noise_shares=3, simulation=True)
