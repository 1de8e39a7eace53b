"""From the name of a model to what builds it: `package.module:callable`, `package.module.Class`, or an entry point."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import reduce
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from consilium.protocol.errors import ConfigError

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
NAME_PATTERN = rf"^({_WORD}(\.{_WORD})*:{_WORD}(\.{_WORD})*|{_WORD}(\.{_WORD})+|[A-Za-z0-9_][A-Za-z0-9_-]*)$"
"""A name with a colon or a dot is imported; one without either is an entry point."""

TEACHERS = "consilium.teachers"
STUDENTS = "consilium.students"
"""Groups of entry points: a name -> a callable that returns an untrained model."""

_LONGEST = 200


class UnusableModel(ConfigError):
    """A model of somebody's own cannot be found, built, trained on made-up rows, or kept."""


def resolve(name: str, group: str) -> Callable[..., Any]:
    """What `name` stands for; `group` is that of the entry points. Imports the module that the name says.

    Raises
    ------
    UnusableModel : there is none, its import fails, or it cannot be called.

    >>> resolve("fractions:Fraction.limit_denominator", TEACHERS).__name__
    'limit_denominator'
    """
    found = _imported(name) if ":" in name or "." in name else _loaded(_entry(name, group))
    if not callable(found):
        raise UnusableModel(f"{name} is no callable but {type(found).__name__}", "Name a class or a function")
    return found


def installed(name: str, group: str) -> bool:
    """Whether an installed package offers `name` under this group, as an entry point or as what one points to.

    Imports nothing: for names that come from somebody else.
    """
    return any(name in (point.name, point.value) for point in entry_points(group=group))


def told(error: BaseException) -> str:
    """Class and first line of an error that no private row can have caused, short enough for a line."""
    text = " ".join(str(error).split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


def _imported(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not colon:
        module, _, path = name.rpartition(".")
    try:
        return reduce(getattr, path.split("."), importlib.import_module(module))
    except ModuleNotFoundError as error:
        action = f"Install it beside consilium, or put its folder on PYTHONPATH: {error.name} is not there"
        raise UnusableModel(f"{name} cannot be imported", action) from None
    except AttributeError as error:
        raise UnusableModel(f"{name} is not there: {told(error)}", "Look for a slip in the name") from None
    except (Exception, SystemExit) as error:  # a module runs whatever its author wrote
        raise UnusableModel(f"{name} cannot be imported: {told(error)}", "Import it in Python first") from None


def _entry(name: str, group: str) -> EntryPoint:
    found = entry_points(group=group, name=name)
    if len(found) == 1:
        return next(iter(found))
    if found:
        packages = ", ".join(sorted(point.dist.name if point.dist else "?" for point in found))
        raise UnusableModel(f"{len(found)} packages offer {name!r} under {group}: {packages}", "Uninstall all but one")
    known = ", ".join(sorted(point.name for point in entry_points(group=group))) or "none"
    raise UnusableModel(
        f"no installed package offers {name!r} under the entry points {group}; there are: {known}",
        "Install it, or write package.module:callable",
    )


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UnusableModel(f"entry point {point.name!r}, {point.value}, cannot be loaded: {told(error)}",
                            "Import it in Python first") from None  # fmt: skip
