"""A federation with plaintext votes as processes: who is kept out of it, a late party, a revoked one, and a reboot."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from consilium.node.folder import open_folder
from consilium.node.join import joined
from tests.command_line import consilium
from tests.deploy.markers import files, found_in, key_markers
from tests.deploy.processes import Federation, family, running
from tests.deploy.site import PARTIES, STUDENT, allow, command, join_all, keys, make_site, write_rows

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.timeout(1500)]
LATE = "ward-d"
CONTROL = ["list-nodes", "list-runs", "start-run", "stop-run", "register-node", "unregister-node"]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """It serves, and a student has its labels. Nobody allowed anything but by a yes at the first start."""
    site = make_site(tmp_path_factory.mktemp("plain"), accepted=False)
    with running(site, ["coordinator", *PARTIES]) as federation:
        federation.serving()
        done = federation.asked("student-1", 0)
        assert done["asked"] == 8 and done["answered"] > 0
        yield federation


def addresses(federation: Federation) -> tuple[int, int]:
    place = joined(open_folder(federation.site / "coordinator")).coordinator
    return place.node_port, place.label_port


def context(federation: Federation) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(federation.site / "coordinator" / "federation" / "ca.crt"))


def test_every_node_finds_itself_in_order(federation: Federation) -> None:
    for name in ("coordinator", *PARTIES, STUDENT):
        command("doctor", federation.site / name)
    said = federation.status()
    assert said["parties"] == dict.fromkeys(PARTIES, "takes part, connected, answered 8 queries")
    again = consilium("node", "start", federation.site / "coordinator")
    assert again.exit_code == 2 and "already started" in again.stderr


def greeted(port: int, context: ssl.SSLContext) -> bytes:
    """What a label service says first to whoever connects so: nothing, where it does not let him in."""
    try:
        plain = socket.create_connection(("127.0.0.1", port))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            return connection.recv(9)
    except ssl.SSLError:
        return b""


def test_whoever_has_no_certificate_of_the_authority_gets_no_label(federation: Federation, tmp_path: Path) -> None:
    _, port = addresses(federation)
    own = open_folder(federation.site / STUDENT).tls
    stranger = open_folder(make_site(tmp_path, PARTIES[:2]) / STUDENT).tls  # of another authority's federation
    contexts = [context(federation) for _ in range(3)]
    for shown, tls in zip(contexts[1:], (stranger, own), strict=True):
        shown.load_cert_chain(tls.certificate, tls.key)
    for shown in contexts:
        shown.set_alpn_protocols(["h2"])
    assert [greeted(port, shown)[3:4] for shown in contexts] == [b"", b"", b"\x04"]  # SETTINGS of HTTP/2


def test_the_control_api_is_not_on_the_public_port(federation: Federation) -> None:
    port, _ = addresses(federation)
    with httpx.Client(verify=context(federation), trust_env=False) as client:
        for call in CONTROL:
            assert client.post(f"https://127.0.0.1:{port}/v1/control/{call}").status_code in (403, 404)


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


def test_no_other_user_of_the_machine_reaches_a_port_behind_the_public_ones(federation: Federation) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    ports = {}
    for name in ("coordinator", PARTIES[0]):
        process = federation[name].process
        assert process is not None
        ports[name] = set(loopback_ports(process.pid)) - set(addresses(federation))
    assert ports["coordinator"] == set()
    assert len(ports[PARTIES[0]]) >= 1
    for port in ports[PARTIES[0]]:
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


def test_no_code_came_with_the_run_and_no_key_left_its_folder(federation: Federation) -> None:
    site = federation.site
    assert [path for name in PARTIES for path in (site / name / "state").rglob("*.py")] == []
    places = files((site, "*/state/**/*"), (site, "*.log"), (site / "out", "**/*"), (site / "student-1", "**/*"))
    assert found_in(places, key_markers(site)) == []


def test_a_late_party_a_revoked_one_and_a_reboot_need_nobody(federation: Federation) -> None:
    site = federation.site
    command("provision", "add", site / "out", keys(site, LATE))
    write_rows(site / LATE, 7)
    join_all(site, ["coordinator", LATE])
    allow(site / LATE)
    federation.start(LATE)
    federation.wait(lambda: federation.status()["parties"].get(LATE, "").startswith("late"), "the late one takes part")
    assert federation.asked("student-2", 8)["asked"] == 8

    command("provision", "revoke", site / "out", PARTIES[0])
    join_all(site, ["coordinator"])
    federation.wait(lambda: "revoked" in federation[PARTIES[0]].said, "it hears that it was revoked")
    assert federation.status()["parties"][PARTIES[0]].startswith("revoked")
    assert federation.asked("student-3", 16)["asked"] == 8

    for service in federation.services.values():
        service.power_off()
    times = federation.coordinator.said.count("students may ask")
    left = [PARTIES[1], PARTIES[2], LATE]
    federation.start("coordinator", *left)
    federation.serving(times + 1)
    assert federation.asked("student-4", 24)["asked"] == 8
    assert federation.asked("student-5", 0)["asked"] == 8  # those of the first student: from the ledger
    federation.close("student-1", "student-2", "student-3", "student-4", "student-5")
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == 32
