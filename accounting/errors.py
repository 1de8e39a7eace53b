"""Typed errors of the accounting: each names the thing, its value, the limit and the next action, and never votes,
counts per class or a data-dependent cost. An exception text travels to logs and to other machines."""

from __future__ import annotations

from typing import ClassVar


class AccountingError(ValueError):
    """Base of every error that the accounting raises on purpose.

    Its exit codes are those of `protocol.errors`, which the accounting cannot import: a test compares them.
    """

    exit_code: ClassVar[int] = 2

    def told(self) -> tuple[str, str]:
        """What is wrong, and what to do next: the last sentence of a text that has several."""
        what, stop, action = str(self).rpartition(". ")
        return (what, action) if stop else (str(self), "")


class VotesError(AccountingError):
    """A vote histogram is not what the bounds assume (dtype, shape, sign, row sums)."""

    exit_code = 3


class VotesPathError(VotesError):
    """A file of votes is not there."""

    exit_code = 2


class OrdersError(AccountingError):
    """A Renyi order, or a curve over orders, is unusable."""


class NoiseError(AccountingError):
    """A noise scale (sigma, gamma, beta) is not a positive finite number."""


class DeltaError(AccountingError):
    """A delta lies outside (0, 1), or nothing is left of it after the parts already spent."""


class ThresholdError(AccountingError):
    """A threshold cannot be compared with a number of votes."""


class UnitError(AccountingError):
    """The unit of privacy is missing, contradictory, or differs between releases that are to be composed."""


class EventError(AccountingError):
    """A release event is inconsistent or cannot be read."""


class CalibrationError(AccountingError):
    """No parameters reach the target that was asked for."""
