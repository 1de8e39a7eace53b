"""What one party changes: winners flipped, and students trained again without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.label_service import noise_for
from consilium.coordinator.mechanisms.base import Drawn, Mechanism
from consilium.models.base import Shares
from consilium.protocol.errors import DataError
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.queries import query_ids
from consilium.simulations.artifact import Arrays
from consilium.simulations.divide import Case
from consilium.simulations.judge import Row
from consilium.simulations.learn import CurveLearner, ReleasedAnswers
from consilium.simulations.methods.base import Predicted
from consilium.simulations.methods.manual_labels import MOST_DRAWS, PublicTruth, effort
from consilium.simulations.study.measures.figures import (
    Figures,
    label_counts,
    label_distances,
    quarters,
    rank_correlation,
)
from consilium.simulations.study.measures.votes import DIGITS, shares_for
from consilium.simulations.vote import Ensemble, TeacherVotes
from consilium.student.ask import DEVIATIONS

_Law = Callable[[NoiseSource, tuple[int, ...]], np.ndarray]
"""Noise of one law and scale, of that shape, from a source."""
_Supply = Callable[[int, _Law, tuple[int, ...]], np.ndarray]
"""The number of a call, its law and shape -> what it is given."""


class RowNoise:
    """Of one batch. `drawn`: what the mechanism released from `votes` int64 (rows, classes) with the noise of `source`,
    which is spent by it. `probabilities`: the student's, float64 (rows, classes). `seed`: for rows that pass later.
    """

    def __init__(
        self, mechanism: Mechanism, votes: np.ndarray, source: NoiseSource, probabilities: np.ndarray, seed: int
    ) -> None:
        self._mechanism, self._probabilities, self._seed, self._rows = mechanism, probabilities, seed, len(votes)
        calls: list[tuple[_Law, np.ndarray]] = []

        def recorded(number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
            calls.append((law, law(source, shape)))
            return calls[-1][1]

        self.drawn = mechanism.draw(votes, _Calls(recorded), probabilities)
        self._calls = [self._of_all(number, law, batch_votes) for number, (law, batch_votes) in enumerate(calls)]

    def drawn_for(self, votes: np.ndarray) -> Drawn:
        """What is released from other votes on the same rows, each row with the noise that it had.

        Who gets as far as a second step does not hang on the noise of that step, so a first draw finds out who does.
        """
        every = _Calls(self._recalled(np.ones(self._rows, dtype=bool)))
        drawn = self._mechanism.draw(votes, every, self._probabilities)
        if all(shape[0] == self._rows for shape in every.shapes):
            return drawn
        return self._mechanism.draw(votes, _Calls(self._recalled(drawn.answered)), self._probabilities)

    def _of_all(self, number: int, law: _Law, votes: np.ndarray) -> np.ndarray:
        """Noise of one call for every row of the batch, from what the rows got that were answered."""
        if len(votes) == self._rows:
            return votes
        every = self._fresh(number, law, votes.shape)
        every[self.drawn.answered] = votes
        return every

    def _recalled(self, passed: np.ndarray) -> _Supply:
        """`passed` bool (rows,): whom a call is for that is not for every row."""

        def supply(number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
            known = number < len(self._calls)
            every = self._calls[number] if known else self._fresh(number, law, shape)
            return every if shape[0] == self._rows else every[passed][: shape[0]]

        return supply

    def _fresh(self, number: int, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
        source = SeededNoise(int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0]))
        return law(source, (self._rows, *shape[1:]))


class _Calls:
    """A source of noise that numbers its calls. shapes: what was asked for."""

    simulated = True

    def __init__(self, supply: _Supply) -> None:
        self._supply = supply
        self.shapes: list[tuple[int, ...]] = []

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        return self._next(lambda source, of: source.gaussian(sigma, of), shape)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`."""
        return self._next(lambda source, of: source.laplace(gamma, of), shape)

    def _next(self, law: _Law, shape: tuple[int, ...]) -> np.ndarray:
        self.shapes.append(shape)
        return self._supply(len(self.shapes) - 1, law, shape)


LOTS = 20
"""Times that other noise of the same law is drawn, for how many labels flip in the mean: with the noise that it was,
one query near a tie flips for half of the parties or for none."""
_RERUN_PURPOSE = 0x6C657373


@dataclass(frozen=True)
class _Voted:
    """One batch: votes int64 (parties, rows, classes), and their sum; queried bool
    (rows,), which of them the student was told; the noise that it was; and other noise of the same law."""

    votes: np.ndarray = field(repr=False)
    total: np.ndarray = field(repr=False)
    queried: np.ndarray = field(repr=False)
    noise: RowNoise = field(repr=False)
    others: list[RowNoise] = field(repr=False)


class Rerun:
    """A federation by the arrays of its `Predicted` (see `methods.pate`). rows: int64 (asked,), of the pool, those that
    were asked, in order. with_all: what was released. All of it is secret but this.

    Raises
    ------
    DataError : the labels are not those that these votes and this noise give.
    """

    def __init__(self, case: Case, pool: TeacherVotes, arrays: Arrays) -> None:
        self._config = case.config.model_copy(update={"noise_seed": case.seed})
        queried = arrays["outcome"] != Outcome.NOT_ASKED
        voted = arrays["voted_rows"]
        self._parties = len(case.parties)
        place = {query: index for index, query in enumerate(query_ids(case.pool_x[voted]))}
        self.rows = arrays["asked_rows"][queried]
        self._at = np.array([place[query] for query in query_ids(case.pool_x[self.rows])], dtype=np.int64)
        chosen, number = np.isin(np.arange(len(voted)), self._at), arrays["voted_batch"]
        self._batches = [
            self._batch(case, pool, int(index), voted[number == index], chosen[number == index])
            for index in np.unique(number)
        ]
        drawn = [batch.noise.drawn for batch in self._batches]
        self.with_all = self._answers(drawn, np.ones(len(case.parties), dtype=bool))
        if not np.array_equal(self.with_all.labels, arrays["labels"][queried]):
            raise DataError(
                "labels are not those that the votes and the noise of this case give, so that no party's part in them"
                " can be told",
                "Remove the study's cache, and run it again",
            )

    def flipped(self, party: int) -> tuple[int, float]:
        """Different queries whose label, or whether they have one, is another without the party at this index: with the
        noise that it was, and in the mean over `LOTS` draws of other noise."""
        flipped = np.zeros(1 + LOTS, dtype=np.int64)
        for batch in self._batches:
            rest = batch.total - batch.votes[party]
            for lot, noise in enumerate((batch.noise, *batch.others)):
                flipped[lot] += (noise.drawn_for(rest).labels != noise.drawn.labels)[batch.queried].sum()
        return int(flipped[0]), float(flipped[1:].mean())

    def without(self, party: int) -> ReleasedAnswers:
        """What all but the party at this index would have released, in the order of `rows`."""
        drawn = [batch.noise.drawn_for(batch.total - batch.votes[party]) for batch in self._batches]
        return self._answers(drawn, np.arange(self._parties) != party)

    def _batch(self, case: Case, pool: TeacherVotes, number: int, rows: np.ndarray, queries: np.ndarray) -> _Voted:
        ids, digest = query_ids(case.pool_x[rows]), case.config.digest()
        votes = pool.votes(rows, case.parties, digest, ids, len(case.classes))
        total, no_opinion = votes.sum(axis=0), np.zeros(votes.shape[1:])

        def noise_of(source: NoiseSource, lot: int) -> RowNoise:
            return RowNoise(self._config.mechanism, total, source, no_opinion, _seed(case.seed, number, lot, 1))

        others = [noise_of(SeededNoise(_seed(case.seed, number, lot, 0)), lot) for lot in range(1, LOTS + 1)]
        return _Voted(votes, total, queries, noise_of(noise_for(self._config)(number), 0), others)

    def _answers(self, drawn: list[Drawn], present: np.ndarray) -> ReleasedAnswers:
        """`present` bool (parties,): whose votes are in the sums."""
        labels = np.concatenate([draw.labels for draw in drawn])[self._at]
        counts = [draw.counts for draw in drawn if draw.counts is not None]
        votes = int(present.sum()) * self._config.teachers_per_party
        if not counts:
            answered = np.concatenate([draw.answered for draw in drawn])[self._at]
            step = self._config.label_step(int(present.sum()), votes)
            return ReleasedAnswers(self.rows, labels, Shares.of_labels(labels, answered, step))
        sigma = self._config.mechanism.count_sigma(int(present.sum()))
        deviation = np.full(len(labels), np.clip(sigma / votes, *DEVIATIONS))
        return ReleasedAnswers(self.rows, labels, Shares(np.concatenate(counts)[self._at] / votes, deviation))


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence([_RERUN_PURPOSE, *parts]).generate_state(1)[0])


METHOD = "pate"
_PURPOSE = 0x696E666C


def influence_rows(case: Case, ensemble: Ensemble, predicted: Predicted) -> list[Row]:
    """What changes without each party, as method "pate". Secret. Empty where its result `predicted` is absent.

    party: winners_flipped, rows of the pool whose plurality is another without it; labels_flipped, different queries
    that were asked whose label, or whether they have one, is another; labels_flipped_expected, the same in the mean
    over other noise; auc_change (accuracy_change where there are not two classes), the student's metric without the
    party less that with all, of parties whose student was trained, and 0 of those without whom no label changes.
    run: of each its mean and quantiles over parties and NAME_most (the largest, of changes the largest in size); of the
    first three the rank correlation with the party's rows (NAME_rows_correlation) and with its label distance
    (NAME_distance_correlation). students_trained: of how many parties; where that is not cheap, of the most influential
    and of as many by lot, and mean and quantiles of the change are of the latter. No change without test rows.
    group: "rows 1 of 4" to "rows 4 of 4", parties by their rows: the means.

    A mechanism that takes what the student thinks is followed only where the student asked all at once, with no opinion
    yet; else there is winners_flipped alone.
    """
    if predicted.absent or len(case.parties) < 2:
        return []
    figures = Figures(METHOD)
    flips = {"winners_flipped": winners_flipped(ensemble.pool, len(case.classes))}
    if len(predicted.arrays["asked_rows"]) and _can_be_followed(case):
        rerun = Rerun(case, ensemble.pool, predicted.arrays)
        flipped = np.array([rerun.flipped(party) for party in range(len(case.parties))])
        flips["labels_flipped"], flips["labels_flipped_expected"] = flipped[:, 0], flipped[:, 1]
        if len(case.test_y):
            _add_students(figures, case, rerun, flipped)
    counts = label_counts(case)
    generator = np.random.default_rng([case.seed, _PURPOSE])
    for metric, values in flips.items():
        figures.series("party", case.parties, metric, values)
        figures.spread(metric, values)
        figures.run(f"{metric}_most", values.max())
        figures.estimate(f"{metric}_rows_correlation", rank_correlation(values, counts.sum(axis=1), generator))
        figures.estimate(f"{metric}_distance_correlation", rank_correlation(values, label_distances(counts), generator))
        _add_groups(figures, counts.sum(axis=1), metric, values)
    return figures.rows


def winners_flipped(pool: TeacherVotes, classes: int) -> np.ndarray:
    """Rows whose plurality is another without each party, int64 (parties,); of equal sums the first class is it."""
    parties, _, rows = pool.cast.shape
    most, winner = np.full((parties + 1, rows), -1.0), np.zeros((parties + 1, rows), dtype=np.int64)
    for label in range(classes):
        shares = shares_for(pool, label).sum(axis=1, dtype=np.float64)
        total = shares.sum(axis=0)
        votes = np.concatenate([total - shares, total[None]]).round(DIGITS)
        more = votes > most
        most[more], winner[more] = votes[more], label
    return (winner[:-1] != winner[-1]).sum(axis=1)


def _can_be_followed(case: Case) -> bool:
    """Whether it is known what the student thought when it asked: nothing, where it asked all in one round."""
    return not case.config.mechanism.needs_probabilities or case.scenario.student.rounds == 1


def _add_students(figures: Figures, case: Case, rerun: Rerun, flipped: np.ndarray) -> None:
    """`flipped` float64 (parties, 2), see `Rerun.flipped`."""
    public = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
    learner = CurveLearner(public, case.scenario.student, case.seed)

    def metric(answers: ReleasedAnswers) -> float:
        return float(learner.scores(answers.first(len(answers.rows))).mean())

    changes = flipped[:, 0] > 0 if rerun.with_all.shares is None else np.ones(len(flipped), dtype=bool)
    influence = flipped.sum(axis=1)
    top, by_lot = _chosen(changes, influence, case, int((rerun.with_all.labels != NO_LABEL).sum()))
    before, change = metric(rerun.with_all), np.where(changes, np.nan, 0.0)
    trained = np.intersect1d(np.union1d(top, by_lot), np.flatnonzero(changes))
    for party in trained:
        change[party] = metric(rerun.without(party)) - before
    name = f"{learner.metric}_change"
    figures.run("students_trained", len(trained))
    figures.series("party", case.parties, name, change)
    figures.spread(name, change[by_lot])
    known = change[~np.isnan(change)]
    figures.run(f"{name}_most", known[np.abs(known).argmax()])
    if len(known) == len(change):
        _add_groups(figures, label_counts(case).sum(axis=1), name, change)


def _chosen(changes: np.ndarray, influence: np.ndarray, case: Case, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Parties whose students are trained, on about so many labels: the most influential of those where labels change,
    `changes` bool (parties,), and as many of all by lot; all, where that is cheap (`methods.manual_labels.effort`)."""
    spec, width = case.scenario.student, case.pool_x.shape[1]
    if spec.inputs != "features":
        width = case.config.rows.inputs(case.pool_x[:1]).shape[1]
    whole, parties = effort(spec.trainer, labels, width, len(case.classes), "full"), len(changes)
    draws = whole.draws if whole.bisected else 1  # minutes each
    if draws == MOST_DRAWS["full"] or parties <= 2 * draws:
        return np.arange(parties), np.arange(parties)
    order = np.argsort(-np.where(changes, influence, -1), kind="stable")
    return order[:draws], np.random.default_rng([case.seed, _PURPOSE, 1]).permutation(parties)[:draws]


def _add_groups(figures: Figures, rows: np.ndarray, metric: str, values: np.ndarray) -> None:
    groups = quarters(rows)
    for number, part in enumerate(groups, 1):
        figures.add("group", f"rows {number} of {len(groups)}", metric, values[part].mean())
