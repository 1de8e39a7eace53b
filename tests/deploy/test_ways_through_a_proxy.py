"""A student and a SuperNode behind a proxy that knows CONNECT: which variables they heed, that TLS goes through it
untouched, and what is said where it does not let them through."""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_server import Door, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.checks import check_coordinator, examine
from consilium.node.folder import open_folder
from consilium.node.join import joined
from consilium.node.supernode import supernode
from consilium.party.deployed import PARTY
from consilium.protocol.errors import ServiceError
from consilium.protocol.noise import SeededNoise
from consilium.student.channel import LabelChannel
from tests.coordinator.labels.test_service import T, Votes
from tests.deploy.site import PARTIES, STUDENT, free_ports, make_site
from tests.federation import make_config, make_rows

HOST = "coordinator.invalid"
"""No name service knows it: whoever reaches it went through the proxy, which does."""
PATIENCE_SECONDS = 250.0
VARIABLES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@contextlib.contextmanager
def proxy(places: Mapping[str, str]) -> Iterator[tuple[str, queue.Queue[str]]]:
    """Its URL, and each host:port that somebody wanted, in order. places: where one really is; others get 403."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), queue.Queue[str]()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (part := client.recv(4096)):
                    return
                head += part
            method, wanted, _ = head.decode().split("\r\n")[0].split(" ")
            asked.put(f"{method} {wanted}")
            if method != "CONNECT" or wanted not in places:
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, _, port = places[wanted].rpartition(":")
            with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pass_on, args=(server, client), daemon=True)
                back.start()
                pass_on(client, server)
                back.join()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    node_port, label_port = free_ports(2)
    place = {"hosts": [HOST], "node_port": node_port, "label_port": label_port}
    return make_site(tmp_path_factory.mktemp("behind"), coordinator=place)


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_labels_come_through_a_proxy(site: Path, tmp_path: Path, log, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, student = open_folder(site / "coordinator"), open_folder(site / STUDENT)
    config = make_config(query_budget=QueryBudget(queries=100, answers=100))
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    service = LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    door = Door(coordinator, tmp_path / "close", "127.0.0.1:0")
    wanted = joined(student).coordinator.labels
    with serving(service, door, 100) as address, proxy({wanted: address}) as (url, asked):
        monkeypatch.setenv("https_proxy", url)
        with LabelChannel(wanted, student.tls, PATIENCE_SECONDS) as channel:
            assert len(channel.ask(make_rows(20, 3)[0])) == 20
        assert asked.get_nowait() == f"CONNECT {wanted}"
    ledger.close()


def test_a_proxy_that_refuses(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student, party = open_folder(site / STUDENT), open_folder(site / PARTIES[0])
    place = joined(student).coordinator
    with proxy({}) as (url, asked):
        monkeypatch.setenv("https_proxy", url)
        with LabelChannel(place.labels, student.tls, 3) as channel, pytest.raises(ServiceError) as caught:
            channel.describe()
        assert caught.value.action
        assert asked.get_nowait() == f"CONNECT {place.labels}"
        asked.queue.clear()
        (found,) = examine([("coordinator", lambda: check_coordinator(party))])  # doctor goes the SuperNode's way
        assert asked.get_nowait() == f"CONNECT {place.nodes}"
    assert found.level == "wrong"
    assert "does not let it through" in found.what


@pytest.mark.deploy
@pytest.mark.slow
def test_a_supernode_asks_the_proxy(site: Path, tmp_path: Path) -> None:
    party = open_folder(site / PARTIES[0])
    nodes = joined(party).coordinator.nodes
    program = supernode(party, nodes, PARTY.app)
    with proxy({}) as (url, asked), open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            list(program.command), cwd=tmp_path, env={**program.environment, "HTTPS_PROXY": url},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            assert asked.get(timeout=PATIENCE_SECONDS) == f"CONNECT {nodes}"
        finally:
            process.kill()
            process.wait()
