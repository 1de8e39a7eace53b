"""What the teachers of one case vote: recorded once for all mechanisms, and added up as a federation does.

What depends on mechanism, query budget, privacy or student is not in it. Under the relative voting rule equal scores
are decided by a lot of the federation's digest: so which classes were equal is recorded too (`party.voting`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.collection.means import Standing
from consilium.coordinator.ledger import Ledger
from consilium.data.private_rows import remarks
from consilium.party.node import PartyNode
from consilium.party.store import Store
from consilium.party.voting import Lot, draw_lots
from consilium.protocol.choices import choice_dtype
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.queries import query_ids
from consilium.report.progress import TRAIN_TEACHERS
from consilium.simulations.divide import Case
from consilium.simulations.metrics import shares
from consilium.simulations.population.specs import check_own_teacher
from consilium.simulations.said import SETS, Questions, TieLog, said
from consilium.simulations.simulated import Population

_NONE = np.zeros(0, dtype=np.int32)
_AT_ONCE = 4_000_000  # votes that are counted in one go


@dataclass(frozen=True)
class TeacherVotes:
    """cast: uint8 (parties, teachers, rows), the class that each teacher is for. Secret. Of those that were equal:
    tied_party, tied_teacher, tied_row int32 (ties,), tied bool (ties, classes)."""

    cast: np.ndarray = field(repr=False)
    tied_party: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_teacher: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied_row: np.ndarray = field(repr=False, default_factory=_NONE.copy)
    tied: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0), dtype=bool))
    _sums: dict[int, np.ndarray] = field(init=False, repr=False, default_factory=dict)

    def totals(
        self, rows: np.ndarray, parties: Sequence[str], federation: str, query_ids: Sequence[str], classes: int
    ) -> np.ndarray:
        """Sum of the parties' votes int64 (rows, classes) on the rows at these positions, as a run of this federation
        (its digest) collects. `query_ids`: of these rows, in this order. What no lot decides is counted once for all
        federations."""
        place = np.full(self.cast.shape[2], -1)
        place[rows] = np.arange(len(rows))
        if np.count_nonzero(place >= 0) < len(rows):
            raise ValueError("a row is asked once")
        ties = np.flatnonzero(place[self.tied_row] >= 0)
        queries = place[self.tied_row[ties]]
        lots = [Lot(party, federation, query_ids) for party in parties]
        labels = draw_lots(lots, self.tied_party[ties], self.tied_teacher[ties], queries, self.tied[ties])
        votes = self._undisputed(classes)[rows]
        counts = np.bincount(queries * classes + labels, minlength=votes.size)
        return votes + counts.reshape(votes.shape)

    def _undisputed(self, classes: int) -> np.ndarray:
        """The sum of all votes that are no ties, int64 (rows, classes), not to be written to. A few rows of all parties
        at a time: 5,000 parties' votes on 10,000 rows and 150 classes are 60 GB."""
        if classes in self._sums:
            return self._sums[classes]
        parties, teachers, rows = self.cast.shape
        sums = np.zeros((rows, classes), dtype=np.int64)
        step = max(_AT_ONCE // max(parties * teachers, 1), 1)
        for start in range(0, rows, step):
            part = self.cast[:, :, start : start + step]
            width = part.shape[2]
            cells = (part + classes * np.arange(width)).reshape(parties, -1)
            counts = np.bincount(cells.ravel(), minlength=width * classes)
            sums[start : start + width] = counts.reshape(width, classes)
        # a tie stands in `cast` with some class
        label = self.cast[self.tied_party, self.tied_teacher, self.tied_row]
        np.subtract.at(sums, (self.tied_row, label), 1)
        self._sums[classes] = sums
        return sums

    @classmethod
    def of_parties(cls, cast: Sequence[np.ndarray], lots: Sequence[TieLog], classes: int) -> TeacherVotes:
        """cast: of each party int64 (teachers, rows)."""
        counts = _joined([lot.counts for lot in lots])
        tied = np.zeros((len(counts), classes), dtype=bool)
        tied[np.repeat(np.arange(len(counts)), counts), _joined([lot.equal for lot in lots])] = True
        return cls(
            np.stack(cast).astype(choice_dtype(classes), copy=False),
            np.repeat(np.arange(len(lots)), [len(lot.row) for lot in lots]).astype(np.int32),
            _joined([lot.teacher for lot in lots]),
            _joined([lot.row for lot in lots]),
            tied,
        )


def _joined(parts: Sequence[array[int]]) -> np.ndarray:
    return np.concatenate([_NONE, *(np.asarray(part, dtype=np.int32) for part in parts)])


def plurality_shares(case: Case, votes: TeacherVotes, x: np.ndarray, federation: str) -> np.ndarray:
    """float64 (rows, classes): shares of all votes on `x`, the canonical rows that `votes` are on. federation: a digest
    for the lots."""
    rows = np.arange(len(x))
    return shares(votes.totals(rows, case.parties, federation, query_ids(x), len(case.classes)))


@dataclass(frozen=True)
class Ensemble:
    """All of it is secret. P: parties; rows as in `Case`. pool, test, home: what the teachers voted on these rows
    (home: of every party, so of its own and all others'). test_scores, own_home, test_right are of what each party has
    by itself (`said.model_alone`): float32 (P, rows), of two classes the probability of the second, of more (P, 0);
    float32 (home, classes), probabilities of its own held-out rows; float64 (P,), accuracy on the test rows.
    right_rows: float32 (test,), share of the parties that are right on each. directions: what each party gives to a
    noisy average, see `Said`."""

    pool: TeacherVotes
    test: TeacherVotes
    home: TeacherVotes
    test_scores: np.ndarray = field(repr=False)
    own_home: np.ndarray = field(repr=False)
    test_right: np.ndarray = field(repr=False)
    right_rows: np.ndarray = field(repr=False)
    directions: list[np.ndarray | None] = field(repr=False)


def teach(case: Case, progress: Progress = no_progress) -> Iterator[tuple[int, PartyNode]]:
    """Index of each party, and itself, with its teachers, trained as parties train them, until the next is taken.
    Raises ConfigError: a kind of teacher does not fit the rows."""
    check_own_teacher(case.scenario.simulation, case.config.rows)
    population = Population.of(case)
    hello, train = Standing(Ledger.in_memory(case.config)).greeting(case.config), case.config.train_request()
    before, remarks.disabled = remarks.disabled, True  # what is odd about rows is for whoever looks after them
    try:
        for index in range(len(case.parties)):
            progress(TRAIN_TEACHERS, index, len(case.parties))
            store = Store.in_memory()
            node = population.party(index, store)
            node.hello(hello)
            node.train(train)
            yield index, node
            store.close()
    finally:
        remarks.disabled = before
    progress(TRAIN_TEACHERS, len(case.parties), len(case.parties))


def train_ensemble(case: Case, progress: Progress = no_progress) -> Ensemble:
    """Train all teachers, and ask them about all public rows and all that is held out. Raises as `teach`."""
    questions, federation, classes = Questions.of(case, study=True), case.config.digest(), len(case.classes)
    own_home, answers, ties = np.zeros((len(case.home_rows), classes), dtype=np.float32), [], []
    for index, node in teach(case, progress):
        own, lots = np.flatnonzero(case.home_party == index), {name: TieLog() for name in SETS}
        answer = said(questions, node, federation, lots, own)
        answers.append(answer)
        ties.append(lots)
        own_home[own] = answer.home
    voted = {
        name: TeacherVotes.of_parties([each.cast[name] for each in answers], [lots[name] for lots in ties], classes)
        for name in SETS
    }
    return Ensemble(
        **voted,
        test_scores=np.stack([each.score for each in answers]),
        own_home=own_home,
        test_right=np.array([each.quality.accuracy for each in answers]),
        right_rows=np.mean([each.quality.parts["accuracy"] for each in answers], axis=0),
        directions=[each.direction for each in answers],
    )
