"""The port at which a node can be looked at: it only reads, for its own people alone."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509 import BasicConstraints

from consilium.coordinator.provision.authority import Authority, Issued
from consilium.node import monitor as server
from consilium.node.log import MonitorSettings
from consilium.node.monitor import FRESH_SECONDS, Answer, Lasting, MonitorPort, Page, answer, as_json
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import TlsFiles, load_certificate
from tests.deploy.kits import free_ports
from tests.node.nodes import Reply, ask, raw

NAMES = frozenset({"localhost", "localhost:9464", "127.0.0.1:9464"})
HOST = {"host": "127.0.0.1:9464"}


def broken() -> Answer:
    raise ValueError("votes [3, 1, 0]")


ANSWERED = {"/": lambda: as_json({"a": 1}), "/broken": broken}

FROM_ELSEWHERE = {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
CASES: dict[str, tuple[str, str, dict[str, str], int]] = {
    "plain": ("GET", "/", HOST, 200),
    "head": ("HEAD", "/", HOST, 200),
    "localhost": ("GET", "/", {"host": "LocalHost"}, 200),
    "query": ("GET", "/?x=1", HOST, 200),
    "own origin": ("GET", "/", {**HOST, "origin": "http://127.0.0.1:9464"}, 200),
    "typed in": ("GET", "/", {**HOST, "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    "link followed": (
        "GET", "/", {**FROM_ELSEWHERE, "sec-fetch-dest": "document"}, 200,
    ),
    "no host": ("GET", "/", {}, 421),
    "rebound name": ("GET", "/", {"host": "evil.example.org:9464"}, 421),
    "rebound, own name inside": ("GET", "/", {"host": "127.0.0.1:9464.evil.example.org"}, 421),
    "other port": ("GET", "/", {"host": "127.0.0.1:80"}, 421),
    "post": ("POST", "/", HOST, 405),
    "put": ("PUT", "/", HOST, 405),
    "delete": ("DELETE", "/", HOST, 405),
    "preflight": ("OPTIONS", "/", {**HOST, "origin": "https://evil.example.org"}, 405),
    "other origin": ("GET", "/", {**HOST, "origin": "https://evil.example.org"}, 403),
    "null origin": ("GET", "/", {**HOST, "origin": "null"}, 403),
    "other port's origin": ("GET", "/", {**HOST, "origin": "http://127.0.0.1:8080"}, 403),
    "script of another site": ("GET", "/", {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
    "image of another site": ("GET", "/", {**HOST, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
    "frame of another site": (
        "GET", "/", {**FROM_ELSEWHERE, "sec-fetch-dest": "iframe"}, 403,
    ),
    "no such path": ("GET", "/state/ledger.db", HOST, 404),
    "path upwards": ("GET", "/../ledger.db", HOST, 404),
    "markup in the path": ("GET", "/<script>alert(1)</script>", HOST, 404),
    "page that breaks": ("GET", "/broken", HOST, 500),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_gets_an_answer(case: str) -> None:
    method, target, headers, status = CASES[case]
    found = answer(method, target, headers, NAMES, ANSWERED)
    assert found.status == status
    assert b"evil" not in found.body and b"<script>" not in found.body and b"votes" not in found.body
    sent = found.all_headers()
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert sent["Content-Security-Policy"].startswith("default-src 'none'")
    assert sent["Cache-Control"] == "no-store"
    assert ("Allow" in sent) == (status == 405)
    assert not any(name.lower().startswith("access-control") for name in sent)


def test_a_value_lasts_for_a_moment() -> None:
    now, made = [0.0], []
    lasting = Lasting(lambda: made.append(now[0]) or len(made), clock=lambda: now[0])
    seen = [lasting(), lasting()]
    now[0] = FRESH_SECONDS
    assert [*seen, lasting(), lasting()] == [1, 1, 2, 2]


def test_a_value_that_could_not_be_made_is_tried_again() -> None:
    ends = iter([ValueError("x"), 5])

    def make() -> int:
        end = next(ends)
        if isinstance(end, ValueError):
            raise end
        return end

    lasting = Lasting(make)
    with pytest.raises(ValueError, match="x"):
        lasting()
    assert lasting() == 5


ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, Page] = {"/": lambda: as_json({"fine": True})}


@contextlib.contextmanager
def opened(tls: TlsFiles | None = None, port: int = 0) -> Iterator[int]:
    """Its port."""
    port = port or free_ports(1)[0]
    settings = MonitorSettings(port=port, observers="observers.pem" if tls else "")
    with MonitorPort(settings, tls, PAGES, lambda *_: None):
        yield port


def until(true: Callable[[], object]) -> None:
    """Wait for what must come; the time limit of all tests is the only one."""
    while not true():
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("method", "status", "body"),
    [
        ("GET", 200, b'{"fine": true}\n'),
        ("HEAD", 200, b""),
        ("POST", 405, None),
        ("DELETE", 405, None),
        ("X", 501, None),
    ],
)
def test_one_request(method: str, status: int, body: bytes | None) -> None:
    with opened() as port:
        found = ask(port, method=method)
    assert found.status == status
    assert body is None or found.body == body
    assert found.headers["server"] == "consilium"
    assert found.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"<script>alert(1)</script>\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: y\r\n" % each for each in range(200)) + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", 405),
    ],
)
def test_what_is_no_request_of_ours(content: bytes, status: int) -> None:
    with opened() as port:
        said = raw(port, content)
    assert said.startswith(f"HTTP/1.0 {status}".encode()), said[:80]
    assert b"<script>" not in said


def test_a_port_that_is_taken_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "AGAIN_SECONDS", 0.05)
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monitor = MonitorPort(MonitorSettings(port=port), None, PAGES, lambda _, what: told.append(what))
        monitor.__enter__()
        assert monitor.address is None
        assert "cannot be used" in told[0] and "change port in monitor.toml" in told[0]
    until(lambda: monitor.address)
    assert ask(port).status == 200
    monitor.__exit__()
    assert told[1:] == [f"http://127.0.0.1:{port}/"]
    with socket.create_server(("127.0.0.1", port)):
        """It is free again."""


def test_few_at_a_time_and_none_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "AT_ONCE", 2)
    monkeypatch.setattr(server, "MOST_SECONDS", 0.3)
    with opened() as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        refused = 0
        while not refused:  # until both idle ones have their threads
            with contextlib.suppress(OSError):
                found = raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                refused += not found
        for each in idle:
            assert each.recv(1) == b""  # cut, without a byte from it
            each.close()
        until(lambda: raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))


def save(folder: Path, issued: Issued, name: str) -> TlsFiles:
    """A client's certificate and key, with the server's authority beside them."""
    issued.save(folder, name)
    return TlsFiles(folder / f"{name}.crt", folder / f"{name}.key", folder / "ca.crt")


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    """The node's side: a certificate of the federation's authority, and an empty list of observers."""
    authority = Authority.create("three wards")
    (tmp_path / "ca.crt").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    authority.server(["127.0.0.1"]).save(tmp_path, "server")
    save(tmp_path, authority.client("it-desk"), "it-desk")
    save(tmp_path, authority.client("university"), "university")
    save(tmp_path, Authority.create("another").client("prometheus"), "prometheus")
    return TlsFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "observers.pem")


def look(port: int, folder: Path, name: str | None) -> Reply | None:
    """As the owner of a certificate, or nobody; None where the connection fails."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if name is not None:
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    try:
        return ask(port, tls=context)
    except OSError:
        return None


def test_only_pinned_certificates_may_look(tls: TlsFiles, tmp_path: Path) -> None:
    """A student has a certificate of the same authority, and sees nothing; an observer's may be anybody's."""
    tls.authority.write_text("".join((tmp_path / f"{name}.crt").read_text() for name in ("it-desk", "prometheus")))
    with opened(tls) as port:
        found = {name: look(port, tmp_path, name) for name in ("it-desk", "prometheus", "university", None)}
        assert {name for name, reply in found.items() if reply is not None and reply.status == 200} == {
            "it-desk", "prometheus"
        }  # fmt: skip
        with contextlib.suppress(OSError):
            assert raw(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")[:5] != b"HTTP/"
        tls.authority.write_text((tmp_path / "it-desk.crt").read_text())
        os.utime(tls.authority, ns=(1, 1))
        assert look(port, tmp_path, "prometheus") is None  # taken from the list: out at once
        assert look(port, tmp_path, "it-desk")
        tls.authority.write_text("")
        os.utime(tls.authority, ns=(2, 2))
        assert look(port, tmp_path, "it-desk") is None  # a list of no use lets nobody in


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on the PATH")
def test_a_certificate_as_the_guide_makes_it(tls: TlsFiles, tmp_path: Path) -> None:
    """openssl makes it an authority as well: what it signs may not look all the same."""
    guide = (ROOT / "docs" / "console.md").read_text(encoding="utf-8")
    (made,) = re.findall(r"^openssl req .*$", guide, re.MULTILINE)
    folder = tmp_path / "guide"
    folder.mkdir()
    subprocess.run(shlex.split(made), cwd=folder, check=True, capture_output=True)
    (folder / "ca.crt").write_bytes((tmp_path / "ca.crt").read_bytes())
    own = load_certificate(folder / "it-desk.crt")
    key = load_pem_private_key((folder / "it-desk.key").read_bytes(), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    assert own.extensions.get_extension_for_class(BasicConstraints).value.ca
    Authority(own, key).client("friend").save(folder, "friend")
    tls.authority.write_text((folder / "it-desk.crt").read_text())
    with opened(tls) as port:
        assert look(port, folder, "it-desk")
        assert look(port, folder, "friend") is None


def test_a_renewed_certificate_is_shown_without_a_restart(tls: TlsFiles, tmp_path: Path) -> None:
    tls.authority.write_text((tmp_path / "it-desk.crt").read_text())
    with opened(tls) as port:
        assert look(port, tmp_path, "it-desk")
        renewed = Authority.create("three wards")
        for path in (tls.certificate, tls.key):
            path.unlink()
        renewed.server(["127.0.0.1"]).save(tmp_path, "server")
        os.utime(tls.certificate, ns=(1, 1))
        assert look(port, tmp_path, "it-desk") is None  # of another authority
        (tmp_path / "ca.crt").write_bytes(renewed.certificate.public_bytes(Encoding.PEM))
        assert look(port, tmp_path, "it-desk")


def spoil_key(files: TlsFiles) -> None:
    files.key.chmod(stat.S_IRUSR | stat.S_IRGRP)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda files: files.authority.unlink(), "observers"),
        (lambda files: files.authority.write_text("no certificate"), "no PEM certificates"),
        (lambda files: files.certificate.write_text("no certificate"), "no certificate with its key"),
        (spoil_key, "others than its owner"),
    ],
)
def test_files_of_no_use_are_named_at_the_start(tls: TlsFiles, spoil: Callable[[TlsFiles], object], said: str) -> None:
    tls.authority.write_text((tls.authority.parent / "it-desk.crt").read_text())
    spoil(tls)
    with pytest.raises(ConfigError, match=said), opened(tls):
        pytest.fail("it was opened")
