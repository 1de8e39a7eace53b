"""Self-training: the student labels for itself what nobody did, where it is sure (Yarowsky 1995; Lee 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from consilium.student.trainers.base import Model, Trainer


@dataclass(frozen=True)
class SelfTraining:
    """Wraps a trainer; `unlabelled` float64 (n, features) standardised. Post-processing: costs no privacy."""

    trainer: Trainer
    confidence: float
    rounds: int
    unlabelled: np.ndarray = field(repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        """See `Trainer.fit`. In each round the sure rows are chosen anew, as many of each class as the released
        labels' class shares allow, so that the student cannot talk itself into one class."""
        model = self.trainer.fit(x, y, classes, seed)
        shares = np.bincount(y, minlength=classes) / len(y)
        for _ in range(self.rounds):
            if not len(self.unlabelled):
                break
            probabilities = model.predict_proba(self.unlabelled)
            labels, top = probabilities.argmax(axis=1), probabilities.max(axis=1)
            sure = top >= self.confidence
            if not sure.any():
                break
            most = (sure.sum() * shares).astype(int)
            chosen = []
            for label in range(classes):
                candidates = np.flatnonzero(sure & (labels == label))
                chosen.append(candidates[np.argsort(-top[candidates], kind="stable")][: most[label]])
            rows = np.concatenate(chosen)
            model = self.trainer.fit(
                np.concatenate([x, self.unlabelled[rows]]), np.concatenate([y, labels[rows]]), classes, seed
            )
        return model
