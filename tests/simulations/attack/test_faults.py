"""Known mistakes: each is planted, found, and named; the honest federation beside it makes none."""

from __future__ import annotations

from functools import cache

import pytest

from consilium.simulations.attack.faults import KNOWN, LESS, REUSED, look_for_faults
from consilium.simulations.attack.shadows import Shadows
from tests.simulations.attack.planted import PLANTED, RELEASES, votes_of

NAMED_TOO = {"all queries of a batch have the same noise": {LESS}}
"""One draw for all queries has the spread of one."""


@cache
def honest(mechanism: str) -> Shadows:
    return votes_of(3, mechanism)


@pytest.mark.parametrize("mechanism", RELEASES)
def test_an_honest_federation_makes_none(mechanism: str) -> None:
    findings = look_for_faults(honest(mechanism))
    assert [finding.fault for finding in findings] == list(KNOWN)
    assert {finding.state for finding in findings} == {"not found"}


@pytest.mark.parametrize("name", PLANTED)
def test_each_is_found_by_its_name(name: str) -> None:
    fault, plant, mechanisms = PLANTED[name]
    for mechanism in mechanisms:
        with plant():
            findings = look_for_faults(votes_of(3, mechanism))
        named = {finding.fault for finding in findings if finding.state == "found"}
        assert fault in named
        assert named <= {fault} | NAMED_TOO.get(name, set())


def test_what_cannot_be_looked_for_is_said() -> None:
    distributed = votes_of(3, "federation.collection=distributed")
    states = {finding.fault: finding.state for finding in look_for_faults(distributed)}
    assert states[REUSED] == states[LESS] == "not looked for"
    assert "found" not in states.values()


def test_values_are_plain() -> None:
    finding = look_for_faults(honest(RELEASES[0]))[0].to_json()
    assert finding.keys() == {"fault", "state", "evidence"}
