"""Change one record after another, train anew, count the votes that move, and play for the worst change.

Two findings refute a claim. The number of votes that moved is exact: one change that moves more than
`units.votes_moved` is a counterexample. The distinguishing game of `coordinator.distinguish` then says what that
is worth: it is played on the votes that this change moved, with the votes of all other parties chosen so that the two
classes concerned are nearly tied, as an adversary who controls the other parties could.
"""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.distinguish import GameSetup, MechanismAudit, Pair, audit_mechanism
from consilium.coordinator.mechanisms.base import Mechanism
from consilium.party.home import Home
from consilium.protocol.errors import ConfigError
from consilium.protocol.labels.service import Progress, no_progress
from consilium.protocol.noise import NoiseSource
from consilium.protocol.progress.stages import CHANGES, GAME, stage
from consilium.simulations.teacher_audit.neighbours import ChangeKind, neighbours, units_of
from consilium.simulations.teacher_audit.row_files import open_rows
from consilium.simulations.teacher_audit.teachers import AuditedParty, Predictions

PLAYABLE = ("gnmax", "lnmax", "confident", "distributed", "distributed_two_phase")
"""Mechanisms that leak most at a tie, which is what the game plays."""


@dataclass(frozen=True)
class AuditEffort:
    """How an audit is made. changes : data sets that are tried. queries, runs, confidence : of the game, at most so
    many queries of those asked, the ones on which most votes moved. seed : of all choices; noise has its own."""

    unit: Unit
    neighbouring: Neighbouring
    changes: int = 200
    queries: int = 100
    runs: int = 20_000
    confidence: float = 0.999
    seed: int = 0

    def __post_init__(self) -> None:
        if self.unit is Unit.PARTY:
            what = "a party's promise does not depend on how its rows are divided"
            raise ConfigError(what, "Give --unit record or --unit patient")
        for name, value in (("changes", self.changes), ("queries", self.queries)):
            if value < 1:
                raise ConfigError(f"{name} is {value}, it must be at least 1", f"Set --{name}.")


@dataclass(frozen=True)
class Change:
    """What one changed unit did. `moved` int64 (queries,): votes that moved; `teachers`: those that vote otherwise.

    before, after : int64 (queries, classes), the party's votes. All of it is private.
    """

    kind: ChangeKind
    teachers: int
    moved: np.ndarray = field(repr=False)
    before: np.ndarray = field(repr=False)
    after: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class TeacherAudit:
    """The outcome. claimed : votes that a unit moves by `votes_moved`. game : None where no vote moved, or where there
    is no game for the mechanism."""

    plan: AuditEffort
    teachers: int
    claimed: int
    asked: int
    units: int
    changes: tuple[Change, ...] = field(repr=False)
    game: MechanismAudit | None
    seconds: float

    @property
    def most_moved(self) -> int:
        """Most votes that one change moved on one query."""
        return max(int(change.moved.max(initial=0)) for change in self.changes)

    @property
    def most_teachers(self) -> int:
        """Most teachers that one change made to vote otherwise on some query."""
        return max(change.teachers for change in self.changes)

    @property
    def beyond(self) -> int:
        """Changes that moved more votes than are claimed."""
        return sum(int(change.moved.max(initial=0)) > self.claimed for change in self.changes)

    @property
    def violated(self) -> bool:
        """Whether more votes moved than are claimed, or the game refutes the claimed epsilon."""
        return self.beyond > 0 or (self.game is not None and self.game.violated)


def audit_teachers(
    home: Home,
    config: FederationConfig,
    queries: np.ndarray,
    plan: AuditEffort,
    noise: NoiseSource,
    progress: Progress = no_progress,
) -> TeacherAudit:
    """Audit a party with these rows in this federation. `queries` float32 (n, features), as a student would ask them.

    The claim is that of the mechanism's own event for as many queries as are played.

    Raises
    ------
    DataError : the party's file cannot be read. ConfigError : it does not say who the patients are, the party would
        refuse to train, or training the same rows twice gives other votes, so that a change would prove nothing.
    """
    start = time.perf_counter()
    privacy = config.privacy.model_copy(update={"unit": plan.unit, "neighbouring": plan.neighbouring})
    config = config.model_copy(update={"privacy": privacy})
    if plan.unit is Unit.PATIENT and not home.rules.patient.known:
        raise ConfigError("party.toml does not say which rows are of one patient", "Set [patient] column")
    rows = open_rows(home.data_file, home.rules)
    units = units_of(rows, plan.unit)
    base, changed = neighbours(units, plan.neighbouring, plan.changes, np.random.default_rng(plan.seed))
    with tempfile.TemporaryDirectory(prefix=".audit-", dir=home.folder) as name:  # private rows stay in the home
        folder = Path(name)
        party = AuditedParty(home, config, plan.seed, folder)

        def predictions(label: str, order: list[int]) -> Predictions:
            path = folder / f"{label}{home.data_file.suffix.lower()}"
            rows.write(path, order)
            try:
                return party.predictions(path, queries)
            finally:
                path.unlink()

        before = predictions("base", base)
        if not (predictions("again", base).said == before.said).all():
            what = "training twice on the same rows gives teachers that vote otherwise"
            raise ConfigError(what, "Give your own [teacher] a fixed random_state")
        changes = []
        for number, each in enumerate(changed):
            progress(CHANGES, number, plan.changes)
            changes.append(_change(each.kind, before, predictions(str(number), each.order)))
        progress(CHANGES, plan.changes, plan.changes)
    worst = max(changes, key=lambda change: _worth(change, plan.queries))
    played = None
    if worst.moved.any() and config.mechanism.name in PLAYABLE:
        with stage(progress, GAME):
            played = _game(worst, config, plan, noise)
    return TeacherAudit(
        plan=plan,
        teachers=config.teachers_per_party,
        claimed=votes_moved(plan.unit, config.teachers_per_party, plan.neighbouring),
        asked=len(queries),
        units=len(units),
        changes=tuple(changes),
        game=played,
        seconds=time.perf_counter() - start,
    )


def _change(kind: ChangeKind, before: Predictions, after: Predictions) -> Change:
    moved = np.abs(after.votes - before.votes).sum(axis=1) // 2
    return Change(kind, int((after.said != before.said).any(axis=1).sum()), moved, before.votes, after.votes)


def _worth(change: Change, queries: int) -> int:
    """What Gaussian noise would have to hide: the squared votes of the queries that moved most."""
    return int((np.sort(change.moved)[::-1][:queries] ** 2).sum())


def _game(change: Change, config: FederationConfig, plan: AuditEffort, noise: NoiseSource) -> MechanismAudit:
    mechanism = config.mechanism
    pair = observed_pair(change, mechanism, plan.queries)
    setup = GameSetup(
        queries=len(pair.kinds),
        runs=plan.runs,
        delta=config.privacy.delta,
        confidence=plan.confidence,
        unit=plan.unit,
        neighbouring=plan.neighbouring,
        teachers_per_party=config.teachers_per_party,
        classes=len(config.rows.classes),
        one_call=True,
    )
    return audit_mechanism(mechanism, noise, setup, pairs=[pair])


def observed_pair(change: Change, mechanism: Mechanism, queries: int) -> Pair:
    """The votes that a change moved, most first, among those of other parties, on at most so many queries.

    The others are tied, halfway between before and after, on the class that lost most and the one that gained most; far
    above the rest and any threshold. What they are is up to the adversary: the claim holds whatever others vote.
    """
    chosen = np.argsort(-change.moved, kind="stable")[: min(queries, int((change.moved > 0).sum()))]
    before, after = change.before[chosen], change.after[chosen]
    difference = after - before
    loses, gains = difference.argmin(axis=1), difference.argmax(axis=1)
    at = np.arange(len(chosen))
    both = before + after
    lead = (both[at, gains] - both[at, loses]) // 2  # of the gaining class, halfway between
    others = np.zeros_like(before)
    level = _level(mechanism)
    others[at, loses] = level + (lead + 1) // 2
    others[at, gains] = level - (lead + 1) // 2  # the same number of others on every query
    _, kinds = np.unique(loses * before.shape[1] + gains, return_inverse=True)
    return Pair("as observed", before + others, after + others, kinds, observed=True)


def _level(mechanism: Mechanism) -> int:
    """Votes of the others for each of two classes, such that no third class and no threshold matters."""
    scales = [float(getattr(mechanism, name, 0.0)) for name in ("sigma", "sigma1", "sigma2")]
    gamma = float(getattr(mechanism, "gamma", 0.0))
    spread = max(*scales, 2 / gamma if gamma else 0.0)
    return math.ceil(float(getattr(mechanism, "threshold", 0)) + 12 * spread) + 1000
