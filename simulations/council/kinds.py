"""Teachers and students as people name them: a name, a table, a description, or an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from consilium.simulations.council.errors import BadSetting

Described = str | Mapping[str, Any] | BaseModel | Any
"""A kind's name; a table with its name and keys, as in a scenario; one of the package's descriptions; or an estimator.
"""


def table_of(described: Described, tag: str) -> dict[str, Any] | None:
    """The table of a kind, whose key `tag` names it; None where it is an object that only can be kept as a file.

    >>> table_of("ridge", "model"), table_of({"model": "ridge", "alpha": 2.0}, "model")
    ({'model': 'ridge'}, {'model': 'ridge', 'alpha': 2.0})

    Raises
    ------
    BadSetting : a table without a name.
    """
    if isinstance(described, str):
        return {tag: described}
    if isinstance(described, BaseModel):
        return described.model_dump(mode="json")
    if not isinstance(described, Mapping):
        return None
    if tag not in described:
        raise BadSetting(f"{dict(described)!r} does not say which kind it is", f'Give {{"{tag}": ..., ...}}')
    return dict(described)
