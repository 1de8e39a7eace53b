"""Whom the attacker looks for: a party, the worst that a party can be, and the worst record of those tried. And parties
that vote against the truth: what so many of them do to the student.

A lie that is a vote cannot be told from an opinion: it counts as one, and no clipping hides it. Under masks nothing
proves that a party sent votes at all: there one liar moves as many as it likes, within what the noise explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.models.evaluation import leading_metric, row_scores
from consilium.party.node import PartyNode
from consilium.party.voting import Lot, query_inputs, votes_of_teachers
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.noise import NoiseSource
from consilium.protocol.queries import query_set_hash
from consilium.simulations.divide import Case
from consilium.simulations.population.partition import Partition
from consilium.simulations.release import Replayed, replay
from consilium.simulations.teach import teach

TRIES = 30  # records that are tried in search of the worst


class NoNoise:
    """In place of the noise, for the run beside which each attack is played."""

    simulated = True

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)


@dataclass(frozen=True)
class Target:
    """name : for people. there, away : votes of all parties on the pool, int64 (pool, classes), with it and without it.
    Secret."""

    name: str
    unit: Unit
    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class _Counts:
    """Votes int64 (pool, classes) in the place of parties."""

    votes: np.ndarray

    def totals(self, rows: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        return self.votes[rows]


class AttackedRun:
    """The parties of a run, whose teachers can be trained again on other rows, and a student whose noise is chosen.
    votes : int64 (parties, pool, classes), of the run. rows : int64 (queries,), of the pool, what its student asked.
    Secret."""

    def __init__(self, case: Case, progress: Progress = no_progress) -> None:
        self.case = case
        x = case.pool_x
        self._inputs = query_inputs(case.config.rows, x, query_set_hash(x))
        self.votes = np.stack([self._votes(case.parties[index], node) for index, node in teach(case, progress)])
        self.rows = self.run(self.votes.sum(axis=0)).rows

    def run(self, votes: np.ndarray, noise: Callable[[int], NoiseSource] | None = None) -> Replayed:
        """The run on other votes int64 (pool, classes). noise : of each batch of queries; the run's own if None."""
        return replay(self.case, _Counts(votes), noise)

    def retrained(self, party: int, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Votes int64 (pool, classes) of this party if it had these rows of the data set, with these labels."""
        name, data, partition = self.case.parties[party], self.case.dataset, self.case.partition
        labels = data.y.copy()
        labels[rows] = y
        # nothing is laid out but its rows and a public one
        small = Partition({name: rows}, partition.queries[:1], partition.test[:1])
        changed = replace(self.case, dataset=replace(data, y=labels), partition=small)
        return next(self._votes(name, node) for _, node in teach(changed))

    def _votes(self, name: str, node: PartyNode) -> np.ndarray:
        federation = self.case.config.digest()
        lot = Lot(name, federation, self.case.pool_ids)
        labels = votes_of_teachers(node.teachers(federation), self._inputs, lot)
        return (labels[:, :, None] == np.arange(len(self.case.classes))).sum(axis=0).astype(np.int64)


def targets_of(attacked: AttackedRun, seed: int) -> list[Target]:
    """A party by lot, the worst party and the worst record; in their place others, or nobody, as is guaranteed."""
    case, generator = attacked.case, np.random.default_rng([seed, 0x61747461])
    alone = case.config.privacy.neighbouring is Neighbouring.ADD_OR_REMOVE
    total, data = attacked.votes.sum(axis=0), case.dataset
    party = int(generator.integers(len(case.parties)))
    mine = case.partition.parties[case.parties[party]]
    strangers = np.concatenate([rows for name, rows in case.partition.parties.items() if name != case.parties[party]])
    stand_ins = generator.choice(strangers, size=len(mine), replace=len(mine) > len(strangers))
    nobody = np.zeros_like(total)
    others = total - attacked.votes[party]
    instead = nobody if alone else attacked.retrained(party, stand_ins, data.y[stand_ins])
    targets = [Target("a party at random", Unit.PARTY, total, others + instead)]
    ranks = np.argsort(-total, axis=1, kind="stable")
    one_hot = np.eye(len(case.classes), dtype=np.int64) * case.config.teachers_per_party
    against, most = one_hot[ranks[:, 1]], one_hot[ranks[:, 0]]
    away = nobody if alone else most
    targets.append(Target("the worst party", Unit.PARTY, others + against, others + away))
    return [*targets, *_worst_record(attacked, total, alone, generator)]


def _worst_record(
    attacked: AttackedRun, total: np.ndarray, alone: bool, generator: np.random.Generator
) -> Sequence[Target]:
    """The record with a wrong label that moves most votes on what was asked, at the parties with few rows, whose
    teachers depend on each of them most; none where no party has two."""
    case, data = attacked.case, attacked.case.dataset
    several = [(len(rows), party) for party, rows in enumerate(case.partition.parties.values()) if len(rows) > 1]
    small = [party for _, party in sorted(several)[: max(len(several) // 3, 1)]]
    best, moved = list[Target](), -1
    for _ in range(TRIES if small else 0):
        party = int(generator.choice(small))
        mine = case.partition.parties[case.parties[party]]
        place = int(generator.integers(len(mine)))
        wrong = data.y[mine].copy()
        wrong[place] = (wrong[place] + 1 + generator.integers(len(case.classes) - 1)) % len(case.classes)
        there = attacked.retrained(party, mine, wrong)
        rest = np.delete(mine, place) if alone else mine
        away = attacked.retrained(party, rest, data.y[rest])
        moves = int(np.abs(there - away)[attacked.rows].sum())
        if moves > moved:
            others, moved = total - attacked.votes[party], moves
            best = [Target("the worst record", Unit.RECORD, others + there, others + away)]
    return best


SHARES = (0.0, 0.01, 0.05, 0.1, 0.2)  # of the parties that lie; at least one where it is not 0


@dataclass(frozen=True)
class Poisoned:
    """liars: of the parties. each: votes that one of them moves on a query; more than it has teachers only under masks
    (`secure`). moved: share of the queries where most votes are for another class than without the lie.
    metric, value: of the student on public test rows; None without any."""

    liars: int
    each: int
    moved: float
    metric: str
    value: float | None


def poisoned_students(attacked: AttackedRun, seed: int) -> list[Poisoned]:
    """Liars by lot vote on every query for the class that most parties take for the truth when they err. The last of
    them is alone, and under masks: it moves as many votes there as all parties have, away from the truth. The noise is
    the run's own each time, so that students differ by the lie alone."""
    case, votes = attacked.case, attacked.votes
    teachers, one_hot = case.config.teachers_per_party, np.eye(len(case.classes), dtype=np.int64)
    honest, truth = votes.sum(axis=0), one_hot[case.pool_y]
    lie = one_hot[np.where(truth, -1, honest).argmax(axis=1)]
    order = np.random.default_rng([seed, 0x6C696172]).permutation(len(votes))
    metric, results = leading_metric(case.test_y, len(case.classes)) if len(case.test_y) else "", list[Poisoned]()
    counts = dict.fromkeys(max(round(share * len(votes)), int(share > 0)) for share in SHARES)
    for count, each in [*((count, teachers) for count in counts), (1, teachers * len(votes))]:
        lied = honest - votes[order[:count]].sum(axis=0) + count * teachers * lie + (each - teachers) * (lie - truth)
        student = attacked.run(lied).student
        value = float(row_scores(student.predict_proba(case.test_x), case.test_y, metric).mean()) if metric else None
        moved = (lied.argmax(axis=1) != honest.argmax(axis=1))[attacked.rows].mean()
        results.append(Poisoned(count, each, float(moved), metric, value))
    return results
