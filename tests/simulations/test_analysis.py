"""Baselines of a run: what each is counted by, on parties that trained for themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.simulations.analysis import baselines
from consilium.simulations.divide import make_case
from tests.simulations.methods.cases import SEED, few, run_alone

pytestmark = pytest.mark.slow
MECHANISM = "federation.mechanism={name='gnmax', sigma=8.0}"
FEW_CASES = ("federation.query_budget={queries=5, answers=5}",)


def test_the_plurality_counts_each_party_by_its_weight(tmp_path: Path) -> None:
    case = make_case(few(MECHANISM, *FEW_CASES), SEED, 0.0)
    space = run_alone(case, tmp_path)
    alone = {}
    for party in case.parties[:2]:
        heavy = baselines(space, case, 1.0, {party: 1_000})  # more than all the others together
        one = next(quality for quality in heavy.quality if quality.party == party)
        assert heavy.baselines["plurality"]["accuracy"] == one.accuracy
        alone[party] = one.accuracy
    once = baselines(space, case, 1.0, {})
    assert once.baselines["plurality"]["accuracy"] not in alone.values()  # the control: nobody decides by itself
