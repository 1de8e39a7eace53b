"""The label service against students that stall, flood or send too much."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import grpc
import numpy as np
import pytest

from consilium.coordinator.label_server import MESSAGE_BYTES, READER, Limits, receive
from consilium.protocol.errors import MalformedMessage, ServiceError
from consilium.protocol.label_wire import blocks, row_bytes, rows_of
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.tls import TlsFiles
from consilium.student.deployed import LabelChannel, credentials
from tests.coordinator.labels.conftest import CONFIG
from tests.coordinator.labels.test_service import Votes
from tests.deploy.edge import until
from tests.federation import make_rows

MANY = 16
ANSWER = 250.0
PATIENT = Limits(call=ANSWER, stall=ANSWER)
"""Whatever stalls is still there when the last one has come."""
REFUSED_STREAM = "RST_STREAM with error code 7"
MB = 1_000_000


class Slow(Votes):
    """A collector that takes until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def collect(self, queries, sigma):
        assert self.go.wait(ANSWER)
        return super().collect(queries, sigma)


class Peers:
    """Calls that begin and then send nothing. A call that the server refuses is over at once."""

    def __init__(self, address: str, files: TlsFiles) -> None:
        self.end = threading.Event()
        self.channel = grpc.secure_channel(address, credentials(files))
        grpc.channel_ready_future(self.channel).result(ANSWER)
        self.calls: list[grpc.Call] = []

    def _nothing(self) -> Iterator[bytes]:
        self.end.wait()
        yield from ()

    def begin(self, name: str, count: int) -> None:
        call = getattr(rpc.LabelServiceStub(self.channel), name)
        self.calls += [call.future(self._nothing()) for _ in range(count)]

    def refused(self) -> int:
        """How many were refused for want of room: by the service, or by gRPC's bound on streams of one connection."""
        ended = [call for call in self.calls if not call.is_active()]
        return sum(
            call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED or REFUSED_STREAM in call.details() for call in ended
        )

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.channel.close()


def describes(address: str, files: TlsFiles, seconds: float = ANSWER) -> bool:
    with LabelChannel(address, files, seconds) as channel:
        try:
            return channel.describe().queries_left >= 0
        except ServiceError:
            return False


def test_stalled_requests_leave_room_for_others(site, service) -> None:
    other = site.tls("institute")
    with site.serving(service, 100, PATIENT) as address, Peers(address, site.tls()) as peers:
        peers.begin("Ask", MANY)
        # first these alone: gRPC's bound on streams of a connection would else refuse others in their place
        until(lambda: peers.refused() == MANY - 1)
        peers.begin("Describe", MANY)
        until(lambda: peers.refused() == MANY - 1 + MANY - 4)
        assert describes(address, other)
        with LabelChannel(address, other, ANSWER) as channel:
            assert len(channel.ask(make_rows(20, 3)[0])) == 20


def test_control_without_a_bound_on_each_student_one_takes_all_room(site, service) -> None:
    other = site.tls("institute")
    limits = replace(PATIENT, calls_of_student=MANY, threads=MANY // 2)
    with site.serving(service, 100, limits) as address, Peers(address, site.tls()) as peers:
        peers.begin("Describe", MANY)
        until(lambda: not describes(address, other))


def test_what_stalls_is_refused_after_its_time(site, service) -> None:
    """As a whole, and block after block where each is in time; and a call without its message."""
    ends = threading.Event()

    def drip() -> Iterator[pb.QueryBlock]:
        while not ends.wait(0.05):
            yield pb.QueryBlock(features=3, rows=bytes(12))

    limits = Limits(stall=0.5, call=0.3, rate=1e9)
    with site.serving(service, 10**6, limits) as address, Peers(address, site.tls()) as peers:
        peers.begin("Ask", 1)
        until(lambda: not peers.calls[0].is_active())
        peers.begin("Describe", 1)
        peers.calls.append(rpc.LabelServiceStub(peers.channel).Ask.future(drip()))
        for call in peers.calls:
            assert call.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "the rest of the request did not arrive in time" in call.details()
        ends.set()
        until(lambda: not any(thread.name == READER for thread in threading.enumerate()))


def test_wide_rows_are_refused_at_the_first_block(site, service) -> None:
    """90 MB in rows of 750,000 features."""
    sent: list[int] = []

    def wide() -> Iterator[pb.QueryBlock]:
        for number in range(30):
            sent.append(number)
            yield pb.QueryBlock(features=750_000, rows=bytes(3 * MB))

    with (
        site.serving(service, 1000) as address,
        site.bare(address) as channel,
        pytest.raises(grpc.RpcError, match="750000 features, the federation's have 3"),
    ):
        rpc.LabelServiceStub(channel).Ask(wide())
    assert len(sent) < 10  # what gRPC had on its way when the answer came


def test_probabilities_are_measured_too() -> None:
    schema = CONFIG.rows
    good = pb.QueryBlock(features=3, rows=bytes(24), probabilities=bytes(32))
    rows, probabilities = receive(iter([good, good]), schema, 10)
    assert probabilities is not None
    assert (rows.shape, probabilities.shape) == ((4, 3), (4, 2))
    bare = pb.QueryBlock(features=3, rows=bytes(24))
    for stream in (
        [pb.QueryBlock(features=3, rows=bytes(24), probabilities=bytes(31))],
        [pb.QueryBlock(features=3, rows=bytes(24), probabilities=bytes(MB))],
        [good, bare],
        [bare, good],
        [bare, bare, good],
    ):
        with pytest.raises(MalformedMessage):
            receive(iter(stream), schema, 10)


def test_what_a_student_sends_fits_into_a_message() -> None:
    for features, classes in ((1, 1000), (3, 10), (784, 10), (2_000_000, 2)):
        queries = np.zeros((3 * max(1, MB // row_bytes(features, classes)), features), dtype="<f4")
        made = blocks(queries, np.zeros((len(queries), classes)))
        assert max(block.ByteSize() for block in made) <= MESSAGE_BYTES + row_bytes(features, classes)
        assert sum(len(rows_of(block, features, classes)[0]) for block in made) == len(queries)


@pytest.mark.usefixtures("soon")
def test_a_request_whose_student_left_is_brought_to_its_end(site, service) -> None:
    collector = service._collector = Slow()
    x = make_rows(20, 3)[0].astype("<f4")
    with site.serving(service, 100) as address, site.bare(address) as bare:
        first = rpc.LabelServiceStub(bare).Ask.future(iter(blocks(x)))
        until(lambda: service._lock.locked())  # its votes are being collected
        with site.channel(address) as channel, pytest.raises(ServiceError, match="another request of this student is"):
            channel.ask(x)
        first.cancel()
        collector.go.set()
        with site.channel(address, patience=ANSWER) as channel:
            assert len(channel.ask(x)) == 20
    assert collector.asked == [20]  # it answers the second, too


def test_there_is_room_for_some_requests_of_all(site, service) -> None:
    collector = service._collector = Slow()
    with site.serving(service, 100, replace(PATIENT, asks=1)) as address, site.bare(address) as bare:
        first = rpc.LabelServiceStub(bare).Ask.future(iter(blocks(make_rows(20, 3)[0].astype("<f4"))))
        until(lambda: service._lock.locked())
        with site.channel(address, "institute") as other, pytest.raises(ServiceError, match="1 requests are under way"):
            other.ask(make_rows(5, 3)[0])
        collector.go.set()
        assert first.result(ANSWER)
