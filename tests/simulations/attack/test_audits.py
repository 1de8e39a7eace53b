"""Planted faults and the three audits: which audit speaks against which, and none against an honest federation."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from tests.simulations.attack.planted import (
    PLANTED,
    RELEASES,
    SHARED_ROWS,
    audit_of_mechanism,
    audit_of_run,
    audit_of_teachers,
)

pytestmark = pytest.mark.slow

BY_RUN = {
    "the ledger forgets what was asked": ["ledger.db: query budget never passed"],
    "epsilon of the votes at hand is printed": ["coordinator.json: epsilon"],
}
BY_MECHANISM = ("half the noise", "all queries of a batch have the same noise")


def planting(name: str) -> Any:
    return PLANTED[name][1] if name else nullcontext


@pytest.mark.parametrize("name", ["", *PLANTED])
def test_the_audit_of_a_run_names_what_ledger_and_summary_tell(name: str) -> None:
    mechanism = PLANTED[name][2][-1] if name else RELEASES[1]
    assert audit_of_run(4, mechanism, planting(name)) == BY_RUN.get(name, [])


@pytest.mark.parametrize("name", ["", "every batch has the same noise", *BY_MECHANISM])
def test_the_audit_of_a_mechanism_finds_its_noise(name: str) -> None:
    assert audit_of_mechanism(4, planting(name)) is (name in BY_MECHANISM)


@pytest.mark.parametrize("name", ["", SHARED_ROWS])
def test_the_audit_of_teachers_finds_a_record_in_several(name: str) -> None:
    assert audit_of_teachers(4, planting(name)) is bool(name)
