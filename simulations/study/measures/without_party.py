"""What a finished federation would have released without one of its parties: its votes less, all else as it was.

The same rows are asked, in the same batches, by a student that thinks what it thought, and each row has the noise that
it had (`measures.row_noise`). The teachers of the others are not trained again: they never saw the party's rows. The
cap on answers cuts where it cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.federation import noise_for
from consilium.coordinator.mechanisms.base import Drawn
from consilium.protocol.errors import DataError
from consilium.protocol.labels.service import Outcome
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.rows.queries import query_ids
from consilium.simulations.compare.learning import GivenAnswers
from consilium.simulations.population.weights import simulated_weights
from consilium.simulations.study.artifact import Arrays
from consilium.simulations.study.case import Case
from consilium.simulations.study.measures.row_noise import RowNoise
from consilium.simulations.study.said import Said
from consilium.student.run import DEVIATIONS
from consilium.student.trainers.base import Shares

LOTS = 20
"""Times that other noise of the same law is drawn, for how many labels flip in the mean: with the noise that it was,
one query near a tie flips for half of the parties or for none."""
_PURPOSE = 0x6C657373


@dataclass(frozen=True)
class _Voted:
    """One batch: votes int64 (parties, rows, classes), each party's counted by its weight, and their sum; asked bool
    (rows,), which of them the student was told; the noise that it was; and other noise of the same law."""

    votes: np.ndarray = field(repr=False)
    total: np.ndarray = field(repr=False)
    asked: np.ndarray = field(repr=False)
    noise: RowNoise = field(repr=False)
    others: list[RowNoise] = field(repr=False)


class Rerun:
    """A federation by the arrays of its `Predicted` (see `methods.pate`). rows: int64 (asked,), of the pool, those that
    were asked, in order. with_all: what was released. All of it is secret but this.

    Raises
    ------
    DataError : the labels are not those that these votes and this noise give.
    """

    def __init__(self, case: Case, pool: Said, arrays: Arrays) -> None:
        self._config = case.config.model_copy(update={"noise_seed": case.seed})
        asked = arrays["outcome"] != Outcome.NOT_ASKED
        voted = arrays["voted_rows"]
        weights = simulated_weights(case.parties, case.scenario.federation, (), case.seed)
        self._weights = np.array([weights[party] for party in case.parties])
        place = {query: at for at, query in enumerate(query_ids(case.pool_x[voted]))}
        self.rows = arrays["asked_rows"][asked]
        self._at = np.array([place[query] for query in query_ids(case.pool_x[self.rows])], dtype=np.int64)
        told, number = np.isin(np.arange(len(voted)), self._at), arrays["voted_batch"]
        self._batches = [
            self._batch(case, pool, int(each), voted[number == each], told[number == each])
            for each in np.unique(number)
        ]
        drawn = [batch.noise.drawn for batch in self._batches]
        self.with_all = self._answers(drawn, np.ones(len(case.parties), dtype=bool))
        if not np.array_equal(self.with_all.labels, arrays["labels"][asked]):
            raise DataError(
                "labels are not those that the votes and the noise of this case give, so that no party's part in them"
                " can be told",
                "Remove the study's cache, and run it again",
            )

    def flipped(self, party: int) -> tuple[int, float]:
        """Different queries whose label, or whether they have one, is another without the party at this index: with the
        noise that it was, and in the mean over `LOTS` draws of other noise."""
        found = np.zeros(1 + LOTS, dtype=np.int64)
        for batch in self._batches:
            rest = batch.total - batch.votes[party]
            for lot, noise in enumerate((batch.noise, *batch.others)):
                found[lot] += (noise.given(rest).labels != noise.drawn.labels)[batch.asked].sum()
        return int(found[0]), float(found[1:].mean())

    def without(self, party: int) -> GivenAnswers:
        """What all but the party at this index would have released, in the order of `rows`."""
        drawn = [batch.noise.given(batch.total - batch.votes[party]) for batch in self._batches]
        return self._answers(drawn, np.arange(len(self._weights)) != party)

    def _batch(self, case: Case, pool: Said, number: int, rows: np.ndarray, asked: np.ndarray) -> _Voted:
        ids, digest = query_ids(case.pool_x[rows]), case.config.digest()
        votes = pool.votes(rows, case.parties, digest, ids, len(case.classes)) * self._weights[:, None, None]
        total, no_opinion = votes.sum(axis=0), np.zeros(votes.shape[1:])

        def given(source: NoiseSource, lot: int) -> RowNoise:
            return RowNoise(self._config.mechanism, total, source, no_opinion, _seed(case.seed, number, lot, 1))

        others = [given(SeededNoise(_seed(case.seed, number, lot, 0)), lot) for lot in range(1, LOTS + 1)]
        return _Voted(votes, total, asked, given(noise_for(self._config)(number), 0), others)

    def _answers(self, drawn: list[Drawn], present: np.ndarray) -> GivenAnswers:
        """`present` bool (parties,): whose votes are in the sums."""
        labels = np.concatenate([each.labels for each in drawn])[self._at]
        counts = [each.counts for each in drawn if each.counts is not None]
        if not counts:
            return GivenAnswers(self.rows, labels)
        votes = self._weights[present].sum() * self._config.teachers_per_party
        sigma = self._config.mechanism.count_sigma(int(present.sum()))
        deviation = np.full(len(labels), np.clip(sigma / votes, *DEVIATIONS))
        return GivenAnswers(self.rows, labels, Shares(np.concatenate(counts)[self._at] / votes, deviation))


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence([_PURPOSE, *parts]).generate_state(1)[0])
