"""A student and a party go to the proxy that https_proxy names, and say so where it does not let them through."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from consilium.node.checks import check_coordinator, examine
from consilium.node.join import joined
from consilium.node.signed import Coordinator
from consilium.protocol.errors import ServiceError
from consilium.student.channel import LabelChannel
from tests.node.folders import STUDENT, make_small

VARIABLES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What whoever came to it wanted; nobody is let through."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    asked.append(client.recv(4096).decode().split(" HTTP")[0])
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield asked
        listener.shutdown(socket.SHUT_RDWR)


def test_a_proxy_that_refuses(tmp_path: Path, proxy: list[str]) -> None:
    made = make_small(tmp_path, place=Coordinator(hosts=("coordinator.invalid",)))
    place = joined(made.nodes[STUDENT]).coordinator
    with LabelChannel(place.labels, made.nodes[STUDENT].tls, 3) as channel, pytest.raises(ServiceError) as caught:
        channel.describe()
    assert caught.value.action
    assert proxy[0] == f"CONNECT {place.labels}"
    proxy.clear()
    (found,) = examine([("coordinator", lambda: check_coordinator(made.nodes["p00"]))])  # the SuperNode's way
    assert proxy == [f"CONNECT {place.nodes}"]
    assert found.level == "wrong" and "does not let it through" in found.what
