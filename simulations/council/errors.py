"""Errors of the Python API: the project's own, and at once the class that scikit-learn's conventions ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from consilium.protocol.errors import ConfigError, DataError, NotEnoughParties
from consilium.simulations.interruption import Interrupted


class BadInput(DataError, ValueError):
    """Rows, labels or owners that cannot be used; no value of a private row is told."""


class WrongType(DataError, TypeError):
    """Rows, labels or owners of a type that is not taken."""


class BadSetting(ConfigError, ValueError):
    """A parameter that says something it may not say."""


class TooFewOwners(NotEnoughParties, ValueError):
    """Too few owners of rows are left as parties."""


class NothingToGain(ConfigError, ValueError):
    """The plan expects nothing of a student at this epsilon; nothing was asked and nothing was charged."""


@contextmanager
def value_errors(reworded: Callable[[str], str] = str) -> Iterator[None]:
    """Raise data, settings and owners that are wrong as ValueError too, with the same exit code.

    reworded : brings messages into the caller's words.
    """
    try:
        yield
    except (ValueError, TypeError):
        raise  # it is one already
    except NotEnoughParties as error:
        raise TooFewOwners(reworded(error.what), reworded(error.action)) from error
    except DataError as error:
        raise BadInput(reworded(error.what), reworded(error.action)) from error
    except ConfigError as error:
        raise BadSetting(reworded(error.what), reworded(error.action)) from error


@contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Of a signal that ends a run, what Python programs and notebooks expect of one."""
    try:
        yield
    except Interrupted as error:
        raise KeyboardInterrupt(str(error)) from None
