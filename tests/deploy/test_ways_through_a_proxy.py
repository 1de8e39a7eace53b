"""A student and a SuperNode behind a proxy: which variables they heed, that TLS goes through it untouched, and what is
said where it does not let them through."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.door import Door
from consilium.coordinator.label_server import serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.checks import check_coordinator, examine
from consilium.node.folder import FEDERATION_FILE, open_folder
from consilium.node.join import joined
from consilium.node.supernode import supernode
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ServiceError
from consilium.protocol.noise import SeededNoise
from consilium.student.deployed import open_channel
from tests.coordinator.labels.test_service import T, Votes
from tests.deploy.connect_proxy import PATIENCE_SECONDS, ConnectProxy
from tests.deploy.site import PARTIES, STUDENT, free_ports, make_site
from tests.federation import make_config, make_rows

HOST = "coordinator.invalid"
"""No name service knows it: whoever reaches it went through the proxy, which does."""
VARIABLES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    node_port, label_port = free_ports(2)
    place = {"hosts": [HOST], "node_port": node_port, "label_port": label_port}
    return make_site(tmp_path_factory.mktemp("behind"), coordinator=place)


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
    site: Path, service: LabelService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, student = open_folder(site / "coordinator"), open_folder(site / STUDENT)
    allowed = coordinator.federation / FEDERATION_FILE
    door = Door(coordinator.tls, allowed, tmp_path / "close", "127.0.0.1:0")
    wanted = joined(student).coordinator.labels
    with serving(service, door, 100) as address, ConnectProxy({wanted: address}) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with open_channel(student, PATIENCE_SECONDS) as channel:
            assert len(channel.ask(make_rows(20, 3)[0])) == 20
        assert proxy.asked.get_nowait() == wanted


def test_a_proxy_that_refuses(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = open_folder(site / STUDENT)
    with ConnectProxy({}, "403 Forbidden") as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with open_channel(student, 3) as channel, pytest.raises(ServiceError) as caught:
            channel.describe()
        assert caught.value.action
        assert proxy.asked.get_nowait() == joined(student).coordinator.labels


@pytest.mark.deploy
@pytest.mark.slow
def test_a_supernode_asks_the_proxy(site: Path, tmp_path: Path) -> None:
    folder = open_folder(site / PARTIES[0])
    wanted = joined(folder).coordinator.nodes
    program = supernode(folder, wanted, PARTY.app)
    with ConnectProxy({}) as proxy, open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            list(program.command), cwd=tmp_path, env={**program.environment, "HTTPS_PROXY": proxy.url},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            assert proxy.asked.get(timeout=PATIENCE_SECONDS) == wanted
        finally:
            process.kill()
            process.wait()


def test_doctor_goes_the_way_of_the_supernode(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(site / PARTIES[0])
    with ConnectProxy({}, "403 Forbidden") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        (found,) = examine([("coordinator", lambda: check_coordinator(folder))])
        assert proxy.asked.get_nowait() == joined(folder).coordinator.nodes
    assert found.level == "wrong"
