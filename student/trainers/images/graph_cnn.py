"""Two students of different kinds that teach each other: a graph of like rows, and a convolutional network.

The graph spreads the few labels to every row of the pool. A network learns all of those from distorted images and
outvotes many that are wrong; what it sees in the rows then helps to tell which are alike, and the labels are spread
anew, from the released ones alone (Yarowsky 1995; Blum, Mitchell, Combining labeled and unlabeled data with
co-training, COLT 1998; Iscen, Tolias, Avrithis, Chum, Label propagation for deep semi-supervised learning, CVPR 2019,
who have no fixed representation beside the network's). Last comes a kernel ridge regression on both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.student.config import StudentSpec
from consilium.student.trainers.base import Model
from consilium.student.trainers.images.cnn import Supervised
from consilium.student.trainers.images.loop import SILENT, ImageTrainer, Job
from consilium.student.trainers.images.network import ImageModel
from consilium.student.trainers.kernel import KernelModel, kernel_ridge, spread_labels

Represent = Callable[[np.ndarray], np.ndarray]
"""Features as they travel (n, features) -> their representation by the schema (n, inputs): `Schema.inputs`."""

_LAST = 2
"""Networks that are looked at: earlier ones learned from worse labels."""


@dataclass(frozen=True)
class Sight:
    """The representation of rows by `represent` beside that by each of `networks`, each times its scale."""

    represent: Represent
    networks: tuple[ImageModel, ...]
    scales: tuple[float, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Features as they travel (n, features) -> float32 (n, inputs and what all networks see)."""
        parts = [self.represent(x), *[network.features(x) for network in self.networks]]
        return np.concatenate(
            [part.astype(np.float32) * np.float32(scale) for part, scale in zip(parts, self.scales, strict=True)],
            axis=1,
        )


@dataclass(frozen=True)
class GraphCnnModel:
    """Takes features as they travel. `rows` float32 (m, features): what `kernel` is around, as they travel too."""

    sight: Sight
    rows: np.ndarray = field(repr=False)
    kernel: KernelModel

    @classmethod
    def around(cls, sight: Sight, rows: np.ndarray, weights: np.ndarray, gamma: float) -> GraphCnnModel:
        """The same model again, from what cannot be computed anew; `weights` float32 (m, classes)."""
        return cls(sight, rows, KernelModel(sight(rows), weights, gamma))

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`."""
        return self.kernel.predict_proba(self.sight(x))


@dataclass(frozen=True)
class GraphCnnTrainer:
    """`unlabelled` float (n, pixels), features as they travel. Both kinds use them; that costs no privacy."""

    spec: StudentSpec
    unlabelled: np.ndarray = field(repr=False)
    represent: Represent
    job: Job = SILENT

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit` and `ImageTrainer.fit`. Trains `spec.networks` networks, one after the other."""
        spec, pool = self.spec, np.concatenate([x, self.unlabelled]).astype(np.float32)
        inputs = self.represent(pool)
        told, reached = spread_labels(inputs.astype(np.float32), y, classes, spec)
        networks, sight = (), Sight(self.represent, (), (1.0,))
        for own in np.random.SeedSequence(seed).generate_state(spec.networks):
            trainer = ImageTrainer(Supervised, spec, pool[:0], self.job)
            network = trainer.fit(pool[reached], told[reached], classes, int(own))
            networks = (*networks, network)[-_LAST:]
            sight = self._sight(inputs, networks, pool)
            told, reached = spread_labels(sight(pool), y, classes, spec)
        known = np.eye(classes, dtype=np.float32)[told[reached]]
        kept = pool[reached]
        kernel = kernel_ridge(sight(kept), known, spec.gamma, spec.alpha)  # bit by bit as `around`
        return GraphCnnModel(sight, kept, kernel)

    def _sight(self, inputs: np.ndarray, networks: tuple[ImageModel, ...], pool: np.ndarray) -> Sight:
        """Half of the mean squared distance between two rows is of `inputs`, half of the networks' in equal parts.

        It is as large as that of `inputs` alone, so that `gamma` suits both.
        """
        whole = _total_variance(inputs)
        scales = [np.sqrt(1 / 2)]
        for network in networks:
            own = _total_variance(network.features(pool))
            scales.append(np.sqrt(whole / (2 * len(networks) * own)) if own > 0 else 0.0)
        return Sight(self.represent, networks, tuple(float(scale) for scale in scales))


def _total_variance(rows: np.ndarray) -> float:
    """Of rows (n, columns), over all columns: half the mean squared distance between two of them."""
    return float(rows.var(axis=0, dtype=np.float64).sum())
