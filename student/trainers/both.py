"""Two students of different kinds that teach each other: the graph of `kernel`, and a convolutional network.

The graph spreads the few labels to every row of the pool; a network learns all of those from distorted images and
outvotes many that are wrong; both together label the pool anew, for the next network (Yarowsky 1995; Blum, Mitchell,
Combining labeled and unlabeled data with co-training, COLT 1998; Xie, Luong, Hovy, Le, Self-training with noisy
student, CVPR 2020). They err on different rows: one sees a fixed representation and its neighbours, the other pixels.
A released label counts as much as any other row's here, so a wrong one is outvoted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from student.config import StudentSpec
from student.trainers.base import Model
from student.trainers.cnn import Supervised
from student.trainers.kernel import GraphTrainer
from student.trainers.loop import SILENT, ImageTrainer, Job

Represent = Callable[[np.ndarray], np.ndarray]
"""Features as they travel (n, features) -> what the schema makes of them (n, inputs): `Schema.inputs`."""

_LAST = 2
"""Networks in the model: the first ones saw worse labels."""


@dataclass(frozen=True)
class Both:
    """`graph` takes what `represent` gives, the `networks` features as they travel; so does this model."""

    represent: Represent
    graph: Model
    networks: tuple[Model, ...]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`: the mean of the graph's and the networks' mean."""
        return (self.graph.predict_proba(self.represent(x)) + _mean(self.networks, x)) / 2


@dataclass(frozen=True)
class BothTrainer:
    """`unlabelled` float (n, pixels), features as they travel. Both kinds use them; that costs no privacy."""

    spec: StudentSpec
    unlabelled: np.ndarray = field(repr=False)
    represent: Represent
    job: Job = SILENT

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit` and `ImageTrainer.fit`. Trains `spec.networks` networks, one after the other."""
        pool = np.concatenate([x, self.unlabelled])
        inputs = self.represent(pool)
        graph = GraphTrainer(self.spec, inputs[len(x) :]).fit(inputs[: len(x)], y, classes, seed)
        of_graph = graph.predict_proba(inputs)
        told, networks = of_graph, ()
        for own in np.random.SeedSequence(seed).generate_state(self.spec.networks):
            trainer = ImageTrainer(Supervised, self.spec, pool[:0], self.job)
            networks = (*networks, trainer.fit(pool, told.argmax(axis=1), classes, int(own)))[-_LAST:]
            told = of_graph + _mean(networks, pool)
        return Both(self.represent, graph, networks)


def _mean(models: tuple[Model, ...], x: np.ndarray) -> np.ndarray:
    return np.mean([model.predict_proba(x) for model in models], axis=0)
