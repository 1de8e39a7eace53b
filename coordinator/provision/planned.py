"""federation.toml with a mechanism that is left open: planned on the operator's own public rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from consilium.coordinator.planning.choice import made_up
from consilium.coordinator.planning.facts import PublicFacts, ballot_of
from consilium.coordinator.planning.plan import PlannedFederation, Tasks, is_open, plan, stand_in
from consilium.coordinator.provision.plan import Plan, plan_table, read_plan, validated
from consilium.coordinator.provision.pool import read_pool
from consilium.protocol.errors import ConfigError
from consilium.protocol.rows.schema import Schema

MOST_QUERIES = 10_000
"""What a party's policy allows unless it says otherwise."""


def read_planned(path: Path, tasks: Tasks = made_up) -> tuple[Plan, Schema, PlannedFederation | None]:
    """The plan of kits and its schema, as `provision.plan.read_plan`, and what was planned where the mechanism is open.

    Raises
    ------
    ConfigError, DataError
    """
    table = plan_table(path)
    if not is_open(table.get("federation", {})):
        return *read_plan(path), None
    return planned_table(table, path, tasks)


def planned_table(table: dict[str, Any], path: Path, tasks: Tasks = made_up) -> tuple[Plan, Schema, PlannedFederation]:
    """The same for an open table of the file at `path`."""
    open_table = table["federation"]
    known, schema = validated({**table, "federation": stand_in(open_table)}, path)
    made = plan(open_table, facts_of(known, schema, path), MOST_QUERIES, tasks)
    plan_of_kits, schema = validated({**table, "federation": {**open_table, **made.table}}, path)
    return plan_of_kits, schema, made


def facts_of(known: Plan, schema: Schema, path: Path) -> PublicFacts:
    """What a plan may know of a federation that is to be provisioned.

    Raises
    ------
    ConfigError : it names no public rows. DataError : they are not usable.
    """
    pool = read_pool(path, known, schema)
    if pool is not None:
        rows = pool.rows
    elif known.rows.public:
        rows, _ = known.rows.public_rows(path.parent / known.rows.public, schema)
    else:
        raise ConfigError(
            f"{path}: a plan needs public rows, and the file names none",
            "Name a file of public rows: rows.public or rows.pool",
        )
    federation = known.federation
    return PublicFacts.of(
        len(known.party),
        federation.teachers_per_party,
        len(schema.classes),
        ballot_of(federation),
        rows,
        schema.inputs,
    )
