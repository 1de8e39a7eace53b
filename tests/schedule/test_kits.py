"""Kits of a federation with a schedule: what parties pin and allow, and what status and doctor say of each phase."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from consilium.cli import app
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.runs import begin, configuration
from consilium.coordinator.deploy.status import status
from consilium.coordinator.events import event_of
from consilium.coordinator.kit_runs import PhaseUse, use_of_phases
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.privacy import promised
from consilium.node.kit import Kit, open_kit
from consilium.party.deployed import PARTY
from consilium.party.expectation import own_epsilon
from consilium.party.home import open_home
from consilium.party.promise import promise_of
from consilium.protocol.refusals import Refused, Rule
from tests.deploy.kits import edit, make_kits

SCHEDULE = [
    {
        "mechanism": {"name": "interactive", "threshold": 7, "sigma1": 3.0, "sigma2": 1.5, "confidence": 0.9},
        "query_budget": {"queries": 20, "answers": 10},
    }
]


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    """Confident on 40 queries, then Interactive on 20."""
    return make_kits(tmp_path, schedule=SCHEDULE)


@pytest.fixture
def coordinator(kits: Path) -> Kit:
    return open_kit(kits / "coordinator")


def charge(kit: Kit, phase: int, count: int) -> None:
    """One batch, all answered."""
    config = configuration(kit)
    ledger = Ledger(begin(kit) / "ledger.db", config.digest(), config.model_dump_json())
    ids = tuple(f"{phase:032x}{at:032x}" for at in range(count))
    labels = np.zeros(count, dtype=np.int64)
    query_budget = config.phase(phase).query_budget
    batch = Batch(config.event(count, count, phase).to_json(), 3, ids, labels, labels > 0, phase=phase)
    ledger.commit(batch, query_budget.queries, query_budget.answers)
    ledger.close()


class TestParties:
    def test_they_pin_and_allow_all_phases_together(self, kits: Path, coordinator: Kit) -> None:
        home = open_home(kits / "party-ward-a")
        pinned, whole = home.pinned_terms(), promised(configuration(coordinator)).epsilon
        assert pinned is not None
        assert pinned == configuration(coordinator).terms()
        assert len(promise_of(pinned).by_release) == 2
        assert own_epsilon(home, pinned) == pytest.approx(whole, rel=1e-3)
        assert home.policy.most_epsilon >= whole
        checks = dict(PARTY.checks(open_kit(kits / "party-ward-a"), False))
        assert "over its 2 stages at delta 1e-05" in checks["policy"]()

    def test_a_limit_that_only_the_first_phase_fits_is_told_beforehand(self, kits: Path, coordinator: Kit) -> None:
        config = configuration(coordinator)
        first = promised(config.model_copy(update={"schedule": ()})).epsilon
        home = open_home(kits / "party-ward-a")
        edit(home.folder / "policy.toml", f"most_epsilon = {home.policy.most_epsilon}", f"most_epsilon = {first + 0.1}")
        terms = home.pinned_terms()
        assert terms is not None
        with pytest.raises(Refused) as refused:
            own_epsilon(open_home(home.folder), terms)
        assert refused.value.refusal.rule is Rule.MOST_EPSILON


class TestStatus:
    def test_a_phase_that_is_over_has_nothing_left(self, coordinator: Kit) -> None:
        found = status(coordinator)
        assert (found.queries_left, found.answers_left) == (60, 40)
        assert [phase["queries_left"] for phase in found.stages] == [40, 20]
        charge(coordinator, 1, 12)
        assert status(coordinator).queries_left == 48
        charge(coordinator, 2, 5)
        found = status(coordinator)
        assert (found.queries_left, found.answers_left) == (15, 5)
        assert found.stages == [
            {"stage": 1, "asked": 12, "answered": 12, "queries_left": 0, "answers_left": 0, "over": True},
            {"stage": 2, "asked": 5, "answered": 5, "queries_left": 15, "answers_left": 5, "over": False},
        ]
        shown = CliRunner().invoke(app, ["status", str(coordinator.folder)]).output
        assert "over: 12 queries asked, 12 answered" in shown
        assert "15 queries, 5 answers left" in shown

    def test_doctor_tells_of_each_phase(self, coordinator: Kit) -> None:
        charge(coordinator, 1, 12)
        charge(coordinator, 2, 5)
        checks = dict(COORDINATOR.checks(coordinator, True))
        assert checks["ledger"]() == (
            "stage 1: 12 of 40 queries asked, 12 of 30 answers given, over;"
            " stage 2: 5 of 20 queries asked, 5 of 10 answers given"
        )
        assert "stage 2: Interactive GNMax" in checks["federation"]()

    def test_nothing_is_told_of_phases_without_a_schedule(self, tmp_path: Path) -> None:
        plain = open_kit(make_kits(tmp_path) / "coordinator")
        assert status(plain).stages == []
        (used,) = use_of_phases(configuration(plain), None)
        assert asdict(used) == asdict(PhaseUse(None, 0, 0, QueryBudget(queries=40, answers=30), over=False))
        assert used.describe() == "0 of 40 queries asked, 0 of 30 answers given"

    def test_a_line_of_the_log(self) -> None:
        event = {"event": "released", "asked": 5, "answered": 3, "parties": 4}
        assert event_of(event).words == "5 queries asked, 3 answered"
        assert event_of({**event, "phase": 2}).words == "5 queries asked, 3 answered in stage 2"
