"""Files of a run, read with no trust in their content: whatever is in them, the result is a value or a typed error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consilium.coordinator.ledger.verify.findings import Damaged, Unfinished
from consilium.protocol.errors import ConsiliumError

MOST_BYTES = 1 << 28
"""Largest file that is read at all: the files of 100,000 queries take a tenth of it."""


@dataclass(frozen=True)
class Files:
    """The files of one folder. finished: whether whoever wrote them says that nothing is missing any more."""

    folder: Path
    finished: bool

    def path(self, name: str) -> Path:
        """Where the file is.

        Raises
        ------
        Damaged : a finished run lacks it. Unfinished : it was not written yet.
        """
        path = self.folder / name
        if not path.is_file():
            raise Damaged(f"{name} is missing") if self.finished else Unfinished(f"{name} is not written yet")
        return path

    def broken(self, name: str, why: str) -> ConsiliumError:
        """The error of a file that cannot be read: a crash may leave one, but only where the run did not finish."""
        if self.finished:
            return Damaged(f"{name} cannot be read: {why}")
        return Unfinished(f"{name} cannot be read ({why}), as a crash while it is written leaves it")

    def content(self, name: str) -> bytes:
        """The file as it is."""
        path = self.path(name)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise self.broken(name, f"it has more than {MOST_BYTES >> 20} MiB")
            return path.read_bytes()
        except OSError as error:
            raise self.broken(name, f"{error.strerror}") from None

    def object(self, name: str) -> dict[str, Any]:
        """A JSON object; a key that occurs twice is refused, since two readers may take different ones."""
        content = self.content(name)
        try:
            value = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
        except UnicodeDecodeError:
            raise self.broken(name, "it is no text") from None
        except (ValueError, RecursionError):
            raise self.broken(name, "it is empty" if not content.strip() else "it is no JSON") from None
        if not isinstance(value, dict):
            raise Damaged(f"{name} is no JSON object")
        return value


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(key)
        values[key] = value
    return values


def entry(table: dict[str, Any], name: str, *keys: str) -> Any:
    """The value below `keys`, each of a table in the one before. Raises Damaged where there is none."""
    value: Any = table
    for number, key in enumerate(keys, 1):
        if not isinstance(value, dict) or key not in value:
            raise Damaged(f"{name} has no {'.'.join(keys[:number])}")
        value = value[key]
    return value


@dataclass
class LoggedEvents:
    """An event log. torn: lines that a crash broke off; altered: numbers of lines that no crash explains."""

    events: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    altered: list[int] = field(default_factory=list)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Those of one kind, in order."""
        return [event for event in self.events if event["event"] == name]


def read_events(content: bytes) -> LoggedEvents:
    """Every line of an event log.

    A process that dies leaves a line without its end; the process that goes on writes its own first line behind it.
    """
    found = LoggedEvents()
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        event = _event(line)
        if event is not None:
            found.events.append(event)
        elif line and number == len(lines):
            found.torn += 1
        elif line:
            after = _event(line[line.rfind(b'{"event"') :]) if line.rfind(b'{"event"') > 0 else None
            if after is None:
                found.altered.append(number)
            else:
                found.torn += 1
                found.events.append(after)
    return found


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    named = isinstance(value, dict) and isinstance(value.get("event"), str) and isinstance(value.get("at"), str)
    return value if named else None
