"""What each party gains or loses by the student on rows of its own that its own teacher has not seen, by its size.

All rows of a party train its teacher, so these are held out here, in analysis only: a teacher of the party's kind is
trained anew on two thirds of its rows and judged on the last third, three times over. The student is judged on the same
rows. It learnt from votes of all parties, and so of teachers that saw these rows too; by the run's own guarantee one
party moves it by little. Functions of private rows: secret.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from consilium.data.private_rows import Rows
from consilium.models.evaluation import outranked
from consilium.models.keys import LogisticRegressionSpec, NetworkSpec, RidgeSpec, TeacherKind
from consilium.models.table import fit_teachers
from consilium.protocol.label_source import Progress, no_progress
from consilium.report.progress import AT_HOME
from consilium.simulations.divide import Case
from consilium.simulations.population.parties import own_teachers

FOLDS = 3
LEAST_ROWS = 6
"""With fewer, a third is one row: such parties are counted and not judged."""
FEW_PARTIES = 12
"""How many are judged where one training takes long."""
REPLICATES, LEVEL = 1000, 0.95
_PURPOSE = 0x686F6D65

Predict = Callable[[np.ndarray], np.ndarray]
"""Rows as they travel float (n, features) -> probabilities (n, classes)."""


def most_parties(spec: TeacherKind) -> int:
    """How many parties are judged, with three trainings each, where teachers are of this kind: some seconds' worth."""
    if isinstance(spec, NetworkSpec):
        return 0
    return 80 if isinstance(spec, LogisticRegressionSpec | RidgeSpec) else FEW_PARTIES


def on_own_rows(
    case: Case, student: Predict, trained: Collection[str], progress: Progress = no_progress
) -> dict[str, Any]:
    """The student against each party's own teacher on the party's held-out rows. trained: parties with a teacher.

    Returns
    -------
    {"absent": why} or: metric ("auc": pairs of two rows of one party that are in the right order; else "accuracy"),
    judged, parties, too_small (fewer than `LEAST_ROWS` rows), level; "all": alone, student, difference with its
    interval (parties drawn anew, `REPLICATES` times); by_party: rows and difference of each, from small to large.
    """
    sizes = {party: len(case.partition.parties[party]) for party in trained}
    own = own_teachers(case.scenario.simulation, len(case.parties), case.seed)
    kinds = {party: own.get(index) or case.config.teacher for index, party in enumerate(case.parties)}
    slowest = min((kinds[party] for party in sizes), key=most_parties, default=case.config.teacher)
    most = most_parties(slowest)
    if case.config.rows.representation != "none":  # of thousands of inputs, which take longer to compute than to learn
        most = min(most, FEW_PARTIES)
    parties = chosen(sizes, most)
    if not parties:
        slow = f"teachers of kind {slowest.title} take long to train again"
        return {"absent": slow if most == 0 else f"no {LEAST_ROWS} rows at any of them"}
    points = []
    for index, party in enumerate(parties):
        progress(AT_HOME, index, len(parties))
        points.append((sizes[party], *_points(case, party, kinds[party].anywhere(), student)))
    progress(AT_HOME, len(parties), len(parties))
    judged = np.array(sorted((item for item in points if item[3] > 0), key=lambda item: item[0]))
    if not len(judged):
        return {"absent": "none of them has rows of two classes to tell apart"}
    rows, alone, reached, of = judged.T
    draws = np.random.default_rng([case.seed, _PURPOSE]).integers(len(judged), size=(REPLICATES, len(judged)))
    differences = np.sort((reached[draws].sum(axis=1) - alone[draws].sum(axis=1)) / of[draws].sum(axis=1))
    outside = round((1 - LEVEL) / 2 * REPLICATES)
    return {
        "metric": "auc" if len(case.classes) == 2 else "accuracy",
        "judged": len(judged),
        "parties": len(sizes),
        "too_small": sum(count < LEAST_ROWS for count in sizes.values()),
        "level": LEVEL,
        "all": {
            "alone": float(alone.sum() / of.sum()),
            "student": float(reached.sum() / of.sum()),
            "difference": float((reached.sum() - alone.sum()) / of.sum()),
            "interval": [float(differences[outside]), float(differences[-1 - outside])],
        },
        "by_party": [[int(count), gain] for count, gain in zip(rows, ((reached - alone) / of).tolist(), strict=True)],
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


def _points(case: Case, party: str, spec: TeacherKind, student: Predict) -> tuple[float, float, float]:
    """Of its teachers and of the student, and what they are out of: rows right of rows or, of two classes, pairs in
    order of pairs (half for ties) within a fold, which one teacher judged."""
    x, y = case.train_rows(party)
    inputs, classes = case.config.rows.inputs(x), len(case.classes)
    alone, folds = np.zeros((len(y), classes)), folds_of(case.dataset.owner[case.partition.parties[party]], case.seed)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        (teacher,) = fit_teachers(spec, Rows(inputs, y), [rest], [case.seed], classes)
        alone[np.ix_(fold, np.asarray(teacher.classes_))] = teacher.predict_proba(inputs[fold])
    sides = alone, student(x)
    if classes != 2:
        right, reached = (float((side.argmax(axis=1) == y).sum()) for side in sides)
        return right, reached, float(len(y))
    pairs = [(fold, y[fold] == 1) for fold in folds if len(np.unique(y[fold])) == 2]
    in_order, reached = (sum(float(outranked(side[fold, 1], ill)[ill].sum()) for fold, ill in pairs) for side in sides)
    return in_order, reached, float(sum(ill.sum() * (~ill).sum() for _, ill in pairs))


def folds_of(owner: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows in `FOLDS` parts by lot, all of one owner in the same where there are owners enough."""
    owners = np.unique(owner)
    generator = np.random.default_rng([seed, _PURPOSE])
    if len(owners) < 2 * FOLDS:
        return np.array_split(generator.permutation(len(owner)), FOLDS)
    parts = np.array_split(generator.permutation(owners), FOLDS)
    return [np.flatnonzero(np.isin(owner, part)) for part in parts]
