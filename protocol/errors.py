"""Typed errors that a user may meet, each with its exit code.

An error says what is wrong, the value, the limit and the next action. It never carries votes, keys or private rows.
"""

from __future__ import annotations


class ConsiliumError(Exception):
    """Base of every error that is somebody's mistake or a known failure, never a bug.

    Parameters
    ----------
    what : what is wrong, with its value and limit.
    action : what to do next; printed after the first sentence.
    """

    exit_code = 1

    def __init__(self, what: str, action: str = "") -> None:
        self.what = what
        self.action = action
        super().__init__(f"{what}. {action}" if action else what)


class ConfigError(ConsiliumError):
    """A scenario, policy or federation file says something it may not say."""

    exit_code = 2


class DataError(ConsiliumError):
    """A data file is missing, malformed or does not fit the federation's schema."""

    exit_code = 3


class NotEnoughParties(ConsiliumError):
    """Fewer parties than the federation requires are present, or are left after a stage."""

    exit_code = 4


class BudgetExceeded(ConsiliumError):
    """A request would go beyond the caps that were fixed before the run."""

    exit_code = 5


class OutputExists(ConsiliumError):
    """The output folder is already there; nothing is ever overwritten."""

    exit_code = 6


class LedgerError(ConsiliumError):
    """The ledger cannot be read or written, or is not the ledger of this federation."""

    exit_code = 7


class EngineError(ConsiliumError):
    """Flower, Ray or a process that the run needs could not be started, or died."""

    exit_code = 8


class ServiceError(ConsiliumError):
    """The label service cannot be reached, or broke off."""

    exit_code = 9


class MalformedMessage(ConsiliumError):
    """A message of another node does not have the form that the protocol asks for."""

    exit_code = 10
