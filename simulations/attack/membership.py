"""Was this record, this patient, this party in it? Likelihood ratios over federations with and without the target.

Three observers: who holds what was released (the student, and everybody it shows it to); who holds the student's model
alone; the coordinator, who sees of the votes what their collection shows it. Each is an attacker who knows only where
such rows come from, and makes shadow federations of its own (LiRA, Carlini et al. 2022, arXiv 2112.03570), and one
who knows all other rows (insider), which is what differential privacy is about.

What can be computed is not estimated: the noise is public, so the ratio of a release is that of its own law, at the
votes of shadows that have no noise on them. For a student, and for votes that nobody has put noise on, the ratio is
that of Gaussians of equal variance, fitted on shadows (Fisher's linear discriminant). A poor ratio makes an attack
weak, never a bound wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr

from consilium.accounting.target import worst_case
from consilium.accounting.units import Towards, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.mechanisms.base import Drawn, Mechanism
from consilium.node.progress import MEMBERSHIP
from consilium.protocol.digests import canonical_digest
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.releases import ReleaseKind
from consilium.simulations.attack.bounds import AttackScores, Detection, ProvedEpsilon, detections, proved_epsilon
from consilium.simulations.attack.shadows import (
    Games,
    Shadows,
    Target,
    outcome_shares,
    typical_parties,
    typical_records,
    with_copies,
    worst_party,
    worst_record,
)
from consilium.simulations.divide import Case
from consilium.simulations.release import replay

ERROR = 0.05
"""Probability that any bound of a laboratory is above a true promise, at most: shared out among all of them."""
TYPICAL = 4
"""Targets of each kind that are drawn by lot."""
_LEARNT = 1000
"""Shadows without noise on which ratios are fitted."""
_POINTS = 41
"""Of the sum over the noise on the winner's count."""


class NoNoise:
    """In place of the noise, for the federation beside which each attack is played."""

    simulated = True

    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.gaussian`."""
        return np.zeros(shape, dtype=np.int64)

    def laplace(self, gamma: float, shape: tuple[int, ...]) -> np.ndarray:
        """See `NoiseSource.laplace`."""
        return np.zeros(shape, dtype=np.int64)


@dataclass(frozen=True)
class MembershipAttack:
    """What one attack reached. target, unit: see `Target`. knows: "where rows come from" or "all other rows". noise:
    whether there was any. promise: epsilon at delta towards this observer for this unit; None where nothing is
    promised, or there is no noise. games: of each world. detected, proved: see `bounds`. moved: votes that the target
    moves in the mean, of so many queries."""

    target: str
    unit: Unit
    observer: str
    knows: str
    noise: bool
    promise: float | None
    games: int
    detected: tuple[Detection, ...] = field(repr=False)
    proved: ProvedEpsilon
    moved: float
    queries: int
    seconds: float

    @property
    def bound(self) -> float:
        """The larger of both bounds."""
        return max(self.proved.exact, self.proved.gaussian or 0.0)

    @property
    def broken(self) -> bool:
        """Whether it refutes the promise."""
        return self.promise is not None and self.bound > self.promise

    def to_json(self) -> dict[str, Any]:
        """Plain values; `interval` of 95 % beside each share, `level` the rate of false alarms that was aimed at."""
        return {
            "unit": self.unit.value,
            "target": self.target,
            "observer": self.observer,
            "knows": self.knows,
            "noise": self.noise,
            "games": self.games,
            "votes_moved": self.moved,
            "queries": self.queries,
            "detected": [
                {
                    "level": one.level,
                    "share": one.hits.share,
                    "interval": one.hits.interval(),
                    "false_alarms": one.alarms.share,
                    "alarms_interval": one.alarms.interval(),
                }
                for one in self.detected
            ],
            "epsilon_at_least": self.proved.exact,
            "epsilon_at_least_gaussian": self.proved.gaussian,
            "epsilon_promised": self.promise,
            "ratio": self.bound / self.promise if self.promise else None,
            "broken": self.broken,
            "seconds": round(self.seconds, 2),
        }


def promise_for(config: FederationConfig, unit: Unit, coordinator: bool) -> float | None:
    """Epsilon of the query budget for this unit towards the student and everybody, or towards the coordinator; None
    where nothing is promised."""
    if coordinator:
        if not config.noise_in_sums:
            return None
        events = config.held_to()
    else:
        events = config.promised_events()
        if config.disclosure.release is not ReleaseKind.COUNTS:
            events = [replace(event, towards=Towards.STUDENT) for event in events]
    epsilon = worst_case([replace(event, unit=unit) for event in events], config.privacy.delta).epsilon
    return epsilon if math.isfinite(epsilon) else None


class Observer(Protocol):
    """Sees something of a federation, and says how likely that is with the target in it.

    name: for people. gaussian: whether what it sees is Gaussian noise on counts.
    """

    name: str
    gaussian: bool

    def fit(self, shadows: Shadows, target: Target, insider: bool, noise: bool, purpose: int) -> None:
        """Learn on shadows, of which none is played again."""
        ...

    def scores(self, games: Games, world: int, seed: int, noise: bool) -> np.ndarray:
        """float64 (games,) of federations without the target (world 0) or with it (1): high where it seems to be
        there."""
        ...


class ReleaseObserver:
    """Holds what was released: noisy counts, or labels and abstentions."""

    name = "what was released"

    def __init__(self, case: Case) -> None:
        self._mechanism: Mechanism = case.config.mechanism
        self._answers = case.config.query_budget.answers
        self._sigma = self._mechanism.count_sigma(case.config.givers(len(case.parties)))
        self.gaussian = self._mechanism.releases is ReleaseKind.COUNTS

    def fit(self, shadows: Shadows, target: Target, insider: bool, noise: bool, purpose: int) -> None:
        """See `Observer.fit`."""
        away, there = _clean(shadows, target, insider)
        if self.gaussian:
            self._line = _line(away, there, self._sigma if noise else 0.0)
        else:
            self._ratio = _label_ratio(self._mechanism if noise else None, away, there)

    def scores(self, games: Games, world: int, seed: int, noise: bool) -> np.ndarray:
        """See `Observer.scores`."""
        votes = games.votes[:, world]
        drawn = drawn_on(self._mechanism, votes.reshape(-1, votes.shape[2]), SeededNoise(seed) if noise else NoNoise())
        if drawn.counts is not None:
            return self._line.scores(drawn.counts.reshape(votes.shape))
        labels = drawn.labels.reshape(votes.shape[:2])
        answered = labels != NO_LABEL
        unasked = np.cumsum(answered, axis=1) - answered >= self._answers
        ratios = self._ratio[np.arange(votes.shape[1]), np.where(answered, labels, votes.shape[2])]
        return np.where(unasked, 0.0, ratios).sum(axis=1)


class CoordinatorObserver:
    """Sees of the votes what their collection shows it: each party's own, their exact sums, or noisy sums."""

    def __init__(self, case: Case) -> None:
        config = case.config
        self._alone, self._sigma, self.gaussian = config.collection == "plaintext", 0.0, config.noise_in_sums
        self.name = "coordinator: exact sums"
        if self._alone:
            self.name = "coordinator: each party's votes"
        elif config.noise_in_sums:
            self.name = "coordinator: noisy sums"
            drawn = config.node_event(0, 0).party_noise(1)
            # of givers that are sure to be honest: it may know the rest
            self._sigma = 0.0 if drawn is None else drawn.sigma

    def fit(self, shadows: Shadows, target: Target, insider: bool, noise: bool, purpose: int) -> None:
        """See `Observer.fit`."""
        if self._alone:
            self._ratio = _vote_ratio(target, insider)
        else:
            self._line = _line(*_clean(shadows, target, insider), self._sigma if noise else 0.0)

    def scores(self, games: Games, world: int, seed: int, noise: bool) -> np.ndarray:
        """See `Observer.scores`."""
        if self._alone:
            return (games.alone[:, world] * self._ratio).sum(axis=(1, 2))
        votes = games.votes[:, world]
        if self._sigma and noise:
            votes = votes + SeededNoise(seed).gaussian(self._sigma, votes.shape)
        return self._line.scores(votes)


class StudentObserver:
    """Holds the student's model, and asks it about the queries and about the target's rows. pairs: of students to learn
    from."""

    name = "the student's model"
    gaussian = False

    def __init__(self, case: Case, pairs: int) -> None:
        self._case, self._pairs = case, pairs

    def fit(self, shadows: Shadows, target: Target, insider: bool, noise: bool, purpose: int) -> None:
        """See `Observer.fit`."""
        self._rows = shadows.rows
        self._asked = np.concatenate([self._case.pool_x[shadows.rows], target.x[:_TARGET_ROWS]])
        pairs = []
        for games in shadows.games(target, self._pairs, insider, purpose):
            for votes in games.votes:
                # the same noise in both worlds, so that what the target does to the student is seen alone
                pairs.append(np.stack([self._outputs(world, (purpose, len(pairs)), noise) for world in votes]))
        self._line = _discriminant(np.stack(pairs))

    def scores(self, games: Games, world: int, seed: int, noise: bool) -> np.ndarray:
        """See `Observer.scores`."""
        votes = games.votes[:, world]
        if not noise and (votes == votes[0]).all():  # the same student each time
            return np.repeat(self._line.scores(self._outputs(votes[0], (seed,), noise)[None]), len(votes))
        outputs = [self._outputs(histogram, (seed, number), noise) for number, histogram in enumerate(votes)]
        return self._line.scores(np.stack(outputs))

    def _outputs(self, votes: np.ndarray, seed: Sequence[int], noise: bool) -> np.ndarray:
        """Centred log probabilities float64 (rows, classes - 1) of the student that learns from these votes."""
        noise_of = partial(_noise_of, seed) if noise else _no_noise
        student = replay(self._case, OnRows(self._rows, votes), noise_of).student
        logs = np.log(np.maximum(student.predict_proba(self._asked), 1e-9))
        return (logs - logs.mean(axis=1, keepdims=True))[:, 1:]


STUDENT = "student"
CHOOSES, COPIES = ", and chooses the queries", ", and adds copies to the public rows"
OBSERVERS = ("release", "coordinator", STUDENT)
_TARGET_ROWS = 16
"""Of a target that the student is asked about, at most."""


def _noise_of(seed: Sequence[int], batch: int) -> NoiseSource:
    return SeededNoise(int(canonical_digest([*seed, batch]), 16))


def _no_noise(batch: int) -> NoiseSource:
    return NoNoise()


@dataclass(frozen=True)
class OnRows:
    """Votes (queries, classes) on these rows of the pool."""

    rows: np.ndarray
    votes: np.ndarray

    def totals(self, rows: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
        """See `VoteTotals`. A row that was not asked before has no votes here, and is asked by nobody."""
        order = np.argsort(self.rows)
        return self.votes[order[np.searchsorted(self.rows, rows, sorter=order)]]


@dataclass(frozen=True)
class _Line:
    """A linear statistic, 0 halfway between both worlds."""

    weights: np.ndarray = field(repr=False)
    middle: float

    def scores(self, values: np.ndarray) -> np.ndarray:
        """float64 (games,) of values (games, ...)."""
        return np.tensordot(values, self.weights, axes=self.weights.ndim) - self.middle


def _clean(shadows: Shadows, target: Target, insider: bool) -> tuple[np.ndarray, np.ndarray]:
    """Votes float64 (shadows, queries, classes) without noise, without the target and with it."""
    count = 1 if insider else _LEARNT
    votes = np.concatenate([games.votes for games in shadows.games(target, count, insider, 12)]).astype(np.float64)
    return votes[:, 0], votes[:, 1]


def _line(away: np.ndarray, there: np.ndarray, sigma: float) -> _Line:
    """The likelihood ratio of counts with Gaussian noise of deviation `sigma` on each, votes taken as Gaussian."""
    flat = away.reshape(len(away), -1)
    shift, middle = (there - away).mean(axis=0).ravel(), (there + away).mean(axis=0).ravel() / 2
    # exact counts have directions of no variance at all, which a finite number of shadows says little about
    weights = _solved(flat - flat.mean(axis=0), shift, max(sigma**2, 0.05))
    return _Line(weights.reshape(away.shape[1:]), float(weights @ middle))


def _solved(off: np.ndarray, shift: np.ndarray, variance: float) -> np.ndarray:
    """(C + variance I)^-1 shift, C the covariance of the centred rows `off` (n, d), of rank n at most."""
    n = len(off)
    inner = variance * n * np.eye(n) + off @ off.T
    return (shift - off.T @ np.linalg.solve(inner, off @ shift)) / variance


def _discriminant(pairs: np.ndarray) -> _Line:
    """Of outputs float64 (pairs, 2, rows, classes - 1) of students, in the few directions in which they vary."""
    away, there = pairs[:, 0].reshape(len(pairs), -1), pairs[:, 1].reshape(len(pairs), -1)
    shift, middle = (there - away).mean(axis=0), (there + away).mean(axis=0) / 2
    off = away - away.mean(axis=0)
    variance = max(0.05 * float((off**2).sum()) / max(len(off), 1) / max(min(len(off), 30), 1), 1e-12)
    weights = _solved(off, shift, variance)
    return _Line(weights.reshape(pairs.shape[2:]), float(weights @ middle))


def _label_ratio(mechanism: Mechanism | None, away: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Log ratio float64 (queries, classes + 1) of each label, and of none, averaged over shadows (shadows, queries,
    classes); mechanism: None where there is no noise."""
    laws = []
    for votes in (away, there):
        summed = np.zeros((votes.shape[1], votes.shape[2] + 1))
        for histogram in votes[:: max(len(votes) // 250, 1)]:
            summed += outcome_law(mechanism, histogram)
        laws.append(summed / summed.sum(axis=1, keepdims=True))
    floor = 1e-6 if mechanism is not None else 0.5 / (len(away) + 1)
    return np.log(laws[1] + floor) - np.log(laws[0] + floor)


def drawn_on(mechanism: Mechanism, votes: np.ndarray, noise: NoiseSource) -> Drawn:
    """What a mechanism releases at votes (queries, classes). One that takes what the student thinks is asked by an
    attacker who has no opinion, as a student has none at first: any opinion is within the guarantee."""
    return mechanism.draw(votes, noise, np.zeros(votes.shape) if mechanism.needs_probabilities else None)


def outcome_law(mechanism: Mechanism | None, votes: np.ndarray) -> np.ndarray:
    """Probability float64 (queries, classes + 1) of each label, and of none, at votes (queries, classes): Gaussian or
    Laplace noise on each count, after a check of the largest where there is one. What two rounds have in common is
    left out.

    >>> from consilium.coordinator.mechanisms import GNMax
    >>> outcome_law(GNMax(sigma=10), np.array([[5, 5], [15, 5]])).round(3).tolist()
    [[0.5, 0.5, 0.0], [0.76, 0.24, 0.0]]
    """
    votes = np.asarray(votes, dtype=np.float64)
    sigma = None if mechanism is None else mechanism.label_noise(int(max(votes.sum(axis=1).max(), 1)))
    if not sigma:
        winner = np.eye(votes.shape[1])[votes.argmax(axis=1)]
        passed = np.ones(len(votes))
    else:
        z = np.linspace(-5, 5, _POINTS)
        weights = np.exp(-(z**2) / 2)
        above = ndtr((votes[:, :, None, None] - votes[:, None, :, None]) / sigma + z)
        beaten = [np.delete(above[:, place], place, axis=1).prod(axis=1) for place in range(votes.shape[1])]
        winner = (np.stack(beaten, axis=1) * weights).sum(axis=2)
        winner /= winner.sum(axis=1, keepdims=True)
        threshold, check = getattr(mechanism, "threshold", None), getattr(mechanism, "sigma1", None)
        passed = np.ones(len(votes))
        if threshold is not None:
            passed = ndtr((votes.max(axis=1) - threshold) / (check or sigma))
    return np.concatenate([winner * passed[:, None], 1 - passed[:, None]], axis=1)


def _vote_ratio(target: Target, insider: bool) -> np.ndarray:
    """Log ratio float64 (queries, classes) of one vote of the party, by the halves it may have been trained on."""
    votes = target.whole[None] if insider else target.halves
    shares = votes.mean(axis=0) + 0.5 / (len(votes) + 1)
    shares /= shares.sum(axis=2, keepdims=True)
    return np.log(shares[1]) - np.log(shares[0])


@dataclass(frozen=True)
class _Plan:
    """One attack: on these targets, which are of one kind, by this observer. does: what the attacker does besides."""

    shadows: Shadows = field(repr=False)
    targets: list[Target] = field(repr=False)
    observer: str
    insider: bool
    noise: bool
    does: str = ""

    @property
    def knows(self) -> str:
        """What the attacker knows, and what else it may do."""
        return ("all other rows" if self.insider else "where rows come from") + self.does


def membership(
    shadows: Shadows,
    everything: Shadows,
    budget: float,
    games: int = 4000,
    progress: Progress = no_progress,
    units: Sequence[Unit] = tuple(Unit),
    observers: Sequence[str] = OBSERVERS,
) -> list[MembershipAttack]:
    """All attacks of this kind: every target, observer and knowledge, with and without noise.

    everything : the same federation on the whole pool, without halves, for an attacker who chooses the queries.
    budget : processor seconds in all; students, which are trained for each game, get what is left, and are not attacked
        if nothing is. games : with and
        without the target, of attacks that train nothing; ten times as many where all that is drawn is noise.
    observers : which of `OBSERVERS` attack. Without halves only those attack who know all other rows.
    """
    began, case = time.process_time(), shadows.case
    # students last: they get what time is left
    plans = sorted(_plans(shadows, everything, units, observers), key=lambda plan: plan.observer == STUDENT)
    # a share of the error for each bound on something promised, of which there are two kinds
    error = ERROR / (2 * sum(plan.noise for plan in plans))
    results = []
    for number, plan in enumerate(plans):
        progress(MEMBERSHIP, number, len(plans))
        start = time.process_time()
        if plan.observer == STUDENT and start - began >= budget:
            break
        if plan.observer == STUDENT:
            waiting = sum(_takes_time(other) for other in plans[number:])
            scores = _by_student(plan, max(budget - (start - began), 0.0) / max(waiting, 1), games)
            observer: Observer = StudentObserver(case, 0)
        else:
            observer = _OBSERVERS[plan.observer](case)
            count = 10 * games if plan.insider and plan.noise else games
            scores = _played(plan, observer, max(count // len(plan.targets), 2))
        results.append(_measured(plan, observer, scores, error, time.process_time() - start))
    progress(MEMBERSHIP, len(plans), len(plans))
    return results


_OBSERVERS: dict[str, Callable[[Case], Observer]] = {"release": ReleaseObserver, "coordinator": CoordinatorObserver}


def _plans(shadows: Shadows, everything: Shadows, units: Sequence[Unit], observers: Sequence[str]) -> Iterator[_Plan]:
    groups = targets_of(shadows, units)
    exact = not shadows.case.config.noise_in_sums
    for targets in groups:
        for observer in observers:
            for insider in (True, False) if len(shadows.halves) else (True,):
                noises = (True,) if observer == "coordinator" and exact else (True, False)
                yield from (_Plan(shadows, targets, observer, insider, noise) for noise in noises)
    for unit in (Unit.RECORD, Unit.PARTY):
        if unit in units and "release" in observers:
            chosen, target = with_chosen_queries(everything, shadows.queries, unit)
            yield from (_Plan(chosen, [target], "release", True, noise, CHOOSES) for noise in (True, False))
    if Unit.RECORD in units:
        poisoned, target = with_copies(everything, shadows.rows)
        for observer in observers:
            if observer != "coordinator":
                yield from (_Plan(poisoned, [target], observer, True, noise, COPIES) for noise in (True, False))


def targets_of(shadows: Shadows, units: Sequence[Unit]) -> list[list[Target]]:
    """Groups of targets: typical ones, and the worst that a search finds. Patients where they have several rows."""
    data, groups = shadows.case.dataset, list[list[Target]]()
    if Unit.RECORD in units:
        groups += [typical_records(shadows, TYPICAL), [worst_record(shadows)]]
    if Unit.PATIENT in units and data.patient is not None and len(np.unique(data.patient)) < len(data.patient):
        groups.append(typical_records(shadows, TYPICAL, Unit.PATIENT))
    if Unit.PARTY in units:
        groups += [typical_parties(shadows, TYPICAL), [worst_party(shadows)], outcome_shares(shadows, TYPICAL)]
    return [targets for targets in groups if targets]


def _takes_time(plan: _Plan) -> bool:
    """Whether students are trained for each game: of a federation without noise and without luck they are all the
    same."""
    return plan.observer == STUDENT and (plan.noise or not plan.insider)


def _played(plan: _Plan, observer: Observer, count: int) -> np.ndarray:
    """Scores float64 (2, games), `count` games of each target, by turns."""
    scores = []
    for place, target in enumerate(plan.targets):
        observer.fit(plan.shadows, target, plan.insider, plan.noise, 11)
        played: list[list[np.ndarray]] = [[], []]
        for part, games in enumerate(plan.shadows.games(target, count, plan.insider, 21)):
            for world in (0, 1):
                seed = int(np.random.SeedSequence([plan.shadows.seed, place, part, world]).generate_state(1)[0])
                played[world].append(observer.scores(games, world, seed, plan.noise))
        scores.append([np.concatenate(world) for world in played])
    return np.array(scores).transpose(1, 2, 0).reshape(2, -1).round(9)


def _by_student(plan: _Plan, seconds: float, games: int) -> np.ndarray:
    """As many games as there is time for; a quarter of it goes into what is learnt from."""
    case, count = plan.shadows.case, len(plan.targets)
    if not _takes_time(plan):
        return _played(plan, StudentObserver(case, 2), max(games // count, 2))
    start = time.process_time()
    StudentObserver(case, 2).fit(plan.shadows, plan.targets[0], plan.insider, plan.noise, 13)
    pairs = int(np.clip(seconds / ((time.process_time() - start) / 2) / count, 4, 1600))
    return _played(plan, StudentObserver(case, max(pairs // 4, 4)), max(3 * pairs // 4, 4))


def _measured(plan: _Plan, observer: Observer, scores: np.ndarray, error: float, seconds: float) -> MembershipAttack:
    config, unit = plan.shadows.case.config, plan.targets[0].unit
    of_games = AttackScores(scores[1], scores[0])
    return MembershipAttack(
        target=plan.targets[0].name,
        unit=unit,
        observer=observer.name,
        knows=plan.knows,
        noise=plan.noise,
        promise=promise_for(config, unit, isinstance(observer, CoordinatorObserver)) if plan.noise else None,
        games=scores.shape[1],
        detected=detections(of_games),
        proved=proved_epsilon(of_games, config.privacy.delta, error, observer.gaussian and plan.noise),
        moved=float(np.mean([target.moved for target in plan.targets])),
        queries=plan.shadows.queries,
        seconds=seconds,
    )


def with_chosen_queries(everything: Shadows, queries: int, unit: Unit) -> tuple[Shadows, Target]:
    """The worst record or party where the attacker chooses which public rows are asked, as many as before: those on
    which the target moves votes, and of these the ones on which the parties disagree most. everything : of the whole
    pool."""
    worst = worst_record if unit is Unit.RECORD else worst_party
    target = worst(everything)
    moved = np.abs(target.whole[1] - target.whole[0]).sum(axis=1)
    ranked = np.sort(everything.whole.sum(axis=0, dtype=np.int64), axis=1)
    lead = ranked[:, -1] - ranked[:, -2]
    rows = np.sort(np.lexsort((lead, -moved))[:queries])
    return everything.on(rows), target.on(rows)


def asked_rows(everything: Shadows) -> np.ndarray:
    """int64, of the pool, what the federation's student asks, in its order. everything : of the whole pool."""
    votes = everything.whole.sum(axis=0, dtype=np.int64)
    return replay(everything.case, OnRows(everything.rows, votes)).rows
