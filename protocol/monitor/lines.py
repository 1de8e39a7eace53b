"""A node's log: one line for each thing that happened, as text or as JSON, on standard error or in rotated files."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from consilium.protocol.monitor.settings import LogSettings
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.supervisor import Tell, tell_time

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
