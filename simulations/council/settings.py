"""From the parameters of a `Council` to the scenario that is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from consilium.accounting.units import Unit
from consilium.simulations.council.errors import BadSetting
from consilium.simulations.council.given import Given
from consilium.simulations.council.kinds import ObjectFiles, plain_table
from consilium.simulations.datasets.memory import MEMORY

ATTRIBUTION = "Rows that were in the memory of the program that ran this; they are not kept with the run."
_UNITS = tuple(unit.value for unit in Unit)
_IN_PYTHON = {
    "data.public_share": "public_share",
    "data.public.share": "public_share",
    "data.public": "public",
    "data.parties": "parties",
    "data.least_rows": "least_rows",
    "data.classes": "classes",
    "data.columns": "columns",
    "data.label": "y",
    "data.owner": "owners",
    "data.patient": "patients",
    "federation.minimum_parties": "minimum_parties",
    "federation.teachers_per_party": "teachers_per_party",
    "federation.privacy.epsilon": "epsilon",
    "federation.privacy.delta": "delta",
    "federation.privacy.unit": "unit",
    "federation.privacy.neighbouring": "neighbouring",
    "federation.caps.queries": "queries",
    "federation.caps.answers": "answers",
    "federation.mechanism": "mechanism",
    "federation.ballot": "ballot",
    "federation.votes": "votes",
    "federation.teacher": "teacher",
    "student.trainer": "student",
    "simulation.noise": "noise",
    "simulation.own_teacher": "teacher",
    "simulation.hand_labels": "hand_labels",
}
"""Keys of a scenario that a caller of `Council` never wrote, and the parameters that they come from."""
_FILES_ONLY = ". data.drop leaves a column out, data.columns declares it"
"""Of a message about a table, what a caller with a frame in hand need not be told."""
_KEYS = re.compile("|".join(sorted(map(re.escape, _IN_PYTHON), key=len, reverse=True)))


def in_python(text: str) -> str:
    """A message about a scenario in the words of `Council`.

    >>> in_python("Lower data.least_rows or data.public_share")
    'Lower least_rows or public_share'
    """
    return _KEYS.sub(
        lambda found: _IN_PYTHON[found.group()], text.replace(_FILES_ONLY, ", or say what it is with columns=")
    )


def check(given: Mapping[str, Any]) -> None:
    """Raise BadSetting for parameters that say nothing of a federation, or are left out and have no default."""
    unit = getattr(given["unit"], "value", given["unit"])
    if unit not in _UNITS:
        what = "unit is not said, and it has no default" if unit is None else f"unit is {unit!r}"
        raise BadSetting(
            f"{what}: whose data is the promise about?",
            "Give unit='party' (a whole hospital), 'patient' or 'record'",
        )
    for name in ("epsilon", "delta"):
        value = given[name]
        if value is None and name == "epsilon":
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise BadSetting(f"{name} is {value!r}: it must be above 0", "For example epsilon=1.0, delta=1e-5")
    for name, allowed in (("device", ("auto", "cpu", "cuda")), ("if_hopeless", ("raise", "warn"))):
        if given[name] not in allowed:
            raise BadSetting(f"{name} is {given[name]!r}", f"Give one of {', '.join(map(repr, allowed))}")
    if given["epsilon"] is None and given["mechanism"] is None:
        raise BadSetting("neither epsilon nor mechanism is given", "Give epsilon, and the mechanism is planned for it")


def scenario_of(given: Mapping[str, Any], rows: Given, files: ObjectFiles) -> dict[str, Any]:
    """A scenario's table; it leaves its mechanism open where none is given, to be planned for epsilon.

    files: where estimators go that are given as objects.

    Raises
    ------
    BadSetting, UnusableModel
    """
    check(given)
    asked, own = files.teacher(given["teacher"])
    trainer = files.student(given["student"])
    federation = {
        "name": given["name"],
        "votes": given["votes"],
        "minimum_parties": given["minimum_parties"],
        "teachers_per_party": given["teachers_per_party"],
        "privacy": _present(
            unit=getattr(given["unit"], "value", given["unit"]),
            neighbouring=getattr(given["neighbouring"], "value", given["neighbouring"]),
            delta=given["delta"],
            epsilon=given["epsilon"],
        ),
        **_mechanism(given),
        **_present(
            ballot=None if given["ballot"] is None else plain_table(given["ballot"], "rule", "ballot"), teacher=asked
        ),
    }
    student = {**(given["asking"] or {}), **_present(trainer=trainer)}
    simulation = _present(noise=given["noise"], hand_labels=given["hand_labels"], own_teacher=own)
    return {"data": _data(given, rows), "federation": federation, "student": student, "simulation": simulation}


def _mechanism(given: Mapping[str, Any]) -> dict[str, Any]:
    queries, answers = given["queries"], given["answers"]
    caps = {} if queries is None else {"caps": {"queries": queries, "answers": answers or queries}}
    if given["mechanism"] is None:
        return caps
    if queries is None:
        raise BadSetting(
            "mechanism is given, and queries is not: how many are asked at most?", "For example queries=300"
        )
    return {"mechanism": plain_table(given["mechanism"], "name", "mechanism"), **caps}


def _data(given: Mapping[str, Any], rows: Given) -> dict[str, Any]:
    if rows.owner is None and given["parties"] is None:
        raise BadSetting(
            "nobody says whose rows are whose",
            "Give fit(..., owners=) a column or an array; or parties=, and rows are dealt to so many by lot",
        )
    if rows.owner is not None and given["parties"] is not None:
        raise BadSetting("both owners and parties are given", "Leave parties out: each owner is one")
    if getattr(given["unit"], "value", given["unit"]) == "patient" and rows.patient is None:
        raise BadSetting("unit is 'patient', and nobody says whose rows are whose", "Give fit(..., patients=)")
    by = "owner" if rows.owner is not None else "share"
    public: dict[str, Any] | None = {"by": by, "share": given["public_share"]}
    if rows.public_owners:
        public = {"by": "owner", "owners": rows.public_owners}
    elif rows.public is not None:
        public = None  # these rows are it
    divided = "owners" if rows.owner is not None else "iid" if rows.patient is None else "groups"
    return _present(
        set=MEMORY,
        title="Rows in memory",
        attribution=ATTRIBUTION,
        label=rows.label,
        owner=rows.owner,
        patient=rows.patient,
        columns=given["columns"],
        classes=rows.classes or None,
        partition=divided,
        parties=given["parties"],
        least_rows=given["least_rows"] or given["teachers_per_party"],
        public=public,
    )


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
