"""What no mechanism may be built with."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from consilium.accounting.mechanisms import Immutable
from consilium.coordinator.mechanisms import MECHANISMS as ALL_MECHANISMS
from consilium.coordinator.mechanisms import AnyMechanism

GOOD: dict[str, dict[str, Any]] = {
    "lnmax": {"gamma": 0.05},
    "gnmax": {"sigma": 40.0},
    "histogram": {"sigma": 40.0},
    "confident": {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0},
    "interactive": {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0, "confidence": 0.9},
    "immutable": {"gamma": 0.05, "constant": 2000, "unsafe_not_private": True},
    "immutable_gaussian": {"sigma": 40.0, "constant": 2000, "unsafe_not_private": True},
    "distributed": {"threshold": 200, "sigma": 40.0, "noise_shares": 100},
    "distributed_two_phase": {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0, "noise_shares": 100},
}
SCALE: list[Any] = [0, -1, math.nan, math.inf, -math.inf, None, "much", [40.0]]
COUNT: list[Any] = [-1, 1.5, math.nan, math.inf, None, "many", 2**63]
BAD: dict[str, list[Any]] = {
    "gamma": [*SCALE, 1e-13, 1e4],
    "sigma": [*SCALE, 1e6],
    "sigma1": [*SCALE, 1e6],
    "sigma2": [*SCALE, 1e6],
    "threshold": COUNT,
    "constant": COUNT,
    "noise_shares": [*COUNT, 0, 10**6],
    "confidence": [-0.1, 1.1, math.nan, math.inf, None, "sure"],
    "unsafe_not_private": [False, None, "true", "yes", 0],
}
CASES = [
    pytest.param(name, key, value, id=f"{name}-{key}-{value}")
    for name, table in GOOD.items()
    for key in table
    for value in BAD[key]
]
ADAPTER = TypeAdapter(AnyMechanism)


def test_the_union_is_all_mechanisms_and_all_can_be_built() -> None:
    assert get_args(get_args(AnyMechanism)[0]) == ALL_MECHANISMS
    assert tuple(type(ADAPTER.validate_python({"name": name, **table})) for name, table in GOOD.items()) == (
        ALL_MECHANISMS
    )


@pytest.mark.parametrize(("name", "key", "value"), CASES)
def test_bad_values_are_refused(name: str, key: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=key):
        ADAPTER.validate_python({"name": name, **GOOD[name], key: value})


@pytest.mark.parametrize("name", GOOD)
def test_unknown_and_missing_keys_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="extra"):
        ADAPTER.validate_python({"name": name, **GOOD[name], "epsilon": 1.0})
    for key in GOOD[name].keys() - {"confidence"}:  # left out, nothing is confirmed
        table = {other: value for other, value in GOOD[name].items() if other != key}
        with pytest.raises(ValidationError, match=key):
            ADAPTER.validate_python({"name": name, **table})


def test_unknown_mechanisms_are_refused() -> None:
    with pytest.raises(ValidationError, match="noiseless"):
        ADAPTER.validate_python({"name": "noiseless"})


def test_immutable_cannot_be_built_without_the_word() -> None:
    with pytest.raises(ValidationError, match="unsafe_not_private"):
        Immutable(gamma=0.05, constant=2000)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("distributed", {"sigma": 9.9}),
        ("distributed", {"noise_shares": 1601}),
        ("distributed_two_phase", {"sigma1": 9.9}),
        ("distributed_two_phase", {"sigma2": 9.9}),
    ],
)
def test_shares_with_a_variance_below_one_are_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="a share of the noise has variance"):
        ADAPTER.validate_python({"name": name, **GOOD[name], **change})


def test_shares_with_a_variance_of_one_are_not() -> None:
    ADAPTER.validate_python({"name": "distributed", **GOOD["distributed"], "sigma": 10.0})


NOISE: dict[str, float | None] = {
    "lnmax": 20 * math.sqrt(2),
    "gnmax": 40.0,
    "histogram": 40.0,
    "confident": 40.0,
    "interactive": 40.0,
    "immutable": None,
    "immutable_gaussian": None,
    "distributed": 80.0,
    "distributed_two_phase": 80.0,
}
"""Standard deviation on the counts behind a label with 400 parties, of which 100 make up the noise that is charged."""


@pytest.mark.parametrize("name", GOOD)
def test_the_noise_behind_a_label(name: str) -> None:
    mechanism = ADAPTER.validate_python({"name": name, **GOOD[name]})
    assert mechanism.label_noise(400) == pytest.approx(NOISE[name])
    if mechanism.noise_by_parties:
        assert mechanism.label_noise(50) == 40.0  # never below what is charged
