"""A federation of four parties with two phases: Confident, then Interactive with a student of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.secure import SecureKeys
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun, Student
from consilium.coordinator.mechanisms import Confident, Distributed, DistributedTwoPhase, Interactive
from consilium.coordinator.stages import Phase
from consilium.coordinator.verify import find_run, verify_run, verify_student
from consilium.models.specs import LogisticRegressionStudent
from consilium.student.config import StudentSpec
from consilium.student.pool import Pool
from consilium.student.run import run_student
from tests.federation import FEATURES, FakeTransport, make_config, make_homes, make_rows

FIRST = Confident(threshold=2, sigma1=2.0, sigma2=1.0)
SECOND = Phase(
    mechanism=Interactive(threshold=3, sigma1=2.0, sigma2=1.5, confidence=0.5),
    query_budget=QueryBudget(queries=30, answers=20),
)
STUDENT = StudentSpec(batch=10, later=(StudentSpec(batch=7, rounds=2, selection="margin"),))


def scheduled(**changes: Any) -> FederationConfig:
    """Confident on 20 queries, then Interactive on 30."""
    return make_config(
        **{"mechanism": FIRST, "query_budget": QueryBudget(queries=20, answers=15), "schedule": (SECOND,), **changes}
    )


def pool(rows: int = 80) -> Pool:
    """Rows that may be asked, and 100 test rows."""
    x, y = make_rows(rows + 100, 5)
    return Pool(FEATURES, x[:rows], x[rows:], y[rows:])


def by_parties(**changes: Any) -> FederationConfig:
    """Two mechanisms of which the parties add the noise: one histogram on 12 queries, then two on 8."""
    first = Distributed(threshold=3, sigma=4.0, noise_shares=4)
    later = Phase(
        mechanism=DistributedTwoPhase(threshold=1, sigma1=5.0, sigma2=3.0, noise_shares=4),
        query_budget=QueryBudget(queries=8, answers=6),
    )
    query_budget = QueryBudget(queries=12, answers=12)
    return make_config(
        **{
            "collection": "distributed",
            "mechanism": first,
            "query_budget": query_budget,
            "schedule": (later,),
            **changes,
        }
    )


class Broken(Exception):
    """The student's process dies."""


def run(
    folder: Path,
    config: FederationConfig,
    *,
    spec: StudentSpec = STUDENT,
    dies_in: int | None = None,
    dies_after: int = 0,
    rows: int = 80,
    keys: SecureKeys | None = None,
    transport: Callable[[list[Path]], Transport] = FakeTransport,
) -> Path:
    """One run, or what is left of it where the student dies in a phase, after so many of its requests. Called again on
    the same folder it goes on. keys: those of homes that are there already. Returns the run's folder."""
    homes, out = folder / "homes", folder / "run"
    folder.mkdir(exist_ok=True)
    parties = sorted(homes.iterdir()) if homes.exists() else make_homes(homes, 4)
    out.mkdir(exist_ok=True)
    log = EventLog(out / "events.jsonl")

    def student(*sources) -> None:
        known = [Dying(source, dies_after) if at == dies_in else source for at, source in enumerate(sources, 1)]
        run_student(known[0], pool(rows), spec, out, 3, later=known[1:])

    try:
        FederationRun(
            transport(parties), config, out, log, Student(student, None), **({"keys": keys} if keys else {})
        ).run()
    finally:
        log.close()
    return out


class Dying:
    """A source at which the student dies after some requests."""

    def __init__(self, source, after: int) -> None:
        self._source, self._left = source, after

    def describe(self):
        return self._source.describe()

    def ask(self, queries: np.ndarray, *arguments, **named):
        if not self._left:
            raise Broken
        self._left -= 1
        return self._source.ask(queries, *arguments, **named)

    def known(self, ids: Sequence[str]) -> np.ndarray:
        return self._source.known(ids)

    def finish(self) -> None:
        self._source.finish()


def findings(out: Path, student: Path | None = None) -> dict[str, str]:
    """Checks that speak against the run, with what they found. student: its folder, if that is another one."""
    found = verify_run(find_run(out))
    all_ = found.findings
    if found.recorded is not None:
        all_ = all_ + verify_student(student or out, found.recorded, found.guarantees.get("student")).findings
    return {finding.check: finding.found for finding in all_ if not finding.holds}


LINEAR = LogisticRegressionStudent(C=0.1)
