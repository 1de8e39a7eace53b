"""The methods that a study can compare: a new one is a class of `StudyMethod` in a module of this package."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from consilium.protocol.config_files import validate
from consilium.protocol.errors import ConfigError
from consilium.simulations import methods
from consilium.simulations.methods.base import StudyMethod

for _module in pkgutil.iter_modules(methods.__path__):
    import_module(f"{methods.__name__}.{_module.name}")


METHODS: dict[str, type[StudyMethod]] = dict(sorted(StudyMethod.kinds.items()))  # every method, by its name


def method_of(described: object, where: str = "methods") -> StudyMethod:
    """A method from its name, or from a table with `name` and its keys. `where`: the key that it stands at.

    Raises
    ------
    ConfigError : no such method, a key that it has not, or a value that it may not have.

    >>> method_of("pooled"), method_of({"name": "manual_labels", "labels": 300}).label
    (PooledModel(name='pooled', kind='teacher'), 'manual_labels labels=300')
    """
    table: dict[str, Any] = dict(described) if isinstance(described, Mapping) else {"name": described}
    name = table.get("name")
    kind = METHODS.get(name) if isinstance(name, str) else None
    if kind is None:
        fault = f"{where}: no method {name!r}"
        raise ConfigError(fault, f"Choose one of {', '.join(METHODS)}, or a table with such a name")
    return validate(table, kind, f"{where}: {name}")
