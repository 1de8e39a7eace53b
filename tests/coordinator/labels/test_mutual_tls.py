"""The label service with mutual TLS: who comes in, who does not, and that one student's end is not the service's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_server import Door, serving, wait_for_close
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision.authority import Authority, Issued
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.noise import SeededNoise
from consilium.protocol.tls import TlsFiles, fingerprint
from consilium.student.channel import LabelChannel
from tests.coordinator.labels.test_service import T, Votes
from tests.deploy.kits import server_of
from tests.federation import make_config, make_rows

WAIT = 250
REFUSED = "the server does not accept this node's certificate"


class Site:
    """An authority, a label service with its certificate, and the list of its students."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.create("here")
        self.authority.save(folder)
        self.server = self.files("server", server_of(self.authority, ["127.0.0.1"]))
        self.student = self.enrol("university")

    def files(self, stem: str, issued: Issued, authority: Path | None = None) -> TlsFiles:
        issued.save(self.folder, stem)
        return TlsFiles(self.folder / f"{stem}.crt", self.folder / f"{stem}.key", authority or self.folder / "ca.crt")

    def enrol(self, name: str) -> TlsFiles:
        issued = self.authority.client(name)
        listed = json.loads(self.allowed.read_text()) if self.allowed.exists() else {}
        self.allowed.write_text(json.dumps({**listed, name: [fingerprint(issued.certificate)]}))
        return self.files(f"student-{name}", issued)

    @property
    def allowed(self) -> Path:
        return self.folder / "students.json"

    def door(self) -> Door:
        return Door(self.server, self.allowed, self.folder / "close")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def service(tmp_path: Path, log) -> Iterator[LabelService]:
    config = make_config(query_budget=QueryBudget(queries=100, answers=100))
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    yield LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    ledger.close()


def test_a_student_with_its_certificate_is_answered(site: Site, service: LabelService) -> None:
    x, _ = make_rows(20, 3)
    with (
        serving(service, "127.0.0.1:0", 100, site.door()) as address,
        LabelChannel(address, WAIT, site.student) as channel,
    ):
        assert channel.describe().queries_left == 100
        assert len(channel.ask(x)) == 20
        channel.finish()
    assert not service.finished.is_set()  # another student may come


def refused(address: str, files: TlsFiles | None, said: str) -> str:
    """What is told at last. Whoever is refused waits for its whole time, so a busy machine is given more, not all."""
    for seconds in (1, 5, 20, 60):
        with LabelChannel(address, seconds, files) as channel, pytest.raises(ServiceError) as error:
            channel.describe()
        if said in str(error.value):
            break
    return str(error.value)


@pytest.mark.slow
def test_whoever_has_no_good_certificate_is_refused(site: Site, service: LabelService, tmp_path: Path) -> None:
    other = Authority.create("other")
    cases = {
        "of another authority": (site.files("foreign", other.client("university")), REFUSED),
        "not in the list": (
            site.files("unlisted", site.authority.client("university")),
            "does not accept this student's certificate",
        ),
        "a server's": (site.server, REFUSED),
        "expired": (
            site.files("old", site.authority.client("university", days=1, now=datetime.now(UTC) - timedelta(days=9))),
            REFUSED,
        ),
    }
    with serving(service, "127.0.0.1:0", 100, site.door()) as address:
        for case, (files, said) in cases.items():
            text = refused(address, files, said)
            assert said in text, case
        refused(address, None, "")  # no TLS at all
        with (
            grpc.secure_channel(address, grpc.ssl_channel_credentials((site.folder / "ca.crt").read_bytes())) as bare,
            pytest.raises(grpc.RpcError),
        ):
            rpc.LabelServiceStub(bare).Describe(pb.DescribeRequest(protocol_version=1), timeout=WAIT)
        with LabelChannel(address, WAIT, site.student) as channel:
            assert channel.describe().queries_left == 100  # nobody else was harmed


@pytest.mark.slow
def test_a_student_does_not_talk_to_another_server(site: Site, service: LabelService, tmp_path: Path) -> None:
    other = Authority.create("other")
    (tmp_path / "other").mkdir()
    other.save(tmp_path / "other")
    files = TlsFiles(site.student.certificate, site.student.key, tmp_path / "other" / "ca.crt")
    with serving(service, "127.0.0.1:0", 100, site.door()) as address:
        said = "the server's certificate is not accepted"
        assert said in refused(address, files, said)


def test_a_student_that_is_revoked_is_refused_at_once_and_at_every_call(site: Site, service: LabelService) -> None:
    x, _ = make_rows(5, 3)
    with (
        serving(service, "127.0.0.1:0", 100, site.door()) as address,
        LabelChannel(address, WAIT, site.student) as channel,
    ):
        channel.describe()
        for content in ("{}", "not json", "[]"):
            site.allowed.write_text(content)
            for call in (channel.describe, lambda: channel.ask(x), channel.finish):
                with pytest.raises(ServiceError, match="does not accept this student's certificate"):
                    call()
    assert service.describe().queries_left == 100


def test_students_come_one_after_another(site: Site, service: LabelService) -> None:
    x, _ = make_rows(20, 3)
    second = site.enrol("institute")
    with serving(service, "127.0.0.1:0", 100, site.door()) as address:
        for files, left in ((site.student, 80), (second, 80)):  # the second asks the same: it costs nothing
            with LabelChannel(address, WAIT, files) as channel:
                channel.ask(x)
                channel.finish()
            assert service.describe().queries_left == left


def test_the_service_closes_when_it_is_told(site: Site, service: LabelService) -> None:
    threading.Timer(0.3, (site.folder / "close").touch).start()
    assert wait_for_close(service, site.door(), 250, queries=100)


def test_the_service_closes_at_its_time_limit_if_anything_was_asked(site: Site, service: LabelService) -> None:
    assert not wait_for_close(service, site.door(), 0.1, queries=100)
    service.ask(make_rows(3, 3)[0])
    assert wait_for_close(service, site.door(), 0.1, queries=100)


def test_a_key_that_others_can_read_is_not_used(site: Site, service: LabelService) -> None:
    site.student.key.chmod(0o644)
    with pytest.raises(ConfigError, match="others than its owner"):
        LabelChannel("127.0.0.1:1", WAIT, site.student)
    site.server.key.chmod(0o640)
    with pytest.raises(ConfigError, match="others than its owner"), serving(service, "127.0.0.1:0", 100, site.door()):
        pass
