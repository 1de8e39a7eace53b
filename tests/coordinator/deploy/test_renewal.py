"""A renewed certificate is shown from the next handshake on, at both ports, and what is under way goes on."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from consilium.coordinator.deploy.front import Connection, ConnectionPlaces
from consilium.coordinator.deploy.superlink import loopback_tls, make_loopback, prepare, super_link
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.write import pem
from consilium.node import checks
from consilium.node.checks import check_certificate, check_coordinator, examine
from consilium.node.kit import open_kit
from consilium.protocol import tls
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import RenewedFiles, TlsFiles, load_certificate, server_credentials, tls_cure
from tests.deploy.edge import Site
from tests.deploy.test_kits_doctor import Https


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def renewed(site: Site, old: x509.Certificate | None = None) -> x509.Certificate:
    """A new certificate for the old one's key, in its place, as an update brings it."""
    new = Authority.load(site.out / "operator").again(old or load_certificate(site.kit.server_tls.certificate))
    site.kit.server_tls.certificate.write_text(pem(new))
    return new


def shown(port: int, authority: Path) -> int:
    """Serial number of the certificate that a server shows now."""
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        certificate = secured.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


@contextlib.contextmanager
def label_port(files: TlsFiles) -> Iterator[int]:
    """A gRPC server with the label service's credentials, which asks for certificates only after its own is shown."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def gateway_port(site: Site) -> Iterator[int]:
    with site.serving() as (_, port):
        yield port


PORTS: dict[str, Callable[[Site], contextlib.AbstractContextManager[int]]] = {
    "8443": gateway_port,
    "8444": lambda site: label_port(site.kit.server_tls),
}


@pytest.mark.parametrize("port", PORTS)
def test_a_renewed_certificate_is_shown_without_a_restart(site: Site, port: str) -> None:
    files = site.kit.server_tls
    before = load_certificate(files.certificate)
    old = before.serial_number
    with PORTS[port](site) as number:
        assert shown(number, files.authority) == old
        files.certificate.write_text("half an upd")
        assert shown(number, files.authority) == old
        Authority.create("other").server(["127.0.0.1"]).save(site.kit.folder, "foreign")
        files.certificate.write_bytes((site.kit / "foreign.crt").read_bytes())
        assert shown(number, files.authority) == old  # of another key: it cannot be used
        new = renewed(site, before).serial_number
        assert [shown(number, files.authority) for _ in range(2)] == [new, new]


def test_who_is_connected_stays_connected(site: Site) -> None:
    with site.serving() as address, contextlib.closing(site.begin(address, 1, site.signed("ward-a"))) as before:
        renewed(site)
        assert site.ask(address, "ward-b").status_code == 200
        before.sendall(b"x")
        assert before.recv(12) == b"HTTP/1.1 200"


def test_what_is_not_there_is_no_news(tmp_path: Path) -> None:
    Authority.create("here").server(["127.0.0.1"]).save(tmp_path, "server")
    files = TlsFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "server.crt")
    watched = RenewedFiles(files)
    assert watched.look() is None
    text = files.certificate.read_bytes()
    files.certificate.unlink()
    assert watched.look() is None
    files.certificate.write_bytes(text)
    assert watched.look() is not None
    assert watched.look() is None


def test_a_key_of_another_certificate_is_no_servers(tmp_path: Path) -> None:
    for stem in ("one", "two"):
        Authority.create(stem).server(["127.0.0.1"]).save(tmp_path, stem)
    with pytest.raises(ConfigError, match=r"two\.key is not the key of one\.crt"):
        TlsFiles(tmp_path / "one.crt", tmp_path / "two.key", tmp_path / "one.crt").read()


def test_the_superlink_has_a_certificate_of_its_own(site: Site) -> None:
    prepare(site.kit, lambda *_: None)
    files = loopback_tls(site.kit)
    command = super_link(site.kit).command
    assert command[command.index("--ssl-certfile") + 1] == str(files.certificate)
    assert str(files.authority) in (site.kit.state / "flower" / "config.toml").read_text()
    assert files.key.stat().st_mode & 0o777 == 0o600
    context = ssl.create_default_context(cafile=str(files.authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    for name in ("127.0.0.1", "localhost"):
        handshake(context, server, name)
    first = load_certificate(files.certificate).serial_number
    make_loopback(site.kit)
    assert load_certificate(files.certificate).serial_number != first


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """In memory. Raises SSLError where either end refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert all(end.version() == "TLSv1.3" for end in ends)


def test_a_kit_that_runs_twice_is_noticed_once() -> None:
    places = ConnectionPlaces()

    def connect(address: str) -> Connection:
        made = Connection(address)
        places.enter(made)
        places.know(made, "ward-a")
        return made

    connect("192.0.2.1")
    connect("192.0.2.1")
    assert not places.apart("ward-a")
    second = connect("192.0.2.7")
    assert places.apart("ward-a") and not places.apart("ward-a")
    assert places.addresses("ward-a") == ["192.0.2.1", "192.0.2.7"]
    places.leave(second)
    assert not places.apart("ward-a")
    connect("192.0.2.7")
    assert places.apart("ward-a")


def issue(site: Site, days: float, length: int, hosts: tuple[str, ...] = ("127.0.0.1",), other: bool = False) -> None:
    authority = Authority.create("other") if other else Authority.load(site.out / "operator")
    site.kit.server_tls.key.unlink()
    authority.server(hosts, days=length, now=datetime.now(UTC) + timedelta(days=days)).save(site.kit.folder, "server")


WRONG: dict[str, tuple[dict, str, str]] = {
    "clock behind": ({"days": 2, "length": 30}, "not yet valid", "Set this machine's clock by NTP"),
    "expired": ({"days": -40, "length": 30}, "has expired", "consilium provision renew"),
    "another authority": ({"days": 0, "length": 30, "other": True}, "certificate", "TLS inspection"),
}


@pytest.mark.parametrize("case", WRONG)
def test_why_a_certificate_is_not_accepted_and_what_to_do(site: Site, case: str) -> None:
    change, said, cure = WRONG[case]
    issue(site, **change)
    party = open_kit(site.out / "party-ward-a")
    with Https(site.kit):
        found = examine([("coordinator", lambda: check_coordinator(party))])[0]
        files = replace(site.kit.server_tls, authority=party.authority)
        student = tls.why_no_connection(party.coordinator.superlink, files)
    assert found.level == "wrong" and said in found.what
    assert cure in found.action
    assert said in student and cure[1:] in student


def test_every_code_of_openssl_has_a_cure() -> None:
    error = ssl.SSLCertVerificationError()
    for code in (*tls.CURES, 999):
        error.verify_code = code
        assert tls_cure(error)


def test_the_coordinators_certificate_is_told_before_it_ends(site: Site) -> None:
    issue(site, days=-20, length=30)
    with Https(site.kit):
        found = examine([("coordinator", lambda: check_coordinator(open_kit(site.out / "party-ward-a")))])[0]
    assert (found.level, "coordinator's certificate expires on" in found.what) == ("advice", True)


def test_ages_are_told(site: Site) -> None:
    issue(site, days=-10, length=730)
    assert "10 days old, 71" in check_certificate(site.kit.server_tls)
    assert checks.check_authority(site.kit.authority).endswith("3649 days left")
