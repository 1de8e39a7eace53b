"""The teachers of one case, trained as parties train them; and what is common to those that are linear."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.private_rows import remarks
from consilium.models.keys import LogisticRegressionSpec, RidgeSpec, TeacherKind
from consilium.models.table import check_teacher
from consilium.node.progress import TRAIN_TEACHERS
from consilium.party.teach import make, simulated_secret, simulated_seeds, split
from consilium.party.voting import TeacherSet
from consilium.protocol.label_source import Progress, no_progress
from consilium.simulations.divide import Case
from consilium.simulations.engines.block import Block
from consilium.simulations.population.parties import check_own_teachers
from consilium.simulations.workspace import Workspace, lay_out


def teach(case: Case, progress: Progress = no_progress) -> Iterator[tuple[int, TeacherSet]]:
    """Index of each party, and its teachers.

    Raises
    ------
    ConfigError : a kind of teacher does not fit the rows.
    """
    check_own_teachers(case.scenario.simulation, case.config.rows)
    with _unremarked(), tempfile.TemporaryDirectory(prefix="consilium-study-") as folder:
        space = Workspace(Path(folder))
        lay_out(space, case, processes=1)
        for block in space.blocks():
            for place, party in enumerate(block.settings.names):
                index = block.settings.first + place
                progress(TRAIN_TEACHERS, index, len(case.parties))
                yield index, _teachers(case, block, place, party)
    progress(TRAIN_TEACHERS, len(case.parties), len(case.parties))


@contextmanager
def _unremarked() -> Iterator[None]:
    """What is odd about a party's rows is for whoever looks after them: here nobody does."""
    before, remarks.disabled = remarks.disabled, True
    try:
        yield
    finally:
        remarks.disabled = before


def _teachers(case: Case, block: Block, place: int, party: str) -> TeacherSet:
    home, schema = block.home(place), case.config.rows
    rows = block.rows(place, home, schema)
    parts = split(rows.identities, case.config.teachers_per_party, simulated_secret(case.seed, party))
    spec = home.teacher or case.config.teacher
    check_teacher(spec, schema)
    seeds = simulated_seeds(case.seed, party)
    reference = case.config.reference_rows()
    teachers, limits = make(rows, schema, spec, case.config.voting_rule, reference, parts, seeds)
    return TeacherSet(schema, "", "", teachers, limits)


def class_probabilities(model: Any, x: np.ndarray, classes: int) -> np.ndarray:
    """Of a trained classifier with scikit-learn's methods, on `x` float (rows, inputs) -> float64 (rows, classes).

    0 for a class that it has not seen.
    """
    probabilities = np.zeros((len(x), classes))
    if len(x):
        probabilities[:, model.classes_] = model.predict_proba(x)
    return probabilities


class DirectionSum:
    """Sum over the parties of what each gives to a noisy average: never all weights at once.

    total: float64 (inputs, classes), (0, 0) before the first party.
    """

    def __init__(self) -> None:
        self.parties = self.teachers_per_party = 0
        self.total = np.zeros((0, 0))

    def add(self, weights: np.ndarray) -> None:
        """One party's teachers, float64 (teachers, inputs + 1, classes) as `linear_scores` gives them."""
        mean = directions(weights[:, :-1]).mean(axis=0)
        self.total = self.total + mean if self.parties else mean
        self.parties, self.teachers_per_party = self.parties + 1, len(weights)


def directions(weights: np.ndarray) -> np.ndarray:
    """`weights` (teachers, inputs, classes), each teacher's scaled to Euclidean norm 1; zeros stay zeros.

    >>> directions(np.array([[[3.0], [4.0]], [[0.0], [0.0]]])).ravel().round(6).tolist()
    [0.6, 0.8, 0.0, 0.0]
    """
    largest = np.abs(weights).max(axis=(1, 2), keepdims=True)  # squares of tiny weights are 0
    scaled = weights / np.where(largest > 0, largest, 1.0)
    return scaled / np.maximum(np.sqrt((scaled**2).sum(axis=(1, 2), keepdims=True)), 1.0)


@singledispatch
def linear_scores(spec: TeacherKind, teacher: Any, inputs: int, classes: int) -> np.ndarray | None:
    """Weights float64 (inputs + 1, classes) of a trained teacher, the intercept last; None for a kind that has none.

    A class that the teacher never saw has zeros, and so has every one of a teacher that saw one class only.
    """
    return None


@linear_scores.register
def _(spec: LogisticRegressionSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    weights = np.concatenate([teacher.coef_, teacher.intercept_[:, None]], axis=1).T
    if weights.shape[1] == 1:  # of two classes scikit-learn keeps the second's
        weights = np.concatenate([np.zeros_like(weights), weights], axis=1)
    return _among(weights, teacher.classes_, classes)


@linear_scores.register
def _(spec: RidgeSpec, teacher: Any, inputs: int, classes: int) -> np.ndarray:
    if len(teacher.classes_) < 2:
        return np.zeros((inputs + 1, classes))
    return _among(np.concatenate([teacher.weights, teacher.intercept[None, :]]), teacher.classes_, classes)


def has_linear_scores(spec: TeacherKind) -> bool:
    """Whether teachers of this kind have weights."""
    return linear_scores.dispatch(type(spec)) is not linear_scores.dispatch(TeacherKind)


def _among(weights: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    every = np.zeros((len(weights), classes))
    every[:, seen] = weights
    return every - every.mean(axis=1, keepdims=True)  # the same decisions with the least norm
