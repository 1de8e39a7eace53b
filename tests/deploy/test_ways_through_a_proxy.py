"""A student and a SuperNode behind a proxy: which variables they heed, that TLS goes through it untouched, and what is
said where it does not let them through."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_server import Door, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.checks import check_coordinator, examine
from consilium.node.kit import open_kit
from consilium.node.supernode import supernode
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ServiceError
from consilium.protocol.noise import SeededNoise
from consilium.student.channel import LabelChannel
from tests.coordinator.labels.test_service import T, Votes
from tests.deploy.connect_proxy import PATIENCE_SECONDS, ConnectProxy
from tests.deploy.kits import STUDENT, free_ports, make_kits
from tests.federation import make_config, make_rows

HOST = "coordinator.invalid"
"""No name service knows it: whoever reaches it went through the proxy, which does."""
VARIABLES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    superlink, labels, internal = free_ports(3)
    place = {"hosts": [HOST], "superlink_port": superlink, "label_port": labels, "internal_port": internal}
    return make_kits(tmp_path_factory.mktemp("behind"), coordinator=place)


@pytest.fixture
def service(tmp_path: Path, log) -> Iterator[LabelService]:
    config = make_config(query_budget=QueryBudget(queries=100, answers=100))
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    yield LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    ledger.close()


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_labels_come_through_a_proxy(
    out: Path, service: LabelService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, student = open_kit(out / "coordinator"), open_kit(out / f"student-{STUDENT}")
    door = Door(coordinator.server_tls, coordinator / "students.json", tmp_path / "close")
    wanted = student.coordinator.labels
    with serving(service, "127.0.0.1:0", 100, door) as address, ConnectProxy({wanted: address}) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with LabelChannel(wanted, PATIENCE_SECONDS, student.client_tls) as channel:
            assert len(channel.ask(make_rows(20, 3)[0])) == 20
        assert proxy.asked.get_nowait() == wanted


def test_a_proxy_that_refuses(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = open_kit(out / f"student-{STUDENT}")
    with ConnectProxy({}, "403 Forbidden") as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with LabelChannel(student.coordinator.labels, 3, student.client_tls) as channel:
            with pytest.raises(ServiceError) as caught:
                channel.describe()
            assert caught.value.action
        assert proxy.asked.get_nowait() == student.coordinator.labels


@pytest.mark.deploy
@pytest.mark.slow
def test_a_supernode_asks_the_proxy(out: Path, tmp_path: Path) -> None:
    kit = open_kit(out / "party-ward-a")
    program = supernode(kit, PARTY.app)
    with ConnectProxy({}) as proxy, open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            list(program.command), cwd=tmp_path, env={**program.environment, "HTTPS_PROXY": proxy.url},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            assert proxy.asked.get(timeout=PATIENCE_SECONDS) == kit.coordinator.superlink
        finally:
            process.kill()
            process.wait()


def test_doctor_goes_the_way_of_the_supernode(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = open_kit(out / "party-ward-a")
    with ConnectProxy({}, "403 Forbidden") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        (found,) = examine([("coordinator", lambda: check_coordinator(kit))])
        assert proxy.asked.get_nowait() == kit.coordinator.superlink
    assert found.level == "wrong"
