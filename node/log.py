"""`monitor.toml` in a kit, and the log that a node writes as it says."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from consilium.node.kit import Host, Kit, Port, joined
from consilium.node.supervisor import ENDED, Tell, tell_time
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.tls import TlsFiles

MONITOR_FILE = "monitor.toml"


class LogSettings(Frozen):
    """The table `[log]`."""

    format: Literal["text", "json"] = Field(default="text", description="lines for people, or one JSON object a line")
    file: str = Field(
        default="", description="instead of standard error, relative to the kit; rotated by the node, mode 0600"
    )
    most_bytes: int = Field(
        default=20_000_000, ge=10_000, le=2_000_000_000, description="of `file`, until it is rotated"
    )
    keep: int = Field(default=5, ge=1, le=1000, description="rotated files kept: `file`.1 is the newest")


class MonitorSettings(Frozen):
    """The file `monitor.toml`."""

    port: Port | None = Field(
        default=None, description="for health and metrics, and the console; left out: none is opened"
    )
    listen: Host = Field(default="127.0.0.1", description="address that it binds; any but loopback needs `observers`")
    hosts: tuple[Host, ...] = Field(
        default=(), description="names under which it is asked, besides `listen` and localhost; others are refused"
    )
    observers: str = Field(
        default="",
        description="PEM file with the certificate of everybody who may look: mutual TLS, each pinned; read again when"
        " it changes",
    )
    certificate: str = Field(default="server.crt", description="the node's own, PEM, shown to observers")
    key: str = Field(default="server.key", description="of `certificate`, PEM, readable by its owner only")
    log: LogSettings = Field(default=LogSettings(), description="how the node writes its log")

    @model_validator(mode="after")
    def _strangers_need_certificates(self) -> MonitorSettings:
        if self.port is not None and not self.observers and not is_loopback(self.listen):
            raise ValueError(
                f"listen {self.listen} is no loopback address, so that others could look without a certificate: name"
                " observers, or leave listen out"
            )
        return self

    @property
    def address(self) -> str:
        """host:port at which it listens; where there is a port."""
        return joined(self.listen, self.port or 0)

    def own_names(self) -> frozenset[str]:
        """Host headers that are answered, in lower case, with and without the port."""
        loopback = ("127.0.0.1", "[::1]", "localhost")
        names = {joined(host, 0).rpartition(":")[0].lower() for host in (self.listen, *self.hosts)} | set(loopback)
        return frozenset({*names, *(f"{name}:{self.port}" for name in names)})

    def tls(self, kit: Path) -> TlsFiles | None:
        """The node's certificate and key, and in place of an authority the observers; None on loopback without them."""
        if not self.observers:
            return None
        return TlsFiles(kit / self.certificate, kit / self.key, kit / self.observers)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def load_monitor(kit: Kit) -> MonitorSettings:
    """What the kit's `monitor.toml` says; the defaults where there is none.

    Raises
    ------
    ConfigError : it cannot be read, says something it may not say, or takes a port that the node itself needs.
    """
    path = kit / MONITOR_FILE
    if not path.exists():
        return MonitorSettings()
    found, place = load(path, MonitorSettings), kit.coordinator
    needed = {
        "coordinator": {
            "superlink_port": place.superlink_port, "label_port": place.label_port, "internal_port": place.internal_port
        },
        "party": {"node_port": kit.node_port},
        "aggregator": {"node_port": kit.node_port},
        "student": {},
    }  # fmt: skip
    for name, port in needed[kit.kind].items():
        if found.port == port:
            raise ConfigError(f"{path}: port {port} is {name} of kit.json", "Choose another in monitor.toml")
    return found


Level = Literal["info", "warning", "error"]

_ERROR = re.compile(r"^ended \(|^failed: |; again in [\d.]+ s|cannot be (used|read|written)|MB free at ")
_WARNING = re.compile(
    r"^warning: | left out of stage |expires? on |could not be made|refused this node|connection is lost$"
    r"|different versions|from several addresses|is not signed"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def level_of(what: str) -> Level:
    """How serious a line of a node's log is, from the words with which the nodes say such things.

    >>> level_of("connected to the coordinator"), level_of("ended (exit code 1); starts again in 1 s; log: x")
    ('info', 'error')
    """
    if _ERROR.search(what):
        return "error"
    return "warning" if _WARNING.search(what) else "info"


def one_line(text: str) -> str:
    """A text without line ends and control characters: nobody's name or message can look like a line of its own.

    >>> one_line("a name\\n12:00:00 coordinator: closed")
    'a name 12:00:00 coordinator: closed'
    """
    return _CONTROL.sub(" ", text)


def as_text(name: str, what: str, at: float) -> str:
    """Day and time of this machine, process, what happened."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))} {name}: {one_line(what)}"


def as_json(kit: Kit, name: str, what: str, at: float) -> str:
    """One JSON object: `at` (UTC), `level`, `node`, `kind` (of node), `process` and `what`."""
    return json.dumps(
        {
            "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
            "level": level_of(what),
            "node": kit.name,
            "kind": kit.kind,
            "process": name,
            "what": one_line(what),
        },
        ensure_ascii=False,
    )


class RotatedFile:
    """A file that is renamed to `.1`, and what was `.1` to `.2`, before it grows beyond `most_bytes`; `keep` of them
    stay. Mode 0600. Several threads may write."""

    def __init__(self, path: Path, most_bytes: int, keep: int) -> None:
        self._path = path
        self._most = most_bytes
        self._keep = keep
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Append one line, all of it or nothing. Raises OSError."""
        content = line.encode() + b"\n"
        with self._lock:
            size = self._path.stat().st_size if self._path.exists() else 0
            if size and size + len(content) > self._most:
                self._rotate()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                before = os.fstat(descriptor).st_size
                if os.write(descriptor, content) < len(content):
                    os.ftruncate(descriptor, before)  # half a line would spoil the next one too
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._aside(number).replace(self._aside(number + 1))
        self._path.replace(self._aside(1))

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def log_of(kit: Kit, settings: LogSettings, clock: Callable[[], float] = time.time) -> Tell:
    """A `Tell` that writes as `[log]` of `monitor.toml` says.

    A file that cannot be written, as on a full disk, stops nobody: its lines go to standard error.
    """
    if settings.format == "text" and not settings.file:
        return lambda name, what: tell_time(name, one_line(what))
    file = RotatedFile(kit / settings.file, settings.most_bytes, settings.keep) if settings.file else None

    def tell(name: str, what: str) -> None:
        at = clock()
        line = as_json(kit, name, what, at) if settings.format == "json" else as_text(name, what, at)
        if file is not None:
            with contextlib.suppress(OSError):
                return file.write(line)
        print(line, file=sys.stderr, flush=True)

    return tell


MOST_REMEMBERED = 20


class LoggedLine(NamedTuple):
    """One line of a node's log. at: seconds since 1970."""

    at: float
    name: str
    what: str
    level: Level


class Heard:
    """Passes on what is told, and remembers the last warnings and errors and how often each process ended.

    began: when it was made, seconds since 1970.
    """

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.time) -> None:
        self._tell = tell
        self._clock = clock
        self.began = clock()
        self._lock = threading.Lock()
        self._said: deque[LoggedLine] = deque(maxlen=MOST_REMEMBERED)
        self._ended: Counter[str] = Counter()
        self._levels: Counter[Level] = Counter()

    def tell(self, name: str, what: str) -> None:
        """A `Tell`."""
        found = LoggedLine(self._clock(), name, one_line(what), level_of(what))
        with self._lock:
            self._levels[found.level] += 1
            if what.startswith(ENDED):
                self._ended[name] += 1
            if found.level != "info":
                self._said.append(found)
        self._tell(name, what)

    @property
    def troubles(self) -> list[LoggedLine]:
        """The last warnings and errors, oldest first."""
        with self._lock:
            return list(self._said)

    @property
    def ended(self) -> dict[str, int]:
        """How often each process ended by itself, of those that did."""
        with self._lock:
            return dict(self._ended)

    @property
    def lines(self) -> dict[Level, int]:
        """How many lines of each level were told."""
        with self._lock:
            return {"info": 0, "warning": 0, "error": 0, **self._levels}
