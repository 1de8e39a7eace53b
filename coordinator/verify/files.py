"""Findings of checks, each with a verdict that tells a lie from a damaged file and from a crash; and files of a run.

Files are read with no trust in their content: whatever is in them, the result is a value or a typed error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from consilium.accounting.errors import AccountingError
from consilium.protocol.errors import ConsiliumError


class Verdict(StrEnum):
    """What a check came to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    DAMAGED = "unreadable or altered"
    UNFINISHED = "unfinished"
    """As a crash leaves it, or a run that still goes on: no lie, and no proof either."""
    ABSENT = "not there"
    """Skipped, for the reason that is given."""
    UNCHECKED = "cannot be checked"
    """What it is held against lies outside the run, and is not there any more: no lie, and nothing that holds."""


class Contradiction(ConsiliumError):
    """Two things that the run says cannot both be true."""


class Damaged(ConsiliumError):
    """A file cannot be read, is missing where it must be there, or is not what was written."""


class Unfinished(ConsiliumError):
    """Not there yet, or broken off as a crash leaves it."""


class Unchecked(ConsiliumError):
    """What a claim is held against is not there."""


class Absent(ConsiliumError):
    """Nothing to check, and nothing wrong with that."""


_VERDICTS: dict[type[Exception], Verdict] = {
    Damaged: Verdict.DAMAGED,
    Unfinished: Verdict.UNFINISHED,
    Absent: Verdict.ABSENT,
    Unchecked: Verdict.UNCHECKED,
}


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at (a file's name first), the verdict, and a sentence. Nothing in it is secret."""

    check: str
    verdict: Verdict
    found: str

    @property
    def holds(self) -> bool:
        """False for a contradiction, for a damaged file, and where a claim cannot be checked; a crash or a file that
        need not be there is no lie."""
        return self.verdict not in (Verdict.FAILS, Verdict.DAMAGED, Verdict.UNCHECKED)


def holds(findings: Iterable[Finding]) -> bool:
    """Whether no finding speaks against the run."""
    return all(finding.holds for finding in findings)


class Checks:
    """Collects findings. What is checked comes from whoever may have forged it, so no error of any kind gets out."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def check(self, name: str, look: Callable[[], str]) -> None:
        """Look, and note the sentence that comes back, or the error. A check that breaks down counts as failed."""
        try:
            verdict, text = Verdict.HOLDS, look()
        except (ConsiliumError, AccountingError) as error:
            verdict, text = _VERDICTS.get(type(error), Verdict.FAILS), f"{error}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a parser's panic is no Exception; a text may quote what nobody may see
            verdict, text = Verdict.DAMAGED, f"cannot be checked ({type(error).__name__})"
        self.findings.append(Finding(name, verdict, text))


def agree(name: str, claimed: object, truth: object) -> None:
    """Raise Contradiction unless both are the same, in type too: `True` is no 1."""
    if claimed != truth or (isinstance(claimed, bool) != isinstance(truth, bool)):
        raise Contradiction(f"{name}: {_short(claimed)} is written, {_short(truth)} is right")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


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
    events = LoggedEvents()
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        event = _event(line)
        if event is not None:
            events.events.append(event)
        elif line and number == len(lines):
            events.torn += 1
        elif line:
            after = _event(line[line.rfind(b'{"event"') :]) if line.rfind(b'{"event"') > 0 else None
            if after is None:
                events.altered.append(number)
            else:
                events.torn += 1
                events.events.append(after)
    return events


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    named = isinstance(value, dict) and isinstance(value.get("event"), str) and isinstance(value.get("at"), str)
    return value if named else None
