"""Data sets of other people's packages: entry points of the group `consilium.datasets`.

A package says, in its pyproject.toml,

    [project.entry-points."consilium.datasets"]
    registry = "their_package.registry:open_registry"

and `data.set = "registry"` then calls `open_registry(**data.options)`, which returns a `Dataset` or any `Source`.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.simulations.datasets.base import Source

GROUP = "consilium.datasets"
_FIELDS = (
    "name",
    "title",
    "attribution",
    "classes",
    "owner_label",
    "y",
    "owner",
    "owner_names",
    "patient",
    "time",
    "public",
)


def installed_sets() -> dict[str, EntryPoint]:
    """Names that installed packages give, and what they name; nothing of it is imported yet.

    Of a name that two packages give, the first is taken in the order of their entry points' targets.
    """
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value), reverse=True)
    return {entry.name: entry for entry in entries}


def open_installed(name: str, options: dict[str, Any]) -> Source:
    """The data set that the package's callable makes of these options.

    Raises
    ------
    ConfigError : it cannot be imported, or does not take these options. DataError : it fails, or what it gives is no
        `Source`; says what of it.
    """
    entry = installed_sets()[name]
    whose = f"data set {name!r} ({entry.value}{_distribution(entry)})"
    try:
        opener = entry.load()
    except Exception as error:
        raise ConfigError(
            f"{whose} cannot be imported: {_short(error)}", "Install what it needs, or ask who made it"
        ) from None
    if not callable(opener):
        raise ConfigError(f"{whose} is no function", "An entry point names a callable that returns a Dataset")
    try:
        source: Any = opener(**options)
    except ConsiliumError:
        raise
    except TypeError as error:
        raise ConfigError(f"{whose} does not take data.options {options}: {_short(error)}", "Correct them") from None
    except Exception as error:
        raise DataError(f"{whose} fails: {_short(error)}", "Ask who made it") from None
    if fault := why_no_source(source):
        raise DataError(f"{whose}: {fault}", "See consilium.simulations.datasets.base")
    return source


def why_no_source(source: Any) -> str:
    """Why something is no `Source`; empty if it is one.

    >>> why_no_source(3)
    "int has no 'name'"
    """
    absent = [name for name in (*_FIELDS, "dataset") if not hasattr(source, name)]
    if absent:
        return f"{type(source).__name__} has no {absent[0]!r}"
    rows = len(source.y)
    if not rows:
        return "it has no rows"
    for name in ("y", "owner", "patient"):
        ids = getattr(source, name)
        if ids is None and name == "patient":
            continue
        if not isinstance(ids, np.ndarray) or ids.dtype != np.int64 or ids.shape != (rows,) or ids.min() < 0:
            return f"{name} must be int64 numbers from 0 on, one for each of the {rows} rows"
    if source.time is not None and (
        not isinstance(source.time, np.ndarray) or source.time.dtype != np.float64 or source.time.shape != (rows,)
    ):
        return f"time must be float64 numbers, one for each of the {rows} rows, or None"
    if len(source.classes) == 1 or (source.classes and source.y.max() >= len(source.classes)):
        return f"y goes up to {source.y.max()}, and there are {len(source.classes)} classes"
    if source.owner_names is not None and source.owner.max() >= len(source.owner_names):
        return f"owner goes up to {source.owner.max()}, and there are {len(source.owner_names)} owner_names"
    x = getattr(source, "x", None)
    if x is None:
        return ""
    if not isinstance(x, np.ndarray) or x.dtype != np.float32 or x.shape != (rows, len(source.features)):
        return f"x must be float32 of shape ({rows}, {len(source.features)}): rows as y has, columns as features"
    return "" if np.isfinite(x).all() else "x has values that are missing or infinite"


def _distribution(entry: EntryPoint) -> str:
    return f", package {entry.dist.name}" if entry.dist is not None else ""


def _short(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
