"""The attacks, each in a process of its own, bounded in number and time; and what an honest peer does meanwhile."""

from __future__ import annotations

import contextlib
import multiprocessing.synchronize
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import numpy as np

from consilium.node.kit import open_kit
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.messages import PROTOCOL_VERSION
from consilium.protocol.tls import channel_credentials
from consilium.student.channel import LabelChannel
from tests.deploy.edge import connected, signed

Address = tuple[str, int]
Begun = multiprocessing.synchronize.Event
HOLD_SECONDS = 12.0
MB = 1_000_000
ATTACKER = "127.0.0.2"
PATH = "/v1/fleet/push-object"


def idle(address: Address, _: Path, begun: Begun, count: int = 950) -> None:
    """Connections without a handshake."""
    peers = [connected(address, f"127.0.0.{2 + number % 4}") for number in range(count)]
    begun.set()
    time.sleep(HOLD_SECONDS)
    for peer in peers:
        peer.close()


def _heads(address: Address, kits: Path, count: int, length: int, headers: dict[str, str]) -> list[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(kits / "coordinator" / "ca.crt"))
    lines = [f"POST {PATH} HTTP/1.1", "host: x", f"content-length: {length}"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()
    peers = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            peer = context.wrap_socket(connected(address, ATTACKER), server_hostname="127.0.0.1")
            peer.sendall(head)
            peers.append(peer)
    return peers


def slow_bodies(address: Address, kits: Path, begun: Begun) -> None:
    """200 anonymous requests that send one byte after the other."""
    peers = _heads(address, kits, 200, MB, {})
    begun.set()
    end = time.monotonic() + HOLD_SECONDS
    while time.monotonic() < end:
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.sendall(b"x")
        time.sleep(0.5)


def stalled_node(address: Address, kits: Path, begun: Begun) -> None:
    """200 requests of one registered node without their bodies."""
    peers = _heads(address, kits, 200, MB, signed(kits / "party-ward-b" / "node.key"))
    begun.set()
    time.sleep(HOLD_SECONDS)
    for peer in peers:
        peer.close()


def big_bodies(address: Address, kits: Path, begun: Begun) -> None:
    """Eight anonymous bodies of 128 MB at once."""
    piece = bytes(MB)

    def send(peer: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            for _ in range(127):
                peer.sendall(piece)
        time.sleep(2)

    with ThreadPoolExecutor(8) as pool:
        begun.set()
        list(pool.map(send, _heads(address, kits, 8, 128 * MB, {})))


def _student(address: Address, kits: Path) -> grpc.Channel:
    files = open_kit(kits / "student-university").client_tls
    return grpc.secure_channel(f"{address[0]}:{address[1]}", channel_credentials(files))


def stalled_asks(address: Address, kits: Path, begun: Begun) -> None:
    """24 requests of one student that send no rows."""
    end = threading.Event()

    def nothing() -> Iterator[pb.QueryBlock]:
        end.wait()
        yield from ()

    with _student(address, kits) as channel:
        calls = [rpc.LabelServiceStub(channel).Ask(nothing()) for _ in range(24)]
        grpc.channel_ready_future(channel).result(HOLD_SECONDS)
        time.sleep(1)  # until the server has them all
        begun.set()
        time.sleep(HOLD_SECONDS)
        del calls
        end.set()


def wide_rows(address: Address, kits: Path, begun: Begun) -> None:
    """One request of 1 GB in rows of 900,000 columns."""
    block = pb.QueryBlock(features=900_000, rows=bytes(3_600_000))
    with _student(address, kits) as channel, contextlib.suppress(grpc.RpcError):
        begun.set()
        list(rpc.LabelServiceStub(channel).Ask(block for _ in range(280)))


def many_calls(address: Address, kits: Path, begun: Begun) -> None:
    """Describe, again and again, from 16 threads of one student."""
    begun.set()
    end = time.monotonic() + HOLD_SECONDS
    with _student(address, kits) as channel, ThreadPoolExecutor(16) as pool:

        def call(_: int) -> None:
            while time.monotonic() < end:
                with contextlib.suppress(grpc.RpcError):
                    rpc.LabelServiceStub(channel).Describe(
                        pb.DescribeRequest(protocol_version=PROTOCOL_VERSION), timeout=HOLD_SECONDS
                    )

        list(pool.map(call, range(16)))


Attack = Callable[[Address, Path, Begun], None]
GATEWAY: dict[str, Attack] = {
    "950 connections without a handshake": idle,
    "200 slow bodies, anonymous": slow_bodies,
    "8 bodies of 128 MB, anonymous": big_bodies,
    "200 requests of a registered node, no bodies": stalled_node,
}
LABELS: dict[str, Attack] = {
    "950 connections without a handshake": idle,
    "24 requests of a student, no rows": stalled_asks,
    "1 GB in rows of 900,000 columns": wide_rows,
    "calls for the terms from 16 threads": many_calls,
}


def honest_node(address: Address, kits: Path, seconds: float) -> None:
    """One request of another node, on a connection of its own. Raises whatever is in its way."""
    context = ssl.create_default_context(cafile=str(kits / "coordinator" / "ca.crt"))
    with httpx.Client(verify=context, timeout=seconds, trust_env=False) as client:
        headers = signed(kits / "party-ward-a" / "node.key")
        client.post(f"https://{address[0]}:{address[1]}{PATH}", content=bytes(MB), headers=headers).raise_for_status()


def honest_student(address: Address, kits: Path, seconds: float) -> None:
    """Terms and five labels for another student, on a connection of its own. Raises whatever is in its way."""
    files = open_kit(kits / "student-institute").client_tls
    rows = np.arange(15, dtype="<f4").reshape(5, 3)
    with LabelChannel(f"{address[0]}:{address[1]}", seconds, files) as channel:
        channel.describe()
        channel.ask(rows)


def alive(address: Address) -> bool:
    """Whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0
