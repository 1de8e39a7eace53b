"""Tasks from public rows with labels: real teachers on parties that are made up from them. A narrower forecast.

Half of the rows, by a public lot, are dealt to made-up parties, drawn with replacement; the other half judges. Private
rows have no part in it: the file is the user's, and public.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from consilium.coordinator.planning.facts import PublicFacts
from consilium.coordinator.planning.rehearsal import TaskSet
from consilium.coordinator.planning.tasks import FeatureMap, PublicTask
from consilium.data.private_rows import Rows
from consilium.party.teachers.teach import train_all, vote
from consilium.protocol.errors import DataError
from consilium.protocol.files import unreadable
from consilium.protocol.rows.schema import Schema
from consilium.protocol.teachers import TeacherKind

POPULATIONS = 10
"""Sets of made-up parties: training them is what takes time."""
REPEATS = 6
"""Tasks for each set: other noise, and other judged rows drawn from the same half."""
LEAST_ROWS = 20

_SEED = 0x6C61626C


@dataclass(frozen=True)
class LabelledRows:
    """Public rows float (n, features) in the schema's order, and int64 (n,) indices into its classes."""

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)


def read_labelled(path: Path, schema: Schema) -> LabelledRows:
    """An .npz with `features`, `x` and `y`, where y is indices into the classes or their names.

    Raises
    ------
    PathError : no such file. DataError : it holds no such rows.
    """
    action = "Give an .npz with `features`, `x` and `y` of public rows"
    try:
        with np.load(path, allow_pickle=False) as file:
            names = [str(name) for name in file["features"]]
            x, y = file["x"].astype(np.float64), file["y"]
    except OSError as error:
        raise unreadable(path, error, action) from None
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile):
        raise DataError(f"{path} holds no public rows with labels", action) from None
    if missing := [feature for feature in schema.features if feature not in names]:
        raise DataError(f"{path} has no column {missing[0]!r}", action)
    if x.ndim != 2 or x.shape[1] != len(names) or y.shape != (len(x),) or not np.isfinite(x).all():
        raise DataError(f"{path}: x has shape {x.shape} and y {y.shape} for {len(names)} columns", action)
    if y.dtype.kind in "US":
        known = np.array(schema.classes)
        if unknown := sorted(set(y.tolist()) - set(schema.classes)):
            raise DataError(f"{path}: y has {unknown[0]!r}, which is none of {list(schema.classes)}", action)
        y = (y[:, None] == known).argmax(axis=1)
    y = y.astype(np.int64)
    if len(y) < LEAST_ROWS or y.min() < 0 or y.max() >= len(schema.classes) or len(np.unique(y)) < 2:
        raise DataError(
            f"{path} has {len(y)} rows, or labels that are not of at least two of {len(schema.classes)} classes",
            f"Give at least {LEAST_ROWS} labelled rows",
        )
    return LabelledRows(x[:, [names.index(feature) for feature in schema.features]], y)


@dataclass(frozen=True)
class LabelledTasks:
    """Makes tasks (`coordinator.planning.plan.Tasks`). rows_per_party: what is known of the parties' sizes."""

    labelled: LabelledRows
    schema: Schema
    teacher: TeacherKind
    rows_per_party: int

    def __call__(self, facts: PublicFacts, features: FeatureMap) -> TaskSet:
        """The tasks; the same rows give the same ones."""
        lot = np.random.default_rng(_SEED).permutation(len(self.labelled.y))
        own, judging = np.array_split(lot, 2)
        inputs = self.schema.inputs(self.labelled.x)
        rows, judged = Rows(x=inputs[own], y=self.labelled.y[own]), inputs[judging]
        tasks = []
        for number in range(POPULATIONS):
            generator = np.random.default_rng([_SEED, number])
            parts = [generator.integers(0, len(own), self.rows_per_party) for _ in range(facts.votes)]
            seeds = [int(seed) for seed in generator.integers(0, 2**31, facts.votes)]
            teachers = train_all(rows, self.teacher, parts, seeds, facts.classes)
            votes, judged_votes = (vote(teachers, each, facts.classes) for each in (facts.rows, judged))
            for _ in range(REPEATS):
                picked = generator.integers(0, len(judging), len(judging))
                tasks.append(PublicTask(votes, judged_votes, self.labelled.y[judging], picked))
        return TaskSet(f"rehearsals on {len(lot)} labelled public rows", judged, _by_turns(tasks))


def _by_turns(tasks: list[PublicTask]) -> list[PublicTask]:
    """First one task of every population, then the next of each: a first look then sees them all."""
    return [tasks[first] for start in range(REPEATS) for first in range(start, len(tasks), REPEATS)]
