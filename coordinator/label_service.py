"""The label service: dedupe, query budget, votes, mechanism, charge, and only then the labels."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from consilium.accounting.events import Evidence, ReleaseEvent
from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.collection.admission import SeenPositions
from consilium.coordinator.collection.clear import Collector, Counts, seen
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog, EventWriter
from consilium.coordinator.ledger import CLOSED, Batch, Ledger, Release, ReleaseLedger
from consilium.coordinator.mechanisms.base import Drawn, Sums
from consilium.coordinator.privacy import promised, promised_to_student, towards_coordinator
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, DataError
from consilium.protocol.label_source import (
    NO_LABEL,
    Answers,
    Histograms,
    LabelTerms,
    Outcome,
    Progress,
    RowStanding,
    no_progress,
)
from consilium.protocol.messages import LedgerPosition
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids, query_set_hash

NoiseFor = Callable[[int], NoiseSource]
"""The noise of the batch with this number in the ledger. In a simulation it depends on seed and number alone;
real noise depends on nothing."""


class SumsOfRun:
    """What is noted of all sums of a run: seconds, the number of parties in each, who was in any; and, where `seen` is
    kept, who voted at which position of the ledger. join: takes in the parties that came since the last sum."""

    def __init__(self, ledger: Ledger, log: EventLog, seen: SeenPositions | None) -> None:
        self._ledger, self._log, self._seen = ledger, log, seen
        self._stated: LedgerPosition | None = None
        self._named: set[str] = set()
        self.join: Callable[[], object] = lambda: None
        self.seconds = 0.0
        self.counted: list[int] = []

    def position(self) -> LedgerPosition:
        """Where the ledger stands; it is kept that a request for votes says so."""
        self._stated = self._ledger.position()
        return self._stated

    def voting(self, queries: np.ndarray, parties: Sequence[str]) -> None:
        """These parties are about to be asked for votes; who they are is kept where they have names."""
        self._ledger.voted_on(query_ids(queries), parties if self._seen is not None else ())

    @contextlib.contextmanager
    def noting(self) -> Iterator[list[str]]:
        """Of one sum, whose parties are put into the list. Nothing is noted in `seen` of a session that is brought to
        its end after a restart: its parties were asked earlier."""
        start, self._stated = time.monotonic(), None
        parties: list[str] = []
        try:
            yield parties
            if self._seen is not None and self._stated is not None:
                self._seen.note(parties, self._stated.batch)
        finally:
            self.seconds += time.monotonic() - start
            if parties:
                self.counted.append(len(parties))
            if fresh := sorted({*parties} - self._named):
                self._named.update(fresh)
                self._log.write("voted", parties=fresh)


class NotedCollector:
    """A collector of whose sums is noted what `SumsOfRun` has."""

    def __init__(self, collector: Collector, sums: SumsOfRun) -> None:
        self._collector, self._sums = collector, sums

    def __call__(self, queries: np.ndarray, query_set: str, progress: Progress, round_: int = 1, /) -> Counts:
        self._sums.join()
        with self._sums.noting() as parties:
            histogram = self._collector(queries, query_set, progress, round_)
            parties += histogram.parties
        return histogram

    def settle(self) -> None:
        self._collector.settle()


def noise_for(config: FederationConfig) -> NoiseFor:
    """The operating system's noise; in a simulation that asks for it, noise seeded by seed and number of the batch."""
    if config.noise_seed is None:
        return lambda _: SystemNoise()
    seed = config.noise_seed
    return lambda batch: SeededNoise(int(canonical_digest([seed, batch]), 16))


class LabelService:
    """Answers a student. It is the `LabelSource` that the student sees in-process; `grpc_server` puts it on a socket.

    One request is answered at a time, so that two requests can never pay for the same query.
    """

    def __init__(
        self,
        config: FederationConfig,
        ledger: ReleaseLedger,
        noise: NoiseFor,
        collector: Collector,
        parties: int,
        log: EventWriter,
        pool: PoolTree | None = None,
        spent_before: Collection[str] = (),
        most_votes: int | None = None,
    ) -> None:
        """parties: that might take part. most_votes: that they may give on a query; None where each counts once. Who of
        them is in a sum, and how many, may follow from what their rows are, is charged nowhere, and is told nobody.

        spent_before: ids of queries that these parties answered in an earlier federation."""
        if noise(0).simulated and not config.simulation:
            raise ConfigError("seeded noise outside a simulation", "Leave noise_seed out")
        if not ledger.durable and not config.simulation:
            raise ConfigError("a ledger in memory outside a simulation", "Charges must outlive the coordinator")
        self._config = config
        self._ledger = ledger
        self._noise = noise
        self._collector = collector
        self._parties = parties
        self._most_votes = parties * config.teachers_per_party if most_votes is None else most_votes
        self._log = log
        self._pool = pool
        self._spent_before = frozenset(spent_before)
        self._budget = config.query_budget
        self._sigma = config.released_sigma(parties)
        self._lock = threading.Lock()
        self.promised: Guarantee = promised(config)
        self._to_student, self._to_nodes = promised_to_student(config), towards_coordinator(config)
        self.finished = threading.Event()

    def describe(self) -> LabelTerms:
        """See `LabelSource.describe`."""
        _, answered = self._ledger.spent()
        open_ = self._ledger.closing() is None
        return LabelTerms(
            federation=self._config.digest(),
            schema=self._config.rows,
            mechanism=self._config.describe(),
            unit=self._config.privacy.unit.value,
            neighbouring=self._config.privacy.neighbouring.value,
            delta=self._config.privacy.delta,
            epsilon=self._to_student.epsilon,
            epsilon_nodes=0.0 if self._to_nodes is None else self._to_nodes.epsilon,
            queries_left=self._queries_left() * open_,
            answers_left=(self._budget.answers - answered) * open_,
            parties=self._parties,
            simulation=self._config.simulation,
            count_sigma=self._sigma,
            label_step=self._config.label_step(self._parties, self._most_votes),
            release=self._config.disclosure.release,
            real_noise=self._config.simulation and not self._noise(0).simulated,
        )

    def ask(
        self, queries: np.ndarray, progress: Progress = no_progress, probabilities: np.ndarray | None = None
    ) -> Answers:
        """See `LabelSource.ask`. Rows with equal values are one query; recorded ones are answered from the ledger."""
        canonical = canonical_queries(queries, len(self._config.rows.features))
        if probabilities is None:
            probabilities = np.zeros((len(canonical), len(self._config.rows.classes)))  # no opinion yet
        check_probabilities(probabilities, len(canonical), len(self._config.rows.classes))
        ids = query_ids(canonical)
        if self._pool is not None and (outside := self._pool.missing(ids)):
            raise DataError(
                f"{len(outside)} of {len(ids)} queries are none of the public rows that were fixed before the"
                f" federation started (first: row {outside[0]})",
                "Ask rows of those only (public.npz of the kit); nothing was charged",
            )
        with self._lock, self._ledger.exclusive():
            recorded = self._ledger.find(ids)
            first_at: dict[str, int] = {}
            for index, query_id in enumerate(ids):
                first_at.setdefault(query_id, index)
            new = [index for query_id, index in first_at.items() if query_id not in recorded]
            self._check_unspent([index for index in new if ids[index] in self._spent_before], len(first_at))
            if new and not self._answered_out([ids[index] for index in new], len(first_at)):
                new_ids = [ids[index] for index in new]
                self._check_query_budget(new_ids)
                try:
                    self._release(canonical[new], new_ids, probabilities[new], progress)
                except ConsiliumError as error:
                    self._note_failure(error, new_ids)
                    raise
                recorded = self._ledger.find(ids)
        outcomes = [recorded[i].outcome if i in recorded else Outcome.NOT_ASKED for i in ids]
        labels = [recorded[i].label if i in recorded else NO_LABEL for i in ids]
        histograms = self._histograms([recorded.get(i) for i in ids]) if self._sigma > 0 else None
        return Answers(np.array(outcomes, dtype=np.int64), np.array(labels, dtype=np.int64), histograms)

    def _histograms(self, releases: list[Release | None]) -> Histograms:
        """The recorded noisy histograms, with the most votes and the noise in each."""
        none = (0,) * len(self._config.rows.classes)
        asked = np.array([release is not None for release in releases], dtype=bool)
        return Histograms(
            counts=np.array([none if r is None or r.counts is None else r.counts for r in releases], dtype=np.int64),
            votes=np.where(asked, self._most_votes, 0).astype(np.int64),
            sigmas=np.where(asked, self._sigma, 0.0),
        )

    def known(self, ids: Sequence[str]) -> np.ndarray:
        """See `LabelSource.known`."""
        standings = np.full(len(ids), RowStanding.OPEN, dtype=np.uint8)
        if self._pool is not None:
            recorded = self._ledger.find(ids)
            standings[[query_id in self._spent_before for query_id in ids]] = RowStanding.SPENT
            standings[[query_id in recorded for query_id in ids]] = RowStanding.RECORDED
        return standings

    def finish(self) -> None:
        """See `LabelSource.finish`."""
        self.finished.set()

    def _check_unspent(self, spent: list[int], asked: int) -> None:
        if spent:
            raise DataError(
                f"{len(spent)} of {asked} queries were answered in an earlier federation of these parties, who answer"
                f" each row once (first: row {spent[0]})",
                "Leave them out, as `consilium student run` does; their labels are those of that federation, and"
                " nothing was charged",
            )

    def _note_failure(self, error: ConsiliumError, ids: list[str]) -> None:
        used, recorded = self._ledger.unanswered(frozenset(ids)), self._ledger.find(ids)
        self._log.write(
            "not-answered",
            error=type(error).__name__,
            reason=str(error),
            asked=len(ids) - len(recorded),  # some errors come after the charge
            unanswered=used.queries,
            parties=list(used.parties),
        )

    def _queries_left(self) -> int:
        """That were never asked of any party; those that were, and came to nothing, can be asked again besides."""
        unanswered = self._ledger.unanswered().queries
        return max(0, self._budget.queries - self._ledger.spent()[0] - unanswered)

    def _never_asked(self, ids: Collection[str]) -> int:
        return len(ids) - self._ledger.unanswered(frozenset(ids)).queries

    def _answered_out(self, new: Collection[str], total: int) -> bool:
        """Whether this repeats a request that was cut at the cap on answers: the rest of it is still not asked."""
        return (
            len(new) < total
            and self._ledger.spent()[1] == self._budget.answers
            and self._never_asked(new) <= self._queries_left()
        )

    def _check_query_budget(self, ids: Collection[str]) -> None:
        if self._ledger.closing() is not None:
            raise BudgetExceeded(CLOSED, "Labels of queries asked before can still be had; start another federation")
        _, answered = self._ledger.spent()
        new, queries_left = self._never_asked(ids), self._queries_left()
        answers_left = self._budget.answers - answered
        if new > queries_left or answers_left == 0:
            raise BudgetExceeded(
                f"{new} new queries asked, {queries_left} queries and {answers_left} answers are left of"
                f" {self._budget.queries} and {self._budget.answers}",
                "Ask for fewer; nothing was charged",
            )

    def _release(self, queries: np.ndarray, ids: list[str], probabilities: np.ndarray, progress: Progress) -> None:
        """Votes -> labels -> ledger, and only then does anything leave."""
        _, answered_before = self._ledger.spent()
        room = self._budget.answers - answered_before
        collected: list[Counts] = []

        def sums(positions: np.ndarray, round_: int) -> tuple[np.ndarray, int]:
            chosen = queries[positions]
            collected.append(self._collector(chosen, query_set_hash(chosen), progress, round_))
            return collected[-1].votes, collected[-1].teachers

        drawn = self._drawn(sums, ids, room, probabilities, collected)
        histogram = collected[0]
        asked, answered = len(drawn.labels), int(drawn.answered.sum())
        event = self._config.event(asked, answered)
        votes = seen(histogram.votes, _clipped(histogram, len(histogram.votes)), histogram.teachers)[:asked]
        evidence = self._evidence(event, votes, histogram, probabilities[:asked])
        # the cost at the votes at hand is computed from them whenever somebody asks, and a sanitised epsilon at close
        has_evidence = evidence.log_q_label is not None
        self._ledger.commit(
            Batch(
                event=event.to_json(),
                parties=len(histogram.parties),
                query_ids=tuple(ids[:asked]),
                labels=drawn.labels,
                reinforced=drawn.reinforced,
                counts=drawn.counts,
                log_q_check=evidence.log_q_check,
                log_q_label=evidence.log_q_label,
                histogram=votes if has_evidence else None,
                probabilities=probabilities[:asked] if has_evidence else None,
                left_over=tuple(ids[asked:]),
            ),
            self._budget.queries,
            self._budget.answers,
        )
        self._collector.settle()
        kind, parties = self._config.mechanism.releases, len(histogram.parties)
        self._log.write("released", asked=asked, answered=answered, parties=parties, release=kind)
        if drawn.failure is not None:
            raise drawn.failure

    def _drawn(
        self, sums: Sums, ids: Sequence[str], room: int, probabilities: np.ndarray, collected: list[Counts]
    ) -> Drawn:
        """What the mechanism makes of the parties' votes, which each call of `sums` adds to `collected`.

        Where they come with noise, the coordinator makes up what is missing of the mechanism's own, by the number of
        parties in each sum.
        """
        mechanism, queries = self._config.mechanism, len(ids)
        if self._config.noise_in_sums and mechanism.noise_by_parties:
            return mechanism.release(sums, queries, room, None, probabilities)
        noise = self._noise(self._ledger.next_batch())
        if not self._config.noise_in_sums:
            return mechanism.release(sums, queries, room, noise, probabilities)

        def topped_up(positions: np.ndarray, round_: int) -> tuple[np.ndarray, int]:
            noisy, votes = sums(positions, round_)
            sigma = self._config.top_up(len(collected[-1].parties), round_)
            return noisy + (noise.gaussian(sigma, noisy.shape) if sigma > 0 else 0), votes

        def shown(unanswered: Drawn, passed: np.ndarray) -> tuple[Drawn, np.ndarray]:
            outcome = [unanswered.labels.tolist(), unanswered.reinforced.tolist(), passed.tolist()]
            labels, reinforced, through = json.loads(self._ledger.checked(ids, json.dumps(outcome)))
            return Drawn(np.array(labels, dtype=np.int64), np.array(reinforced, dtype=bool)), np.array(
                through, dtype=bool
            )

        return mechanism.release_from_noisy(topped_up, queries, room, noise, probabilities, shown)

    def _evidence(
        self, event: ReleaseEvent, votes: np.ndarray, histogram: Counts, probabilities: np.ndarray
    ) -> Evidence:
        """See `ReleaseEvent.evidence`. A row that was made to fit saves nothing: log q = 0, the worst case.

        Where the noise is in the sums, no votes are at hand.
        """
        if self._config.noise_in_sums:
            return Evidence(None, None)
        evidence = event.evidence(votes, probabilities=probabilities)
        clipped = _clipped(histogram, event.asked)
        return Evidence(*(None if log_q is None else np.where(clipped, 0.0, log_q) for log_q in evidence))


def _clipped(histogram: Counts, asked: int) -> np.ndarray:
    """bool (asked,): rows that were made to fit."""
    return np.zeros(asked, dtype=bool) if histogram.clipped is None else histogram.clipped[:asked]


def check_probabilities(probabilities: np.ndarray, queries: int, classes: int) -> None:
    """Raise DataError unless `probabilities` is float64 (queries, classes) within [0, 1]."""
    if probabilities.shape != (queries, classes):
        raise DataError(f"probabilities have shape {probabilities.shape}, must be {(queries, classes)}")
    if probabilities.dtype.kind != "f" or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise DataError("probabilities must be numbers from 0 to 1", "Send what the model predicts, normalised")
