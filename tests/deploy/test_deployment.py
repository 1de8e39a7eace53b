"""One federation with masked votes as processes, which each test here reads or continues: nothing private is on the
wire or at rest, nobody gets in who may not, a late party, kills and a revocation need no hand.

The recorder stands at the public address, and the coordinator listens at another."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.node.folder import open_folder
from consilium.node.signed import joined
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.queries import canonical_queries, query_ids
from tests.command_line import consilium
from tests.deploy.recorder import Recorder, files, found_in, key_markers, row_markers, vote_markers
from tests.deploy.site import (
    NOISY,
    PARTIES,
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
        answers = [asked(port, user) for user in (0, 65534)]
        assert answers[1] == "403" != answers[0], answers


def asked(port: int, user: int) -> str:
    """Status of the answer that a user of this machine gets; empty for none."""
    reader, writer = os.pipe()
    child = os.fork()  # a program of another user's may not be there: the tests' own environment can be closed to him
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setuid(user)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("POST", "/v1/clientappio/pull-message")
            os.write(writer, str(connection.getresponse().status).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        answer = said.read()
    os.waitpid(child, 0)
    return answer


def test_a_late_party_takes_part_and_every_node_finds_itself_in_order(federation: Federation) -> None:
    federation.start(LATE)
    federation.wait(lambda: f"next questions on: {LATE}" in federation.coordinator.said, "the late one takes part")
    assert federation.status()["parties"][LATE].startswith("late")
    assert federation.asked("student-2", ASKED)["asked"] == EACH
    for name in ("coordinator", LATE, STUDENT):
        command("doctor", federation.site / name)
    assert federation.status()["parties"][PARTIES[0]] == f"takes part, connected, answered {ASKED + EACH} queries"
    again = consilium("node", "start", federation.site / "coordinator")
    assert again.exit_code == 2 and "already started" in again.stderr


def all_are_back(federation: Federation) -> bool:
    return all(words.startswith("takes part, connected") for words in federation.status()["parties"].values())


def test_whoever_is_killed_at_whatever_stage_each_label_is_given_and_charged_once(federation: Federation) -> None:
    """`kill -9`, and nobody's hand is needed."""
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
        federation.wait(lambda: all_are_back(federation), f"all are back after {node} {text}", pause=4)
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == ASKED + EACH * (1 + len(third(KILLS)))
    charged = [Store(federation.site / name / "state" / "party.db").answered() for name in PARTIES]
    assert min(charged) >= len(labels) - EACH  # at most one sum went on without a party that was killed


def test_a_revocation_needs_no_hand_at_the_coordinator(federation: Federation) -> None:
    site, before, first = federation.site, federation.labels(), federation.run_folder()
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
