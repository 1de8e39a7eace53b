"""Membership inference and poisoning: did this party, this record take part, and what do parties that lie do?

The attacker looks for a target: a party at random, the worst that a party can be, or the worst record of those tried.
It compares runs with the target and without it by likelihood ratios and, as the definition of differential privacy
has it, knows all other rows. One attacker holds what was released, and computes or learns how likely that is in either
run. The other holds the student alone, and learns from students that it trains itself what the target does to them
(LiRA, Carlini et al. 2022, arXiv 2112.03570): Gaussians of equal variance on the logits of the queries. Each plays on
the same run without noise too, where it must succeed, or its failure shows nothing.

A lie that is a vote cannot be told from an opinion: it counts as one, and no clipping hides it. Under masks nothing
proves that a party sent votes at all: there one liar moves as many as it likes, within what the noise explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.distinguish import LowerBound, Pair, Scores, games_needed, play, proved, share_of
from consilium.models.evaluation import leading_metric, row_scores
from consilium.party.node import PartyNode
from consilium.party.voting import Lot, query_inputs, votes_of_teachers
from consilium.protocol.digests import canonical_digest
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.queries import query_set_hash
from consilium.protocol.releases import ReleaseKind
from consilium.report.progress import MEMBERSHIP
from consilium.simulations.divide import Case
from consilium.simulations.population.partition import Partition
from consilium.simulations.release import Replayed, replay
from consilium.simulations.vote import teach

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
    """name : for people. there, away : counts of all parties' votes on the public rows, int64 (public rows, classes),
    with the target and without it. Secret."""

    name: str
    unit: Unit
    there: np.ndarray = field(repr=False)
    away: np.ndarray = field(repr=False)


class AttackedRun:
    """The parties of a run, whose teachers can be trained again on other rows, and a student whose noise is chosen.
    votes : int64 (parties, public rows, classes), of the run. rows : int64 (queries,), the public rows that its student
    asked. Secret."""

    def __init__(self, case: Case, progress: Progress = no_progress) -> None:
        self.case = case
        x = case.pool_x
        self._inputs = query_inputs(case.config.rows, x, query_set_hash(x))
        self.votes = np.stack([self._votes(case.parties[index], node) for index, node in teach(case, progress)])
        self.rows = self.run(self.votes.sum(axis=0)).rows

    def run(self, votes: np.ndarray, noise: Callable[[int], NoiseSource] | None = None) -> Replayed:
        """The run on other counts int64 (public rows, classes). noise : of each batch of queries; None: the run's."""
        return replay(self.case, votes, noise)

    def retrained(self, party: int, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Votes int64 (public rows, classes) of this party if it had these rows of the data set, so labelled."""
        name, data, partition = self.case.parties[party], self.case.dataset, self.case.partition
        labels = data.y.copy()
        labels[rows] = y
        # no other party is needed, and of the public rows one of each kind
        small = Partition({name: rows}, partition.queries[:1], partition.test[:1])
        changed = replace(self.case, dataset=replace(data, y=labels), partition=small)
        return next(self._votes(name, node) for _, node in teach(changed))

    def _votes(self, name: str, node: PartyNode) -> np.ndarray:
        federation = self.case.config.digest()
        lot = Lot(name, federation, self.case.pool_ids)
        labels = votes_of_teachers(node.teachers(federation), self._inputs, lot)
        return (labels[:, :, None] == np.arange(len(self.case.classes))).sum(axis=0).astype(np.int64)


def targets_of(attacked: AttackedRun, seed: int) -> list[Target]:
    """A party at random, the worst party and the worst record. Without it there are others in its place, or nobody, as
    the guarantee's relation says."""
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
    """The record with a wrong label that moves most votes on the queries, at parties with few rows, whose teachers
    depend most on each row; none where no party has two rows."""
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
    """Parties at random lie: on every query they vote for the wrong class that has most honest votes. The last case is
    one liar under masks: it moves as many votes as all parties have, from the true class to that one. The noise is the
    run's own each time, so that students differ by the lie alone."""
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


ERROR = 0.05
"""Probability that any lower bound on epsilon of a command is above a true guarantee, at most; divided among them."""
LEVELS = (0.001, 0.01)  # rates of false alarms at which the rate of right accusations is stated
RELEASED, STUDENT = "what was released", "the student"


@dataclass(frozen=True)
class MembershipAttack:
    """What one attack reached in so many games with the target, and as many without. found_without_noise: whether it
    tells the two apart where there is no noise. votes_moved: by the target, on the queries. Of scores above a limit
    chosen on other games, with an interval of 95 %: advantage, the share of targets found less that of false alarms;
    at_false_alarms, the share found at each of `LEVELS`, None where games are too few. epsilon_guaranteed: None without
    a guarantee. epsilon_at_least: None without a guarantee, and where fewer than `games_needed` were played, which is
    None where no number is enough."""

    target: str
    unit: Unit
    sees: str
    found_without_noise: bool
    games: int
    votes_moved: int
    advantage: tuple[float, float, float]
    at_false_alarms: dict[str, tuple[float, float, float] | None]
    epsilon_guaranteed: float | None
    epsilon_at_least: float | None
    games_needed: int | None

    @property
    def broken(self) -> bool:
        lower, guarantee = self.epsilon_at_least, self.epsilon_guaranteed
        return lower is not None and guarantee is not None and lower > guarantee

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "broken": self.broken}


def membership(
    attacked: AttackedRun, targets: Sequence[Target], games: int, students: int, seed: int,
    progress: Progress = no_progress,
) -> list[MembershipAttack]:  # fmt: skip
    """Attacks on every target, by what was released and by the student. games : how many, with the target and as many
    without, by what was released. students : likewise, each trained; the first third is learnt from."""
    plans = [(target, sees) for sees in (RELEASED, STUDENT) for target in targets]
    attacks, silent = list[MembershipAttack](), NoNoise()
    for number, (target, sees) in enumerate(plans):
        progress(MEMBERSHIP, number, len(plans))

        def noise(*purpose: int, number: int = number) -> NoiseSource:
            return SeededNoise(int(canonical_digest([seed, number, *purpose]), 16))

        if sees == RELEASED:
            scores, bare = (_by_release(attacked, target, *of) for of in ((games, noise()), (2, silent)))
        else:
            learn = students // 3
            # the two of a pair that is learnt from have the same noise, so that they differ by the target alone
            pairs = [(noise(game, 0), noise(game, int(game >= learn))) for game in range(students)]
            scores = _by_student(attacked, target, learn, pairs)
            bare = _by_student(attacked, target, 1, [(silent, silent)] * 2)
        attacks.append(_measured(attacked, target, sees, scores, bare, ERROR / len(plans)))
    progress(MEMBERSHIP, len(plans), len(plans))
    return attacks


def _by_release(attacked: AttackedRun, target: Target, games: int, noise: NoiseSource) -> Scores:
    """Scores of what a mechanism releases. One that takes the student's own probabilities is given zeros, as of a
    student that has no opinion yet: the guarantee holds for any."""
    config, rows = attacked.case.config, attacked.rows
    there, away = target.there[rows], target.away[rows]
    opinion = np.zeros(there.shape) if config.mechanism.needs_probabilities else None
    return play(
        config.mechanism, Pair(target.name, there, away, opinion, config.query_budget.answers), games, games, noise
    )


def _by_student(
    attacked: AttackedRun, target: Target, learn: int, noises: Sequence[tuple[NoiseSource, NoiseSource]]
) -> Scores:
    """Scores of students with the target and without it, by Fisher's discriminant of the first `learn` pairs. noises :
    of each pair."""
    rows = attacked.case.pool_x[attacked.rows]

    def logits(votes: np.ndarray, noise: NoiseSource) -> np.ndarray:
        logs = np.log(np.maximum(attacked.run(votes, lambda batch: noise).student.predict_proba(rows), 1e-9))
        return (logs - logs.mean(axis=1, keepdims=True))[:, 1:].ravel()

    there = np.stack([logits(target.there, noise) for noise, _ in noises])
    away = np.stack([logits(target.away, noise) for _, noise in noises])
    shift, off = (there - away)[:learn].mean(axis=0), away[:learn] - away[:learn].mean(axis=0)
    # (C + variance I)^-1 shift, C the covariance of few students in many directions
    variance = max(0.05 * float((off**2).sum()) / learn / min(learn, 30), 1e-12)
    inner = variance * learn * np.eye(learn) + off @ off.T
    weights = (shift - off.T @ np.linalg.solve(inner, off @ shift)) / variance
    return Scores((there[learn:] @ weights).round(9), (away[learn:] @ weights).round(9))


def _measured(
    attacked: AttackedRun, target: Target, sees: str, scores: Scores, bare: Scores, error: float
) -> MembershipAttack:
    config, games = attacked.case.config, len(scores.there)
    guarantee, lower, needed = guarantee_for(config, target.unit), None, None
    if guarantee is not None:
        bound = LowerBound(config.privacy.delta, error, config.mechanism.count_sigma > 0)
        needed = games_needed(guarantee, bound)
        lower = proved(scores, bound) if needed is not None and games >= needed else None
    chosen, rest = scores.halves()

    def above(limit: float) -> tuple[tuple[int, int], tuple[int, int]]:
        there, away = ((int((part > limit).sum()), len(part)) for part in (rest.there, rest.away))
        return there, away

    falsely, limits = np.sort(chosen.away)[::-1], np.unique(np.concatenate([chosen.there, chosen.away]))
    shares = [np.searchsorted(np.sort(part), limits, side="right") / len(part) for part in (chosen.away, chosen.there)]
    places = {f"{level:g}": int(level * len(falsely)) for level in LEVELS}
    # a limit above which there are no more false alarms than the level allows
    levels = {level: share_of(*above(float(falsely[place]))[0]) if place else None for level, place in places.items()}
    found, moved = bool(bare.there.min() > bare.away.max()), np.abs(target.there - target.away)[attacked.rows]
    hits, alarms = above(float(limits[np.argmax(shares[0] - shares[1])]))
    (most, *of_most), (alarmed, *of_alarmed) = share_of(*hits, 0.025), share_of(*alarms, 0.025)
    advantage = most - alarmed, of_most[0] - of_alarmed[1], of_most[1] - of_alarmed[0]
    return MembershipAttack(
        target.name, target.unit, sees, found, games, int(moved.max(axis=1).sum()), advantage, levels, guarantee, lower,
        needed,
    )  # fmt: skip


def guarantee_for(config: FederationConfig, unit: Unit) -> float | None:
    """Epsilon of the query budget for this unit towards the student and everybody; None where none is given."""
    events = [replace(event, unit=unit) for event in config.promised_events()]
    if config.disclosure.release is not ReleaseKind.COUNTS:
        events = [replace(event, towards=Towards.STUDENT) for event in events]
    epsilon = worst_case(events, config.privacy.delta).epsilon
    return epsilon if math.isfinite(epsilon) else None
