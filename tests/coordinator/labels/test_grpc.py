"""The label service over a real loopback socket with mutual TLS: who comes in, the same answers as in-process, refusals
that keep their type, and students that ask again what failed."""

from __future__ import annotations

import contextlib
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import grpc
import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax, Histogram
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.events import read_events
from consilium.coordinator.label_server import serve, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision.authority import Authority
from consilium.protocol.errors import (
    BudgetExceeded,
    ConfigError,
    DataError,
    LedgerError,
    MalformedMessage,
    NotEnoughParties,
    ServiceError,
)
from consilium.protocol.label_source import Answers, Outcome
from consilium.protocol.label_wire import (
    GENERIC,
    answers_from_wire,
    answers_to_wire,
    blocks,
    refusal_from_wire,
    refusal_to_wire,
)
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.tls import TlsFiles
from consilium.student.deployed import OPTIONS, LabelChannel
from consilium.sums.errors import BadShare, ThresholdNotMet
from tests.coordinator.labels.conftest import CONFIG
from tests.coordinator.labels.site import WAIT, Site
from tests.coordinator.labels.test_service import T, Votes
from tests.coordinator.provision.desk import ENDS
from tests.disks import locked
from tests.federation import make_config, make_rows

X = make_rows(20, 3)[0]
REFUSED = "the server does not accept this node's certificate"


def test_the_socket_gives_what_the_process_gives_but_the_number_of_parties(site, service) -> None:
    """One reply, which holds what the ledger has, however many take part."""
    with site.serving(service, 100) as address, site.channel(address) as channel:
        assert channel.describe() == service.describe()
        answers = channel.ask(X)
    again = service.ask(X)
    assert (answers.labels.tolist(), answers.outcomes.tolist()) == (again.labels.tolist(), again.outcomes.tolist())
    assert {field.name for field in pb.Answers.DESCRIPTOR.fields} == {"outcomes", "labels", "counts"}


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


def told(stub: rpc.LabelServiceStub, stream: list[pb.QueryBlock]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Ask(iter(stream))
    return caught.value.details()  # type: ignore[attr-defined]


def test_malformed_streams_and_another_protocol_version_are_refused(site, service) -> None:
    with site.serving(service, 10) as address, site.bare(address) as channel:
        stub = rpc.LabelServiceStub(channel)
        for stream in MALFORMED:
            assert isinstance(refusal_from_wire(told(stub, stream)), MalformedMessage | DataError)
        with pytest.raises(grpc.RpcError, match="protocol version 99"):
            stub.Describe(iter([pb.DescribeRequest(protocol_version=99)]))
        with pytest.raises(grpc.RpcError, match="the request is missing"):
            stub.Describe(iter(()))
    for detail in ("", "[]", '{"error": "DataError"}', '{"error": "SystemExit", "what": "x", "action": ""}'):
        assert type(refusal_from_wire(detail)) is ServiceError


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

        def detail(cause: Exception) -> str:
            def fail(*_: object, **__: object) -> None:
                raise cause

            monkeypatch.setattr(service, "ask", fail)
            return told(rpc.LabelServiceStub(channel), blocks(X[:3]))

        assert {detail(cause) for cause in CAUSES} == {refusal_to_wire(GENERIC)}
        for cause in OWN:
            error = refusal_from_wire(detail(cause))
            assert type(error) is type(cause) and error.what == cause.what
    assert "4711" not in caplog.text


def test_a_connection_that_breaks_is_told_from_one_that_never_was(site, service) -> None:
    """And an address in use, or impossible, is a mistake of the configuration."""
    with site.channel("127.0.0.1:9", wait=0.3) as channel, pytest.raises(ServiceError, match="no label service at"):
        channel.ask(X)
    with site.serving(service, 10) as address:
        for wrong in (address, "256.0.0.1:80"):
            door = replace(site.door, address=wrong)
            with pytest.raises(ConfigError, match="cannot listen"), serving(service, door, 10):
                pass
        channel = site.channel(address)
        channel.describe()
    with channel, pytest.raises(ServiceError, match="was lost before it answered") as caught:
        channel.ask(X)
    assert "Ask again" in caught.value.action


class FailsTwice(Votes):
    def collect(self, queries, sigma):
        if len(self.asked) < 2:
            self.asked.append(0)
            raise NotEnoughParties("2 parties after stage 'vote' (1 x p07 is away)")
        return super().collect(queries, sigma)


@pytest.mark.usefixtures("soon")
def test_a_patient_student_asks_again_what_failed_and_no_mistake_of_its_own(site, service) -> None:
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


def test_a_student_gets_no_label_of_another_federation_than_it_has_the_terms_of(site, service) -> None:
    """Its coordinator joined another one meanwhile, at the same address: the card would have the epsilon of one."""
    with site.serving(service, 20) as address, site.channel(address) as channel:
        channel._terms = replace(channel.describe(), federation="0" * 64)
        with pytest.raises(DataError, match=r"another federation.*nothing was asked.*Join the newest folder"):
            channel.ask(X)
    assert service._collector.asked == []


@pytest.mark.usefixtures("soon")
def test_a_lock_is_waited_for_within_the_students_patience(site, service, tmp_path: Path) -> None:
    """From its first call on. The event log says why, a student hears no more than that the operator sees it."""
    service._ledger._file.execute("PRAGMA busy_timeout = 50")
    said: list[str] = []
    with ExitStack() as lock, site.serving(service, 100) as address:
        lock.enter_context(locked(tmp_path / "ledger.db"))
        with site.channel(address) as hasty, pytest.raises(ServiceError, match=r"sees why.*consilium status") as error:
            hasty.describe()
        assert "ledger" not in str(error.value)

        def tell(text: str) -> None:
            said.append(text)
            if len(said) == 3:
                lock.close()

        with site.channel(address, patience=600) as channel:
            channel.tell = tell
            channel.describe()
            said.clear()
            lock.enter_context(locked(tmp_path / "ledger.db"))
            assert len(channel.ask(X)) == 20
    assert len(said) >= 3 and service._ledger.spent()[0] == 20
    noted = [event for event in read_events(tmp_path / "events.jsonl") if event.kind == "not-answered"]
    assert {event.error for event in noted} == {"LedgerLocked"}
    assert all("ledger.db: it is locked: another program holds it" in event.words for event in noted)


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


@pytest.mark.usefixtures("soon")
def test_a_connection_that_broke_without_a_word_is_asked_over_again(site, service, monkeypatch) -> None:
    quick = {name: min(value, 500) for name, value in OPTIONS.items() if "message" not in name}
    monkeypatch.setattr("consilium.student.deployed.OPTIONS", quick)
    collect = service._collector.collect
    with site.serving(service, 100) as address:
        relay = Relay(address)

        def cut(queries, sigma):
            relay.cuts += 1
            return collect(queries, sigma)

        service._collector.collect = cut
        with site.channel(relay.address, patience=600) as channel:
            assert len(channel.ask(X)) == 20
        relay.close()
    assert relay.cuts == 1  # asked again, it is answered from the ledger


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
    other = Authority.create("other", ENDS, datetime.now(UTC))
    other.save(tmp_path)
    cases = {
        "of another authority": (site.certified("foreign", other), REFUSED),
        "not in the list": (site.certified("unlisted", site.authority), "does not accept this student's certificate"),
        "a server's": (coordinator, REFUSED),
        "expired": (site.certified("old", site.authority_at(datetime(2020, 1, 1, tzinfo=UTC))), REFUSED),
        "of a student that trusts another server": (
            replace(site.tls(), authority=tmp_path / "ca.crt"),
            "the server's certificate is not accepted",
        ),
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
            assert channel.describe().queries_left == 1000  # nobody else was harmed
    site.tls().key.chmod(0o644)
    with pytest.raises(ConfigError, match="others than its owner"):
        site.channel("127.0.0.1:1")
    site.node("coordinator").tls.key.chmod(0o640)
    with pytest.raises(ConfigError, match="others than its owner"), serving(service, site.door, 100):
        pass


def test_students_come_one_after_another_until_they_are_revoked_or_it_is_closed(
    tmp_path: Path, service: LabelService, log
) -> None:
    site = Site(tmp_path / "site", ("anna", "institute"))
    with site.serving(service, 100) as address:
        for name in ("anna", "institute"):  # the second asks the same: it costs nothing
            with site.channel(address, name) as channel:
                channel.ask(X)
            assert service.describe().queries_left == 980
    site.revoke("anna")
    with (
        site.serving(service, 100) as address,
        site.channel(address, "anna") as anna,
        site.channel(address, "institute") as other,
    ):
        anna._terms = other.describe()
        for call in (anna.describe, lambda: anna.ask(X)):
            with pytest.raises(ServiceError, match="does not accept this student's certificate"):
                call()
        assert len(other.ask(X)) == 20, "the control: it is still listed"
    threading.Timer(0.3, site.door.close_file.touch).start()
    serve(site.door, CONFIG, log, service)


def test_the_service_closes_at_its_time_limit_if_anything_was_asked(site: Site, service: LabelService, log) -> None:
    early = CONFIG.model_copy(update={"timeouts": CONFIG.timeouts.model_copy(update={"student": 0.1})})
    with pytest.raises(ServiceError, match=r"no student asked anything within 0\.1 s"):
        serve(site.door, early, log, service)
    service.ask(X[:3])
    serve(site.door, early, log, service)


@pytest.mark.parametrize(("mechanism", "count_sigma"), [(Histogram(sigma=3.0), 0.0), (GNMax(sigma=3.0), 3.0)])
def test_a_coordinator_that_does_not_give_what_its_terms_say_is_refused(site, monkeypatch, mechanism, count_sigma):
    """Histograms where labels alone were announced, or none where they were: else a later request could lack them."""
    config = make_config(mechanism=mechanism, query_budget=QueryBudget(queries=100, answers=100))
    service = LabelService(config, Ledger.in_memory(config), Votes(), SeededNoise, T)
    kind = ReleaseKind.COUNTS if count_sigma else ReleaseKind.WINNER
    with site.serving(service, 100) as address, site.channel(address) as channel:
        assert (channel.ask(X).counts is None) == (count_sigma > 0)  # the control
        lie = replace(service.describe(), count_sigma=count_sigma, most_votes=9 if count_sigma else 0, release=kind)
        monkeypatch.setattr(service, "describe", lambda: lie)
        channel.describe()
        with pytest.raises(MalformedMessage, match="unlike its terms"):
            channel.ask(X)


def test_as_many_as_may_ever_be_asked_come_in_one_message() -> None:
    counts = np.arange(800_000).reshape(-1, 2) - 400_000
    labels = counts.argmax(axis=1)
    message = answers_to_wire(Answers(np.ones_like(labels), labels, counts))
    assert 8_000_000 < message.ByteSize() < OPTIONS["grpc.max_receive_message_length"]
    assert (answers_from_wire(message, len(counts), 2).counts == counts).all()


def labelled(*answers: tuple[int, int]) -> pb.Answers:
    outcomes, labels = zip(*answers, strict=True)
    return pb.Answers(outcomes=bytes(outcomes), labels=np.array(labels, "<i4").tobytes())


GOOD = (Outcome.ANSWERED, 1), (Outcome.ABSTAINED, 7)


COUNTS = [[1, 5], [3, -2]]


def sent(counts: list[list[int]], labels: tuple[int, int] = (1, 0)) -> pb.Answers:
    answered = labelled((Outcome.ANSWERED, labels[0]), (Outcome.ANSWERED, labels[1]))
    return pb.Answers(outcomes=answered.outcomes, labels=answered.labels, counts=np.array(counts, "<i8").tobytes())


@pytest.mark.parametrize(
    "message",
    [
        pb.Answers(),
        labelled(GOOD[0]),
        labelled(*GOOD, GOOD[0]),
        labelled((Outcome.ANSWERED, 2), GOOD[1]),
        labelled((Outcome.ANSWERED, -1), GOOD[1]),
        labelled((0, 0), (0, 0)),
        sent(COUNTS[:1]),
        sent([*COUNTS, [0, 0]]),
        sent([[2**60, 0], [0, 0]], (0, 0)),
        sent([[-(2**63), 5], [3, -2]]),
        sent(COUNTS, (0, 0)),
    ],
)
def test_what_a_hostile_coordinator_sends_is_refused(message: pb.Answers) -> None:
    assert (answers_from_wire(sent(COUNTS), 2, 2).counts == COUNTS).all()
    assert answers_from_wire(labelled(*GOOD), 2, 2).labels.tolist() == [1, -1]
    with pytest.raises(MalformedMessage):
        answers_from_wire(message, 2, 2)
