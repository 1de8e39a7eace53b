"""The label service over a real loopback socket: the same answers as in-process, and refusals that keep their type."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.label_server import serve, serving
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
from consilium.protocol.label_source import Outcome
from consilium.protocol.label_wire import (
    BLOCK_BYTES,
    GENERIC,
    answers_from_wire,
    blocks,
    refusal_from_wire,
    refusal_to_wire,
)
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.noise import SeededNoise
from consilium.student.channel import OPTIONS
from consilium.student.pool import Pool
from consilium.student.run import run_student
from consilium.sums.errors import BadShare, ThresholdNotMet
from tests.coordinator.labels.test_service import T, Votes
from tests.federation import FEATURES, FakeTransport, make_config, make_rows
from tests.specs import student_of


@pytest.fixture
def service(tmp_path: Path, log):
    config = make_config(query_budget=QueryBudget(queries=100_000, answers=100_000))
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    yield LabelService(config, ledger, Votes(), lambda batch: SeededNoise(batch), T, log)
    ledger.close()


def test_the_socket_gives_what_the_process_gives(site, service) -> None:
    x, _ = make_rows(50, 3)
    stages = []
    with site.serving(service, 100_000) as address, site.channel(address) as channel:
        terms = channel.describe()
        answers = channel.ask(x, lambda *progress: stages.append(progress))
    inside = service.ask(x)
    assert (answers.labels == inside.labels).all()
    assert (answers.outcomes == inside.outcomes).all()
    assert terms.schema == service.describe().schema
    assert terms.queries_left == 100_000


@pytest.mark.parametrize("parties", [3, 5])
def test_a_student_learns_of_stages_and_not_of_the_number_of_parties(site, service, parties: int) -> None:
    """As many messages, with the same numbers, however many take part; the control is the process itself."""
    collect, x = service._collector.collect, make_rows(5, 3)[0]

    def telling(queries, sigma, progress):
        for stage in ("vote", "secure sum: share"):
            for done in range(1, parties + 1):
                progress(stage, done, parties)
        return collect(queries, sigma, progress)

    service._collector.collect = telling
    stages = []
    with site.serving(service, 100_000) as address, site.channel(address) as channel:
        channel.ask(x, lambda *progress: stages.append(progress))
    assert stages == [("vote", 0, 1), ("secure sum: share", 0, 1)]
    inside = []
    service.ask(x + 1, lambda *progress: inside.append(progress))
    assert ("vote", parties, parties) in inside


@pytest.mark.slow
def test_many_rows_travel_in_blocks(site, service) -> None:
    x, _ = make_rows(2 * BLOCK_BYTES // 12 + 10, 3)
    assert len(blocks(x.astype(np.float32))) == 3
    with site.serving(service, 1_000_000) as address, site.channel(address) as channel:
        with pytest.raises(BudgetExceeded):
            channel.ask(x)  # beyond the cap: the refusal keeps its type over the wire
        assert channel.describe().queries_left == 100_000
        assert len(channel.ask(x[:90_000])) == 90_000


def test_more_rows_than_can_ever_be_asked_are_refused_while_they_arrive(site, service) -> None:
    x, _ = make_rows(11, 3)
    with (
        site.serving(service, 10) as address,
        site.channel(address) as channel,
        pytest.raises(BudgetExceeded, match="more than 10 rows"),
    ):
        channel.ask(x)


@pytest.mark.parametrize(
    "stream",
    [
        [],
        [pb.QueryBlock(features=3, rows=b"1234567")],
        [pb.QueryBlock(features=0, rows=b"1234")],
        [pb.QueryBlock(features=3, rows=b"")],
        [pb.QueryBlock(features=3, rows=bytes(12)), pb.QueryBlock(features=2, rows=bytes(8))],
        [pb.QueryBlock(features=2, rows=bytes(8))],
        [pb.QueryBlock(features=3, rows=np.full(3, np.nan, dtype="<f4").tobytes())],
    ],
)
def test_malformed_streams_are_refused(site, service, stream) -> None:
    with site.serving(service, 10) as address, site.bare(address) as channel:
        replies = list(rpc.LabelServiceStub(channel).Ask(iter(stream)))
    assert [reply.WhichOneof("reply") for reply in replies] == ["refusal"]
    assert replies[0].refusal.error in {"MalformedMessage", "DataError"}


def test_internal_errors_do_not_tell_their_text(site, service, monkeypatch, caplog) -> None:
    def fail(*_):
        raise RuntimeError("votes were 4711")

    monkeypatch.setattr(service, "ask", fail)
    with site.serving(service, 10) as address, site.channel(address) as channel, pytest.raises(ServiceError) as caught:
        channel.ask(make_rows(3, 1)[0])
    assert "4711" not in str(caught.value) + caplog.text


CAUSES = (
    NotEnoughParties("4 parties after stage 'vote', at least 5 are required (1 x p07 is away)"),
    ThresholdNotMet("masked", 4, 5, ["p07", "p08"]),
    BadShare("p07", "does not open"),
    LedgerError("ledger.db: disk full"),
    ConfigError("roster of p07"),
    ServiceError("p07"),
)


def refusal(site, service, monkeypatch, cause: Exception) -> bytes:
    """What a student is sent when the service fails with this."""

    def fail(*_):
        raise cause

    monkeypatch.setattr(service, "ask", fail)
    with site.serving(service, 10) as address, site.bare(address) as channel:
        (reply,) = rpc.LabelServiceStub(channel).Ask(iter(blocks(make_rows(3, 1)[0])))
    return reply.SerializeToString()


def test_every_failed_sum_looks_the_same_to_a_student(site, service, monkeypatch) -> None:
    """Who is missing, at which stage, and whether a sum was one that votes give, is for the coordinator's log."""
    told = {refusal(site, service, monkeypatch, cause) for cause in CAUSES}
    assert told == {refusal_to_wire(GENERIC).SerializeToString()}
    assert refusal_from_wire(refusal_to_wire(GENERIC).refusal).exit_code == ServiceError.exit_code


@pytest.mark.parametrize("cause", [BudgetExceeded("26 asked, 25 left"), DataError("shape"), MalformedMessage("block")])
def test_what_is_wrong_with_the_student_s_own_request_is_told(site, service, monkeypatch, cause) -> None:
    message = pb.AskReply.FromString(refusal(site, service, monkeypatch, cause))
    error = refusal_from_wire(message.refusal)
    assert type(error) is type(cause) and error.what == cause.what


def test_another_protocol_version_is_refused(site, service) -> None:
    with (
        site.serving(service, 10) as address,
        site.bare(address) as channel,
        pytest.raises(grpc.RpcError, match="protocol version 99"),
    ):
        rpc.LabelServiceStub(channel).Describe(iter([pb.DescribeRequest(protocol_version=99)]))


def test_nobody_there(site) -> None:
    with site.channel("127.0.0.1:9", wait=0.3) as channel, pytest.raises(ServiceError, match="no label service at"):
        channel.describe()


def test_an_address_in_use_or_impossible_is_a_configuration_error(site, service) -> None:
    with site.serving(service, 10) as address:
        for wrong in (address, "256.0.0.1:80"):
            door = replace(site.door, address=wrong)
            with pytest.raises(ConfigError, match="cannot listen"), serving(service, door, 10):
                pass


def test_answers_that_do_not_fit_the_queries_are_refused() -> None:
    def sent(*answers: tuple[int, int]) -> pb.Answers:
        outcomes, labels = zip(*answers, strict=True)
        return pb.Answers(outcomes=bytes(outcomes), labels=np.array(labels, "<i4").tobytes())

    good = [(Outcome.ANSWERED, 1), (Outcome.ABSTAINED, 7)]
    assert answers_from_wire(sent(*good), 2, 2).labels.tolist() == [1, -1]
    for wrong in (
        good[:1],
        [*good, good[0]],
        *([(Outcome.ANSWERED, label), good[1]] for label in (2, -1)),
        [(0, 0)] * 2,
    ):
        with pytest.raises(MalformedMessage):
            answers_from_wire(sent(*wrong), 2, 2)


def test_a_whole_federation_with_a_student_on_a_socket(site, homes, tmp_path: Path, log) -> None:
    from consilium.node.flower import free_port

    door = replace(site.door, address=f"127.0.0.1:{free_port()}", close_file=tmp_path / "close")
    config = make_config()
    run = threading.Thread(
        target=FederationRun(FakeTransport(homes), config, tmp_path, log, partial(serve, door, config, log)).run
    )
    run.start()
    x, y = make_rows(60, 5)
    pool = Pool(FEATURES, x[:40], x[40:], y[40:])
    out = tmp_path / "student-out"
    out.mkdir()
    with site.channel(door.address) as channel:
        result = run_student(channel, pool, student_of(C=1.0), out, seed=0)
    door.close_file.touch()
    run.join()
    assert result["asked"] == 40
    assert (tmp_path / "coordinator.json").exists()
    assert (out / "labels.parquet").exists()


def test_a_connection_that_breaks_is_told_from_one_that_never_was(site, service) -> None:
    with site.channel("127.0.0.1:9", wait=0.3) as channel, pytest.raises(ServiceError, match="no label service at"):
        channel.ask(make_rows(3, 1)[0])
    with site.serving(service, 10) as address:
        channel = site.channel(address)
        channel.describe()
    with channel:
        with pytest.raises(ServiceError, match="was lost before it answered") as caught:
            channel.ask(make_rows(3, 1)[0])
        assert "Ask again" in caught.value.action


class FailsTwice(Votes):
    """As where a party is away for a while."""

    def collect(self, queries, sigma, progress=None):
        if len(self.asked) < 2:
            self.asked.append(0)
            raise NotEnoughParties("2 parties after stage 'vote' (1 x p07 is away)")
        return super().collect(queries, sigma, progress)


def test_a_patient_student_asks_again_what_failed(site, service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consilium.student.channel.AGAIN", BackOff(first=0.01, most=0.01))
    service._collector = FailsTwice()
    said: list[str] = []
    with site.serving(service, 100_000) as address, site.channel(address, patience=600) as channel:
        channel.tell = said.append
        assert len(channel.ask(make_rows(20, 3)[0])) == 20
    assert service._collector.asked == [0, 0, 20]
    assert len(said) == 2 and all("uses up nothing more" in line and "p07" not in line for line in said)


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


@pytest.mark.parametrize("looks", [True, False])
def test_a_connection_that_broke_without_a_word_is_asked_over_again(site, service, monkeypatch, looks: bool) -> None:
    """The control does not look: it waits for an answer that was lost, though the coordinator has recorded it."""
    monkeypatch.setattr("consilium.student.channel.AGAIN", BackOff(first=0.1, most=0.1))
    soon = {name: min(value, 500) for name, value in OPTIONS.items() if "message" not in name} if looks else {}
    monkeypatch.setattr("consilium.student.channel.OPTIONS", soon)
    collect, x = service._collector.collect, make_rows(5, 3)[0]
    answered = threading.Event()
    with site.serving(service, 100_000) as address:
        relay = Relay(address)

        def cut(queries, sigma, progress):
            relay.cuts += 1
            return collect(queries, sigma, progress)

        service._collector.collect = cut
        channel = site.channel(relay.address, patience=600)

        def ask() -> None:
            with contextlib.suppress(ServiceError, ValueError):  # of the control, once it is closed
                channel.ask(x)
                answered.set()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        assert answered.wait(300 if looks else 1.5) == looks
        channel.__exit__()
        relay.close()
        asking.join(60)
    assert relay.cuts == 1  # asked again, it is answered from the ledger
    assert len(service.ask(x)) == 5


def test_one_without_patience_does_not_and_learns_no_names(site, service) -> None:
    service._collector = FailsTwice()
    with (
        site.serving(service, 100_000) as address,
        site.channel(address) as channel,
        pytest.raises(ServiceError, match="again uses up nothing more, unless a secure sum") as caught,
    ):
        channel.ask(make_rows(20, 3)[0])
    assert service._collector.asked == [0] and "p07" not in str(caught.value)


def test_a_mistake_of_the_students_own_is_not_repeated(site, service) -> None:
    with (
        site.serving(service, 30) as address,
        site.channel(address, patience=600) as channel,
        pytest.raises(BudgetExceeded),
    ):
        channel.ask(make_rows(31, 3)[0])
