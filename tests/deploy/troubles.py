"""Each trouble of docs/for-it.md as a node meets it, and what the node says of it."""

from __future__ import annotations

import http.server
import logging
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from consilium.aggregator.deployed import AGGREGATOR
from consilium.aggregator.home import open_home as open_second
from consilium.aggregator.node import AggregatorNode
from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.exchange import no_node
from consilium.coordinator.collection.verified import SecondAggregator
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.deploy.start import Room
from consilium.coordinator.events import EventLog, event_of
from consilium.coordinator.label_server import Door, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision.authority import Authority
from consilium.node import checks, flower
from consilium.node.answering import refusal_for
from consilium.node.kit import Kit, open_kit
from consilium.node.supernode import supernode
from consilium.node.supervisor import News
from consilium.party.deployed import PARTY
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import held, writing
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, LedgerPosition
from consilium.protocol.noise import SystemNoise
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import Refusal, Refused
from consilium.student import channel as labels
from consilium.student.deployed import StudentKind
from consilium.sums.aggregators.wire import AggregatorRequest
from consilium.sums.errors import AggregatorWentBack, SecAggError
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import NO_LEDGER
from tests.coordinator.labels.test_service import T, Votes
from tests.deploy.kits import SECOND, STUDENT, edit, server_of
from tests.deploy.spoiled import DOCTORS
from tests.deploy.test_kits_doctor import Https
from tests.federation import hello_of

FULL = OSError(28, "No space left on device")


class Site:
    """Kits of one federation, and what it takes to break them."""

    def __init__(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out, self.patch = out, monkeypatch
        self.coordinator, self.party = open_kit(out / "coordinator"), open_kit(out / "party-ward-a")
        self.student, self.second = open_kit(out / f"student-{STUDENT}"), open_kit(out / f"aggregator-{SECOND}")

    def doctor(self, kit: Kit, name: str) -> str:
        """What it says of one check, which must not be in order."""
        kit = open_kit(kit.folder)
        found = {each.name: each for each in checks.examine(DOCTORS[kit.kind](kit, running=False))}[name]
        assert found.level != "ok"
        return f"{found.what}. {found.action}"

    @property
    def config(self) -> FederationConfig:
        return load(self.coordinator / "federation.json", FederationConfig)


def said(action: Callable[[], object]) -> str:
    with pytest.raises(ConsiliumError) as error:
        action()
    return str(error.value)


def refused(action: Callable[[], object]) -> str:
    """As the coordinator's log tells it."""
    with pytest.raises(Refused) as error:
        action()
    return left_out(f"refused: {error.value.refusal}", error.value.refusal.rule)


def left_out(reason: str, rule: str | None = None) -> str:
    return event_of({"event": "left-out", "party": "ward-a", "stage": "enrol", "reason": reason, "rule": rule}).words


def of_second(site: Site, answer: Refusal | None) -> str:
    """What the coordinator's log tells where the second aggregator refuses so, or is away."""

    class OneNode:
        def nodes(self) -> list[int]:
            return [] if answer is None else [1]

        def exchange(self, requests: dict[int, object], *_: object) -> Iterator[tuple[int, Any]]:
            for node in requests:
                yield node, refusal_to_record(answer) if answer else no_node()

    roster = VerifiedRoster.load(site.coordinator / "roster.json")
    transport: Any = OneNode()
    with closing(EventLog(site.out / "events.jsonl")) as log:
        second = SecondAggregator(transport, site.config, roster, Greeting(lambda: NO_LEDGER), list, log)
        with pytest.raises(SecAggError) as error:
            second.find()
    return event_of(
        {"event": "not-answered", "error": type(error.value).__name__, "reason": str(error.value), "asked": 1}
    ).words


@contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        yield


# Versions.


def other_operator(site: Site) -> str:
    site.patch.setattr(checks, "program_versions", lambda: "consilium-pate 9.9, flwr 1.41.0")
    return site.doctor(site.party, "versions")


def other_party(site: Site) -> str:
    greeting = Greeting(lambda: LedgerPosition(ledger="0" * 64, batch=0, head="0" * 64), program="consilium-pate 0.7")
    reply = HelloReply(party="ward-a", teachers=4, seen=0, program="consilium-pate 0.6")
    return event_of({"event": "version", **(greeting.other_version(reply) or {})}).words


def other_protocol(site: Site) -> str:
    request = hello_of(site.config, protocol_version=PROTOCOL_VERSION + 1)
    return refused(lambda: PartyNode(open_home(site.party.folder)).hello(request))


@contextmanager
def served(site: Site) -> Iterator[None]:
    """The label service of the kit's federation, with made-up votes."""
    config = site.config
    ledger = Ledger(site.coordinator.state / "test.db", config.digest(), "{}")

    class Log:
        def write(self, *_: object, **__: object) -> None:
            """Nothing."""

    service = LabelService(config, ledger, lambda _: SystemNoise(), Votes(), T, Log())  # type: ignore[arg-type]
    door = Door(site.coordinator.server_tls, site.coordinator / "students.json", site.coordinator / "close")
    with serving(service, site.coordinator.coordinator.labels, 40, door):
        yield
    ledger.close()


def other_student(site: Site) -> str:
    site.patch.setattr(labels, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    with served(site):
        found = checks.examine(StudentKind().checks(site.student, False))
    (terms,) = (each for each in found if each.name == "terms")
    assert terms.level == "wrong"
    return f"{terms.what}. {terms.action}"


def other_second(site: Site) -> str:
    with caplog_of("consilium.aggregator") as lines:
        AggregatorNode(open_second(site.second.folder)).hello(hello_of_second(site, program="consilium-pate 0.7"))
    (told,) = News(supernode(site.second, AGGREGATOR.app)).of(f"WARNING: {lines[0]}\n")
    return told


def other_protocol_of_second(site: Site) -> str:
    request = hello_of_second(site, protocol_version=PROTOCOL_VERSION + 1)
    with pytest.raises(Refused) as error:
        AggregatorNode(open_second(site.second.folder)).hello(request)
    return of_second(site, error.value.refusal)


def hello_of_second(site: Site, **changes: Any) -> AggregatorRequest:
    terms, position = site.config.terms().model_dump(), NO_LEDGER.model_dump()
    return AggregatorRequest(**{**terms, **position, "protocol_version": PROTOCOL_VERSION, "program": "", **changes})


@contextmanager
def caplog_of(name: str) -> Iterator[list[str]]:
    """What is logged under this name, as it is filled."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Kept()
    logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger(name).removeHandler(handler)


def other_flower(site: Site) -> str:
    site.patch.setattr(flower, "version", lambda _: "1.50.0")
    return site.doctor(site.coordinator, "flower")


# Restored.


def old_ledger(site: Site) -> str:
    node = PartyNode(open_home(site.party.folder))
    node.hello(hello_of(site.config))
    node.spend.follow(site.config.digest(), LedgerPosition(ledger="0" * 64, batch=3, head="a" * 64))
    return refused(lambda: node.hello(hello_of(site.config)))


def old_party(site: Site) -> str:
    greeting = Greeting(lambda: LedgerPosition(ledger="0" * 64, batch=4, head="0" * 64), {"ward-a": 4})
    reply = HelloReply(party="ward-a", teachers=4, seen=2, program="")
    return left_out(greeting.behind(reply) or "")


def old_second(_: Site) -> str:
    """That it is noticed: tests/verified/test_collection.py."""
    error = AggregatorWentBack(3, 1)
    return event_of({"event": "not-answered", "error": type(error).__name__, "reason": str(error), "asked": 1}).words


def old_file(site: Site) -> str:
    edit(site.coordinator / "students.json", '"university"', '"college"')
    return site.doctor(site.coordinator, "signature")


# Disks.


def free(site: Site, byte: int) -> None:
    site.patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 1, byte))


def nearly_full(site: Site) -> str:
    free(site, 4_000_000)
    return site.doctor(site.party, "disk")


def full_party(site: Site) -> str:
    refusal = refusal_for("query.vote", FULL, logging.getLogger("party"), "party")
    return left_out(f"refused: {refusal}", refusal.rule)


def full_second(site: Site) -> str:
    return of_second(site, refusal_for("query.va_link", FULL, logging.getLogger("aggregator"), "aggregator"))


def full_coordinator(site: Site) -> str:
    told: list[str] = []
    stop = threading.Event()

    def tell(_: str, what: str) -> None:
        told.append(what)
        free(site, 10**11)  # somebody makes room

    free(site, 4_000_000)
    Room(site.coordinator, tell, seconds=0.01).wait(stop)
    assert told[1:] == ["there is room again"]
    return told[0]


def full_command(site: Site) -> str:
    def write() -> None:
        with writing(site.out / "new"):
            raise FULL

    return said(write)


# Proxies.


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes CONNECT to nobody."""

    def do_CONNECT(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def proxy(handler: type[Proxy] = Proxy) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def behind(site: Site, address: str) -> None:
    """Between this party and a coordinator elsewhere, of which only the proxy need know where it is."""
    edit(site.party / "kit.json", '"127.0.0.1"', '"coordinator.example.org"')
    for name in ("https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        site.patch.delenv(name, raising=False)
    site.patch.setenv("HTTPS_PROXY", address)


def refusing_proxy(site: Site) -> str:
    with proxy() as address:
        behind(site, address)
        return site.doctor(site.party, "coordinator")


def reading_proxy(site: Site) -> str:
    (site.coordinator / "server.key").unlink()
    server_of(Authority.create("proxy"), ["127.0.0.1"]).save(site.coordinator.folder, "server")
    with Https(site.coordinator):
        return site.doctor(site.party, "coordinator")


def absent_proxy(site: Site) -> str:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        behind(site, f"http://127.0.0.1:{unheard.getsockname()[1]}")
        return site.doctor(site.party, "coordinator")


# Ports.


def port_of(name: str, key: str) -> Callable[[Site], str]:
    def provoke(site: Site) -> str:
        with taken(getattr(site.coordinator.coordinator, key)):
            return site.doctor(site.coordinator, name)

    return provoke


def party_port(site: Site) -> str:
    with taken(site.party.node_port):
        return site.doctor(site.party, "port")


def second_port(site: Site) -> str:
    with taken(site.second.node_port):
        return site.doctor(site.second, "port")


def moved_labels(site: Site) -> str:
    port = site.coordinator.coordinator.label_port
    edit(site.coordinator / "kit.json", f'"label_port": {port}', '"label_port": 8499')
    return site.doctor(site.coordinator, "addresses")


def nobody_listens(site: Site) -> str:
    return site.doctor(site.party, "coordinator")


# Copies.


def started_twice(site: Site) -> str:
    lock = site.party.state / "lock"

    def second() -> None:
        with held(lock, "party ward-a"):
            pytest.fail("it is held")

    with held(lock, "party ward-a"):
        return said(second)


def second_started_twice(site: Site) -> str:
    with held(site.second.state / "lock", f"aggregator {SECOND}"):
        return said(lambda: AGGREGATOR.start(site.second, lambda *_: None, threading.Event()))


def copy_refused(site: Site) -> str:
    (told,) = News(supernode(site.party, PARTY.app)).of("ERROR: Failed to activate SuperNode.\n")
    return told


def copy_of_second(site: Site) -> str:
    (told,) = News(supernode(site.second, AGGREGATOR.app)).of("ERROR: Failed to activate SuperNode.\n")
    return told


# Clocks.


def clock(ahead: float) -> Callable[[Site], str]:
    def provoke(site: Site) -> str:
        with Https(site.coordinator, -ahead):
            return site.doctor(site.party, "coordinator")

    return provoke


def clock_of_second(site: Site) -> str:
    with Https(site.coordinator, -8):
        return site.doctor(site.second, "coordinator")


def second_gone_back(site: Site) -> str:
    (site.second.state / "given.db").touch()
    return said(lambda: checks.check_clock(site.second, time.time() - 1000))


def before_the_certificate(site: Site) -> str:
    now = datetime.now(UTC) - timedelta(days=30)
    return said(lambda: checks.check_certificate(site.coordinator.server_tls, now=now))


def gone_back(site: Site) -> str:
    (site.party.state / "spend.db").touch()
    return said(lambda: checks.check_clock(site.party, time.time() - 1000))


PROVOKED: dict[str, Callable[[Site], str]] = {
    "version: this node's program is not the operator's": other_operator,
    "version: a party's is another one that works": other_party,
    "version: a party's speaks another protocol": other_protocol,
    "version: a student's speaks another protocol": other_student,
    "version: the second aggregator's is another one that works": other_second,
    "version: the second aggregator's speaks another protocol": other_protocol_of_second,
    "version: Flower's is not one that was tested": other_flower,
    "restored: an old ledger at the coordinator": old_ledger,
    "restored: an old state at a party": old_party,
    "restored: an old state at the second aggregator": old_second,
    "restored: an old file in a kit": old_file,
    "disk: nearly full": nearly_full,
    "disk: full at a party, in the middle": full_party,
    "disk: full at the second aggregator, in the middle": full_second,
    "disk: full at the coordinator, in the middle": full_coordinator,
    "disk: full under a command": full_command,
    "proxy: it does not let the connection through": refusing_proxy,
    "proxy: it reads the traffic (TLS inspection)": reading_proxy,
    "proxy: the environment names one that is not there": absent_proxy,
    "port: `superlink_port` is taken": port_of("superlink port", "superlink_port"),
    "port: `label_port` is taken": port_of("label port", "label_port"),
    "port: `internal_port` is taken": port_of("internal port", "internal_port"),
    "port: a party's `node_port` is taken": party_port,
    "port: the second aggregator's `node_port` is taken": second_port,
    "port: `label_port` was changed at the coordinator": moved_labels,
    "port: nobody listens where the kit says": nobody_listens,
    "copy: a kit is started twice on one machine": started_twice,
    "copy: the second aggregator's kit is started twice on one machine": second_started_twice,
    "copy: a kit runs on two machines, seen by the second": copy_refused,
    "copy: the second aggregator's kit runs on two machines, seen by the second": copy_of_second,
    "clock: ahead of the coordinator's by more than 4 s": clock(8),
    "clock: behind it by more than 240 s": clock(-500),
    "clock: the second aggregator's is not the coordinator's": clock_of_second,
    "clock: before the certificate's first day": before_the_certificate,
    "clock: set back while the node was stopped": gone_back,
    "clock: set back while the second aggregator was stopped": second_gone_back,
    "away: the second aggregator is not connected": lambda site: of_second(site, None),
}
