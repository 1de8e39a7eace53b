"""A student's folder: what a join says, what the doctor finds at both ends, and what is said of a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.label_server import serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import CheckResult, examine
from consilium.node.keys import OwnKeys
from consilium.node.signed import joined
from consilium.protocol.errors import ServiceError
from consilium.protocol.noise import SystemNoise
from consilium.student import deployed
from consilium.student.deployed import STUDENT, open_channel
from tests.coordinator.labels.site import Site
from tests.coordinator.labels.test_service import T, Votes
from tests.disks import locked


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site", port=True)


@pytest.fixture
def serve(site: Site, tmp_path: Path) -> Iterator[Callable[[], AbstractContextManager[object]]]:
    """Serves at the address that the federation says; the ledger is ledger.db."""
    config = joined(site.node("coordinator"), ServedFederation).config
    door = replace(site.door, address=joined(site.node("anna")).coordinator.labels)
    with closing(Ledger.of(tmp_path / "ledger.db", config)) as ledger:
        ledger._file.execute("PRAGMA busy_timeout = 50")
        yield lambda: serving(LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T), door, 40)


def found(site: Site) -> dict[str, CheckResult]:
    return {result.name: result for result in examine(STUDENT.checks(site.node("anna"), running=False))}


def test_the_doctor_before_and_while_the_coordinator_serves_and_once_the_student_is_revoked(
    site: Site, serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found(site)
    assert {result.level for result in before.values()} == {"ok", "advice"}
    assert "does not answer yet" in before["label service"].what
    with serve():
        assert {name for name, result in found(site).items() if result.level == "wrong"} == set()
        said = found(site)["label service"]
        assert "40 queries left" in said.what and not said.what.endswith(".")  # advice comes behind it
        with locked(tmp_path / "ledger.db"):
            # it says who knows more, whether the coordinator gives up before the doctor does or after
            assert "sees why, and what to do, in `consilium status`" in found(site)["label service"].action
            monkeypatch.setattr(LabelService, "describe", lambda self: time.sleep(3))
            monkeypatch.setattr(deployed, "DOCTORS_SECONDS", 0.5)
            late = found(site)["label service"]
            assert "is there, and did not answer within 0.5 s" in late.what and "consilium status" in late.action
    monkeypatch.undo()
    site.revoke("anna")
    with serve():
        terms = found(site)["label service"]
        assert terms.level == "wrong" and "does not accept this student's certificate" in terms.what
        assert "revoked" in terms.action


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (datetime.now(UTC) + timedelta(hours=2), "not yet valid (set this machine's clock by NTP"),
        (datetime(2020, 1, 1, tzinfo=UTC), "expired (check this machine's clock"),
    ],
)
def test_a_wrong_clock_is_said_as_that(site: Site, serve, moment: datetime, told: str) -> None:
    """This machine's, by the coordinator's certificate."""
    coordinator = site.node("coordinator")
    key = OwnKeys.load(coordinator).public.key
    coordinator.tls.certificate.write_text(site.authority_at(moment).certify_server(key, ["127.0.0.1"]))
    with serve(), open_channel(site.node("anna"), wait=2) as channel, pytest.raises(ServiceError) as caught:
        channel.describe()
    assert told in str(caught.value)
