"""Teachers and students as people name them: a name, a table, a description, or an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from consilium.protocol.own_models.pickles import write_estimator
from consilium.protocol.parties.teachers import TEACHERS
from consilium.simulations.council.errors import BadSetting

Described = str | Mapping[str, Any] | BaseModel | Any
"""A kind's name; a table with its name and keys, as in a scenario; one of the package's descriptions; or an estimator.
"""

_ASKED_FOR = frozenset(kind.model_fields["model"].default for kind in TEACHERS)
"""Kinds that a coordinator may ask for; only a party's own file names others."""


def table_of(described: Described, tag: str) -> dict[str, Any] | None:
    """The table of a kind, whose key `tag` names it; None where it is an object that only a file can hold.

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


def plain_table(described: Described, tag: str, what: str) -> dict[str, Any]:
    """The table of a kind of which there are no objects. Raises BadSetting."""
    table = table_of(described, tag)
    if table is None:
        raise BadSetting(f"{what} is a {type(described).__name__}", "Give a name, a table or a description")
    return table


class ObjectFiles:
    """Estimators as files in a folder, mode 0600, from where simulated parties and the student read them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def teacher(self, described: Described) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The tables `federation.teacher` and `simulation.own_teacher`, of which one is None, or both.

        Raises
        ------
        BadSetting, UnusableModel
        """
        if described is None:
            return None, None
        table = table_of(described, "model")
        if table is None:
            table = {"model": "pickled", **self._written(described, "teacher")}
        return (table, None) if table["model"] in _ASKED_FOR else (None, table)

    def student(self, described: Described) -> dict[str, Any] | None:
        """The table `student.trainer`. Raises BadSetting, UnusableModel."""
        if described is None:
            return None
        table = table_of(described, "name")
        return {"name": "pickled", **self._written(described, "student")} if table is None else table

    def _written(self, estimator: Any, what: str) -> dict[str, Any]:
        if hasattr(estimator, "state_dict") and not hasattr(estimator, "fit"):
            raise BadSetting(
                f"{what} is a torch module, which does not say how it is trained",
                f'Give {{"{"model" if what == "teacher" else "name"}": "torch", "factory": "package.module:callable"}}',
            )
        path = self._folder / f"{what}.pkl"
        return {"file": str(path), "sha256": write_estimator(path, estimator)}
