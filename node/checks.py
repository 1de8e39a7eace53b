"""A node's checks of its own kit: each says what it found, or what is wrong and what to do about it."""

from __future__ import annotations

import email.utils
import errno
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from consilium.node.keys import second_fingerprint
from consilium.node.kit import KIT_FILE, Kit
from consilium.node.manifest import check_signed, digests_of, read_manifest
from consilium.node.supervisor import Tell
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError, EngineError, ServiceError
from consilium.protocol.files import others_may_read, read_private
from consilium.protocol.identity import Identity
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.protocol.refusals import CURES, Refused, Rule
from consilium.protocol.tls import LOOPBACK, TlsFiles, by_proxy, host_of, load_certificate, tls_cure, why_no_connection
from consilium.protocol.versions import program_versions
from consilium.report.warnings import RunWarning
from consilium.sums.roster import SumRoster

Check = tuple[str, Callable[[], str]]
"""A name, and a function that returns what is in order or raises ConsiliumError with what is not."""

Result = TypeVar("Result")

SOON = timedelta(days=30)
NEW_KIT = (
    "Ask the operator for a new kit: a student's by another name (consilium provision revoke, add), a coordinator's by"
    " provisioning anew"
)
MOST_AHEAD_SECONDS, MOST_BEHIND_SECONDS = 4, 240
"""A SuperLink takes the signature of a node whose clock is at most 5 s ahead of its own, or 305 s behind it."""


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
        """For a terminal."""
        return f"{self.level:6} {self.name:15} {self.what}{f'. {self.action}' if self.action else ''}"


def examine(checks: Iterable[Check]) -> list[CheckResult]:
    """Make all checks; one that fails does not keep the others from being made."""
    findings = []
    for name, check in checks:
        try:
            findings.append(CheckResult(name, "ok", check()))
        except Advice as error:
            findings.append(CheckResult(name, "advice", error.what, error.action))
        except ConsiliumError as error:
            findings.append(CheckResult(name, "wrong", error.what, error.action))
        except Exception as error:  # a broken file must not hide the other findings, nor quote its content
            findings.append(
                CheckResult(name, "wrong", f"cannot be checked: {type(error).__name__}", "Unpack the kit again")
            )
    return findings


def expectation(warnings: Sequence[RunWarning]) -> str:
    """What a run may be expected to give, from its public numbers. Raises Advice with all that there is to warn of."""
    if warnings:
        raise Advice(
            "; ".join(f"{warning.text} ({warning.code})" for warning in warnings), "Nothing is stopped by these"
        )
    return "nothing to warn of in what is promised, asked and added as noise"


def check_private(folder: Path, names: Sequence[str]) -> str:
    """Key files that nobody else can read."""
    for name in names:
        read_private(folder / name)
    if others_may_read(folder):
        raise ConfigError(f"{folder}: others than its owner may look into the kit", f"Run: chmod 700 {folder}")
    return f"{', '.join(names)} readable by their owner only"


def check_authority(path: Path, now: datetime | None = None) -> str:
    """The federation's authority."""
    return _validity(load_certificate(path), path, now)


def _issued_by(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_certificate(files: TlsFiles, hosts: Sequence[str] = (), now: datetime | None = None) -> str:
    """A node's own certificate: its dates, that its key is the right one, that the authority made it, its names."""
    certificate = load_certificate(files.certificate)
    end = _validity(certificate, files.certificate, now)
    try:
        key = load_pem_private_key(read_private(files.key), password=None)
    except (ValueError, TypeError):
        raise ConfigError(f"{files.key}: not an unencrypted key in PEM form", "Unpack the kit again") from None
    if key.public_key() != certificate.public_key():
        raise ConfigError(f"{files.key} is not the key of {files.certificate.name}", "Unpack the kit again")
    if not _issued_by(load_certificate(files.authority), certificate):
        raise ConfigError(f"{files.certificate} is not of the authority in ca.crt", "Unpack the kit again")
    missing = [host for host in hosts if host not in alternative_names(certificate)]
    if missing:
        raise ConfigError(
            f"{files.certificate}: made for {sorted(alternative_names(certificate))}, not for {missing[0]}",
            "Put the host into federation.toml and provision anew",
        )
    return end


def alternative_names(certificate: x509.Certificate) -> set[str]:
    """DNS names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = names.get_values_for_type(x509.IPAddress)
    return {*names.get_values_for_type(x509.DNSName), *map(str, addresses)}


def check_tls_server(address: str, files: TlsFiles) -> str:
    """A server that asks for this node's certificate, as the label service does."""
    if by_proxy(host_of(address)):
        return f"{address} is reached by way of the proxy that https_proxy names: see terms"
    check_reachable(address)
    why = why_no_connection(address, files)
    if why:
        raise ServiceError(f"{address}: {why}", "Check the clock, and ca.crt and certificate of this kit")
    return f"{address} answers with the federation's certificate"


def check_coordinator(kit: Kit) -> str:
    """The coordinator's port for parties: reachable, its certificate accepted, its clock near ours."""
    address = kit.coordinator.superlink
    answer = asked_of_coordinator(kit, "GET", "/", {})
    skew = time.time() - email.utils.parsedate_to_datetime(answer.date).timestamp() if answer.date else 0.0
    if skew > MOST_AHEAD_SECONDS or skew < -MOST_BEHIND_SECONDS:
        raise ConfigError(
            f"this clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the coordinator's",
            "Set both by NTP (timedatectl set-ntp true): the coordinator refuses signatures far from its own time",
        )
    end = _validity(x509.load_der_x509_certificate(answer.certificate), Path("the coordinator's certificate"), None)
    return f"{address} answers; clocks differ by {abs(skew):.0f} s; its certificate is {end}"


class CoordinatorAnswer(NamedTuple):
    """To one request at the port for parties. certificate: shown, DER. date: by its clock, as HTTP has it."""

    certificate: bytes
    date: str | None
    body: bytes


def asked_of_coordinator(
    kit: Kit, method: str, path: str, headers: Mapping[str, str], most_bytes: int = 0
) -> CoordinatorAnswer:
    """One request without a body, the way that the node's program goes: by the proxy that https_proxy names. Raises
    ServiceError."""
    import httpx  # a tenth of a second

    address = kit.coordinator.superlink
    host = host_of(address)
    context = ssl.create_default_context(cafile=str(kit.authority))
    client = httpx.Client(verify=context, trust_env=host not in LOOPBACK, timeout=httpx.Timeout(10, connect=5))
    try:
        with client, client.stream(method, f"https://{address}{path}", headers=headers) as reply:
            secured = reply.extensions["network_stream"].get_extra_info("ssl_object")
            body = b""
            for part in reply.iter_raw() if most_bytes else ():
                body += part
                if len(body) >= most_bytes:
                    break
            return CoordinatorAnswer(secured.getpeercert(True) or b"", reply.headers.get("date"), body[:most_bytes])
    except httpx.ProxyError as error:
        raise ServiceError(
            f"{address}: the proxy that https_proxy names does not let it through: {error}",
            f"Have the proxy allow CONNECT to {address}, without looking into TLS; or leave the proxy out:"
            f" NO_PROXY={host} in the environment of the node's service",
        ) from None
    except httpx.ConnectTimeout:
        raise unreachable(address, TimeoutError()) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        cause = _of_system(error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise ServiceError(
                f"{address}: its certificate is not accepted: {cause.verify_message}",
                f"{tls_cure(cause)[:1].upper()}{tls_cure(cause)[1:]}",
            ) from None
        if isinstance(error, httpx.ConnectError) and cause is not None and not isinstance(cause, ssl.SSLError):
            raise unreachable(address, cause) from None
        raise ServiceError(
            f"{address}: {type(error).__name__} on the way to the coordinator",
            "Something between breaks TLS, or the port is another program's: ask the network team",
        ) from None


def _of_system(error: BaseException) -> OSError | None:
    """The system's error behind one of httpx."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return found


def check_reachable(address: str) -> None:
    """Raise ServiceError unless somebody listens at host:port."""
    try:
        socket.create_connection((host_of(address), int(address.rpartition(":")[2])), timeout=5).close()
    except OSError as error:
        raise unreachable(address, error) from None


def unreachable(address: str, error: OSError) -> ServiceError:
    """Why nobody answers at host:port, and what to do."""
    if isinstance(error, socket.gaierror):
        return ServiceError(f"host {host_of(address)} has no address", "Check DNS, or put it into /etc/hosts")
    if isinstance(error, TimeoutError):
        return ServiceError(f"{address}: no answer within 5 s", "Open the port in the firewalls between")
    return ServiceError(
        f"{address}: {error.strerror}",
        "Start the coordinator (it opens the students' port once parties have trained), or open the port in the"
        f" firewalls between; if its port was changed, change it in {KIT_FILE} here too; where https_proxy names a"
        " proxy, it is that which does not answer",
    )


def check_disk(folder: Path, least: int) -> str:
    """Room for what a node keeps: `least` bytes on the folder's disk."""
    free = shutil.disk_usage(folder).free
    if free < least:
        raise ConfigError(f"{free // 1_000_000} MB free at {folder}, {least // 1_000_000} MB are needed", "Make room")
    return f"{free / 1e9:.0f} GB free"


def check_kit(kit: Kit, keys: Sequence[str]) -> list[Check]:
    """What every node's kit must have: its files as they were signed, its keys, its identity and the authority."""
    return [
        ("signature", lambda: check_signature(kit)),
        ("keys", lambda: check_private(kit.folder, keys)),
        ("identity", lambda: check_identity(kit)),
        ("authority", lambda: check_authority(kit.authority)),
    ]


def check_signature(kit: Kit) -> str:
    """That all files are those that the authority signed, and that they belong together."""
    found = check_signed(kit)
    return f"{len(found.files)} files as the authority signed them, version {found.version} of {found.made}"


def hold(checks: Iterable[Check], tell: Callable[[str, str], object]) -> None:
    """Start only where all checks hold. What is advice is told.

    Raises
    ------
    ConsiliumError : the first that does not, in the doctor's words.
    """
    for name, check in checks:
        try:
            check()
        except Advice as advice:
            tell(name, str(advice))


def check_settings(kit: Kit) -> bool:
    """Whether kit.json is as the operator made it; also where no signature says how that was."""
    found = read_manifest(kit.folder, kit.authority)
    made = {} if found is None else found.settings
    return KIT_FILE not in made or digests_of(kit.folder)[KIT_FILE] == made[KIT_FILE]


def check_clock(kit: Kit, now: float | None = None) -> str:
    """This machine's clock against what the node itself wrote before. now: seconds since 1970."""
    now = time.time() if now is None else now
    written = {path: path.stat().st_mtime for path in kit.state.rglob("*") if path.is_file()}
    last = max(written, key=lambda path: written[path], default=None)
    back = 0.0 if last is None else written[last] - now
    if last is not None and back > MOST_BEHIND_SECONDS:
        raise ConfigError(
            f"this clock has gone back: {last.relative_to(kit.folder)} was written {back:.0f} s in its future",
            "Set it by NTP (timedatectl set-ntp true): signatures of the past are refused",
        )
    return f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC, after all that this node wrote"


def check_port(port: int, host: str, key: str) -> str:
    """A port that can be bound; `key` of kit.json says which."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            known = {
                errno.EADDRNOTAVAIL: f"This machine has no address {host}: correct listen in {KIT_FILE}",
                errno.EACCES: f"Change {key} in {KIT_FILE} to one above 1023, or allow the node's service lower ones",
            }
            raise EngineError(
                f"port {port} on {host} cannot be used: {error.strerror}",
                known.get(error.errno or 0, f"Stop what uses it, or change {key} in {KIT_FILE}"),
            ) from None
    return f"port {port} is free"


def check_roster(kit: Kit, roster: SumRoster, expected: str, listed: str | None) -> str:
    """The roster has the hash that the federation asks for, and this node's own key in its place.

    listed: the key in that place, None where there is no such place.
    """
    key = Identity.load(kit / "identity.pem").public.hex()
    if roster.digest != expected:
        raise ConfigError(
            f"roster.json has hash {roster.digest[:12]}, the federation asks for {expected[:12]}",
            "Unpack the newest update that the operator sent into this kit",
        )
    if listed != key:
        raise ConfigError(
            "the roster has no entry with this node's name and key",
            "This node was removed, or identity.pem is not the one that was provisioned: ask the operator",
        )
    return f"hash {roster.digest[:12]}, {roster.n} parties, this node is in it"


def check_identity(kit: Kit) -> str:
    """A usable signing key."""
    return f"public key {Identity.load(kit / 'identity.pem').public.hex()[:12]}"


def _validity(certificate: x509.Certificate, path: Path, now: datetime | None) -> str:
    """The age and end of a certificate that is valid now."""
    now = now or datetime.now(UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        raise ConfigError(
            f"{path.name} is valid from {start:%Y-%m-%d %H:%M} UTC, this clock says {now:%Y-%m-%d %H:%M}",
            "Set this machine's clock by NTP",
        )
    if now > end:
        raise ConfigError(f"{path.name} expired on {end:%Y-%m-%d}", NEW_KIT)
    if end - now < SOON:
        raise Advice(f"{path.name} expires on {end:%Y-%m-%d}", NEW_KIT)
    return f"valid until {end:%Y-%m-%d}: {(now - start).days} days old, {(end - now).days} days left"


def refused_is_wrong(
    allows: Callable[[], Result], what: str, action: str = "", cures: Mapping[Rule, str] = CURES
) -> Result:
    """The result of `allows`; what the node would refuse is a ConfigError, with the cure that the coordinator is told
    too. cures: of its kind of node."""
    try:
        return allows()
    except Refused as error:
        cure = cures[error.refusal.rule]
        raise ConfigError(f"{what}: {error}", f"{cure}. {action}" if action else cure) from None


SECOND_FILE = "second.json"


class SecondFile(Frozen):
    """The file `second.json`."""

    name: PartyName
    made_by: Literal["operator", "aggregator"]


def check_second(kit: Kit, roster: SumRoster | None) -> str:
    """For the doctor of a party or the coordinator: that there are two aggregators, with keys of two makers.

    Raises
    ------
    Advice : the operator made the second one's. (A roster with one key for both is none, see `VerifiedRoster`.)
    """
    if roster is None or roster.second is None:
        return "none: only verified votes have one"
    file = load(kit / SECOND_FILE, SecondFile)
    if file.made_by == "operator":
        raise Advice(
            f"{file.name}: the operator made its keys: with the coordinator's it could open every vote",
            "Let the aggregator make its own: consilium node keys --kind aggregator",
        )
    return f"{file.name} made its own keys; have it read out {second_fingerprint(roster)}"


PORT_SECONDS = 15.0
"""That a port may still be held by a process of this node's own that is about to end."""


def wait_for_ports(checks: Iterable[Check], tell: Tell, stop: threading.Event, seconds: float = PORT_SECONDS) -> None:
    """Until every port can be bound, or `stop` is set. checks: of `checks.check_port`.

    Raises
    ------
    EngineError : one cannot be bound for so many seconds.
    """
    for name, check in checks:
        deadline, told = time.monotonic() + seconds, False
        while not stop.is_set():
            try:
                check()
                break
            except EngineError as error:
                if time.monotonic() >= deadline:
                    raise
                if not told:
                    tell(name, f"{error}. Waiting {seconds:g} s for it")
                told = True
            stop.wait(0.2)


def check_versions(kit: Kit) -> str:
    """For the doctor: this program, and the one that made the kit. Raises Advice: the operator has other versions."""
    made, now = check_signed(kit).program, program_versions()
    if made != now:
        raise Advice(f"the operator has {made}, this is {now}", "Install one version at all nodes")
    return f"this is {now}"
