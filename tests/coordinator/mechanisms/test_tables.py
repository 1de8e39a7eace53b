"""What the table of a mechanism may say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from consilium.coordinator.mechanisms import MECHANISMS, AnyMechanism, table_of

GOOD: dict[str, dict[str, Any]] = {
    "lnmax": {"gamma": 0.05},
    "gnmax": {"sigma": 40.0},
    "difference": {"sigma": 40.0},
    "histogram": {"sigma": 40.0},
    "confident": {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0},
    "interactive": {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0, "confidence": 0.9},
    "immutable": {"gamma": 0.05, "constant": 2000, "unsafe_not_private": True},
    "immutable_gaussian": {"sigma": 40.0, "constant": 2000, "unsafe_not_private": True},
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


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_table_is_the_mechanism_and_is_written_as_it_was_read(name: str) -> None:
    mechanism = ADAPTER.validate_python({"name": name, **GOOD[name]})
    assert type(mechanism) is MECHANISMS[name]
    assert mechanism.parameters() == {key: value for key, value in GOOD[name].items() if key != "unsafe_not_private"}
    assert ADAPTER.dump_python(mechanism) == table_of(mechanism) == {"name": name, **GOOD[name]}
    assert ADAPTER.validate_json(ADAPTER.dump_json(mechanism)) == ADAPTER.validate_python(mechanism) == mechanism


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


@pytest.mark.parametrize("name", ["noiseless", "distributed", "sanitised"])
def test_mechanisms_that_cannot_be_chosen_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        ADAPTER.validate_python({"name": name, "sigma": 40.0})
