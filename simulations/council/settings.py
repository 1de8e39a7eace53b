"""From the parameters of a `Council` to the scenario that is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from consilium.accounting.units import Unit
from consilium.models.keys import TEACHERS
from consilium.models.naming import called, checked, write_estimator
from consilium.simulations.council.defaults import MECHANISM
from consilium.simulations.council.frames import BadSetting, Given
from consilium.simulations.datasets.spec import MEMORY

Described = str | Mapping[str, Any] | BaseModel | Any
"""A kind's name; a name to import an estimator by; a table with a kind's name and keys, as in a scenario; one of the
package's descriptions; or an estimator."""

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
        table = self._table(described, "model", "teacher")
        return (table, None) if table["model"] in _ASKED_FOR else (None, table)

    def student(self, described: Described) -> dict[str, Any] | None:
        """The table `student.trainer`. Raises BadSetting, UnusableModel."""
        return None if described is None else self._table(described, "name", "student")

    def _table(self, described: Described, tag: str, role: str) -> dict[str, Any]:
        if isinstance(described, str) and re.search("[.:]", described):
            return {tag: "estimator", "factory": described}
        table = table_of(described, tag)
        return {tag: "pickled", **self._written(described, role)} if table is None else table

    def _written(self, estimator: Any, role: str) -> dict[str, Any]:
        if hasattr(estimator, "state_dict") and not hasattr(estimator, "fit"):
            raise BadSetting(
                f"{role} is a torch module, which does not say how it is trained",
                f'Give {{"{"model" if role == "teacher" else "name"}": "torch", "factory": "package.module:callable"}}',
            )
        checked(called(estimator, role), role)
        path = self._folder / f"{role}.pkl"
        return {"file": str(path), "sha256": write_estimator(path, estimator)}


ATTRIBUTION = "Rows that were in the memory of the program that ran this; they are not kept with the run."
_UNITS = tuple(unit.value for unit in Unit)
_KEYS = {
    "name": "federation.name",
    "collection": "federation.collection",
    "minimum_parties": "federation.minimum_parties",
    "teachers_per_party": "federation.teachers_per_party",
    "unit": "federation.privacy.unit",
    "neighbouring": "federation.privacy.neighbouring",
    "delta": "federation.privacy.delta",
    "epsilon": "federation.privacy.epsilon",
    "mechanism": "federation.mechanism",
    "queries": "federation.query_budget.queries",
    "answers": "federation.query_budget.answers",
    "voting_rule": "federation.voting_rule",
    "teacher": "federation.teacher",
    "student": "student.trainer",
    "public_labels": "student.public_labels",
    "noise": "simulation.noise",
    "hand_labels": "simulation.hand_labels",
    "columns": "data.columns",
    "missing": "data.missing",
    "cells": "data.cells",
    "classes": "data.classes",
    "parties": "data.parties",
    "least_rows": "data.least_rows",
    "public": "data.public",
}
"""Parameters of `Council`, and of its `fit`, -> keys of a scenario."""
_IN_PYTHON = {key: parameter for parameter, key in _KEYS.items() if parameter != "name"} | {
    "data.public_share": "public_share",
    "data.public.share": "public_share",
    "data.label": "y",
    "data.owner": "owners",
    "data.patient": "patients",
    "simulation.own_teacher": "teacher",
    "query_budget.queries": "queries",
}
"""Keys that a caller of `Council` never wrote, and the parameters that they come from."""
_WRITTEN = {
    ". data.drop leaves a column out, data.columns declares it": ", or say what it is with columns=",
    " (data.drop)": "",
    "a simulated party's own teacher: [teacher] pickled teacher.pkl": "teacher",
    "the student pickled student.pkl": "student",
}
"""What messages say of files, of which a caller with a frame and estimators in hand knows nothing."""
_IN_A_MESSAGE = re.compile("|".join(sorted(map(re.escape, _IN_PYTHON), key=len, reverse=True)))


def in_python(text: str) -> str:
    """A message about a scenario in the words of `Council`.

    >>> in_python("Lower data.least_rows or data.public_share")
    'Lower least_rows or public_share'
    """
    for written, meant in _WRITTEN.items():
        text = text.replace(written, meant)
    return _IN_A_MESSAGE.sub(lambda match: _IN_PYTHON[match.group()], text)


def check(parameters: Mapping[str, Any]) -> None:
    """Raise BadSetting for parameters that say nothing of a federation, or are left out and have no default."""
    unit = _plain(parameters["unit"])
    if unit not in _UNITS:
        message = "unit is not said, and it has no default" if unit is None else f"unit is {unit!r}"
        raise BadSetting(
            f"{message}: whose data is the promise about?",
            "Give unit='party' (a whole hospital), 'patient' or 'record'",
        )
    for name in ("epsilon", "delta"):
        value = parameters[name]
        if value is None and name == "epsilon":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise BadSetting(f"{name} is {value!r}: it must be above 0", "For example epsilon=1.0, delta=1e-5")
    random_state = parameters["random_state"]
    if isinstance(random_state, int) and random_state < 0:
        raise BadSetting(f"random_state is {random_state}", "Give a number from 0, or None")
    for name, allowed in (("device", ("auto", "cpu", "cuda")), ("if_hopeless", ("raise", "warn"))):
        if parameters[name] not in allowed:
            raise BadSetting(f"{name} is {parameters[name]!r}", f"Give one of {', '.join(map(repr, allowed))}")
    if parameters["mechanism"] is None and parameters["epsilon"] is None:
        raise BadSetting("neither epsilon nor mechanism is given", "Give epsilon, and the noise is calibrated to it")
    if parameters["mechanism"] is not None and parameters["queries"] is None:
        raise BadSetting(
            "mechanism is given, and queries is not: how many are asked at most?", "For example queries=300"
        )
    if parameters["answers"] is not None and parameters["queries"] is None:
        raise BadSetting("answers is given, and queries is not", "Give both: of so many queries so many are answered")


def scenario_of(parameters: Mapping[str, Any], rows: Given, files: ObjectFiles) -> dict[str, Any]:
    """A scenario's table, but for what `council.defaults` completes.

    files: where estimators go that are given as objects.

    Raises
    ------
    BadSetting, UnusableModel
    """
    check(parameters)
    teacher, own_teacher = files.teacher(parameters["teacher"])
    queries, patients = parameters["queries"], _plain(parameters["unit"]) == "patient"
    values = {name: _plain(value) for name, value in parameters.items()} | {
        "teacher": teacher,
        "student": files.student(parameters["student"]),
        "mechanism": _kind(parameters, "mechanism", "name") or {"name": MECHANISM},
        "voting_rule": _kind(parameters, "voting_rule", "rule"),
        "answers": None if queries is None else queries if parameters["answers"] is None else parameters["answers"],
        "classes": rows.classes or None,
        "public": _public(parameters, rows),
        "public_labels": parameters["public_labels"] or None,
    }
    table: dict[str, Any] = {
        "data": {
            "set": MEMORY,
            "title": "Rows in memory",
            "attribution": ATTRIBUTION,
            **_division(parameters, rows, patients),
        },
        "federation": {"privacy": {}},
        "student": dict(parameters["asking"] or {}),
        "simulation": {} if own_teacher is None else {"own_teacher": own_teacher},
    }
    for name, key in _KEYS.items():
        if values[name] is not None:
            *parents, last = key.split(".")
            inner = table
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[last] = values[name]
    return table


def _plain(value: Any) -> Any:
    """Of an enumeration its value."""
    return getattr(value, "value", value)


def _kind(parameters: Mapping[str, Any], name: str, tag: str) -> dict[str, Any] | None:
    """The table of a kind of which there are no objects. Raises BadSetting."""
    described = parameters[name]
    if described is None or (table := table_of(described, tag)) is not None:
        return None if described is None else table
    raise BadSetting(f"{name} is a {type(described).__name__}", "Give a name, a table or a description")


def _public(parameters: Mapping[str, Any], rows: Given) -> dict[str, Any] | None:
    if rows.public_owners:
        return {"by": "owner", "owners": rows.public_owners}
    if rows.public is not None:
        return None  # these rows are it
    return {"by": "share" if rows.owner is None else "owner", "share": parameters["public_share"]}


def _division(parameters: Mapping[str, Any], rows: Given, of_patients: bool) -> dict[str, Any]:
    if rows.owner is None and parameters["parties"] is None:
        raise BadSetting(
            "nobody says whose rows are whose",
            "Give fit(..., owners=) a column or an array; or parties=, and rows are dealt to so many by lot",
        )
    if rows.owner is not None and parameters["parties"] is not None:
        raise BadSetting("both owners and parties are given", "Leave parties out: each owner is one")
    if of_patients and rows.patient is None:
        raise BadSetting("unit is 'patient', and nobody says whose rows are whose", "Give fit(..., patients=)")
    partition = "owners" if rows.owner is not None else "iid" if rows.patient is None else "groups"
    columns = {"label": rows.label, "owner": rows.owner, "patient": rows.patient}
    return {"partition": partition, **{key: name for key, name in columns.items() if name is not None}}
