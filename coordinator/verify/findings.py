"""Findings of checks, each with a verdict that tells a lie from a damaged file and from a crash; and files of a run.

Files are read with no trust in their content: whatever is in them, the result is a value or a typed error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from consilium.accounting.errors import AccountingError
from consilium.protocol.errors import ConfigError, ConsiliumError, MalformedMessage


class Verdict(StrEnum):
    """What a check came to."""

    HOLDS = "holds"
    FAILS = "does not hold"
    DAMAGED = "unreadable or altered"
    UNFINISHED = "unfinished"
    """As a crash leaves it, or a run that still goes on: no lie, and no proof either."""
    ABSENT = "not there"
    """Skipped, for the reason that is given."""


class Contradiction(ConsiliumError):
    """Two things that the run says cannot both be true."""


class Damaged(ConsiliumError):
    """A file cannot be read, is missing where it must be there, or is not what was written."""


class Unfinished(ConsiliumError):
    """Not there yet, or broken off as a crash leaves it."""


class Absent(ConsiliumError):
    """Nothing to check, and nothing wrong with that."""


_VERDICTS = {
    Damaged: Verdict.DAMAGED,
    ConfigError: Verdict.DAMAGED,
    MalformedMessage: Verdict.DAMAGED,
    Unfinished: Verdict.UNFINISHED,
    Absent: Verdict.ABSENT,
}


@dataclass(frozen=True)
class Finding:
    """One check: what was looked at (a file's name first), the verdict, and a sentence. Nothing in it is secret."""

    check: str
    verdict: Verdict
    found: str

    @property
    def holds(self) -> bool:
        """A crash, or a file that need not be there, is no lie."""
        return self.verdict not in (Verdict.FAILS, Verdict.DAMAGED)


def holds(findings: Iterable[Finding]) -> bool:
    """Whether no finding speaks against the run."""
    return all(finding.holds for finding in findings)


def judged(check: str, look: Callable[[], str]) -> Finding:
    """Look, and tell the sentence that comes back, or the error. What is checked comes from whoever may have forged it,
    so no error of any kind gets out: a check that breaks down counts as failed."""
    try:
        return Finding(check, Verdict.HOLDS, look())
    except (ConsiliumError, AccountingError) as error:
        return Finding(check, _VERDICTS.get(type(error), Verdict.FAILS), f"{error}")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a parser's panic is no Exception; a text may quote what nobody may see
        return Finding(check, Verdict.DAMAGED, f"it cannot be read ({type(error).__name__})")


def agree(name: str, claimed: object, truth: object) -> None:
    """Raise Contradiction unless both are the same, in type too: `True` is no 1."""
    if claimed != truth or isinstance(claimed, bool) != isinstance(truth, bool):
        raise Contradiction(f"{name}: {str(claimed)[:80]} is written, {str(truth)[:80]} is right")


MOST_BYTES = 1 << 28
"""Largest file that is read at all: the files of 100,000 queries take a tenth of it."""


@dataclass(frozen=True)
class Files:
    """The files of one folder. finished: whether whoever wrote them says that nothing is missing any more."""

    folder: Path
    finished: bool

    def broken(self, what: str) -> ConsiliumError:
        """The error of a file that cannot be read: a crash leaves one where the run did not finish."""
        return Damaged(what) if self.finished else Unfinished(what)

    def content(self, name: str) -> bytes:
        """The file as it is. Raises Damaged where a finished run lacks it, Unfinished where another one does."""
        path = self.folder / name
        try:
            if path.stat().st_size > MOST_BYTES:
                raise Damaged(f"{name} has more than {MOST_BYTES >> 20} MiB")
            return path.read_bytes()
        except FileNotFoundError:
            raise self.broken(f"{name} is missing") from None
        except OSError as error:
            raise self.broken(f"{name} cannot be read: {error.strerror}") from None

    def object(self, name: str) -> dict[str, Any]:
        """A JSON object; a key that occurs twice is refused, since two readers may take different ones."""

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            if len(values := dict(pairs)) < len(pairs):
                raise ValueError
            return values

        try:
            value = json.loads(self.content(name).decode("utf-8"), object_pairs_hook=unique)
        except (ValueError, RecursionError):
            raise self.broken(f"{name} is no JSON, or cut off") from None
        if not isinstance(value, dict):
            raise Damaged(f"{name} is no JSON object")
        return value


def entry(table: dict[str, Any], name: str, *keys: str) -> Any:
    """The value below `keys`, each of a table in the one before. Raises Damaged where there is none."""
    value: Any = table
    for number, key in enumerate(keys, 1):
        if not isinstance(value, dict) or key not in value:
            raise Damaged(f"{name} has no {'.'.join(keys[:number])}")
        value = value[key]
    return value
