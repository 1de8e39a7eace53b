"""Typed errors that a user may meet, each with its exit code. An error says what is wrong, the value, the limit and the
next action. It never carries votes, keys or private rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

TRACEBACK = "CONSILIUM_TRACEBACK"
"""Environment variable: set, an error shows where it came from. That text may quote private rows."""


class ConsiliumError(Exception):
    """Base of every error that is somebody's mistake or a known failure, never a bug. what: what is wrong, with its
    value and limit. action: what to do next; printed after the first sentence. meaning: of the exit code, for the table
    of codes that users read."""

    exit_code: ClassVar[int] = 1
    meaning: ClassVar[str] = "a check does not hold, or an internal error"

    def __init__(self, what: str, action: str = "") -> None:
        self.what = what
        self.action = action
        stop = "" if what.endswith(("?", ".")) else "."
        super().__init__(f"{what}{stop} {action}" if action else what)

    @property
    def _render_traceback_(self) -> Callable[[], list[str]]:
        """What IPython and notebooks show in place of a traceback, in which the message is hard to see."""
        if os.environ.get(TRACEBACK):
            raise AttributeError("the traceback is wanted")
        return lambda: [f"{type(self).__name__}: {self}"]


class ConfigError(ConsiliumError):
    """A scenario, policy or federation file says something it may not say."""

    exit_code = 2
    meaning = "usage, configuration, or a path that is not there"


class PathError(ConfigError):
    """A path that was given is not there, is of another kind than it must be, or may not be read or written."""


class NotAccepted(ConfigError):
    """The people of a node have not allowed what its federation asks."""


class DataError(ConsiliumError):
    """A data file is malformed or does not fit the federation's schema."""

    exit_code = 3
    meaning = "data"


class NotEnoughParties(ConsiliumError):
    """Fewer parties than the federation requires are present, or are left after a stage."""

    exit_code = 4
    meaning = "too few parties"


class NothingToGain(NotEnoughParties, ValueError):
    """The noise of a promise drowns their votes, as far as is known before anything is asked (`accounting.drowned`)."""


class BudgetExceeded(ConsiliumError):
    """A request would go beyond the query budget that was fixed before the run."""

    exit_code = 5
    meaning = "query budget used up"


class OutputExists(ConsiliumError):
    """The output folder is already there; nothing is ever overwritten."""

    exit_code = 6
    meaning = "output exists"


class LedgerError(ConsiliumError):
    """The ledger cannot be read or written, or is not the ledger of this federation."""

    exit_code = 7
    meaning = "ledger"


class LedgerLocked(LedgerError):
    """Another program held the file for as long as it could be waited for. It passes when that program ends."""


class EngineError(ConsiliumError):
    """Flower, Ray or a process that the run needs could not be started, or died."""

    exit_code = 8
    meaning = "engine"


class ServiceError(ConsiliumError):
    """The label service cannot be reached, or broke off."""

    exit_code = 9
    meaning = "label service"


class FailedAfterRelease(ConsiliumError):
    """A run failed after values had been released and charged; they stay in its folder. `__cause__`: the error."""

    exit_code = 13
    meaning = "failed after a release, which stays"


class MalformedMessage(ConsiliumError):
    """A message of another node does not have the form that the protocol asks for."""

    exit_code = 10
    meaning = "malformed message"


class StorageError(ConsiliumError):
    """The disk is full, over quota or broken: what was to be written could not be."""

    exit_code = 12
    meaning = "disk full or broken"
