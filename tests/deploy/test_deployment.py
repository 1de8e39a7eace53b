"""Federations as processes, which each test reads or continues: nothing private is on the wire or at rest, nobody gets
in who may not, a late party, kills and a revocation need no hand; a second aggregator comes last, is stopped, and is
killed while it is asked.

A recorder stands at the public address, ends TLS with the coordinator's own key, and keeps what goes through the
encryption; the coordinator listens at another. And what must not leave a node, in any form in which it could stand in a
file or on the wire, and the search for it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from consilium.aggregator.store import GivenStore
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.node.folder import open_folder
from consilium.node.signed import joined
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.queries import canonical_queries, query_ids
from tests.command_line import consilium
from tests.deploy.site import (
    NOISY,
    PARTIES,
    SECOND,
    SERVES,
    STUDENT,
    Federation,
    allow,
    command,
    family,
    join_all,
    make_site,
    running,
)
from tests.federation import CLASSES, FEATURES, make_rows
from tests.marks import third
from tests.node.test_programs import asked_by

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1500)]
LATE = "ward-d"
WARDS = (*PARTIES, LATE)
HOST, ASKED, EACH = "127.0.0.2", 12, 8
WAITS = {"enrol": 250, "join": 1, "train": 250, "vote": 250, "secure": 250, "student": 1400}
CONTROL = ["list-nodes", "list-runs", "start-run", "stop-run", "register-node", "unregister-node"]
KILLS = [
    ("coordinator", "deploy.serving"),
    ("coordinator", ""),
    ("ward-a", ""),
    ("ward-c", "node.apps"),
    ("ward-b", "node.supernode"),
    ("student", ""),
]
"""Whom, and what is in the command line of the process; none: the one that systemd watches."""
STAGES = ("secure sum: unmask", "secure sum: share", "secure sum: masked")


class Recorder:
    """Listens where the federation says that its coordinator is, and passes on to `there`, where it really listens."""

    def __init__(self, site: Path, there: str) -> None:
        self._streams: list[bytearray] = []
        self._site, self._there = site, there
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Recorder:
        coordinator = open_folder(self._site / "coordinator")
        place = joined(coordinator).coordinator
        client = open_folder(self._site / STUDENT).tls
        self._thread.start()
        for port, protocol in ((place.node_port, "http/1.1"), (place.label_port, "h2")):
            inner = ssl.create_default_context(cafile=str(coordinator.authority))
            outer = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            outer.load_cert_chain(coordinator.tls.certificate, coordinator.tls.key)
            if protocol == "h2":  # mutual TLS: what the student shows is shown again
                inner.load_cert_chain(client.certificate, client.key)
            for context in (inner, outer):
                context.set_alpn_protocols([protocol])
            serving = self._serve(port, outer, inner)
            asyncio.run_coroutine_threadsafe(serving, self._loop).result(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def recorded(self) -> bytes:
        return b"\n".join(bytes(stream) for stream in self._streams)

    async def _serve(self, port: int, outer: ssl.SSLContext, inner: ssl.SSLContext) -> None:
        async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                back, out = await asyncio.open_connection(self._there, port, ssl=inner, server_hostname="127.0.0.1")
            except OSError:  # not listening yet
                writer.close()
                return
            await asyncio.gather(self._copy(reader, out), self._copy(back, writer))

        await asyncio.start_server(passed, "127.0.0.1", port, ssl=outer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = bytearray()
        self._streams.append(stream)
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                stream += data
                writer.write(data)
                await writer.drain()
        writer.close()


def forms(secret: bytes) -> list[bytes]:
    """A secret as bytes, in hex, and in base64 wherever it may begin: so also inside PEM."""
    found = [secret, secret[::-1], secret.hex().encode(), secret.hex().upper().encode()]
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + secret)
        found.append(text[4:-4] if shift else text[:-4])
    return found


def key_markers(site: Path) -> list[bytes]:
    """All private keys of all nodes, and the operator's."""
    found = []
    for path in [*site.glob("*/keys/*.pem"), *site.glob("*/keys/*.key")]:
        content = path.read_bytes()
        openssh = b"OPENSSH" in content
        key: Any = load_ssh_private_key(content, None) if openssh else load_pem_private_key(content, None)
        if isinstance(key, Ed25519PrivateKey | X25519PrivateKey):
            secret = key.private_bytes_raw()
        else:
            assert isinstance(key, EllipticCurvePrivateKey), path
            # OpenSSH leaves leading zero bytes out, which one key in 256 has
            secret = key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big").lstrip(b"\0")
        markers = forms(secret)
        assert contains(content, markers), path.name  # the search would find it: the key file itself has it
        found += markers
    assert found
    return found


def vote_markers(votes: np.ndarray) -> list[bytes]:
    """A party's exact votes, in any plausible layout: all of them, and by halves."""
    half = len(votes) // 2
    parts = [part for whole in (votes, votes.T.copy()) for part in (whole, whole[:, :half] if half > 2 else whole)]
    parts += [votes[:half], votes[half:], votes[:, 0], votes[:, 1]]
    return [part.astype(kind).tobytes() for part in parts for kind in ("u1", "<u2", "<u4", "<u8", "<f4", "<f8")]


def row_markers(rows: np.ndarray, standardised: np.ndarray) -> list[bytes]:
    """Rows as numbers, before and after the standardisation that a party does: eight bytes at least at a time, since
    shorter ones would be found by chance."""
    found = []
    for values in (*rows, *standardised):
        found += [values.astype("<f4")[start : start + 2].tobytes() for start in (0, 1)]
        found += [value.tobytes() for value in values.astype("<f8")]
    return found


def contains(content: bytes, markers: Iterable[bytes]) -> bool:
    """Whether any marker is there, also where lines of PEM are broken, really or as an escape."""
    joined = content.replace(b"\r", b"").replace(b"\n", b"").replace(b"\\n", b"")
    return any(marker in content or marker in joined for marker in markers)


def files(*patterns: tuple[Path, str]) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for root, glob in patterns for path in root.glob(glob) if path.is_file()}


def found_in(places: Mapping[str, bytes], markers: list[bytes]) -> list[str]:
    return sorted(place for place, content in places.items() if contains(content, markers))


AWAY = "the second aggregator does not answer"
KILLED = ["", "node.supernode", "node.apps"]
"""What is in the command line of the process; none: the one that systemd watches."""


@pytest.mark.nightly
def test_the_second_aggregator_comes_last_is_stopped_and_is_killed(tmp_path: Path) -> None:
    site = make_site(tmp_path, collection="verified", minimum_parties=3, listen=HOST)
    with Recorder(site, HOST) as recorder, running(site, ["coordinator", *PARTIES]) as federation:
        said = federation.coordinator
        federation.wait(lambda: AWAY in said.said, "it is awaited")  # before anybody trains
        assert SERVES not in said.said
        federation.start(SECOND)
        federation.serving()
        assert federation.asked("student-1", 0)["asked"] == EACH
        for name in ("coordinator", PARTIES[0], SECOND):
            command("doctor", site / name)
        given = command("status", site / SECOND, "--format", "json").json()["given"]
        assert given["queries"] == EACH

        federation[SECOND].stop()
        federation.wait(
            lambda: federation.status()["aggregators"] == {SECOND: "checks votes, not connected"},
            "status says that it is away",
        )
        student = federation.asks("student-2", EACH)  # it asks again until there are answers
        federation.wait(lambda: "questions were not answered" in said.said, "it is said")
        federation.start(SECOND)
        assert federation.answer(student)["asked"] == EACH

        events = federation.run_folder() / "events.jsonl"
        for number, text in enumerate(KILLED, 3):
            begun = events.read_text().count('"stage"')
            student = federation.asks(f"student-{number}", EACH * (number - 1))
            federation.wait(lambda begun=begun: events.read_text().count('"stage"') > begun, "the question has begun")
            federation[SECOND].kill(text)
            assert federation.answer(student)["asked"] == EACH
        wire = recorder.recorded()
        federation.close("student-1")

    labels = federation.labels()
    assert len(labels) == len(set(labels)) == EACH * (2 + len(KILLED))
    with GivenStore(site / SECOND / "state" / "given.db").transaction() as given:
        assert given.ever() == len(labels)
    places = {"wire": wire, **files((site, "*/state/**/*"), (site, "*.log"))}
    assert found_in(places, key_markers(site)) == []


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, Recorder]]:
    """Three wards serve, and a student has its labels; the fourth is to be started by a yes."""
    folder, limits = tmp_path_factory.mktemp("masked"), {"minimum_parties": 3, "timeouts": WAITS, **NOISY}
    site = make_site(folder, WARDS, accepted=False, listen=HOST, **limits)
    for name in PARTIES:
        allow(site / name)
    with Recorder(site, HOST) as recorder, running(site, ["coordinator", *PARTIES]) as federation:
        federation.serving()
        assert federation.asked("student-1", 0, ASKED)["asked"] == ASKED
        yield federation, recorder


@pytest.fixture
def federation(recorded: tuple[Federation, Recorder]) -> Federation:
    return recorded[0]


@pytest.fixture(scope="module")
def four(recorded: tuple[Federation, Recorder]) -> Federation:
    """The same, once the fourth ward came late and is in a sum."""
    federation, _ = recorded
    federation.start(LATE)
    federation.wait(lambda: f"take part: {LATE}" in federation.coordinator.said, "the late one takes part")
    assert federation.asked("student-2", ASKED)["asked"] == EACH
    return federation


def exact_votes(federation: Federation, name: str) -> np.ndarray:
    """What a party's teachers, from its own disk, vote on the queries, in the order in which they were asked."""
    run = federation.run_folder()
    config = FederationConfig.model_validate_json(stored_config(run / "ledger.db")[1])
    with contextlib.closing(Ledger(run / "ledger.db", config.digest(), "", read_only=True)) as ledger:
        asked = [query for batch in ledger.batches() for query in batch.query_ids]
    queries = canonical_queries(make_rows(400, 1000)[0][:ASKED], len(FEATURES))
    where = {query_id: at for at, query_id in enumerate(query_ids(queries))}
    trained = Store(federation.site / name / "state" / "party.db").teachers(config.digest())
    rows = trained.schema.standardise(queries[[where[query_id] for query_id in asked]])
    return counted(np.array([teacher.predict(rows) for teacher in trained.teachers]).T, len(CLASSES))


def test_nothing_private_is_on_the_wire_or_at_rest_elsewhere(recorded: tuple[Federation, Recorder]) -> None:
    federation, recorder = recorded
    site, wire = federation.site, recorder.recorded()
    assert b"/v1/fleet/push-object" in wire and b"PRI * HTTP/2" in wire
    schema = joined(open_folder(site / "coordinator")).config.rows
    logs = files((site, "*.log"))
    for number, name in enumerate(PARTIES):
        others = [path for path in site.iterdir() if path.is_dir() and path.name != name]
        places = {"wire": wire, **logs, **files(*((path, "**/*") for path in others))}
        rows = make_rows(240, number)[0][:3]
        markers = row_markers(rows, np.asarray(schema.standardise(rows)))
        assert found_in(files((site / name, "data.npz")), markers) != []  # the search would find it
        assert found_in(places, markers) == []
        votes = exact_votes(federation, name)
        assert votes.shape == (ASKED, len(CLASSES)) and votes.sum() == 4 * ASKED
        assert found_in(places, vote_markers(votes)) == []
        assert list((site / name / "state").rglob("*.py")) == []  # no code came with the run
    everything = {"wire": wire, **files((site, "**/*"))}
    at_rest = {at: content for at, content in everything.items() if "/keys/" not in at and "/operator/" not in at}
    assert found_in(at_rest, key_markers(site)) == []


def test_whoever_has_no_certificate_gets_no_label_and_nobody_reaches_the_control_api(federation: Federation) -> None:
    coordinator = open_folder(federation.site / "coordinator")
    place, own = joined(coordinator).coordinator, open_folder(federation.site / STUDENT).tls
    contexts = [ssl.create_default_context(cafile=str(coordinator.authority)) for _ in range(2)]
    with httpx.Client(verify=contexts[0], trust_env=False) as client:
        for call in CONTROL:
            assert client.post(f"https://127.0.0.1:{place.node_port}/v1/control/{call}").status_code in (403, 404)
    contexts[1].load_cert_chain(own.certificate, own.key)
    greetings = []
    for shown in contexts:
        shown.set_alpn_protocols(["h2"])
        plain = socket.create_connection((HOST, place.label_port))
        greetings.append(b"")
        with contextlib.suppress(ssl.SSLError), shown.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            greetings[-1] = connection.recv(9)
    assert [greeting[3:4] for greeting in greetings] == [b"", b"\x04"]  # SETTINGS of HTTP/2


def loopback_ports(pid: int) -> list[int]:
    """On which these processes listen, and nobody outside the machine reaches."""
    inodes = set()
    for each in family(pid):
        for link in Path(f"/proc/{each}/fd").iterdir():
            if (target := str(link.readlink())).startswith("socket:"):
                inodes.add(target[8:-1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        int(row[1][-4:], 16) for row in rows if row[3] == "0A" and row[1].startswith("0100007F") and row[9] in inodes
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_no_other_user_of_the_machine_reaches_a_port_behind_the_public_ones(federation: Federation) -> None:
    coordinator, party = (federation[name].process for name in ("coordinator", PARTIES[0]))
    assert coordinator is not None and party is not None
    assert loopback_ports(coordinator.pid) == []
    ports = loopback_ports(party.pid)
    assert len(ports) >= 1
    for port in ports:
        answers = [asked_by(user, f"http://127.0.0.1:{port}/") for user in (0, 65534)]
        assert answers[1] == "403" != answers[0], answers


def test_a_late_party_takes_part_and_every_node_finds_itself_in_order(four: Federation) -> None:
    for name in ("coordinator", LATE, STUDENT):
        command("doctor", four.site / name)
    assert four.status()["parties"][PARTIES[0]] == f"takes part, connected, answered {ASKED + EACH} queries"
    again = consilium("node", "start", four.site / "coordinator")
    assert again.exit_code == 2 and "already started" in again.stderr


def test_whoever_is_killed_at_whatever_stage_each_label_is_given_and_charged_once(four: Federation) -> None:
    """`kill -9`, and nobody's hand is needed."""
    federation, before = four, four.labels()

    def all_are_back() -> bool:
        return all(words.startswith("takes part, connected") for words in federation.status()["parties"].values())

    for number, (node, text) in enumerate(third(KILLS), 1):
        stage, name, first = STAGES[number % len(STAGES)], f"killed-{number}", 20 + EACH * number
        begun = federation.begun(stage)
        student = federation.asks(name, first)
        federation.wait(lambda begun=begun, stage=stage: federation.begun(stage) > begun, f"{stage} of {name}")
        if node == "student":
            student.kill()
            student.wait()
            student = federation.asks(name, first, EACH, "--resume")
        else:
            federation[node].kill(text)
        assert federation.answer(student)["asked"] == EACH, (node, text, stage)
        federation.wait(all_are_back, f"all are back after {node} {text}", pause=4)
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == len(before) + EACH * len(third(KILLS))
    charged = [Store(federation.site / name / "state" / "party.db").answered() for name in PARTIES]
    assert min(charged) >= len(labels) - EACH  # at most one sum went on without a party that was killed


def test_a_revocation_needs_no_hand_at_the_coordinator(four: Federation) -> None:
    federation, site, before, first = four, four.site, four.labels(), four.run_folder()
    times = federation.coordinator.said.count(SERVES)
    command("provision", "revoke", site / "out", LATE)
    join_all(site, ["coordinator", *PARTIES])
    federation.wait(lambda: "revoked" in federation[LATE].said, "it hears that it was revoked")
    federation[LATE].power_off()  # else it tries again and again
    federation.serving(times + 1)  # it ended, was started again, closed the earlier federation, and serves the new one
    assert federation.run_folder() != first
    join_all(site, [STUDENT])
    assert federation.asked("student-4", 100)["asked"] == EACH
    federation.close("student-4")
    assert federation.status()["closed"]
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == len(before) + EACH
