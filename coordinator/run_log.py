"""The run's event log: one JSON object a line, flushed as it is written, so that anybody can follow it.

Events tell stages, names, counts of parties and seconds. They never carry votes or anything computed from single
votes.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consilium.protocol.files import append_private
from consilium.protocol.strict_json import dumps

Listener = Callable[[dict[str, Any]], None]


class EventLog:
    """Appends events to a file and tells listeners."""

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        _cut_torn_line(path)
        self._file = append_private(path)  # closed by close()
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._listener = listener

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the time of day and the seconds since the log was opened."""
        record = {
            "event": event,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seconds": round(time.monotonic() - self._start, 3),
            **fields,
        }
        with self._lock:
            self._file.write(dumps(record) + "\n")
            self._file.flush()
        if self._listener is not None:
            self._listener(record)

    def close(self) -> None:
        """Close the file. What a full disk did not take is given up: whoever wrote it was told."""
        with contextlib.suppress(OSError):
            self._file.close()


class EventTail:
    """Reads an event log as it grows, each line once. A log that was begun anew is read from its beginning."""

    def __init__(self, path: Path, position: int = 0) -> None:
        """position: bytes that are skipped."""
        self._path = path
        self._position = position

    def fresh(self) -> list[dict[str, Any]]:
        """Events of whole lines since the last call; a line that is no event is passed over."""
        if not self._path.exists():
            return []
        with open(self._path, "rb") as file:
            if file.seek(0, 2) < self._position:
                self._position = 0
            file.seek(self._position)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._position += whole
        found = []
        for line in text[:whole].splitlines():
            with contextlib.suppress(ValueError):  # what a power cut left
                found.append(json.loads(line))
        return [event for event in found if isinstance(event, dict)]


def _cut_torn_line(path: Path) -> None:
    """Leave whole lines only: a full disk, or a power cut, may have ended the last one early."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
