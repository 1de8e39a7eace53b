"""Two students of different kinds as one: the mean of the graph's probabilities and those of a FixMatch network.

They err on different rows: one sees a fixed representation and its neighbours, the other what it learned of pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from student.config import StudentSpec
from student.trainers.base import Model
from student.trainers.fixmatch import FixMatch
from student.trainers.kernel import GraphTrainer
from student.trainers.loop import SILENT, ImageTrainer, Job

Represent = Callable[[np.ndarray], np.ndarray]
"""Features as they travel (n, features) -> what the schema makes of them (n, inputs): `Schema.inputs`."""


@dataclass(frozen=True)
class Both:
    """`graph` takes what `represent` gives, `network` features as they travel; so does this model."""

    represent: Represent
    graph: Model
    network: Model

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        return (self.graph.predict_proba(self.represent(x)) + self.network.predict_proba(x)) / 2


@dataclass(frozen=True)
class BothTrainer:
    """`unlabelled` float (n, pixels), features as they travel. Both halves use them; that costs no privacy."""

    spec: StudentSpec
    unlabelled: np.ndarray = field(repr=False)
    represent: Represent
    job: Job = SILENT

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit` and `ImageTrainer.fit`."""
        network = ImageTrainer(FixMatch, self.spec, self.unlabelled, self.job).fit(x, y, classes, seed)
        unlabelled = self.represent(self.unlabelled) if len(self.unlabelled) else self.represent(x)[:0]
        graph = GraphTrainer(self.spec, unlabelled).fit(self.represent(x), y, classes, seed)
        return Both(self.represent, graph, network)
