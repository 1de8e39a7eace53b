"""`consilium audit teachers` on a hospital with ridge teachers: keyed shards, and shards by position as the control."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.mechanisms import GNMax
from consilium.party import node
from consilium.party.data import DataRules, Rows, load_rows
from consilium.party.teachers import shards
from consilium.protocol.noise import SeededNoise
from consilium.protocol.rows.schema import Schema
from consilium.simulations.teacher_audit.audit import AuditEffort, TeacherAudit, audit_teachers
from consilium.simulations.teacher_audit.command import subject_of_scenario

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

    with mock.patch.object(node, "load_rows", load), mock.patch.object(shards, "split", split):
        yield


def audited(
    teachers: int, relation: Neighbouring, old: bool, changes: int = CHANGES, runs: int = 20_000
) -> TeacherAudit:
    """The largest hospital of `stroke-labels` with so many ridge teachers, GNMax of sigma 10, unit a record."""
    overrides = ["federation.teacher.model=ridge"]
    with tempfile.TemporaryDirectory() as folder, divided_by_position() if old else nullcontext():
        home, config, queries = subject_of_scenario("stroke-labels", overrides, None, 1, Path(folder))
        changed = {"teachers_per_party": teachers, "mechanism": GNMax(sigma=SIGMA)}
        plan = AuditEffort(unit=Unit.RECORD, neighbouring=relation, changes=CHANGES, seed=1)
        return audit_teachers(home, config.model_copy(update=changed), queries, plan, SeededNoise(1))


def main() -> None:
    """Print the table of docs/audit.md."""
    print("| teachers | shards | a record | votes claimed | votes moved at most | teachers changed at most |", end="")
    print(" changes beyond the claim | epsilon claimed | at least | verdict |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for teachers in (10, 25):
        for relation in Neighbouring:
            for old in (True, False):
                found = audited(teachers, relation, old)
                assert found.game is not None
                _, bound = found.game.headline
                done = "replaced" if relation is Neighbouring.REPLACE else "added or removed"
                shown = (
                    teachers,
                    "by position" if old else "keyed",
                    done,
                    found.claimed,
                    found.most_moved,
                    found.most_teachers,
                    f"{found.beyond} of {len(found.changes)}",
                    f"{bound.claimed:.3f} (delta {bound.delta:g})",
                    f"{bound.lower:.3f}",
                    "VIOLATED" if found.violated else "holds up",
                )
                print("| " + " | ".join(map(str, shown)) + " |", flush=True)


if __name__ == "__main__":
    main()
