"""The choice among candidates, on made-up tasks or on tasks that public labels give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.coordinator.planning.candidates import Candidate
from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.features import FeatureMap
from consilium.coordinator.planning.prior import PRIOR, PublicTask, TaskMaker, TaskPrior
from consilium.coordinator.planning.rehearsal import Outcomes, Rehearsal

FIRST_LOOK = 16
"""Tasks on which all candidates are tried."""
DRAWS = 120
"""Tasks on which the best ones are tried, and from which the forecast comes."""
FINALISTS = 4
JUDGED = 800
"""Rows of the pool on which made-up students are judged."""

_SEED = 0x706C616E


@dataclass(frozen=True)
class TaskSet:
    """Tasks, and the rows that judge them, float64 (m, inputs). source: where they come from, for people."""

    source: str
    judged: np.ndarray = field(repr=False)
    tasks: Sequence[PublicTask] = field(repr=False)


@dataclass(frozen=True)
class Ranking:
    """What was found: the best candidate, and the best one with another mechanism, None where there is none."""

    best: Outcomes
    runner_up: Outcomes | None


def made_up(facts: PublicFacts, features: FeatureMap, prior: TaskPrior = PRIOR, draws: int = DRAWS) -> TaskSet:
    """Tasks from the prior. They are a function of the facts: the same facts give the same plan."""
    judged = facts.rows[:JUDGED]
    maker = TaskMaker(facts, features, judged, prior)
    tasks = [maker.draw(np.random.default_rng([_SEED, number])) for number in range(draws)]
    return TaskSet("made-up tasks on the public rows", judged, tasks)


def ranked(
    facts: PublicFacts,
    features: FeatureMap,
    found: Sequence[Candidate],
    told: TaskSet,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Ranking:
    """Try all candidates on some tasks, and the best on all. The larger mean quality is the better."""
    stage = Rehearsal(features, facts, told.judged)
    looks = []
    for number, candidate in enumerate(found):
        progress(number, len(found) + 1)
        looks += stage.rehearse(candidate, told.tasks[:FIRST_LOOK])
    progress(len(found), len(found) + 1)
    finalists = _distinct(sorted(looks, key=lambda outcomes: -outcomes.expected))
    final = [outcomes for each in finalists for outcomes in stage.rehearse(each, told.tasks)]
    progress(len(found) + 1, len(found) + 1)
    final.sort(key=lambda outcomes: -outcomes.expected)
    others = [each for each in final if each.candidate.mechanism.name != final[0].candidate.mechanism.name]
    return Ranking(final[0], others[0] if others else None)


def _distinct(looks: Iterable[Outcomes]) -> list[Candidate]:
    """The first few candidates, and the first one of every other mechanism."""
    chosen: list[Candidate] = []
    for each in looks:
        candidate = each.candidate
        known = {other.mechanism.name for other in chosen}
        if candidate not in chosen and (len(chosen) < FINALISTS or candidate.mechanism.name not in known):
            chosen.append(candidate)
    return chosen
