"""A node's checks of its own folder: each says what it found, or what is wrong and what to do about it."""

from __future__ import annotations

import contextlib
import email.utils
import shutil
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from consilium.node.flower import fleet_scheme
from consilium.node.folder import NodeFolder
from consilium.node.keys import KEYS, NODE_KEY, NodeKey
from consilium.node.signed import JOIN, check_listed, joined
from consilium.protocol.errors import ConfigError, ConsiliumError, EngineError, ServiceError, StorageError
from consilium.protocol.files import others_may_read, read_private
from consilium.protocol.tls import LOOPBACK, TlsFiles, by_proxy, host_of, load_certificate, tls_cure, why_no_connection

Check = tuple[str, Callable[[], str]]
"""A name, and a function that returns what is in order or raises ConsiliumError with what is not."""

SOON = timedelta(days=30)
NEW_CERTIFICATE = (
    "Ask the operator for a folder with a new one (the coordinator's: consilium provision again; a student's: a new"
    " name), and join it"
)
MOST_AHEAD_SECONDS, MOST_BEHIND_SECONDS = 4, 240
"""A SuperLink takes the signature of a node whose clock is at most 5 s ahead of its own, or 305 s behind it."""
ANSWER_SECONDS, EXAMINE_SECONDS = 3.0, 7.0
"""For one answer of another node; and for all checks together, so that whoever asks is answered within 10 s."""


class Advice(ConsiliumError):
    """Nothing is wrong yet, but something should be done."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    level: Literal["ok", "advice", "wrong"]
    what: str
    action: str = ""

    @property
    def line(self) -> str:
        return f"{self.level:6} {self.name:15} {self.what}{f'. {self.action}' if self.action else ''}"


def examine(checks: Sequence[Check], seconds: float = EXAMINE_SECONDS) -> list[CheckResult]:
    """Make all checks at the same time; one that fails or hangs does not keep the others from being made."""
    late = f"not known within {seconds:g} s"
    results = {
        name: CheckResult(name, "advice", late, "Look again when there is less to do here") for name, _ in checks
    }

    def make(name: str, check: Callable[[], str]) -> None:
        try:
            results[name] = CheckResult(name, "ok", check())
        except ConsiliumError as error:
            level = "advice" if isinstance(error, Advice) else "wrong"
            results[name] = CheckResult(name, level, error.what, error.action)
        except Exception as error:  # a broken file must not hide the other findings, nor quote its content
            results[name] = CheckResult(name, "wrong", f"cannot be checked: {type(error).__name__}", JOIN)

    threads = [threading.Thread(target=make, args=each, daemon=True) for each in checks]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(results.values())


def own_checks(folder: NodeFolder) -> list[Check]:
    """What every node has: the federation as it was signed, its own keys, which that lists, and the authority."""

    def federation() -> str:
        file = joined(folder)
        return f"{file.config.name!r}, version {file.version} of {file.made}, as its authority signed it"

    def keys() -> str:
        for name in KEYS[folder.kind]:
            read_private(folder.keys / name)
        if others_may_read(folder.path):
            raise ConfigError(f"{folder.path}: others than its owner may look into it", f"Run: chmod 700 {folder.path}")
        check_listed(joined(folder), folder)
        return "readable by their owner only, and those that the federation lists"

    authority = folder.authority
    return [
        ("federation", federation),
        ("keys", keys),
        ("authority", lambda: _validity(load_certificate(authority), authority)),
    ]


def check_certificate(files: TlsFiles, hosts: Sequence[str] = ()) -> str:
    """A node's own certificate: its dates, that its key is the right one, that the authority made it, its names."""
    files.read()
    certificate = load_certificate(files.certificate)
    end = _validity(certificate, files.certificate)
    try:
        certificate.verify_directly_issued_by(load_certificate(files.authority))
    except (ValueError, TypeError, InvalidSignature):
        raise ConfigError(f"{files.certificate} is not of the authority in ca.crt", JOIN) from None
    if hosts:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
        if missing := [host for host in hosts if host not in known]:
            raise ConfigError(f"{files.certificate}: made for {sorted(known)}, not for {missing[0]}", NEW_CERTIFICATE)
    return end


def check_tls_server(address: str, files: TlsFiles) -> str:
    """A server that asks for this node's certificate, as the label service does."""
    if by_proxy(host_of(address)):
        return f"{address} is reached by way of the proxy that https_proxy names"
    try:
        socket.create_connection((host_of(address), int(address.rpartition(":")[2])), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise unreachable(address, error) from None
    why = why_no_connection(address, files)
    if why:
        raise ServiceError(f"{address}: {why}", JOIN)
    return f"{address} answers with the federation's certificate"


def check_coordinator(folder: NodeFolder) -> str:
    """The coordinator's port for nodes: reachable, its certificate accepted, its clock near ours."""
    address = joined(folder).coordinator.nodes
    answer = asked_of_coordinator(folder)
    skew = time.time() - email.utils.parsedate_to_datetime(answer.date).timestamp() if answer.date else 0.0
    if skew > MOST_AHEAD_SECONDS or skew < -MOST_BEHIND_SECONDS:
        raise ConfigError(
            f"this clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the coordinator's",
            "Set both by NTP (timedatectl set-ntp true): the coordinator refuses signatures far from its own time",
        )
    end = _validity(x509.load_der_x509_certificate(answer.certificate), Path("the coordinator's certificate"))
    return f"{address} answers; clocks differ by {abs(skew):.0f} s; its certificate is {end}"


STANDING, MOST_BYTES, OK = "/v1/fleet/standing", 4096, 200
"""Where the gateway is asked whether it lets a node in, signed as the node's other requests. Whoever was revoked, is
not listed or has a wrong clock learns it there. What is asked says nothing but who asks."""


class CoordinatorAnswer(NamedTuple):
    """Of the gateway at the port for nodes. certificate: shown, DER. date: by its clock, as HTTP has it."""

    status: int
    certificate: bytes
    date: str | None
    body: bytes


def asked_of_coordinator(folder: NodeFolder, headers: Mapping[str, str] | None = None) -> CoordinatorAnswer:
    """One request at `STANDING`, the way that the node's program goes: by the proxy that https_proxy names. headers: by
    which it is signed. Raises ServiceError, and Advice where nobody answers yet."""
    import httpx  # a tenth of a second

    address = joined(folder).coordinator.nodes
    host = host_of(address)
    context = ssl.create_default_context(cafile=str(folder.authority))
    client = httpx.Client(verify=context, trust_env=host not in LOOPBACK, timeout=ANSWER_SECONDS)
    try:
        empty = {**(headers or {}), "Content-Length": "0"}
        with client, client.stream("POST", f"https://{address}{STANDING}", headers=empty) as reply:
            secured = reply.extensions["network_stream"].get_extra_info("ssl_object")
            body = next(reply.iter_raw(MOST_BYTES), b"")
            shown, date = secured.getpeercert(True) or b"", reply.headers.get("date")
            return CoordinatorAnswer(reply.status_code, shown, date, body)
    except httpx.ProxyError as error:
        raise ServiceError(
            f"{address}: the proxy that https_proxy names does not let it through: {error}",
            f"Have the proxy allow CONNECT to {address}, without looking into TLS; or leave the proxy out:"
            f" NO_PROXY={host} in the environment of the node's service",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if isinstance(cause, ssl.SSLCertVerificationError):
            cure, words = tls_cure(cause), f"{address}: its certificate is not accepted: {cause.verify_message}"
            raise ServiceError(words, f"{cure[:1].upper()}{cure[1:]}") from None
        at_connecting = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if at_connecting and cause is not None and not isinstance(cause, ssl.SSLError):
            raise unreachable(address, cause) from None
        raise ServiceError(
            f"{address}: {type(error).__name__} on the way to the coordinator",
            "Something between breaks TLS, or the port is another program's: ask the network team",
        ) from None


def unreachable(address: str, error: OSError) -> ConsiliumError:
    """Why nobody answers at host:port, and what to do: advice where the other may just not have been started yet."""
    if isinstance(error, socket.gaierror):
        return ServiceError(f"host {host_of(address)} has no address", "Check DNS, or put it into /etc/hosts")
    if not isinstance(error, TimeoutError | ConnectionRefusedError):
        return ServiceError(f"{address}: {error.strerror}", "Ask the network team for the way there")
    why = error.strerror or f"nothing came within {ANSWER_SECONDS:g} s"
    return Advice(
        f"{address} does not answer yet: {why}",
        "Nothing is to be done here if the coordinator was not started yet; stop this node if the federation is over;"
        " else open the port in the firewalls between, and see whether https_proxy names a proxy that does not answer",
    )


def check_disk(folder: Path, least: int) -> str:
    """Room for what a node keeps: `least` bytes on the folder's disk."""
    free = shutil.disk_usage(folder).free
    if free < least:
        raise StorageError(f"{free // 1_000_000} MB free at {folder}, {least // 1_000_000} MB are needed", "Make room")
    return f"{free / 1e9:.0f} GB free"


def hold(checks: Iterable[Check], tell: Callable[[str, str], object]) -> None:
    """Start only where all checks hold. What is advice is told. Raises ConsiliumError: the first that does not, in the
    doctor's words."""
    for name, check in checks:
        try:
            check()
        except Advice as advice:
            tell(name, str(advice))


def check_clock(folder: NodeFolder) -> str:
    """This machine's clock against what the node itself wrote before."""
    last = now = time.time()
    for path in (folder / "state").rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a database's journal comes and goes
            last = max(last, path.stat().st_mtime)
    if last - now > MOST_BEHIND_SECONDS:
        raise ConfigError(
            f"this clock has gone back: what this node wrote last is {last - now:.0f} s in its future",
            "Set it by NTP (timedatectl set-ntp true): signatures of the past are refused",
        )
    return f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC, after all that this node wrote"


def check_port(port: int, host: str, key: str) -> str:
    """A port that can be bound. key: of federation.toml, which says which."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise EngineError(
                f"port {port} on {host} cannot be used: {error.strerror}",
                f"Stop what uses it; or have the operator change {key} in federation.toml, and provision again",
            ) from None
    return f"port {port} is free"


def _validity(certificate: x509.Certificate, path: Path) -> str:
    """The age and end of a certificate that is valid now."""
    now = datetime.now(UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        raise ConfigError(
            f"{path.name} is valid from {start:%Y-%m-%d %H:%M} UTC, this clock says {now:%Y-%m-%d %H:%M}",
            "Set this machine's clock by NTP",
        )
    if now > end:
        what = f"{path.name} expired on {end:%Y-%m-%d}, if this clock is right that says {now:%Y-%m-%d}"
        raise ConfigError(what, NEW_CERTIFICATE)
    if end - now < SOON:
        raise Advice(f"{path.name} expires on {end:%Y-%m-%d}", NEW_CERTIFICATE)
    return f"valid until {end:%Y-%m-%d}: {(now - start).days} days old, {(end - now).days} days left"


def signed_headers(key: NodeKey) -> dict[str, str]:
    """As a SuperNode signs a request now. Raises EngineError: another Flower."""
    scheme, now = fleet_scheme(), datetime.now(UTC).isoformat()
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = key.private.sign(now.encode("ascii"), ec.ECDSA(hashes.SHA256()))
    return {scheme.key: b64encode(public).decode(), scheme.signature: b64encode(signature).decode(), scheme.moment: now}


def standing(folder: NodeFolder) -> str:
    """What the coordinator says now. Raises ConfigError: it does not let this node in, or the key cannot be read;
    ServiceError, Advice: it cannot be reached."""
    answer = asked_of_coordinator(folder, signed_headers(NodeKey.load(folder.keys / NODE_KEY)))
    words = f"says: {answer.body.decode('utf-8', 'replace')}"
    if answer.status != OK:
        raise ConfigError(words, "Talk to the federation's operator if that is news")
    return words
