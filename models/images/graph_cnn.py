"""Two students of different kinds that teach each other: a graph of like rows, and convolutional networks.

The first network learns without labels which images show the same. A graph of images that look alike to it and in a
fixed representation smooths what was released over the pool; a network learns that from distorted images and outvotes
much that is wrong; what it sees in the rows then helps to tell which are alike, and what was released, nothing else, is
smoothed anew (Yarowsky 1995; Blum, Mitchell, Combining labeled and unlabeled data with co-training, COLT 1998; Iscen,
Tolias, Avrithis, Chum, Label propagation for deep semi-supervised learning, CVPR 2019, who have no fixed representation
beside the network's). Last comes a kernel ridge regression on both.

Shares are smoothed as a sum of the graph's smoothest functions with normal coefficients, those of less smooth ones
smaller: variance tau exp(-t u), u from 0 for the smoothest to 1 for the last (a diffusion kernel: Kondor, Lafferty,
ICML 2002; Smola, Kondor, COLT 2003). The noise is known, so tau and t have a likelihood (MacKay 1992; Rasmussen,
Williams 2006, section 5.4) and are the best of a grid: nothing is tuned on a label, and where the votes are mostly
noise few functions are left. Or as the softmax of such sums (`smoothing`): that no share is below 0 or above 1 takes
noise away where teachers agree, if all rows were asked. Post-processing of what was released: costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from consilium.models.base import NOTHING, Model, Represent, Shares, Told
from consilium.models.evidence import most_probable
from consilium.models.images.network import ImageModel, ImageTrainer, contrast, supervised
from consilium.models.images.pixels import INVARIANCES
from consilium.models.kernel import (
    KernelModel,
    kernel_ridge,
    nearest_rows,
    neighbour_graph,
    principal_places,
    smoothest,
)
from consilium.models.keys import GraphCnnStudent, Smoothing
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress

_LAST = 2
"""Networks that are looked at: earlier ones learned from worse labels."""
_LABEL_NOISE = 0.2
"""Standard deviation of a label: about one in 25 is taken to be wrong."""
_PLACES = 256
"""Dimensions of the fixed representation in which like rows are sought."""
_TWINS = 3
"""Nearest rows that the first network is told show the same: of digits, 96 in 100 do."""

# The four above: chosen on training images of MNIST, two splits by writers, and of Fashion-MNIST, in view of runs on
# simulated votes.


@dataclass(frozen=True)
class Sight:
    """The representation of rows by `represent` beside that by each of `networks`, each times its scale."""

    represent: Represent
    networks: tuple[ImageModel, ...]
    scales: tuple[float, ...]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Features as they travel (n, features) -> float32 (n, inputs and what all networks see)."""
        return _beside(self.represent(x), [network.features(x) for network in self.networks], self)


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
        return self.kernel.predict_proba(self.sight(x))


@dataclass(frozen=True)
class GraphCnnTrainer:
    """`unlabelled` float (n, pixels), features as they travel. Both kinds use them; that costs no privacy."""

    spec: GraphCnnStudent
    unlabelled: np.ndarray = field(repr=False)
    represent: Represent
    progress: Progress = no_progress

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit` and `ImageTrainer.fit`: labels are shares of 0 and 1 that are now and then wrong."""
        return self.fit_told(x, Shares(np.eye(classes)[y], np.full(len(y), _LABEL_NOISE)), seed)

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told` and `ImageTrainer.fit`; labels are learned as `fit` does, whatever their law.
        Trains one network after the other."""
        if not isinstance(told, Shares):
            deviation = np.where(told.labels == NO_LABEL, NOTHING, _LABEL_NOISE)
            told = Shares(np.eye(told.classes)[told.labels], deviation)
        spec, pool = self.spec, np.concatenate([x, self.unlabelled]).astype(np.float32)
        inputs = self.represent(pool).astype(np.float32)
        look, *seeds = (int(own) for own in np.random.SeedSequence(seed).generate_state(1 + spec.networks))
        places, whole = principal_places(inputs, _PLACES), _total_variance(inputs)
        networks = self.first_look(pool, places, told.classes, look)
        seen = tuple(network.features(pool) for network in networks)
        sight = self._sight(whole, networks, seen)
        shares = smooth_shares(_beside(places, seen, sight), told, spec.neighbours, spec.smoothing)
        method = partial(supervised, change=INVARIANCES[spec.augment].strong)
        for own in seeds:
            trainer = ImageTrainer(method, spec, pool[:0], self.progress, normalised=True)
            network = trainer.fit(pool, shares.argmax(axis=1), told.classes, own)
            networks, seen = (*networks, network)[-_LAST:], (*seen, network.features(pool))[-_LAST:]
            sight = self._sight(whole, networks, seen)
            shares = smooth_shares(_beside(places, seen, sight), told, spec.neighbours, spec.smoothing)
        known = np.eye(told.classes, dtype=np.float32)[shares.argmax(axis=1)]
        kernel = kernel_ridge(_beside(inputs, seen, sight), known, spec.gamma, spec.alpha)  # bit by bit as `around`
        return GraphCnnModel(sight, pool, kernel)

    def first_look(self, pool: np.ndarray, places: np.ndarray, classes: int, seed: int) -> tuple[ImageModel, ...]:
        """None, or a network whose features of the `pool` tell what shows the same as the nearest in `places`."""
        if not self.spec.looks or len(pool) < 2:
            return ()
        near, _ = nearest_rows(places, _TWINS)
        method = partial(contrast, change=INVARIANCES[self.spec.augment].strong, near=near)
        own = self.spec.model_copy(update={"steps": self.spec.looks, "settled": 0.0})
        trainer = ImageTrainer(method, own, pool, self.progress, normalised=True)
        return (trainer.fit(pool[:0], np.zeros(0, dtype=np.int64), classes, seed),)

    def _sight(self, whole: float, networks: tuple[ImageModel, ...], seen: tuple[np.ndarray, ...]) -> Sight:
        """Half of the mean squared distance between two rows is of the representation, half of what the networks see,
        in equal parts; it is as large as that of the representation alone, `whole`, so that `gamma` suits both."""
        if not networks:
            return Sight(self.represent, (), (1.0,))
        scales = [np.sqrt(1 / 2)]
        for features in seen:
            own = _total_variance(features)
            scales.append(np.sqrt(whole / (2 * len(networks) * own)) if own > 0 else 0.0)
        return Sight(self.represent, networks, tuple(float(scale) for scale in scales))


def _beside(places: np.ndarray, seen: Sequence[np.ndarray], sight: Sight) -> np.ndarray:
    """As `Sight.__call__`, of places, in fewer dimensions perhaps, and of what the networks see."""
    parts = zip([places, *seen], sight.scales, strict=True)
    return np.concatenate([part.astype(np.float32) * np.float32(scale) for part, scale in parts], axis=1)


def _total_variance(rows: np.ndarray) -> float:
    """Of rows (n, columns), over all columns: half the mean squared distance between two of them."""
    return float(rows.var(axis=0, dtype=np.float64).sum())


FUNCTIONS = 100
_DECAY, _VARIANCE = 8.0, 0.3
"""t and tau of the softmax: of what is smoothed, not of the noise. The evidence finds larger ones, which are worse."""

# These three: chosen on training images of Fashion-MNIST, three splits, in view of runs on simulated votes.

_VARIANCES = np.geomspace(1e-4, 3.0, 18)
_DECAYS = np.concatenate([[0.0], np.geomspace(0.2, 50.0, 13)])


def smooth_shares(rows: np.ndarray, told: Shares, neighbours: int, smoothing: Smoothing = "linear") -> np.ndarray:
    """Shares of all float32 `rows` (m, inputs), of which the first are `told`: float64 (m, classes). Linear ones are
    means of the posterior, which may lie a little outside 0 to 1; of a softmax the most probable."""
    if len(rows) < 2:
        return told.shares
    values, vectors = smoothest(neighbour_graph(*nearest_rows(rows, neighbours)), FUNCTIONS)
    basis = vectors * np.sqrt(len(vectors))
    rough = (values[0] - values) / max(values[0] - values[-1], 1e-12)
    if smoothing == "softmax":
        return most_probable(basis * np.sqrt(_VARIANCE * np.exp(-_DECAY * rough)), told)
    return basis @ _coefficients(basis[: len(told)], rough, told) + 1 / told.classes


def _coefficients(basis: np.ndarray, rough: np.ndarray, told: Shares) -> np.ndarray:
    """Posterior means (functions, classes) from `basis` (n, functions) at the rows that were told."""
    weighted = basis / told.deviation[:, None]
    product = weighted.T @ weighted
    seen = weighted.T @ ((told.shares - 1 / told.classes) / told.deviation[:, None])
    best, found = -np.inf, np.zeros_like(seen)
    for decay in _DECAYS:
        for variance in _VARIANCES:
            root = np.sqrt(variance * np.exp(-decay * rough))
            inner = root[:, None] * product * root + np.eye(len(root))
            mean = np.linalg.solve(inner, root[:, None] * seen)
            fit = float((root[:, None] * seen * mean).sum())
            evidence = fit - told.classes * np.linalg.slogdet(inner)[1]
            if evidence > best:
                best, found = evidence, root[:, None] * mean
    return found
