"""The pool of a federation, from the operator's file of public rows: fixed before the first kit is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.provision.plan import Plan
from consilium.protocol.errors import ConfigError
from consilium.protocol.rows.nearness import thin
from consilium.protocol.rows.pool import PoolTerms, PoolTree
from consilium.protocol.rows.queries import canonical_queries
from consilium.protocol.rows.reference import draw_reference
from consilium.protocol.rows.schema import Schema

POOL_IDS, POOL_ROWS = "pool.npy", "pool.npz"

EXACT_SUMS = frozenset({"secure", "verified"})
"""Ways to collect votes in which questions must be fixed beforehand."""


@dataclass(frozen=True)
class FixedPool:
    """The rows that may be asked, canonical float32 (rows, features), and what is pinned of them.

    note: for the operator, how many rows were left out, and what is odd about them, or nothing.
    """

    features: tuple[str, ...]
    rows: np.ndarray = field(repr=False)
    terms: PoolTerms
    note: str

    def save(self, folder: Path) -> None:
        """`pool.npy` with the ids, for the coordinator, and `pool.npz` with the rows, for students."""
        PoolTree.of_rows(self.rows).save(folder / POOL_IDS)
        np.savez(folder / POOL_ROWS, features=np.array(self.features), queries=self.rows)


def read_pool(plan_file: Path, plan: Plan, schema: Schema) -> FixedPool | None:
    """The pool that the plan names; None where the federation has none.

    Raises
    ------
    ConfigError : secure or verified votes without any file of public rows, or one that lacks features. DataError : it
        is not usable.
    """
    if not plan.rows.pool and plan.federation.votes not in EXACT_SUMS:
        return None
    name, least = plan.rows.pool or plan.rows.public, plan.federation.pool_least_distance
    if not name:
        raise ConfigError(
            f"{plan.federation.votes} votes need a pool that is fixed beforehand: who makes up questions as it goes can"
            " ask nearly the same of other parties, and subtract",
            'Name the public rows that may be asked: rows.pool = "pool.csv", or rows.public',
        )
    chosen, told = _rows(plan_file, plan, name, schema)
    stay = thin(schema.standardise(chosen).astype(np.float32).astype(np.float64), least * (1 + 1e-5))
    kept, gone = chosen[stay], len(chosen) - len(stay)
    left_out = (
        f"{gone} of {len(chosen)} public rows are left out of the pool: each is closer than"
        f" {least:g} to another (students ask rows of pool.npz in their kit)"
        if gone
        else ""
    )
    note = "; ".join([*filter(None, [left_out]), *(f"{name}: {remark}" for remark in told)])
    return FixedPool(schema.features, kept, PoolTree.of_rows(kept).terms(least), note)


def remarks(plan_file: Path, plan: Plan, schema: Schema) -> str:
    """What is odd about a table of public rows of which no pool is fixed, or nothing. Raises DataError."""
    if not plan.rows.is_table:
        return ""
    return "; ".join(_rows(plan_file, plan, plan.rows.public, schema)[1])


def read_reference(plan_file: Path, plan: Plan, schema: Schema, pool: FixedPool | None) -> np.ndarray:
    """The reference rows of the plan's ballot, canonical float32 (rows, features): of the pool, or where none is fixed
    of the file that it names, or of the public rows. None for a ballot that needs none.

    Raises
    ------
    ConfigError : there is no such file, it lacks features, or has too few rows. DataError : not usable.
    """
    ballot = plan.federation.ballot
    if not ballot.relative:
        return np.zeros((0, len(schema.features)), dtype=np.float32)
    name = plan.rows.pool or plan.rows.public
    if pool is None and not name:
        raise ConfigError(
            'federation.ballot rule = "relative" needs public rows, on which teachers find out where their scores lie',
            'Name the public rows that may be asked: rows.pool = "pool.csv", or rows.public; or set rule = "top"',
        )
    return draw_reference(pool.rows if pool else _rows(plan_file, plan, name, schema)[0], schema, ballot.reference_rows)


def _rows(plan_file: Path, plan: Plan, name: str, schema: Schema) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rows of the file that the plan names so, canonical, in the schema's order, and what is odd about them."""
    rows, told = plan.rows.public_rows(plan_file.parent / name, schema)
    return canonical_queries(rows, len(schema.features)), told
