"""`consilium audit teachers` on a hospital with ridge teachers: keyed shards, and shards by position as the control."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.mechanisms import GNMax
from consilium.data.mapping import DataRules
from consilium.data.private_rows import Rows, load_rows
from consilium.party import node
from consilium.protocol.noise import SeededNoise
from consilium.protocol.schema import Schema
from consilium.simulations.audit_teachers import AuditEffort, TeacherAudit, audit_teachers, subject_of_scenario
from docs.figures import figure

SIGMA = 10.0
CHANGES = 200


def by_position(y: np.ndarray, count: int, seed: int = 0) -> list[np.ndarray]:
    """Row indices of each shard as they were drawn before: a permutation, sorted by label, strided."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[start::count]) for start in range(count)]


@contextmanager
def divided_by_position() -> Iterator[None]:
    """Parties of this process divide their rows as they did before."""
    labels: list[np.ndarray] = []

    def load(path: Path, schema: Schema, rules: DataRules) -> Rows:
        rows = load_rows(path, schema, rules)
        labels[:] = [rows.y]
        return rows

    def split(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
        return by_position(labels[0], count)

    with mock.patch.object(node, "load_rows", load), mock.patch.object(node, "split", split):
        yield


def audited(
    teachers: int, relation: Neighbouring, old: bool, changes: int = CHANGES, runs: int = 20_000
) -> TeacherAudit:
    """The largest hospital of `stroke` with so many ridge teachers, GNMax of sigma 10, unit a record."""
    overrides = ["federation.teacher.model=ridge"]
    with tempfile.TemporaryDirectory() as folder, divided_by_position() if old else nullcontext():
        home, config, queries = subject_of_scenario("stroke", overrides, None, 1, Path(folder))
        query_budget = QueryBudget(queries=config.query_budget.queries, answers=config.query_budget.queries)
        changed = {"teachers_per_party": teachers, "mechanism": GNMax(sigma=SIGMA), "query_budget": query_budget}
        plan = AuditEffort(unit=Unit.RECORD, neighbouring=relation, changes=changes, runs=runs, seed=1)
        return audit_teachers(home, config.model_copy(update=changed), queries, plan, SeededNoise(1))


COLUMNS = (
    "teachers", "shards", "a record", "votes claimed", "votes moved at most", "teachers changed at most",
    "changes beyond the claim", "epsilon claimed", "at least", "verdict",
)  # fmt: skip


def rows(counts: Iterable[int] = (10, 25), changes: int = CHANGES, runs: int = 20_000) -> Iterator[list[str]]:
    """A row for each number of teachers, relation and way to divide a party's rows."""
    for teachers in counts:
        for relation in Neighbouring:
            for old in (True, False):
                audit = audited(teachers, relation, old, changes, runs)
                assert audit.game is not None
                _, bound = audit.game.headline
                yield [
                    str(teachers),
                    "by position" if old else "keyed",
                    "replaced" if relation is Neighbouring.REPLACE else "added or removed",
                    str(audit.claimed),
                    str(audit.most_moved),
                    str(audit.most_teachers),
                    f"{audit.beyond} of {len(audit.changes)}",
                    f"{bound.claimed:.3f} (delta {bound.delta:g})",
                    f"{bound.lower:.3f}",
                    "VIOLATED" if audit.violated else "holds up",
                ]


def main() -> None:
    """Print the table of docs/laboratory/audit.md."""
    name, command = "audit/teacher-shards", "python -m benchmarks.teacher_shards"
    split = "the largest hospital of stroke, 524 records, 800 queries"
    with figure(name, command, COLUMNS, seeds=[1], split=split) as table:
        for row in rows():
            table.add(*row)


if __name__ == "__main__":
    main()
