"""The federation of a case in this process: the real label service, noise and student on the recorded votes.

What a run keeps on disk is in memory here. Labels, the student and every epsilon are those of `consilium run` with the
same seed, where nothing is held out at home. Noise is always seeded by the case's seed: a study gives the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import require
from consilium.coordinator.config import FederationConfig, check_sanitised, check_threshold
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import normal_for
from consilium.coordinator.label_service import LabelService, NoiseFor, noise_for
from consilium.coordinator.ledger import Batch, Ledger
from consilium.coordinator.privacy import close, promised, spent
from consilium.models.naming import resolve
from consilium.models.published.file import read
from consilium.models.published.model import Published, find_model, load_model
from consilium.models.published.structures import ESTIMATOR, TORCH
from consilium.simulations.divide import Case
from consilium.simulations.vote import TeacherVotes
from consilium.student.pool import Pool
from consilium.student.run import learn


@dataclass(frozen=True)
class Replayed:
    """What a federation ended with. All but what was promised, `student` and the labels is secret. promised: towards
    the student and everybody, at the query budget. sanitised: what the closing released, None where none is planned.
    batches: the ledger's. rows, outcomes, labels: int64 (n,), what the student asked, in its order: rows of the pool,
    `Outcome`, and classes (NO_LABEL where there is none), as in labels.parquet."""

    config: FederationConfig = field(repr=False)
    promised: Guarantee
    sanitised: dict[str, Any] | None
    batches: list[Batch] = field(repr=False)
    student: Published = field(repr=False)
    pool: Pool = field(repr=False)
    rows: np.ndarray = field(repr=False)
    outcomes: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    @cached_property
    def spent(self) -> dict[str, Guarantee]:
        """See `coordinator.privacy`. Not of liars' votes (`attack`): they may be negative, and cost no party more."""
        return spent(self.config, self.batches, closed=self.sanitised is not None)


def replay(case: Case, votes: TeacherVotes | np.ndarray, noise: NoiseFor | None = None) -> Replayed:
    """Ask, release, charge, train and close. `votes`: of the case's teachers on the pool, or their sums int64 (pool,
    classes). noise: of each batch, by its number in the ledger; by default the case's seed's. Raises NotEnoughParties;
    ConfigError: this mechanism cannot be charged, or is none for so few votes, or the student does not fit the rows."""
    config = case.config.model_copy(update={"noise_seed": case.seed})
    check_can_run(case)
    pool, spec, digest = case.pool, case.scenario.student, config.digest()

    def totals(rows: np.ndarray, ids: Sequence[str]) -> np.ndarray:
        if isinstance(votes, np.ndarray):
            return votes[rows]
        return votes.totals(rows, case.parties, digest, ids, len(case.classes))

    collector = RecordedVotes(config, case.parties, case.pool_ids, totals)
    with closing(Ledger.in_memory(config)) as ledger:
        service = LabelService(config, ledger, collector, noise or noise_for(config), len(case.parties))
        learned = learn(service, pool, spec, case.seed)
        sanitised, batches = close(config, ledger, normal_for(config), EventLog(None)), ledger.batches()
    record = learned.record
    asked = (np.array(each, dtype=np.int64) for each in (record.rows, record.outcomes, record.labels))
    return Replayed(config, promised(config), sanitised, batches, learned.publish(None), pool, *asked)


def check_can_run(case: Case) -> None:
    """Raise NotEnoughParties or ConfigError where a run would not begin to ask."""
    require(len(case.parties), case.config.minimum_parties, "train", {})
    votes = len(case.parties) * case.config.teachers_per_party
    check_threshold(case.config, votes)
    check_sanitised(case.config, votes)


Totals = Callable[[np.ndarray, Sequence[str]], np.ndarray]
"""Places of public rows int64 (n,) and their query ids -> what all parties voted on them, int64 (n, classes)."""


class RecordedVotes:
    """A `Collector` without parties: it adds up what they said before."""

    def __init__(self, config: FederationConfig, parties: Sequence[str], ids: Sequence[str], totals: Totals) -> None:
        """ids: of the public rows, in their order."""
        self._parties, self._teachers = tuple(sorted(parties)), len(parties) * config.teachers_per_party
        self._totals = totals
        self._row = {query_id: row for row, query_id in reversed(list(enumerate(ids)))}

    def collect(self, queries: Queries, sigma: float) -> Counts:
        rows = np.array([self._row[query_id] for query_id in queries.ids])
        return Counts(self._totals(rows, queries.ids), self._parties, self._teachers)

    def settle(self) -> None:
        """Nothing is kept between collection and ledger."""


def load_own(run_dir: Path) -> Published:
    """The student in a folder that nobody else has written to. Raises BadModel, UnusableModel."""
    path = find_model(run_dir)
    header = read(path).header
    kind, settings = header["kind"], header["settings"]
    trust = settings["classes"] if kind == ESTIMATOR else ()
    return load_model(path, trust, resolve(settings["factory"]) if kind == TORCH else None)
