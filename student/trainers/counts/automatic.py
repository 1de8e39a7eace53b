"""The student `auto`: linear, with a kernel or with a graph, whichever what was released speaks for.

For noisy histograms that is the largest evidence; for labels the least squared error of probabilities on held-out
labels. Both are functions of released answers and public rows: the choice costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.labels.service import Progress, no_progress
from consilium.student.trainers.base import Job, Model, Shares, Trainer, constant
from consilium.student.trainers.counts.features import gammas
from consilium.student.trainers.counts.smooth import SmoothFit, fit_graph, fit_kernel
from consilium.student.trainers.counts.softmax import SoftmaxFit, fit_softmax
from consilium.student.trainers.kernel import GraphTrainer, KernelTrainer
from consilium.student.trainers.settings import SpreadingStudent
from consilium.student.trainers.tabular import LinearTrainer

_FOLDS = 5
_TRIED = "train student, kinds tried"
_LOT = 0x6175746F
_MOST_NEIGHBOURS = 2000
"""Unlabelled rows of the graphs that are only tried."""

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
