"""The label service over a real loopback socket: the same answers as in-process, and refusals that keep their type."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_server import serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.node.supervisor import BackOff
from consilium.protocol.errors import (
    BudgetExceeded,
    ConfigError,
    DataError,
    LedgerError,
    MalformedMessage,
    NotEnoughParties,
    ServiceError,
)
from consilium.protocol.label_wire import GENERIC, blocks, refusal_from_wire, refusal_to_wire
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.noise import SeededNoise
from consilium.student.channel import OPTIONS
from consilium.sums.errors import BadShare, ThresholdNotMet
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import make_config, make_rows

X = make_rows(20, 3)[0]
CONFIG = make_config(query_budget=QueryBudget(queries=100_000, answers=100_000))


@pytest.fixture
def service(tmp_path: Path, log) -> Iterator[LabelService]:
    with contextlib.closing(Ledger.of(tmp_path / "ledger.db", CONFIG)) as ledger:
        yield LabelService(CONFIG, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("parties", [3, 5])
def test_the_socket_gives_what_the_process_gives_but_the_number_of_parties(site, service, parties: int) -> None:
    """As many messages, with the same numbers, however many take part; the control is the process itself."""
    collect = service._collector.collect

    def telling(queries, sigma, progress):
        for stage in ("vote", "secure sum: share"):
            for done in range(1, parties + 1):
                progress(stage, done, parties)
        return collect(queries, sigma, progress)

    service._collector.collect = telling
    stages, inside = [], []
    with site.serving(service, 100_000) as address, site.channel(address) as channel:
        assert channel.describe() == service.describe()
        answers = channel.ask(X, lambda *progress: stages.append(progress))
    again = service.ask(X)
    assert (answers.labels.tolist(), answers.outcomes.tolist()) == (again.labels.tolist(), again.outcomes.tolist())
    assert stages == [("vote", 0, 1), ("secure sum: share", 0, 1)]
    service.ask(X + 1, lambda *progress: inside.append(progress))
    assert ("vote", parties, parties) in inside


def test_many_rows_travel_in_blocks_and_no_more_than_can_ever_be_asked(site, service, monkeypatch) -> None:
    monkeypatch.setattr("consilium.protocol.label_wire.BLOCK_BYTES", 100)
    assert len(blocks(X.astype(np.float32))) == 3
    with site.serving(service, 20) as address, site.channel(address) as channel:
        assert len(channel.ask(X)) == 20
        with pytest.raises(BudgetExceeded, match="more than 20 rows"):
            channel.ask(make_rows(21, 3)[0])


MALFORMED = [
    [],
    [pb.QueryBlock(features=3, rows=b"1234567")],
    [pb.QueryBlock(features=0, rows=b"1234")],
    [pb.QueryBlock(features=3, rows=b"")],
    [pb.QueryBlock(features=3, rows=bytes(12)), pb.QueryBlock(features=2, rows=bytes(8))],
    [pb.QueryBlock(features=2, rows=bytes(8))],
    [pb.QueryBlock(features=3, rows=np.full(3, np.nan, dtype="<f4").tobytes())],
]


def test_malformed_streams_and_another_protocol_version_are_refused(site, service) -> None:
    with site.serving(service, 10) as address, site.bare(address) as channel:
        stub = rpc.LabelServiceStub(channel)
        for stream in MALFORMED:
            (reply,) = stub.Ask(iter(stream))
            assert reply.refusal.error in {"MalformedMessage", "DataError"}
        with pytest.raises(grpc.RpcError, match="protocol version 99"):
            stub.Describe(iter([pb.DescribeRequest(protocol_version=99)]))


CAUSES = (
    NotEnoughParties("4 parties after stage 'vote', at least 5 are required (1 x p07 is away)"),
    ThresholdNotMet("masked", 4, 5, ["p07", "p08"]),
    BadShare("p07", "does not open"),
    LedgerError("ledger.db: disk full"),
    ConfigError("roster of p07"),
    ServiceError("p07"),
    RuntimeError("votes were 4711"),
)
OWN = (BudgetExceeded("26 asked, 25 left"), DataError("shape"), MalformedMessage("block"))


def test_a_student_is_told_what_is_wrong_with_its_request_and_nothing_else(site, service, monkeypatch, caplog) -> None:
    """Who is missing, at which stage, and whether a sum was one that votes give, is for the coordinator's log."""
    with site.serving(service, 10) as address, site.bare(address) as channel:

        def told(cause: Exception) -> pb.AskReply:
            monkeypatch.setattr(service, "ask", raising(cause))
            (reply,) = rpc.LabelServiceStub(channel).Ask(iter(blocks(X[:3])))
            return reply

        assert {told(cause).SerializeToString() for cause in CAUSES} == {refusal_to_wire(GENERIC).SerializeToString()}
        for cause in OWN:
            error = refusal_from_wire(told(cause).refusal)
            assert type(error) is type(cause) and error.what == cause.what
    assert "4711" not in caplog.text


def test_an_address_in_use_or_impossible_is_a_configuration_error(site, service) -> None:
    with site.serving(service, 10) as address:
        for wrong in (address, "256.0.0.1:80"):
            door = replace(site.door, address=wrong)
            with pytest.raises(ConfigError, match="cannot listen"), serving(service, door, 10):
                pass


def test_a_connection_that_breaks_is_told_from_one_that_never_was(site, service) -> None:
    with site.channel("127.0.0.1:9", wait=0.3) as channel, pytest.raises(ServiceError, match="no label service at"):
        channel.ask(X)
    with site.serving(service, 10) as address:
        channel = site.channel(address)
        channel.describe()
    with channel, pytest.raises(ServiceError, match="was lost before it answered") as caught:
        channel.ask(X)
    assert "Ask again" in caught.value.action


class FailsTwice(Votes):
    """As where a party is away for a while."""

    def collect(self, queries, sigma, progress=None):
        if len(self.asked) < 2:
            self.asked.append(0)
            raise NotEnoughParties("2 parties after stage 'vote' (1 x p07 is away)")
        return super().collect(queries, sigma, progress)


def test_a_patient_student_asks_again_what_failed_and_no_mistake_of_its_own(site, service, monkeypatch) -> None:
    monkeypatch.setattr("consilium.student.channel.AGAIN", BackOff(first=0.01, most=0.01))
    service._collector = FailsTwice()
    said: list[str] = []
    with site.serving(service, 20) as address:
        with site.channel(address) as hasty, pytest.raises(ServiceError, match="again uses up nothing more") as caught:
            hasty.ask(X)
        assert service._collector.asked == [0] and "p07" not in str(caught.value)
        with site.channel(address, patience=600) as channel:
            channel.tell = said.append
            assert len(channel.ask(X)) == 20
            with pytest.raises(BudgetExceeded):
                channel.ask(make_rows(21, 3)[0])
    assert service._collector.asked == [0, 0, 20]
    assert len(said) == 1 and "uses up nothing more" in said[0] and "p07" not in said[0]


class Relay:
    """Passes bytes on to an address; once it is cut, those of connections before are lost, and nobody is told."""

    def __init__(self, address: str) -> None:
        self._to = address.rpartition(":")[0], int(address.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(self._to)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(*pair, self.cuts), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, cuts: int) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                if self.cuts == cuts:
                    sink.sendall(content)

    def close(self) -> None:
        self._listener.close()


def test_a_connection_that_broke_without_a_word_is_asked_over_again(site, service, monkeypatch) -> None:
    monkeypatch.setattr("consilium.student.channel.AGAIN", BackOff(first=0.1, most=0.1))
    soon = {name: min(value, 500) for name, value in OPTIONS.items() if "message" not in name}
    monkeypatch.setattr("consilium.student.channel.OPTIONS", soon)
    collect = service._collector.collect
    with site.serving(service, 100_000) as address:
        relay = Relay(address)

        def cut(queries, sigma, progress):
            relay.cuts += 1
            return collect(queries, sigma, progress)

        service._collector.collect = cut
        with site.channel(relay.address, patience=600) as channel:
            assert len(channel.ask(X)) == 20
        relay.close()
    assert relay.cuts == 1  # asked again, it is answered from the ledger
