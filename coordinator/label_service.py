"""The label service, the only place where anything is released: a recorded outcome comes from the ledger; else the
query budget is checked, votes are collected, the mechanism draws, and what leaves is charged, recorded, and only then
given.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.collection.base import Collector, Counts, Queries
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.draw import Drawn, draw
from consilium.coordinator.events import EventLog
from consilium.coordinator.ledger import CLOSED, Batch, Ledger
from consilium.coordinator.privacy import promised, towards_coordinator
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import BudgetExceeded, ConfigError, ConsiliumError, DataError
from consilium.protocol.files import typed
from consilium.protocol.label_source import NO_LABEL, Answers, LabelTerms, Outcome
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries, query_ids

NoiseFor = Callable[[int], NoiseSource]
"""The noise of the batch with this number in the ledger. In a simulation it depends on seed and number alone;
real noise depends on nothing."""


def noise_for(config: FederationConfig) -> NoiseFor:
    """The operating system's noise; in a simulation that asks for it, noise seeded by seed and number of the batch."""
    if config.noise_seed is None:
        return lambda _: SystemNoise()
    seed = config.noise_seed
    return lambda batch: SeededNoise(int(canonical_digest([seed, batch]), 16))


class LabelService:
    """Answers a student. It is the `LabelSource` that the student sees in-process; `label_server` puts it on a socket.

    One request is answered at a time, so that two requests can never pay for the same query.

    seconds: how long votes were collected, in all.
    """

    def __init__(
        self,
        config: FederationConfig,
        ledger: Ledger,
        collector: Collector,
        noise: NoiseFor,
        parties: int,
        log: EventLog | None = None,
        pool: PoolTree | None = None,
        spent_before: Collection[str] = (),
    ) -> None:
        """parties: how many might take part. Which of them are in a sum, and how many, may follow from their rows and
        is charged nowhere, so nobody is told. spent_before: ids of queries that they answered in an earlier
        federation."""
        if noise(0).simulated and not config.simulation:
            raise ConfigError("seeded noise outside a simulation", "Leave noise_seed out")
        if ledger.path is None and not config.simulation:
            raise ConfigError("a ledger in memory outside a simulation", "Charges must outlive the coordinator")
        self._config, self._ledger, self._collector, self._noise = config, ledger, collector, noise
        self._parties = parties
        self._most_votes = parties * config.teachers_per_party
        self._log = EventLog(None) if log is None else log
        self._pool, self._spent_before = pool, frozenset(spent_before)
        self._budget = config.query_budget
        self._sigma = config.released_sigma(parties)
        self._lock, self._charging, self._ended = threading.Lock(), threading.Lock(), False
        self.seconds = 0.0

    @cached_property
    def promised(self) -> Guarantee:
        """Towards the student and everybody, with the whole query budget used up. Raises ConfigError."""
        return promised(self._config)

    def describe(self) -> LabelTerms:
        """See `LabelSource.describe`."""
        config = self._config
        with self._noted():
            queries_left = self._queries_left() * (self._ledger.closing() is None)
            # where no public rows are fixed, a student's rows may be its own: no other student is told of them
            recorded = frozenset[str]() if self._pool is None else self._ledger.recorded()
        nodes = towards_coordinator(config)
        return LabelTerms(
            federation=config.digest(),
            schema=config.rows,
            mechanism=config.describe(),
            unit=config.privacy.unit.value,
            neighbouring=config.privacy.neighbouring.value,
            delta=config.privacy.delta,
            epsilon=self.promised.epsilon,
            epsilon_nodes=0.0 if nodes is None else nodes.epsilon,
            queries_left=queries_left,
            parties=self._parties,
            simulation=config.simulation,
            count_sigma=self._sigma,
            most_votes=self._most_votes if self._sigma > 0 else 0,
            law=config.label_law(self._parties, self._most_votes),
            release=config.disclosure.release,
            real_noise=config.simulation and not self._noise(0).simulated,
            recorded=tuple(sorted(recorded)),
            spent=tuple(sorted(self._spent_before - recorded)) if self._pool is not None else (),
        )

    def ask(self, queries: np.ndarray, probabilities: np.ndarray | None = None) -> Answers:
        """See `LabelSource.ask`. Rows with equal values are one query; recorded ones are answered from the ledger."""
        rows = self._config.rows
        canonical = canonical_queries(queries, len(rows.features))
        if probabilities is None:
            probabilities = np.zeros((len(canonical), len(rows.classes)))  # no opinion yet
        elif probabilities.shape != (len(canonical), len(rows.classes)):
            raise DataError(
                f"probabilities have shape {probabilities.shape}, must be {(len(canonical), len(rows.classes))}"
            )
        if probabilities.dtype.kind != "f" or not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise DataError("probabilities must be numbers from 0 to 1", "Send what the model predicts, normalised")
        ids = query_ids(canonical)
        if self._pool is not None and (outside := self._pool.missing(ids)):
            raise DataError(
                f"{len(outside)} of {len(ids)} queries are none of the public rows that were fixed before the"
                f" federation started (first: row {outside[0]})",
                "Ask rows of those only (public.npz of the signed folder); nothing was charged",
            )
        with self._noted(), self._lock, self._ledger.exclusive():
            recorded = self._ledger.find(ids)
            first_at: dict[str, int] = {}
            for index, query_id in enumerate(ids):
                first_at.setdefault(query_id, index)
            new = [index for query_id, index in first_at.items() if query_id not in recorded]
            new_ids = [ids[index] for index in new]
            if spent := [index for index in new if ids[index] in self._spent_before]:
                raise DataError(
                    f"{len(spent)} of {len(first_at)} queries were answered in an earlier federation of these parties,"
                    f" whose second aggregator gives each row once (first: row {spent[0]})",
                    "Leave them out, as `consilium student run` does; their labels are those of that federation, and"
                    " nothing was charged",
                )
            if new and self._within_query_budget(new_ids, len(new) < len(first_at)):
                self._release(canonical[new], new_ids, probabilities[new])
                recorded = self._ledger.find(ids)
        outcomes = [recorded[i].outcome if i in recorded else Outcome.NOT_ASKED for i in ids]
        labels = [recorded[i].label if i in recorded else NO_LABEL for i in ids]
        counts = None
        if self._sigma > 0:
            none = (0,) * len(rows.classes)
            counts = np.array([recorded[i].counts or none if i in recorded else none for i in ids], dtype=np.int64)
        return Answers(np.array(outcomes, dtype=np.int64), np.array(labels, dtype=np.int64), counts)

    def end(self) -> None:
        """Nothing is charged any more: who sums the ledger up after this is right. A question under way fails."""
        with self._charging:
            self._ended = True

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Write into the event log whatever fails here and is no mistake of the student's: a student only hears that
        the coordinator's operator sees why."""
        try:
            yield
        except (BudgetExceeded, DataError):
            raise
        except (ConsiliumError, OSError) as error:
            known = typed(error, self._ledger.path) if isinstance(error, OSError) else error
            if known is not None:
                with suppress(OSError):  # a disk that is full is what the error says
                    self._log.write("not-answered", error=type(known).__name__, reason=str(known))
            if known is None or known is error:
                raise
            raise known from error

    def _queries_left(self) -> int:
        """Queries that parties have not charged yet. Those that failed can be asked again besides, unless parties
        charge that again."""
        return max(0, self._budget.queries - self._ledger.spent()[0] - self._ledger.in_vain())

    def _within_query_budget(self, new: Collection[str], repeated: bool) -> bool:
        """Whether the parties are to be asked for these. Not where a request is repeated that ended at the most
        answers: the rest of it stays unasked. Raises BudgetExceeded."""
        uncharged, queries_left = len(new) - self._ledger.charged(new), self._queries_left()
        answers_left = self._budget.answers - self._ledger.spent()[1]
        if repeated and answers_left == 0 and uncharged <= queries_left:
            return False
        if self._ledger.closing() is not None:
            raise BudgetExceeded(CLOSED, "Labels of queries asked before can still be had; start another federation")
        if uncharged > queries_left or answers_left == 0:
            raise BudgetExceeded(
                f"{uncharged} new queries asked, {queries_left} queries and {answers_left} answers are left of"
                f" {self._budget.queries} and {self._budget.answers}",
                "Ask for fewer; nothing was charged",
            )
        return True

    def _release(self, queries: np.ndarray, ids: list[str], probabilities: np.ndarray) -> None:
        """Votes -> labels -> ledger, and only then does anything leave. The ledger has the queries before the parties
        are asked: whatever stops this, they count as asked."""
        config, ledger = self._config, self._ledger
        room = self._budget.answers - ledger.spent()[1]
        noise = self._noise(ledger.position().batch + 1)
        sums: list[Counts] = []

        def collect(round_: int, chosen: np.ndarray | None) -> Counts:
            """Counts with the noise that they lack of the mechanism's, by how many parties are in the sum."""
            counts = self._collect(Queries(queries if chosen is None else queries[chosen], round_))
            sums.append(counts)
            sigma = config.top_up(len(counts.parties), round_)
            return replace(counts, votes=counts.votes + noise.gaussian(sigma, counts.votes.shape)) if sigma else counts

        def shown(unanswered: Drawn, passed: np.ndarray) -> tuple[Drawn, np.ndarray]:
            """The outcome of the check: that of the first one of these queries, if a coordinator died after it."""
            outcome = [unanswered.labels.tolist(), unanswered.reinforced.tolist(), passed.tolist()]
            labels, reinforced, through = json.loads(ledger.checked(ids, json.dumps(outcome)))
            return Drawn(np.array(labels, dtype=np.int64), np.array(reinforced, dtype=bool)), np.array(through, bool)

        drawn = draw(config.mechanism, collect, noise, room=room, probabilities=probabilities, shown=shown)
        first, asked, answered = sums[0], len(drawn.labels), int(drawn.answered.sum())
        event = config.event(asked, answered)
        # the cost at the votes at hand is computed from them whenever somebody asks, and a sanitised epsilon at close
        decide = first.sigma == 0 and event.votes_decide
        batch = Batch(
            event=event.to_json(),
            parties=len(first.parties),
            query_ids=tuple(ids[:asked]),
            labels=drawn.labels,
            reinforced=drawn.reinforced,
            counts=drawn.counts,
            histogram=first.votes[:asked] if decide else None,
            probabilities=probabilities[:asked] if decide else None,
        )
        with self._charging:
            if self._ended:
                raise BudgetExceeded("the federation is being closed", "Nothing was released")
            ledger.commit(batch, self._budget.queries, self._budget.answers)
        self._collector.settle()
        released = config.disclosure.release
        self._log.write("released", asked=asked, answered=answered, counted=len(first.parties), release=released)
        if drawn.failure is not None:
            raise drawn.failure

    def _collect(self, queries: Queries) -> Counts:
        began = time.monotonic()
        try:
            counts = self._collector.collect(queries, self._config.sigmas[queries.round - 1])
        finally:
            self.seconds += time.monotonic() - began
        first = len(queries.rows) if queries.round == 1 else 0  # later rounds are about the same queries
        self._log.write("voted", parties=sorted(counts.parties), queries=first)
        return counts
