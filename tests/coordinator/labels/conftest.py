from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.supervisor import BackOff
from consilium.protocol.noise import SeededNoise
from tests.coordinator.labels.site import Site
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_config

CONFIG = make_config(query_budget=QueryBudget(queries=1000, answers=1000))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """With two students; nobody is revoked there."""
    return Site(tmp_path_factory.mktemp("site"), ("anna", "institute"))


@pytest.fixture
def service(tmp_path: Path, log) -> Iterator[LabelService]:
    """Its ledger and event log are in the test's own folder."""
    with closing(Ledger.of(tmp_path / "ledger.db", CONFIG)) as ledger:
        yield LabelService(CONFIG, ledger, Votes(), SeededNoise, T, log)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilium.student.deployed.AGAIN", BackOff(first=0.05, most=0.05))
