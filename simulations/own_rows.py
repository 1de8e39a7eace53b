"""What each party gains or loses by the student on rows of its own that its own teacher has not seen, by its size.

All rows of a party train its teacher, so these are held out here, in analysis only: a teacher of the party's kind is
trained anew on two thirds of its rows and judged on the last third, three times over. The student is judged on the same
rows. It learnt from votes of all parties, and so of teachers that saw these rows too; by the run's own guarantee one
party moves it by little. Functions of private rows: secret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.data.private_rows import Rows
from consilium.models.evaluation import outranked
from consilium.models.keys import LogisticRegressionSpec, NetworkSpec, RidgeSpec, TeacherKind
from consilium.models.published.model import Published
from consilium.models.table import fit_teachers
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.schema import Schema
from consilium.report.progress import AT_HOME
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import own_teachers

FOLDS = 3
LEAST_ROWS = 6
"""With fewer, a third is one row: such parties are counted and not judged."""
FEW_PARTIES = 12
"""How many are judged where one training takes long."""
REPLICATES = 1000
LEVEL = 0.95
_PURPOSE = 0x686F6D65

Predict = Callable[[np.ndarray], np.ndarray]
"""Rows as they travel float (n, features) -> probabilities (n, classes)."""


@dataclass(frozen=True)
class OwnRows:
    """A party's rows as they travel: x float (n, features), y and owner int64 (n,); owner: of whom each row is."""

    name: str
    spec: TeacherKind
    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    owner: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class _Judged:
    """Points and what they are out of, of one party: rows right of rows, or pairs in order of pairs (half for ties)."""

    rows: int
    alone: float
    student: float
    of: float


def most_parties(spec: TeacherKind) -> int:
    """How many parties are judged, with three trainings each, where teachers are of this kind: some seconds' worth."""
    if isinstance(spec, NetworkSpec):
        return 0
    return 80 if isinstance(spec, LogisticRegressionSpec | RidgeSpec) else FEW_PARTIES


def at_home(
    parties: Sequence[OwnRows],
    sizes: Mapping[str, int],
    schema: Schema,
    student: Predict,
    spec: TeacherKind,
    seed: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """The student against each party's own teacher on the party's held-out rows.

    `parties`: those to judge, see `chosen`; `sizes`: rows of every party, by name.

    Returns
    -------
    {"absent": why} or: metric ("auc": pairs of two rows of one party that are in the right order; else "accuracy"),
    judged, parties, too_small (fewer than `LEAST_ROWS` rows), level; "all": alone, student, difference with its
    interval (parties drawn anew, `REPLICATES` times); by_party: rows and difference of each, from small to large.
    """
    small = sum(rows < LEAST_ROWS for rows in sizes.values())
    if not parties:
        slow = f"teachers of kind {spec.title} take long to train again"
        return {"absent": slow if most_parties(spec) == 0 else f"no {LEAST_ROWS} rows at any of them"}
    metric = "auc" if len(schema.classes) == 2 else "accuracy"
    judged = []
    for index, party in enumerate(parties):
        progress(AT_HOME, index, len(parties))
        judged.append(_judge(party, schema, student, metric, seed))
    progress(AT_HOME, len(parties), len(parties))
    with_points = sorted((item for item in judged if item.of > 0), key=lambda item: item.rows)
    if not with_points:
        return {"absent": "none of them has rows of two classes to tell apart"}
    generator = np.random.default_rng([seed, _PURPOSE])
    return {
        "metric": metric,
        "judged": len(with_points),
        "parties": len(sizes),
        "too_small": small,
        "level": LEVEL,
        "all": _together(with_points, generator),
        "by_party": [[item.rows, (item.student - item.alone) / item.of] for item in with_points],
    }


def chosen(sizes: Mapping[str, int], most: int) -> list[str]:
    """Names of at most so many parties with `LEAST_ROWS` rows, evenly spread over their order by size.

    >>> chosen({"a": 9, "b": 2, "c": 30, "d": 20, "e": 10}, 2)
    ['a', 'c']
    """
    able = sorted((name for name, rows in sizes.items() if rows >= LEAST_ROWS), key=lambda name: (sizes[name], name))
    if len(able) <= most or most < 1:
        return able if most >= 1 else []
    return [able[place] for place in np.unique(np.linspace(0, len(able) - 1, most).round().astype(int))]


def _judge(party: OwnRows, schema: Schema, student: Predict, metric: str, seed: int) -> _Judged:
    inputs, classes = schema.inputs(party.x), len(schema.classes)
    rows, alone = Rows(inputs, party.y), np.zeros((len(party.y), classes))
    folds = _folds(party.owner, seed)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(party.y)), fold)
        (teacher,) = fit_teachers(party.spec, rows, [rest], [seed], classes)
        alone[np.ix_(fold, np.asarray(teacher.classes_))] = teacher.predict_proba(inputs[fold])
    (on_teacher, on_student), of = _points((alone, student(party.x)), party.y, folds, metric)
    return _Judged(len(party.y), on_teacher, on_student, of)


def _points(
    sides: Sequence[np.ndarray], y: np.ndarray, folds: Sequence[np.ndarray], metric: str
) -> tuple[list[float], float]:
    """Of each of the probabilities (n, classes), and what they are out of."""
    if metric == "accuracy":
        return [float((probabilities.argmax(axis=1) == y).sum()) for probabilities in sides], float(len(y))
    both = [fold for fold in folds if len(np.unique(y[fold])) == 2]
    ills = [y[fold] == 1 for fold in both]  # pairs within a fold, which one teacher judged
    ordered = [
        sum(float(outranked(side[fold, 1], ill)[ill].sum()) for fold, ill in zip(both, ills, strict=True))
        for side in sides
    ]
    return ordered, float(sum(ill.sum() * (~ill).sum() for ill in ills))


def _folds(owner: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows in `FOLDS` parts by lot, all of one owner in the same where there are owners enough."""
    owners = np.unique(owner)
    generator = np.random.default_rng([seed, _PURPOSE])
    if len(owners) < 2 * FOLDS:
        return np.array_split(generator.permutation(len(owner)), FOLDS)
    parts = np.array_split(generator.permutation(owners), FOLDS)
    return [np.flatnonzero(np.isin(owner, part)) for part in parts]


def _together(items: Sequence[_Judged], generator: np.random.Generator) -> dict[str, Any]:
    points = np.array([(item.alone, item.student, item.of) for item in items])
    drawn = points[generator.integers(len(items), size=(REPLICATES, len(items)))].sum(axis=1)
    differences = np.sort((drawn[:, 1] - drawn[:, 0]) / drawn[:, 2])
    outside = round((1 - LEVEL) / 2 * REPLICATES)
    alone, student, of = points.sum(axis=0)
    return {
        "alone": float(alone / of),
        "student": float(student / of),
        "difference": float((student - alone) / of),
        "interval": [float(differences[outside]), float(differences[-1 - outside])],
    }


def judged_on_own_rows(
    case: Case, student: Published, trained: Collection[str], progress: Progress = no_progress
) -> dict[str, Any]:
    """See `at_home`, of the run's parties that trained a teacher."""
    dataset, partition, config, simulation = case.dataset, case.partition, case.config, case.scenario.simulation
    sizes = {party: len(partition.parties[party]) for party in trained}
    own = own_teachers(simulation, len(partition.parties), case.seed)
    teachers = {party: own.get(index) or config.teacher for index, party in enumerate(partition.parties)}
    slowest = min((teachers[party] for party in sizes), key=most_parties, default=config.teacher)
    most = most_parties(slowest)
    if config.rows.representation != "none":  # of thousands of inputs, which take longer to compute than to learn from
        most = min(most, FEW_PARTIES)
    parties = [
        OwnRows(party, teachers[party].anywhere(), dataset.x[rows], dataset.y[rows], dataset.owner[rows])
        for party in chosen(sizes, most)
        for rows in (partition.parties[party],)
    ]
    return at_home(parties, sizes, config.rows, student.predict_proba, slowest, case.seed, progress)
