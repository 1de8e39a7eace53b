"""Content addresses of steps: a hash of everything that decides a step's result, and of nothing else.

What an ensemble says does not depend on mechanism, caps, privacy, student or title. So it is computed from a scenario
in which these have one form (`teaching`), and its address is that scenario's: what is left out cannot decide it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from consilium.coordinator.config import Federation
from consilium.coordinator.planning.plan import stand_in
from consilium.protocol.config_files import validate
from consilium.protocol.digests import canonical_digest
from consilium.protocol.versions import versions
from consilium.simulations.scenario import Scenario

FORMATS = {
    "plan": 1,
    "settle": 2,
    "ensemble": 1,
    "predict": 1,
    "judge": 2,
    "worth": 1,
    "division": 1,
    "teachers": 1,
    "influence": 1,
    "gain": 1,
}
"""Kind of a step -> a number that changes whenever the step gives something else for the same input."""

_DECIDING = ("python", "consilium-pate", "numpy", "scipy", "scikit-learn", "torch", "flwr", "flwr-datasets")
_WHERE, _WORDS = ("path", "list"), ("title", "attribution", "owner_label", "label_cost")
_STAND_IN = {
    "privacy": {"unit": "party", "delta": 1e-5},
    "caps": {"queries": 1, "answers": 1},
    "mechanism": {"name": "gnmax", "sigma": 9_999.0},
}


@functools.cache
def deciding_versions() -> Mapping[str, str]:
    """Versions on which results may depend. All nodes of a study must have the same."""
    found = versions()
    return {name: found[name] for name in _DECIDING if name in found}


def address(kind: str, **decides: Any) -> str:
    """Of a step: SHA-256 in hex. decides: plain data."""
    return canonical_digest({"kind": kind, "format": FORMATS[kind], "versions": deciding_versions(), **decides})


def without_mechanism(table: Mapping[str, Any], where: str) -> Scenario:
    """A scenario's table with the least of mechanisms, so that all else in it is checked and nothing calibrated.

    Raises
    ------
    ConfigError : every fault in it.
    """
    federation = table.get("federation")
    if not isinstance(federation, dict):
        return validate(dict(table), Scenario, where)
    privacy = federation.get("privacy")
    plain = {key: value for key, value in federation.items() if key != "schedule"} | {"mechanism": {"name": "auto"}}
    if isinstance(privacy, dict):
        plain["privacy"] = {**privacy, "epsilon": 1.0}
    stood = stand_in(plain)
    if isinstance(privacy, dict):
        stood["privacy"] = {key: value for key, value in privacy.items() if key not in ("epsilon", "sanitised")}
    student = table.get("student")
    if isinstance(student, dict):  # those of the phases, of which there are none left
        table = {**table, "student": {key: value for key, value in student.items() if key != "later"}}
    return validate({**table, "federation": stood}, Scenario, where)


def teaching(scenario: Scenario) -> Scenario:
    """The same division, teachers and votes, and one form of everything else."""
    federation, simulation = scenario.federation, scenario.simulation
    kept: dict[str, Any] = {
        "minimum_parties": federation.minimum_parties,
        "teachers_per_party": federation.teachers_per_party,
        "teacher": federation.teacher.model_dump(mode="json"),
        "ballot": federation.ballot.model_dump(mode="json"),
        "votes": "clear",
    }
    if scenario.pool_is_fixed:  # rows that are near each other are then not in the pool
        kept |= {"votes": federation.votes, "pool_least_distance": federation.pool_least_distance}
    plain = Federation.model_validate({"name": "teachers", **kept, **_STAND_IN})
    others = simulation.model_copy(update=dict(type(simulation)()) | _of_teachers(simulation))
    return Scenario(data=scenario.data, federation=plain, simulation=others)


def _of_teachers(simulation: Any) -> dict[str, Any]:
    return {"teachers": simulation.teachers, "own_teacher": simulation.own_teacher}


def division_address(scenario: Scenario, seed: int, home_share: float, data: str) -> str:
    """Of a division, which is no step of its own: computing it takes less time than reading it. data: content hash."""
    federation = scenario.federation
    fixed = federation.pool_least_distance if scenario.pool_is_fixed else None
    return canonical_digest(
        {
            "kind": "case",
            "versions": deciding_versions(),
            "data": data,
            "table": data_table(scenario),
            "minimum_parties": federation.minimum_parties,
            "teachers_per_party": federation.teachers_per_party,
            "pool_least_distance": fixed,
            "seed": seed,
            "home_share": home_share,
        }
    )


def ensemble_address(scenario: Scenario, division: str) -> str:
    """Of an ensemble on the division of this address."""
    normal = teaching(scenario).model_dump(mode="json", exclude={"data", "description"})
    return address("ensemble", division=division, scenario=normal)


def data_table(scenario: Scenario) -> dict[str, Any]:
    """The table `[data]` without where its files lie, whose content is hashed, and without words for the report."""
    table = scenario.data.model_dump(mode="json")
    kept = {key: value for key, value in table.items() if key not in (*_WHERE, *_WORDS)}
    if isinstance(public := kept.get("public"), dict):
        kept["public"] = {key: value for key, value in public.items() if key not in ("file", "test")}
    return kept
