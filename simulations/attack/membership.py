"""Was this party, this record in it? Likelihood ratios over runs with the target and without it.

The attacker is the one of the definition: it knows all other rows. One holds what was released, and computes or learns
the ratio of its law. The other holds the student alone, and learns on shadow students what the target does to them
(LiRA, Carlini et al. 2022, arXiv 2112.03570): Gaussians of equal variance on the logits of the queries. Each plays on
the same run without noise too, where it must succeed, or its failure shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from consilium.accounting.target import worst_case
from consilium.accounting.units import Towards, Unit
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.distinguish.game import LowerBound, Pair, Scores, games_needed, play, proved, share_of
from consilium.protocol.digests import canonical_digest
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.noise import NoiseSource, SeededNoise
from consilium.protocol.releases import ReleaseKind
from consilium.report.progress import MEMBERSHIP
from consilium.simulations.attack.targets import AttackedRun, NoNoise, Target

ERROR = 0.05
"""Probability that any bound on epsilon of one command is above a true guarantee, at most: shared out among them."""
LEVELS = (0.001, 0.01)
"""Rates of false alarms at which the rate of right accusations is stated."""
RELEASED, STUDENT = "what was released", "the student"


@dataclass(frozen=True)
class Accusations:
    """Of scores above a limit that was chosen on other games: the share of targets found, of false alarms, and their
    difference; each with an interval of 95 %."""

    found: tuple[float, float, float]
    false_alarms: tuple[float, float, float]
    advantage: tuple[float, float, float]

    @classmethod
    def above(cls, limit: float, scores: Scores) -> Accusations:
        hits, alarms = ((int((part > limit).sum()), len(part)) for part in (scores.there, scores.away))
        (found, low, high), (falsely, least, most) = share_of(*hits, 0.025), share_of(*alarms, 0.025)
        return cls(share_of(*hits), share_of(*alarms), (found - falsely, low - most, high - least))


@dataclass(frozen=True)
class MembershipAttack:
    """What one attack reached in so many games of each world.

    found_without_noise: whether it tells the worlds apart there. votes_moved: by the target, on the queries. best:
    where the advantage is largest. at_false_alarms: see `LEVELS`; None where games are too few. epsilon_guaranteed:
    None where none is. epsilon_at_least: None without a guarantee, and where fewer than `games_needed` were played,
    which is None where no number is enough.
    """

    target: str
    unit: Unit
    sees: str
    found_without_noise: bool
    games: int
    votes_moved: int
    best: Accusations
    at_false_alarms: dict[str, Accusations | None]
    epsilon_guaranteed: float | None
    epsilon_at_least: float | None
    games_needed: int | None

    @property
    def broken(self) -> bool:
        """Whether it refutes the guarantee."""
        lower, guarantee = self.epsilon_at_least, self.epsilon_guaranteed
        return lower is not None and guarantee is not None and lower > guarantee

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "broken": self.broken}


def membership(
    attacked: AttackedRun,
    targets: Sequence[Target],
    games: int,
    students: int,
    seed: int,
    progress: Progress = no_progress,
) -> list[MembershipAttack]:
    """Every target, by what was released and by the student.

    games : of each world, where all that is drawn is noise. students : that are trained in each world, of which the
    first third is learnt from.
    """
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
            # shadows of both worlds have the same noise, so that what the target does is seen alone
            pairs = [(noise(game, 0), noise(game, int(game >= learn))) for game in range(students)]
            scores = _by_student(attacked, target, learn, pairs)
            bare = _by_student(attacked, target, 1, [(silent, silent)] * 2)
        attacks.append(_measured(attacked, target, sees, scores, bare, ERROR / len(plans)))
    progress(MEMBERSHIP, len(plans), len(plans))
    return attacks


def _by_release(attacked: AttackedRun, target: Target, games: int, noise: NoiseSource) -> Scores:
    """A mechanism that takes what the student thinks is asked by one who has no opinion, as a student has none at
    first: any opinion is within the guarantee."""
    config, rows = attacked.case.config, attacked.rows
    there, away = target.there[rows], target.away[rows]
    opinion = np.zeros(there.shape) if config.mechanism.needs_probabilities else None
    return play(
        config.mechanism, Pair(target.name, there, away, opinion, config.query_budget.answers), games, games, noise
    )


def _by_student(
    attacked: AttackedRun, target: Target, learn: int, noises: Sequence[tuple[NoiseSource, NoiseSource]]
) -> Scores:
    """Of students with the target and without it, by Fisher's discriminant of the first `learn` of each. noises : of
    each pair of them."""
    rows = attacked.case.pool_x[attacked.rows]

    def logits(votes: np.ndarray, noise: NoiseSource) -> np.ndarray:
        logs = np.log(np.maximum(attacked.run(votes, lambda batch: noise).student.predict_proba(rows), 1e-9))
        return (logs - logs.mean(axis=1, keepdims=True))[:, 1:].ravel()

    there = np.stack([logits(target.there, noise) for noise, _ in noises])
    away = np.stack([logits(target.away, noise) for _, noise in noises])
    shift, off = (there - away)[:learn].mean(axis=0), away[:learn] - away[:learn].mean(axis=0)
    # (C + variance I)^-1 shift, C the covariance of few shadows in many directions
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
    falsely, limits = np.sort(chosen.away)[::-1], np.unique(np.concatenate([chosen.there, chosen.away]))
    shares = [np.searchsorted(np.sort(part), limits, side="right") / len(part) for part in (chosen.away, chosen.there)]
    levels = {f"{level:g}": int(level * len(falsely)) for level in LEVELS}
    return MembershipAttack(
        target=target.name,
        unit=target.unit,
        sees=sees,
        found_without_noise=bool(bare.there.min() > bare.away.max()),
        games=games,
        votes_moved=int(np.abs(target.there - target.away)[attacked.rows].max(axis=1).sum()),
        best=Accusations.above(float(limits[np.argmax(shares[0] - shares[1])]), rest),
        # the lowest score that does not pass the level
        at_false_alarms={
            level: Accusations.above(float(falsely[place]), rest) if place else None for level, place in levels.items()
        },
        epsilon_guaranteed=guarantee,
        epsilon_at_least=lower,
        games_needed=needed,
    )


def guarantee_for(config: FederationConfig, unit: Unit) -> float | None:
    """Epsilon of the query budget for this unit towards the student and everybody; None where none is given."""
    events = [replace(event, unit=unit) for event in config.promised_events()]
    if config.disclosure.release is not ReleaseKind.COUNTS:
        events = [replace(event, towards=Towards.STUDENT) for event in events]
    epsilon = worst_case(events, config.privacy.delta).epsilon
    return epsilon if math.isfinite(epsilon) else None
