"""Students that learn from noisy histograms: the noise is known, so nothing about it must be guessed.

There are smooth functions of rows (a kernel's, a graph's), many classes that are named unequally often and made
comparable (`even`), shares of all public rows for trainers that need labels, and the student `auto`, which is whichever
of them the released answers speak for. All of it is post-processing of what was released: it costs no privacy.

Of many classes some get votes on nearly all rows: teachers that do not know a row's class name one that they do know.
If noise is much larger than a share, regression shrinks all classes alike towards their means, and the largest
share is that of a class that is named often anywhere. What tells a row's class is how far its share is above what is
usual for that class; and a class that would be found on more rows than others is held back (Sinkhorn's iteration, as
Asano, Rupprecht, Vedaldi, Self-labelling, ICLR 2020, assign images to as many clusters of one size). This supposes that
classes are about as frequent as each other; where they are not, `even` finds rare ones too often.

`auto` takes the largest evidence of noisy histograms, and of labels the least squared error of probabilities on
held-out labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from consilium.models.base import Job, Model, Shares, SharesTrainer, SoftTrainer, Trainer, constant, softmax
from consilium.models.evidence import Landmarks, SoftmaxFit, fit_softmax, gammas, graph_functions, regress
from consilium.models.kernel import GraphTrainer, KernelModel, KernelTrainer, kernel_ridge
from consilium.models.specs import EvenStudent, SpreadingStudent
from consilium.models.tabular import LinearTrainer
from consilium.protocol.label_source import Progress, no_progress

_NO_SPREAD = 1e-9
"""Of a class's share: it says nothing then."""

_SHARPNESS = 2.0
"""A row is of a class with a probability that is e^2 times as large for each deviation that its share is above the
mean."""

# The best of 1, 2 and 4 on font families that are private with seed 0.

_NEVER = 1e-300
_ROUNDS = 100
_SETTLED = 1e-3


@dataclass(frozen=True)
class _Onto:
    """Of each class float64 (classes,): its mean, what its distance from it is multiplied by, and what is added."""

    mean: np.ndarray = field(repr=False)
    factor: np.ndarray = field(repr=False)
    level: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, shares: np.ndarray) -> _Onto:
        """What makes `shares` float64 (n, classes) even."""
        mean, spread = shares.mean(axis=0), shares.std(axis=0)
        usual = spread.mean()
        factor = np.divide(usual, spread, out=np.zeros_like(spread), where=spread > _NO_SPREAD)
        if usual <= _NO_SPREAD:
            return cls(mean, factor, np.full(len(mean), 1 / len(mean)))
        apart = (shares - mean) * factor / usual
        return cls(mean, factor, 1 / len(mean) + usual * _held_back(apart))

    def __call__(self, shares: np.ndarray) -> np.ndarray:
        return (shares - self.mean) * self.factor + self.level


def even(shares: np.ndarray) -> np.ndarray:
    """Shares float64 (n, classes), each class with the spread that they have in the mean, and found on as many rows.

    >>> even(np.array([[0.7, 0.3], [0.9, 0.1]])).round(2).tolist()
    [[0.4, 0.6], [0.6, 0.4]]
    """
    return _Onto.of(shares)(shares)


def even_model(model: KernelModel, rows: np.ndarray) -> KernelModel:
    """`model`, whose shares of float `rows` (n, inputs) are even."""
    onto = _Onto.of(model.scores(rows))
    offset = 1 / model.weights.shape[1] if model.offset is None else model.offset
    weights = (model.weights * onto.factor).astype(np.float32)
    return replace(model, weights=weights, offset=onto(np.asarray(offset)))


def _held_back(apart: np.ndarray) -> np.ndarray:
    """What is added to each class of `apart` (n, classes), in deviations, so that all are found as often; mean 0."""
    added = np.zeros(apart.shape[1])
    for _ in range(_ROUNDS):
        found = softmax(_SHARPNESS * (apart + added)).mean(axis=0) * len(added)
        added -= np.log(np.maximum(found, _NEVER)) / _SHARPNESS
        if np.abs(found - 1).max() < _SETTLED:
            break
    return added - added.mean()


_LEAST_ROWS = 4
"""Of a graph."""

_SAMPLE = 500
_LITTLE_NOISE = 0.01


@dataclass(frozen=True)
class SmoothFit:
    """`model`, and the log `evidence` of what it was made from (`Regression.evidence`)."""

    model: KernelModel = field(repr=False)
    evidence: float


def fit_kernel(x: np.ndarray, told: Shares, widths: tuple[float, ...], seed: int) -> SmoothFit:
    """Fit `told` of n >= 1 rows on `x` float (n, inputs); of `widths` and the usual ones the most evident is taken.

    A width is the kernel's gamma. The penalty follows from the noise and the evidence.
    """
    rows = x.astype(np.float32)
    fits = [_around(rows, told, gamma, seed) for gamma in (*gammas(rows), *widths)]
    return max(fits, key=lambda fit: fit.evidence)


def fit_graph(x: np.ndarray, told: Shares, unlabelled: np.ndarray, spec: SpreadingStudent, seed: int) -> SmoothFit:
    """Fit `told` of n >= 1 rows `x` on the graph of these and of `unlabelled` (m, inputs).

    That gives shares of all rows. Kernel ridge regression on them, with the penalty of `spec`, judges new rows.
    """
    rows = np.concatenate([x, unlabelled]).astype(np.float32)
    if len(rows) < _LEAST_ROWS:
        return fit_kernel(x, told, (spec.gamma,), seed)
    functions = graph_functions(rows, spec.neighbours, spec.spread)
    found = regress(functions[: len(x)], told)
    shares = found.shares(functions)
    shares = even(shares) if spec.even else shares
    some = np.random.default_rng([seed, len(rows)]).permutation(len(rows))[:_SAMPLE]
    nearly = Shares(shares[some], np.full(len(some), _LITTLE_NOISE))
    gamma = fit_kernel(rows[some], nearly, (spec.gamma,), seed).model.gamma
    return SmoothFit(kernel_ridge(rows, shares.astype(np.float32), gamma, spec.alpha), found.evidence)


def _around(rows: np.ndarray, told: Shares, gamma: float, seed: int) -> SmoothFit:
    around = Landmarks.among(rows, gamma, seed)
    found = regress(around.features(rows), told)
    weights = around.weights(found.weights).astype(np.float32)
    return SmoothFit(KernelModel(around.rows, weights, gamma, found.offset), found.evidence)


@dataclass(frozen=True)
class KernelShares:
    """The student `kernel_ridge` of noisy shares; `unlabelled` float (m, inputs), where classes are made even.

    Of its settings only `even` and the width are used, the width beside the usual ones. Where classes are made even it
    is the only one: the evidence is of shares as they are, and speaks for narrower ones than tell even classes apart.
    """

    spec: EvenStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> KernelModel:
        """See `SharesTrainer.fit_shares`."""
        if self.spec.even:
            model = _around(x.astype(np.float32), told, self.spec.gamma, seed).model
            return even_model(model, np.concatenate([x, self.unlabelled]))
        return fit_kernel(x, told, (self.spec.gamma,), seed).model


@dataclass(frozen=True)
class GraphShares:
    """The student `graph` of noisy shares; `unlabelled` float (m, inputs)."""

    spec: SpreadingStudent
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> KernelModel:
        """See `SharesTrainer.fit_shares`."""
        return fit_graph(x, told, self.unlabelled, self.spec, seed).model


def denoise(x: np.ndarray, told: Shares, rows: np.ndarray, seed: int) -> np.ndarray:
    """Shares float64 (m, classes) of `rows` (m, inputs), probabilities, from `told` of the rows `x` (n, inputs).

    They are those of the linear student or of the one with a kernel, whichever has more evidence.
    """
    linear, kernel = fit_softmax(x, told), fit_kernel(x, told, (), seed)
    model = linear.model if linear.evidence >= kernel.evidence else kernel.model
    return model.predict_proba(rows)


@dataclass(frozen=True)
class OnDenoised:
    """A trainer of labels, given the denoised shares of the rows that were asked and of `unlabelled` (m, inputs)."""

    trainer: SoftTrainer
    unlabelled: np.ndarray = field(repr=False)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        rows = np.concatenate([x, self.unlabelled])
        return self.trainer.fit_soft(rows, denoise(x, told, rows, seed), seed)


@dataclass(frozen=True)
class WithShares:
    """`labels` where a federation releases labels, `shares` where it releases noisy histograms."""

    labels: Trainer
    shares: SharesTrainer

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        return self.labels.fit(x, y, classes, seed)

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        return self.shares.fit_shares(x, told, seed)


_FOLDS = 5
_TRIED = "train student, kinds tried"
_LOT = 0x6175746F

GRAPH = SpreadingStudent(name="graph")
"""The graph's settings: the defaults."""


@dataclass(frozen=True)
class AutoTrainer:
    """`unlabelled` float (m, inputs). `job` is told what was chosen."""

    unlabelled: np.ndarray = field(repr=False)
    job: Job

    def fit_shares(self, x: np.ndarray, told: Shares, seed: int) -> Model:
        """See `SharesTrainer.fit_shares`."""
        fits = fitted(x, told, self.unlabelled, seed, self.job.progress)
        best = max(fits, key=lambda name: fits[name].evidence)
        evidence = {name: round(fit.evidence, 2) for name, fit in fits.items()}
        self.job.chose({"trainer": best, "by": "log evidence of the noisy shares", "log_evidence": evidence})
        return fits[best].model

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`."""
        candidates = self._candidates(x)
        parts = np.array_split(np.random.default_rng([seed, _LOT]).permutation(len(y)), min(_FOLDS, len(y)))
        errors: dict[str, float] = {}
        for name, make in candidates.items():
            self.job.progress(_TRIED, len(errors), len(candidates))
            errors[name] = round(_held_out(make, x, y, classes, parts, seed), 4)
        self.job.progress(_TRIED, len(candidates), len(candidates))
        best = min(errors, key=lambda name: errors[name])
        self.job.chose({"trainer": best, "by": "squared error on held-out labels", "squared_error": errors})
        return candidates[best](self.unlabelled).fit(x, y, classes, seed)

    def _candidates(self, x: np.ndarray) -> dict[str, Callable[[np.ndarray], Trainer]]:
        """Trainers by name, each of the unlabelled rows that it may use; the simpler ones first."""
        candidates: dict[str, Callable[[np.ndarray], Trainer]] = {}
        for penalty in (0.001, 0.01, 0.1, 1.0):
            candidates[f"linear, C {penalty:g}"] = lambda _, c=penalty: LinearTrainer(c)
        for gamma in gammas(x.astype(np.float32)):
            for alpha in (0.1, 1.0):
                name = f"kernel, gamma {gamma:.4g}, alpha {alpha:g}"
                candidates[name] = lambda _, g=gamma, a=alpha: KernelTrainer(g, a)
        if len(x) + len(self.unlabelled) > 3:
            candidates["graph"] = lambda unlabelled: GraphTrainer(GRAPH, unlabelled)
        return candidates


def fitted(
    x: np.ndarray, told: Shares, unlabelled: np.ndarray, seed: int, progress: Progress = no_progress
) -> dict[str, SoftmaxFit | SmoothFit]:
    """All three students of noisy shares, by name."""
    kinds: dict[str, Callable[[], SoftmaxFit | SmoothFit]] = {
        "linear": lambda: fit_softmax(x, told),
        "kernel": lambda: fit_kernel(x, told, (GRAPH.gamma,), seed),
        "graph": lambda: fit_graph(x, told, unlabelled, GRAPH, seed),
    }
    found = {}
    for name, fit in kinds.items():
        progress(_TRIED, len(found), len(kinds))
        found[name] = fit()
    progress(_TRIED, len(kinds), len(kinds))
    return found


def _held_out(
    make: Callable[[np.ndarray], Trainer],
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    parts: list[np.ndarray],
    seed: int,
) -> float:
    """Mean squared distance of probabilities from labels that were held out, part by part; they stay as bare rows."""
    wrong = 0.0
    for part in parts:
        rest = np.setdiff1d(np.arange(len(y)), part)
        model: Model = constant(y[rest], classes)
        if len(np.unique(y[rest])) > 1:
            model = make(x[part]).fit(x[rest], y[rest], classes, seed)
        wrong += float(((model.predict_proba(x[part]) - np.eye(classes)[y[part]]) ** 2).sum())
    return wrong / len(y)
