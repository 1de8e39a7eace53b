"""Findings: one for each check, with a verdict that tells a lie from a damaged file and from a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

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
            verdict, found = Verdict.HOLDS, look()
        except (ConsiliumError, AccountingError) as error:
            verdict, found = _VERDICTS.get(type(error), Verdict.FAILS), f"{error}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a parser's panic is no Exception; a text may quote what nobody may see
            verdict, found = Verdict.DAMAGED, f"cannot be checked ({type(error).__name__})"
        self.findings.append(Finding(name, verdict, found))


def agree(what: str, claimed: object, truth: object) -> None:
    """Raise Contradiction unless both are the same, in type too: `True` is no 1."""
    if claimed != truth or (isinstance(claimed, bool) != isinstance(truth, bool)):
        raise Contradiction(f"{what}: {_short(claimed)} is written, {_short(truth)} is right")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
