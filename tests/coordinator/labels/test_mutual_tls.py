"""The label service with mutual TLS: who comes in, who does not, and that one student's end is not the service's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_server import serve, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision.authority import Authority
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.noise import SeededNoise
from consilium.protocol.tls import TlsFiles
from consilium.student.channel import LabelChannel
from tests.coordinator.labels.site import WAIT, Site
from tests.coordinator.labels.test_service import T, Votes
from tests.coordinator.provision.desk import ENDS
from tests.federation import make_config, make_rows

REFUSED = "the server does not accept this node's certificate"
CONFIG = make_config(query_budget=QueryBudget(queries=100, answers=100))


@pytest.fixture
def service(tmp_path: Path, log) -> Iterator[LabelService]:
    ledger = Ledger.of(tmp_path / "ledger.db", CONFIG)
    yield LabelService(CONFIG, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    ledger.close()


def refused(address: str, files: TlsFiles, said: str) -> str:
    """What is told at last. Whoever is refused waits for its whole time, so a busy machine is given more, not all."""
    for seconds in (1, 5, 20, 60):
        with LabelChannel(address, files, seconds) as channel, pytest.raises(ServiceError) as error:
            channel.describe()
        if said in str(error.value):
            break
    return str(error.value)


def test_whoever_has_no_good_certificate_is_refused(tmp_path: Path, service: LabelService) -> None:
    site = Site(tmp_path / "site")
    coordinator = site.node("coordinator").tls
    cases = {
        "of another authority": (
            site.certified("foreign", Authority.create("three wards", ENDS, datetime.now(UTC))),
            REFUSED,
        ),
        "not in the list": (site.certified("unlisted", site.authority), "does not accept this student's certificate"),
        "a server's": (coordinator, REFUSED),
        "expired": (site.certified("old", site.authority_at(datetime(2020, 1, 1, tzinfo=UTC))), REFUSED),
    }
    with site.serving(service, 100) as address:
        for case, (files, said) in cases.items():
            assert said in refused(address, files, said), case
        authority = coordinator.authority.read_bytes()
        for bare in (
            grpc.insecure_channel(address),
            grpc.secure_channel(address, grpc.ssl_channel_credentials(authority)),
        ):
            with bare, pytest.raises(grpc.RpcError):
                rpc.LabelServiceStub(bare).Describe(iter([pb.DescribeRequest(protocol_version=1)]), timeout=WAIT)
        with site.channel(address) as channel:
            assert channel.describe().queries_left == 100  # nobody else was harmed


def test_a_student_does_not_talk_to_another_server(site: Site, service: LabelService, tmp_path: Path) -> None:
    Authority.create("other", ENDS, datetime.now(UTC)).save(tmp_path)
    with site.serving(service, 100) as address:
        said = "the server's certificate is not accepted"
        assert said in refused(address, replace(site.tls(), authority=tmp_path / "ca.crt"), said)


def test_a_student_that_is_revoked_is_refused_at_every_call(tmp_path: Path, service: LabelService) -> None:
    site, x = Site(tmp_path / "site", ("anna", "institute")), make_rows(5, 3)[0]
    site.revoke("anna")
    with (
        site.serving(service, 100) as address,
        site.channel(address, "anna") as anna,
        site.channel(address, "institute") as other,
    ):
        for call in (anna.describe, lambda: anna.ask(x), lambda: anna.known(["0" * 64])):
            with pytest.raises(ServiceError, match="does not accept this student's certificate"):
                call()
        assert other.describe().queries_left == 100, "the control: it is still listed"
    assert service.describe().queries_left == 100


def test_students_come_one_after_another_until_it_is_closed(tmp_path: Path, service: LabelService, log) -> None:
    site, x = Site(tmp_path / "site", ("anna", "institute")), make_rows(20, 3)[0]
    with site.serving(service, 100) as address:
        for name in ("anna", "institute"):  # the second asks the same: it costs nothing
            with site.channel(address, name) as channel:
                channel.ask(x)
            assert service.describe().queries_left == 80
    threading.Timer(0.3, site.door.close_file.touch).start()
    serve(site.door, CONFIG, log, service)


def test_the_service_closes_at_its_time_limit_if_anything_was_asked(site: Site, service: LabelService, log) -> None:
    soon = CONFIG.model_copy(update={"timeouts": CONFIG.timeouts.model_copy(update={"student": 0.1})})
    with pytest.raises(ServiceError, match=r"no student asked anything within 0\.1 s"):
        serve(site.door, soon, log, service)
    service.ask(make_rows(3, 3)[0])
    serve(site.door, soon, log, service)


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, service: LabelService) -> None:
    site = Site(tmp_path / "site")
    site.tls().key.chmod(0o644)
    with pytest.raises(ConfigError, match="others than its owner"):
        site.channel("127.0.0.1:1")
    site.node("coordinator").tls.key.chmod(0o640)
    with pytest.raises(ConfigError, match="others than its owner"), serving(service, site.door, 100):
        pass
