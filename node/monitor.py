"""One node as it can be looked at: health, metrics and its pages, at the port of its `monitor.toml`.

HTTP on loopback, or mutual TLS with certificates that are pinned. One short answer for each connection, in a thread of
its own, never a body read; few at a time, and none that waits long. A port that is taken stops nobody: the node says
so, works on, and tries again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from consilium.node.kit import Kit
from consilium.node.log import Heard, MonitorSettings
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.files import read_private, unreadable
from consilium.protocol.strict_json import dumps
from consilium.protocol.tls import TlsFiles

if TYPE_CHECKING:
    from consilium.node.metrics import MetricFamily

JSON, HTML, TEXT = "application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")
NOTHING_LOADED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""A Content-Security-Policy under which a page loads and runs nothing, submits nothing and is in nobody's frame."""
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Answer:
    """Status, media type, body. policy: its Content-Security-Policy."""

    status: int
    media: str
    body: bytes
    policy: str = NOTHING_LOADED
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """What is sent before the body."""
        return {
            "Content-Type": self.media,
            "Content-Length": str(len(self.body)),
            "Content-Security-Policy": self.policy,
            **SAFE,
            **self.headers,
        }


Page = Callable[[], Answer]
"""Makes the answer for a path."""


def as_json(value: object, status: int = 200) -> Answer:
    """Plain values as JSON."""
    return Answer(status, JSON, dumps(value).encode() + b"\n")


def refused(status: int, why: str, **headers: str) -> Answer:
    """A short text; nothing of the request is in it."""
    return Answer(status, TEXT, f"{why}\n".encode(), headers=headers)


def answer(
    method: str, target: str, headers: Mapping[str, str], names: frozenset[str], pages: Mapping[str, Page]
) -> Answer:
    """The answer to one request.

    Parameters
    ----------
    target : path, perhaps with a query, which is ignored.
    headers : by name in lower case.
    names : Host headers that are this node's own, lower case. Whoever makes a browser come here under another name, by
        a DNS entry of its own, could read the answer (DNS rebinding); pages of other origins are refused as well.
    """
    host = headers.get("host", "").lower()
    if host not in names:
        return refused(421, "This node is not asked under that name: add it to hosts in monitor.toml.")
    if method not in METHODS:
        return refused(405, "Nothing can be changed here: GET and HEAD only.", Allow=", ".join(METHODS))
    if _of_another_origin(headers, host):
        return refused(403, "Pages of other origins may not look here.")
    page = pages.get(target.partition("?")[0])
    if page is None:
        return refused(404, f"There is {', '.join(sorted(pages))}.")
    try:
        return page()
    except Exception as error:  # its text may hold anything
        return refused(500, f"This cannot be shown now: {type(error).__name__}.")


def _of_another_origin(headers: Mapping[str, str], host: str) -> bool:
    """Whether a page of another origin made a browser ask; following a link to here is no such thing."""
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return True
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not followed


FRESH_SECONDS = 2.0
"""So long a value is given again: who asks faster costs no work."""

Value = TypeVar("Value")


class Lasting(Generic[Value]):
    """Made by `make` at most every `FRESH_SECONDS`, and by one thread at a time."""

    def __init__(self, make: Callable[[], Value], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def __call__(self) -> Value:
        with self._lock:
            now = self._clock()
            if self._made is None or now - self._made[0] >= FRESH_SECONDS:
                self._made = (now, self._make())
            return self._made[1]


PATIENCE_SECONDS = 10
"""For the handshake, for a request's head, and for taking the answer, each."""
MOST_SECONDS = 30.0
"""For all of it: who sends a byte now and then is cut off."""
LOOK_SECONDS = 0.5
AT_ONCE = 32
"""Connections; a further one is closed at once."""
AGAIN_SECONDS = 15.0
"""Between two attempts to get a port that is taken."""
NAME = "monitor"


class ObserverTls:
    """The server's side of mutual TLS, made anew whenever one of its files has changed."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp: tuple[int, ...] = ()
        self._context: ssl.SSLContext | None = None
        self._pinned: frozenset[bytes] = frozenset()
        self._lock = threading.Lock()

    def check(self) -> int:
        """How many certificates may look. Raises ConfigError."""
        with self._lock:
            self._refresh()
            return len(self._pinned)

    def wrap(self, plain: socket.socket) -> ssl.SSLSocket:
        """After the handshake, with an observer at the other end.

        Raises
        ------
        OSError : there is none, or it has no certificate that is pinned. ConfigError : the files are of no use now.
        """
        with self._lock:
            self._refresh()
            context, pinned = self._context, self._pinned
        if context is None:
            raise ConfigError("no certificate to show", "Name certificate and key in monitor.toml")
        secured = context.wrap_socket(plain, server_side=True)
        if secured.getpeercert(binary_form=True) not in pinned:
            secured.close()
            raise PermissionError("not an observer's certificate")
        return secured

    def _refresh(self) -> None:
        files = (self._files.certificate, self._files.key, self._files.authority)
        try:
            stamp = tuple(path.stat().st_mtime_ns for path in files)
        except OSError as error:
            raise unreadable(files[0], error, "Name certificate, key and observers in monitor.toml") from None
        if stamp != self._stamp:
            self._stamp, self._context = (), None  # files of no use let nobody in
            self._pinned = _certificates(self._files)
            self._context = _context(self._files, self._pinned)
            self._stamp = stamp


def _certificates(files: TlsFiles) -> frozenset[bytes]:
    """DER of each certificate in the observers' file. Raises ConfigError."""
    try:
        found = x509.load_pem_x509_certificates(files.authority.read_bytes())
    except (OSError, ValueError):
        raise ConfigError(
            f"{files.authority}: no PEM certificates", "Put the certificate of everybody who may look into it"
        ) from None
    return frozenset(each.public_bytes(Encoding.DER) for each in found)


def _context(files: TlsFiles, pinned: frozenset[bytes]) -> ssl.SSLContext:
    read_private(files.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a certificate in the file needs no issuer beside it
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(cadata=b"".join(pinned))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{files.certificate}, {files.key}: no certificate with its key ({error.strerror or type(error).__name__})",
            "Name both in monitor.toml, as PEM files: openssl req -x509 -newkey ed25519 -nodes makes a pair",
        ) from None
    return context


class _Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: _Server
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        self._reply()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = do_GET

    def version_string(self) -> str:
        """What it says to be, to anybody: no versions."""
        return "consilium"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request: without a word of it in the answer."""
        self._send(refused(code, "No request that is understood here."))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who looked is nobody's business, and a stranger's text stays out of the log."""

    def _reply(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        repeated = len(self.headers.get_all("host", [])) != 1
        found = (
            refused(400, "A request has one Host.")
            if repeated
            else answer(self.command, self.path, headers, self.server.names, self.server.pages)
        )
        self._send(found)

    def _send(self, found: Answer) -> None:
        self.close_connection = True
        self.request_version = self.protocol_version  # of what is no request, none is known, and then no head is sent
        self.send_response(found.status)
        for name, value in found.all_headers().items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found.body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    timeout = LOOK_SECONDS

    def __init__(
        self, host: str, port: int, names: frozenset[str], pages: Mapping[str, Page], tls: ObserverTls | None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.names = names
        self.pages = pages
        self._tls = tls
        self._places = threading.BoundedSemaphore(AT_ONCE)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """As TCPServer's: HTTPServer's asks the network for this host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            return self.shutdown_request(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        held = request.dup()  # TLS takes the socket itself
        fuse = threading.Timer(MOST_SECONDS, _cut, [held])
        fuse.daemon = True
        fuse.start()
        try:
            request.settimeout(PATIENCE_SECONDS)
            secured = request if self._tls is None else self._tls.wrap(request)
            super().process_request_thread(secured, client_address)
        except (OSError, ConsiliumError):  # no handshake, no observer, or gone again
            self.shutdown_request(request)
        finally:
            fuse.cancel()
            held.close()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a peer that is gone is no news."""


def _cut(held: socket.socket) -> None:
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)


class MonitorPort:
    """Answers requests for `pages` while the context is open. `address` is None while there is no port."""

    def __init__(self, settings: MonitorSettings, tls: TlsFiles | None, pages: Mapping[str, Page], tell: Tell) -> None:
        self._settings = settings
        self._tls = ObserverTls(tls) if tls is not None else None
        self._pages = pages
        self._tell = tell
        self._stop = threading.Event()
        self._server: _Server | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def address(self) -> str | None:
        """The URL at which it answers."""
        if self._server is None:
            return None
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._settings.address}/"

    def __enter__(self) -> MonitorPort:
        """Raises ConfigError where observers or certificate are of no use."""
        if self._tls is not None:
            self._tls.check()
        self._open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _open(self) -> None:
        listen, port = self._settings.listen, self._settings.port or 0
        try:
            self._server = _Server(listen, port, self._settings.own_names(), self._pages, self._tls)
        except OSError as error:
            what = f"port {port} on {listen} cannot be used: {os.strerror(error.errno or 0).lower()}"
            if not self._thread.is_alive():
                self._tell(NAME, f"{what}; the node works on. Stop what uses it, or change port in monitor.toml")
        else:
            self._tell(NAME, f"{self.address}")

    def _serve(self) -> None:
        while self._server is None:
            if self._stop.wait(AGAIN_SECONDS):
                return
            self._open()
        with self._server as server:
            while not self._stop.is_set():
                server.handle_request()


METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def no_metrics() -> Iterable[MetricFamily]:
    """Of a node that has none of its own."""
    return ()


@dataclass(frozen=True)
class Watched:
    """What a node shows.

    waits_for : what is missing before it does its work, in words; empty: it is ready.
    certificates : files whose dates are told. metrics: the node's own. pages: what it shows besides, by path.
    """

    kit: Kit
    heard: Heard
    waits_for: Callable[[], list[str]]
    certificates: tuple[Path, ...]
    metrics: Callable[[], Iterable[MetricFamily]] = no_metrics
    pages: Mapping[str, Page] = field(default_factory=dict)

    def all_pages(self) -> dict[str, Page]:
        """By path: whether it lives, whether it is ready, metrics, and its own pages."""
        return {
            "/healthz": self._alive,
            **{
                path: Lasting(page)
                for path, page in {"/readyz": self._ready, "/metrics": self._metrics, **self.pages}.items()
            },
        }

    def _alive(self) -> Answer:
        return as_json({"alive": True, "node": self.kit.name, "kind": self.kit.kind})

    def _ready(self) -> Answer:
        missing = self.waits_for()
        told = {"ready": not missing, "node": self.kit.name, "kind": self.kit.kind, "waits_for": missing}
        return as_json(told, 503 if missing else 200)

    def _metrics(self) -> Answer:
        from consilium.node.metrics import exposition, node_metrics

        families = [*node_metrics(self.kit, self.heard, not self.waits_for(), self.certificates), *self.metrics()]
        return Answer(200, METRICS_MEDIA, exposition(families))


@contextmanager
def monitored(settings: MonitorSettings, watched: Watched) -> Iterator[None]:
    """Let the node be looked at while the context is open; without a port nothing is opened.

    Raises
    ------
    ConfigError : observers or certificate cannot be used.
    """
    if settings.port is None:
        yield
        return
    tls = settings.tls(watched.kit.folder)
    with MonitorPort(settings, tls, watched.all_pages(), watched.heard.tell):
        yield
