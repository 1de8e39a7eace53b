"""A student's folder: what a join says, what the doctor finds at both ends, and what is said of a clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.label_server import serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.served import ServedFederation
from consilium.node.checks import CheckResult, examine
from consilium.node.join import joined
from consilium.node.keys import OwnKeys
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.noise import SystemNoise
from consilium.student import deployed
from consilium.student.deployed import STUDENT, open_channel
from tests.command_line import consilium
from tests.coordinator.labels.site import Site
from tests.coordinator.labels.test_service import T, Votes
from tests.disks import locked


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site", port=True)


@pytest.fixture
def service(site: Site, tmp_path: Path) -> Iterator[LabelService]:
    config = joined(site.node("coordinator"), ServedFederation).config
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    yield LabelService(config, ledger, Votes(), lambda _: SystemNoise(), T)
    ledger.close()


def found(site: Site) -> dict[str, CheckResult]:
    return {result.name: result for result in examine(STUDENT.checks(site.node("anna"), running=False))}


def test_the_doctor_before_and_while_the_coordinator_serves(site: Site, service: LabelService) -> None:
    before = found(site)
    assert {result.level for result in before.values()} == {"ok", "advice"}
    assert "does not answer yet" in before["label service"].what
    door = replace(site.door, address=joined(site.node("anna")).coordinator.labels)
    with serving(service, door, 40):
        assert {name for name, result in found(site).items() if result.level == "wrong"} == set()
        assert "40 queries left" in found(site)["label service"].what


def test_the_doctor_of_one_that_was_revoked(site: Site, service: LabelService) -> None:
    door = replace(site.door, address=joined(site.node("anna")).coordinator.labels)
    site.revoke("anna")
    with serving(service, door, 40):
        terms = found(site)["label service"]
        assert terms.level == "wrong" and "does not accept this student's certificate" in terms.what
        assert "revoked" in terms.action


def test_the_doctor_while_the_coordinators_ledger_is_locked(
    site: Site, service: LabelService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says who knows more, whether the coordinator gives up before the doctor does or after."""
    door = replace(site.door, address=joined(site.node("anna")).coordinator.labels)
    with serving(service, door, 40), locked(tmp_path / "ledger.db"):
        service._ledger._file.execute("PRAGMA busy_timeout = 50")
        assert "sees why, and what to do, in `consilium status`" in found(site)["label service"].action
        service._ledger._file.execute("PRAGMA busy_timeout = 3000")
        monkeypatch.setattr(deployed, "SECONDS", 0.5)
        terms = found(site)["label service"]
        assert "is there, and did not answer within 0.5 s" in terms.what and "consilium status" in terms.action


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (datetime.now(UTC) + timedelta(hours=2), "not yet valid (set this machine's clock by NTP"),
        (datetime(2020, 1, 1, tzinfo=UTC), "expired (check this machine's clock"),
    ],
)
def test_a_wrong_clock_is_said_as_that(site: Site, service: LabelService, moment: datetime, told: str) -> None:
    """This machine's, by the coordinator's certificate."""
    coordinator = site.node("coordinator")
    key = OwnKeys.load(coordinator).public.key
    coordinator.tls.certificate.write_text(site.authority_at(moment).certify_server(key, ["127.0.0.1"]))
    door = replace(site.door, address=joined(site.node("anna")).coordinator.labels)
    with (
        serving(service, door, 40),
        open_channel(site.node("anna"), wait=2) as channel,
        pytest.raises(ServiceError) as caught,
    ):
        channel.describe()
    assert told in str(caught.value)


def test_a_student_serves_nobody_and_has_no_status(site: Site) -> None:
    folder = site.root / "anna"
    for command in (("node", "start", folder), ("status", folder)):
        done = consilium(*command)
        assert (done.exit_code, "student's folder" in done.stderr) == (ConfigError.exit_code, True), done.output
