"""The federation of a case in this process: the real label service, noise and student on the recorded votes.

What a run keeps on disk is in memory here: the ledger, by the rules of the real one, and what the student writes.
Labels, the student and every epsilon are those of `consilium run` with the same seed, where nothing is held out at
home. Noise is always seeded by the case's seed, whatever `simulation.noise` says: a study gives the same twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.collection.clear import Counts
from consilium.coordinator.collection.exchange import require
from consilium.coordinator.conclusion import normal_for
from consilium.coordinator.config import check_sanitised, check_threshold
from consilium.coordinator.events import NoLog
from consilium.coordinator.label_service import LabelService, NoiseFor, noise_for
from consilium.coordinator.ledger import Batch
from consilium.coordinator.mechanisms.shares import sum_of_shares
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.coordinator.privacy import close, promised_to_student, spent, towards_coordinator
from consilium.models.naming import resolve
from consilium.models.published.file import read
from consilium.models.published.model import Published, find_model, load_model, publish
from consilium.models.published.own_models import ESTIMATOR, TORCH
from consilium.protocol.digests import canonical_digest
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import query_ids
from consilium.simulations.divide import Case
from consilium.student.pool import Pool
from consilium.student.run import judged, learn


@dataclass(frozen=True)
class Replayed:
    """What a federation ended with. All but what was promised, `student` and the labels is secret.

    promised: what the ledger is charged, at the query budget; to_student: towards the student and everybody; to_nodes:
    towards whoever sees noisy sums, None where sums are exact, or votes are seen. spent: see `ledger.privacy`.
    sanitised: what the closing released, None where none is planned. batches: the ledger's.
    rows, outcomes, labels: int64 (n,), what the student asked, in its order: rows of the pool, `Outcome`, and classes
    (NO_LABEL where there is none), as in labels.parquet.
    """

    promised: Guarantee
    to_student: Guarantee
    to_nodes: Guarantee | None
    spent: dict[str, Guarantee] = field(repr=False)
    sanitised: dict[str, Any] | None
    batches: list[Batch] = field(repr=False)
    student: Published = field(repr=False)
    pool: Pool = field(repr=False)
    rows: np.ndarray = field(repr=False)
    outcomes: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)

    @property
    def metrics(self) -> dict[str, Any] | None:
        """Of the student on the test rows, as its card has them; None without any."""
        return judged(self.student, self.pool, self.pool.queries)[0]


class VoteTotals(Protocol):
    """Sums of the votes of all parties, as `TeacherVotes.totals` gives them."""

    def totals(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str], classes: int
    ) -> np.ndarray: ...


def replay(case: Case, votes: VoteTotals, noise: NoiseFor | None = None) -> Replayed:
    """Ask, release, charge, train and close. `votes`: of the case's teachers on the pool.

    noise: of each batch, by its number in the ledger, and of the sums, by -1 and -2 for both rounds; by default seeded
    by the case's seed.

    Raises
    ------
    NotEnoughParties : the federation asks for more. ConfigError : this mechanism cannot be charged, or is none for so
        few votes, or the student does not fit the rows. ConsiliumError
    """
    config = case.config.model_copy(update={"noise_seed": case.seed})
    check_can_run(case)
    ledger, log, pool, spec = MemoryLedger(), NoLog(), case.pool, case.scenario.student
    collector, most = RecordedVotes(case, votes, noise), len(case.parties) * config.teachers_per_party
    noise_of = noise_for(config) if noise is None else noise
    service = LabelService(config, ledger, noise_of, collector, len(case.parties), log, most_votes=most)
    learned = learn(service, pool, spec, case.seed)
    sanitised, batches = close(config, ledger, normal_for(config), log), ledger.batches()
    last = learned.spec
    known = None if pool.labels is None else (pool.queries[pool.labelled], pool.labels[pool.labelled])
    model, schema = learned.model, config.rows
    student, _ = publish(None, model, schema, last.inputs, learned.queries, last.prevalence, known)
    return Replayed(
        promised=service.promised,
        to_student=promised_to_student(config),
        to_nodes=towards_coordinator(config),
        spent=spent(config, batches, closed=sanitised is not None),
        sanitised=sanitised,
        batches=batches,
        student=student,
        pool=pool,
        rows=np.array(learned.record.rows, dtype=np.int64),
        outcomes=np.array(learned.record.outcomes, dtype=np.int64),
        labels=np.array(learned.record.labels, dtype=np.int64),
    )


def check_can_run(case: Case) -> None:
    """Raise NotEnoughParties or ConfigError where a run would not begin to ask."""
    require(len(case.parties), case.config.minimum_parties, "train", {})
    votes = len(case.parties) * case.config.teachers_per_party
    check_threshold(case.config, votes)
    check_sanitised(case.config, votes)


class RecordedVotes:
    """A `Collector` without parties: it adds up what they said."""

    def __init__(self, case: Case, votes: VoteTotals, noise: NoiseFor | None = None) -> None:
        self._case, self._votes, self._noise = case, votes, noise
        self._row: dict[str, int] = {}
        for row, query_id in enumerate(case.pool_ids):
            self._row.setdefault(query_id, row)

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress = no_progress, phase: int = 1) -> Counts:
        """See `Collector`. In a second phase the parties say the same again.

        Where the noise is in the sums, every giver's share of it is there, seeded by the case's seed.
        """
        case, ids = self._case, query_ids(queries)
        rows = np.array([self._row[query_id] for query_id in ids])
        digest, classes = case.config.digest(), len(case.classes)
        votes = self._votes.totals(rows, case.parties, digest, ids, classes)
        drawn = case.config.node_event(0, 0).party_noise(phase) if case.config.noise_in_sums else None
        if drawn is not None:
            givers = case.config.givers(len(case.parties))
            seeded = [case.seed, case.config.collection, query_set, phase]
            source = SeededNoise(int(canonical_digest(seeded), 16)) if self._noise is None else self._noise(-phase)
            votes = votes + sum_of_shares(source, drawn.sigma * math.sqrt(givers / drawn.shares), givers, votes.shape)
        return Counts(votes, tuple(sorted(case.parties)), len(case.parties) * case.config.teachers_per_party)

    def settle(self) -> None:
        """Nothing is kept between collection and ledger."""


def load_own(run_dir: Path) -> Published:
    """The student in a folder that nobody else has written to. Raises BadModel, UnusableModel."""
    path = find_model(run_dir)
    header = read(path).header
    kind, settings = header["kind"], header["settings"]
    trust = settings["classes"] if kind == ESTIMATOR else ()
    return load_model(path, trust, resolve(settings["factory"]) if kind == TORCH else None)
