"""From the parameters of a `Council` to the scenario that is run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.models.keys import TEACHERS
from consilium.models.naming import called, checked, write_estimator
from consilium.protocol.config_files import validate
from consilium.simulations.council.frames import BadSetting, GivenRows, keys_of
from consilium.simulations.datasets.base import MEMORY, Source
from consilium.simulations.population.specs import DataSpec
from consilium.simulations.scenario import Scenario, divided_data, divided_source, put, with_budget, without_mechanism

Described = str | Mapping[str, Any] | Any
"""A kind's name; a name to import an estimator by; a table with a kind's name and keys, as in a scenario; or an
estimator."""

MECHANISM = "gnmax"  # where none is given, with the noise that `epsilon` takes
DIFFERENCE = "difference"
"""The same, where a party that is added or removed moves it by half as much: of two classes, whose votes are seen."""
ROWS_PER_TEACHER, MOST_TEACHERS = 10, 25  # of an owner's rows, for each of its teachers; and most teachers
# Development data, which judge nothing: Adult by occupation (12 owners of 400 rows) and Diabetes by specialty and way
# of admission (14), epsilon 1 for a record, seeds 0 to 2. With 10, 25, 40 and 80 teachers an owner the student's AUC
# is .818, .818, .820, .785 on Adult and .578, .609, .609, .601 on Diabetes in the mean.
ATTRIBUTION = "Rows that were in the memory of the program that ran this; they are not kept with the run."

_ASKED_FOR = frozenset(kind.model_fields["model"].default for kind in TEACHERS)
"""Kinds that a coordinator may ask for; only a party's own file names others."""
_KEYS = {
    "teachers_per_party": "federation.teachers_per_party",
    "unit": "federation.privacy.unit",
    "neighbouring": "federation.privacy.neighbouring",
    "delta": "federation.privacy.delta",
    "epsilon": "federation.privacy.epsilon",
    "mechanism": "federation.mechanism",
    "queries": "federation.query_budget.queries",
    "teacher": "federation.teacher",
    "student": "student.trainer",
    "public_labels": "student.public_labels",
    "noise": "simulation.noise",
    "manual_labels": "simulation.manual_labels",
    "columns": "data.columns",
    "missing": "data.missing",
    "cells": "data.cells",
    "classes": "data.classes",
    "parties": "data.parties",
}
"""Parameters of `Council` -> keys of a scenario."""
_IN_PYTHON = {key: parameter for parameter, key in _KEYS.items()} | {
    "data.public_share": "public_share",
    "data.public.share": "public_share",
    "data.label": "y",
    "data.owner": "owners",
    "data.patient": "patients",
    "data.public": "public",
    "simulation.own_teacher": "teacher",
    "query_budget.queries": "queries",
}
"""Keys that a caller of `Council` never wrote, and the parameters that they come from."""
_WRITTEN = {
    ". data.drop leaves a column out, data.columns declares it": ", or say what it is with columns=",
    " (data.drop)": "",
    "name the label there, or say under data.label_values which class it means": "or name the label there",
    "a simulated party's own teacher: [teacher] pickled teacher.pkl": "teacher",
    "the student pickled student.pkl": "student",
}
"""What messages say of files, of which a caller with a frame and estimators in hand knows nothing."""
_IN_A_MESSAGE = re.compile(rf"(?:{'|'.join(sorted(map(re.escape, _IN_PYTHON), key=len, reverse=True))})\b")


def in_python(text: str) -> str:
    """A message about a scenario in the words of `Council`.

    >>> in_python("Lower data.parties or data.public_share")
    'Lower parties or public_share'
    """
    for written, meant in _WRITTEN.items():
        text = text.replace(written, meant)
    return _IN_A_MESSAGE.sub(lambda match: _IN_PYTHON[match.group()], text)


def scenario_of(parameters: Mapping[str, Any], rows: GivenRows, folder: Path) -> dict[str, Any]:
    """A scenario's table, but for what `completed` adds. folder: where estimators go that are given as objects, as
    files of mode 0600. Raises BadSetting, UnusableModel."""
    unit = parameters["unit"]
    if unit is None:
        what = "unit is not said, and it has no default: whose data is the promise about?"
        raise BadSetting(what, "Give unit='party' (a whole hospital), 'patient' or 'record'")
    if parameters["mechanism"] is None and parameters["epsilon"] is None:
        raise BadSetting("neither epsilon nor mechanism is given", "Give epsilon, and the noise is calibrated to it")
    given = {name: value for name, value in parameters.items() if name in _KEYS and value is not None}
    if isinstance(given.get("mechanism"), str):
        given["mechanism"] = {"name": given["mechanism"]}
    given |= {"classes": rows.classes} if rows.classes else {}
    public: dict[str, Any] = {"by": "share" if rows.owner is None else "owner", "share": parameters["public_share"]}
    if rows.public_owners:
        public = {"by": "owner", "owners": rows.public_owners}
    data = {"set": MEMORY, "title": "Rows in memory", "attribution": ATTRIBUTION, **_partition(parameters, rows)}
    table: dict[str, Any] = {
        "data": data if rows.public is not None else data | {"public": public},
        "federation": {"name": "Council", "minimum_parties": 2, "collection": "plaintext"},
    }
    for name, tag in (("teacher", "model"), ("student", "name")):
        if name in given:
            given[name] = _model(given[name], tag, name, folder)
    if given.get("teacher", {}).get("model", next(iter(_ASKED_FOR))) not in _ASKED_FOR:
        table["simulation"] = {"own_teacher": given.pop("teacher")}
    keys = {_KEYS[name]: value for name, value in given.items()} | dict(keys_of(parameters["settings"]))
    for key, value in keys.items():
        put(table, key, value)
    return table


def _model(described: Described, tag: str, role: str, folder: Path) -> dict[str, Any]:
    if isinstance(described, str) and re.search("[.:]", described):
        return {tag: "estimator", "factory": described}
    if isinstance(described, str | Mapping):
        return {tag: described} if isinstance(described, str) else dict(described)
    if hasattr(described, "state_dict") and not hasattr(described, "fit"):
        raise BadSetting(
            f"{role} is a torch module, which does not say how it is trained",
            f'Give {{"{tag}": "torch", "factory": "package.module:callable"}}',
        )
    checked(called(described, role), role)
    path = folder / f"{role}.pkl"
    return {tag: "pickled", "file": str(path), "sha256": write_estimator(path, described)}


def _partition(parameters: Mapping[str, Any], rows: GivenRows) -> dict[str, Any]:
    if rows.owner is None and parameters["parties"] is None:
        action = "Give fit(..., owners=) a column or an array; or parties=, and rows are dealt to so many at random"
        raise BadSetting("nobody says whose rows are whose", action)
    if rows.owner is not None and parameters["parties"] is not None:
        raise BadSetting("both owners and parties are given", "Leave parties out: each owner is one")
    if parameters["unit"] == Unit.PATIENT and rows.patient is None:
        raise BadSetting("unit is 'patient', and nobody says whose rows are whose", "Give fit(..., patients=)")
    partition = "owners" if rows.owner is not None else "iid" if rows.patient is None else "groups"
    columns = {"label": rows.label, "owner": rows.owner, "patient": rows.patient}
    return {"partition": partition, **{key: name for key, name in columns.items() if name is not None}}


def completed(table: dict[str, Any], seed: int, source: Source) -> Scenario:
    """The scenario with the teachers, the queries and the mechanism that it leaves out, by nothing that is private.
    Raises ConfigError, NotEnoughParties, DataError."""
    federation = {**table["federation"]}
    table = {**table, "federation": federation}
    if "teachers_per_party" not in federation:
        federation["teachers_per_party"] = _teachers(without_mechanism(table, "Council"), seed, source)
    if "mechanism" not in federation:
        scenario = without_mechanism(table, "Council")
        privacy, hidden = scenario.federation.privacy, scenario.federation.noise_in_sums
        half = (privacy.unit, privacy.neighbouring) == (Unit.PARTY, Neighbouring.ADD_OR_REMOVE) and not hidden
        half = half and len(divided_data(scenario, seed, source)[0].classes) == 2
        federation["mechanism"] = {"name": DIFFERENCE if half else MECHANISM}
    return validate(with_budget(table, "Council", seed, source), Scenario, "Council")


def _teachers(scenario: Scenario, seed: int, source: Source) -> int:
    """Of each owner. A record or a patient moves the votes of two at most, so more of them drown the noise: one for
    each `ROWS_PER_TEACHER` rows (patients, where these are the unit) of an owner, in the median. A whole owner moves
    all of its votes: it has one.

    How many an owner has is told by public owners, where there are any. Else by the parties themselves, under
    `replace`: whoever takes the place of a record or a patient does so at the same party, so neighbours have as many at
    each, and this number is the same for both, where it follows from such numbers alone. Raises BadSetting: the number
    would hang on whether one record or patient is there.
    """
    data, privacy = scenario.data, scenario.federation.privacy
    if privacy.unit is Unit.PARTY:
        return 1
    source, partition = divided_source(scenario, seed, source)
    if source.public is None and data.public_rule.by == "owner":
        public = np.concatenate([partition.queries, partition.test])
        parts = [public[source.owner[public] == owner] for owner in np.unique(source.owner[public])]
    elif privacy.neighbouring is Neighbouring.REPLACE and _by_numbers_alone(data, privacy.unit):
        parts = list(partition.parties.values())
    else:
        raise BadSetting(
            f"teachers_per_party is not given, and how many rows an owner has hangs on one {privacy.unit.value}",
            f"Give it, say a {ROWS_PER_TEACHER}th of the rows that an owner has for all to know; or name public owners",
        )
    whose = np.arange(len(source.y)) if source.patient is None or privacy.unit is Unit.RECORD else source.patient
    sizes = [len(np.unique(whose[rows])) for rows in parts]
    typical = np.median(sizes) if data.partition == "owners" else np.mean(sizes)
    return int(np.clip(typical // ROWS_PER_TEACHER, 1, MOST_TEACHERS))


def _by_numbers_alone(data: DataSpec, unit: Unit) -> bool:
    """Whether how many units are whose follows from how many there are, whatever they say, and of patients however many
    rows each has: then rows may not be dealt one by one, nor leave an owner out or cut a party off. By share whole
    patients are public, so that how many rows are left hangs on whose they are."""
    by_lot, patients = data.partition in ("iid", "groups"), data.patient is not None
    by_share = data.public is not None and data.public.by == "share" and by_lot and patients == (unit is Unit.PATIENT)
    by_row = unit is Unit.RECORD and data.partition in ("owners", "iid")
    by_patient = data.partition in ("owners", "groups") and data.least_rows is None and data.most_rows is None
    return data.keeps_all and (data.public is None or by_share) and (by_row or by_patient)
