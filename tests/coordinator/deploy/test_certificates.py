"""Certificates: whose they are, until when they are good, and what to do about one that is not accepted."""

from __future__ import annotations

import contextlib
import shutil
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.deploy.superlink import loopback_tls, make_loopback, prepare, super_link
from consilium.coordinator.provision.authority import Authority
from consilium.node.checks import check_coordinator, examine
from consilium.node.kit import open_kit
from consilium.protocol import tls
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import TlsFiles, load_certificate, tls_cure
from tests.deploy.edge import Site
from tests.deploy.kits import make_kits, server_of
from tests.deploy.test_kits_doctor import Https


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def site(sound: Path, tmp_path: Path) -> Site:
    return Site(Path(shutil.copytree(sound, tmp_path / "kits")))


def test_a_key_of_another_certificate_is_no_servers(tmp_path: Path) -> None:
    for stem in ("one", "two"):
        server_of(Authority.create(stem), ["127.0.0.1"]).save(tmp_path, stem)
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


def issue(site: Site, days: float, length: int, hosts: tuple[str, ...] = ("127.0.0.1",), other: bool = False) -> None:
    authority = Authority.create("other") if other else Authority.load(site.out / "operator")
    site.kit.server_tls.key.unlink()
    server_of(authority, hosts, days=length, now=datetime.now(UTC) + timedelta(days=days)).save(
        site.kit.folder, "server"
    )


WRONG: dict[str, tuple[dict, str, str]] = {
    "clock behind": ({"days": 2, "length": 30}, "not yet valid", "Set this machine's clock by NTP"),
    "expired": ({"days": -40, "length": 30}, "has expired", "new kit"),
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
