"""Scenarios and `--set` keys in the form of version 0.2: what to write instead. See `coordinator.old_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consilium.coordinator import old_keys
from consilium.protocol.parties.teachers import TEACHERS
from consilium.student.config import StudentSpec
from consilium.student.trainers.kinds import TRAINERS

SCENARIO = {
    **{key: new for key, new in old_keys.PLAN.items() if key not in ("name", "pool.file", "parties", "students")},
    "title": "federation.name",
    "noise": "simulation.noise",
    "teachers": "simulation.teachers",
    "parties.minimum": "federation.minimum_parties",
    "parties.most_queries": "simulation.most_queries",
    **{f"parties.{key}": f"federation.{key}" for key in (
        "teachers_per_party", "colluders", "least_survivors", "least_difference", "spare",
    )},
    **{f"student.{key}": f"student.trainer.{key}" for key in sorted(
        {key for kind in TRAINERS for key in kind.model_fields} - {"name", *StudentSpec.model_fields}
    )},
}  # fmt: skip
"""Old keys of a scenario, and what stands for them now. `student.trainer`, which named the kind, is a table now."""


def new_scenario(table: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario of version 0.2 in its present form."""
    new = old_keys.new_table({"votes": "clear", **_with_trainer_table(table)}, SCENARIO)
    for share in new.get("simulation", {}).get("teachers", []):
        if isinstance(share, dict):
            old_keys.drop_other_kinds(share.get("teacher"), "model", TEACHERS)
    if isinstance(student := new.get("student"), dict):
        old_keys.drop_other_kinds(student.get("trainer"), "name", TRAINERS)
    return new


def _with_trainer_table(table: Mapping[str, Any]) -> dict[str, Any]:
    student = table.get("student")
    if not isinstance(student, dict) or not student:
        return dict(table)
    named = {"name": student.get("trainer", "logistic_regression")}
    return {**table, "student": {**student, "trainer": named}}


def new_override(key: str, value: object) -> str | None:
    """What to write for an old key of `--set`; None for one that is still right, or never was.

    >>> new_override("mechanism.sigma2", 80), new_override("student.trainer", "mlp")
    ('federation.mechanism.sigma2', 'student.trainer.name')
    """
    if key == "student.trainer" and not isinstance(value, dict):
        return "student.trainer.name"
    return old_keys.new_key(key, SCENARIO)
