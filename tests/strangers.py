"""Classifiers as strangers write them: good ones, and each thing that one can do wrong. Named by tests as their own."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn


class Nearest:
    """Nearest class means; a duck, without scikit-learn's bases, that behaves."""

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        self.classes_ = np.unique(y)
        self.means = np.array([x[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        near = np.exp(-self.power * np.abs(x[:, None, :] - self.means).sum(axis=2)) + 1e-9
        return near / near.sum(axis=1, keepdims=True)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(x).argmax(axis=1)]


class NoProbabilities:
    """Gives classes only."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> NoProbabilities:
        self.inner = Nearest().fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.inner.predict(x)


class WithoutClasses(Nearest):
    """Does not say which classes its columns are."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        super().fit(x, y)
        del self.classes_
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.predict_proba(x).argmax(axis=1)


class Prints(Nearest):
    """Prints the rows that it is given, and warns of them."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        import warnings

        print("PRIVATE", x[0])
        print("PRIVATE", x[0], file=sys.stderr)
        warnings.warn(f"PRIVATE {x[0]}", stacklevel=1)
        return super().fit(x, y)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        print("PRIVATE", x[0])
        return super().predict_proba(x)


class Moody(Nearest):
    """Says now this and now that of the same row."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        found = super().predict_proba(x) + np.random.default_rng().random((len(x), 1)) * [[0, 1]]
        return found / found.sum(axis=1, keepdims=True)


class Raises(Nearest):
    """Raises `error` in `method`, on rows with a mark only where `marked`; the text quotes them."""

    def __init__(self, error: str = "RuntimeError", method: str = "fit", marked: bool = False) -> None:
        super().__init__()
        self.error, self.method, self.marked = error, method, marked

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        self._maybe("fit", x)
        return super().fit(x, y)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        self._maybe("predict_proba", x)
        return super().predict_proba(x)

    def _maybe(self, method: str, x: np.ndarray) -> None:
        if method == self.method and (not self.marked or (np.abs(x) > MARK).any()):
            raise ERRORS[self.error](f"PRIVATE {x[0].tolist()}")


class Signalled(Nearest):
    """Somebody stops the process while it is trained."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return super().fit(x, y)


MARK = 8.0
"""Standardised values beyond it are in no made-up row."""


class Odd(Exception):
    pass


ERRORS: dict[str, type[BaseException]] = {
    "RuntimeError": RuntimeError,
    "MemoryError": MemoryError,
    "Odd": Odd,
    "SystemExit": SystemExit,
    "RecursionError": RecursionError,
}


class Answers(Nearest):
    """Gives what `shape` says instead of probabilities."""

    def __init__(self, shape: str) -> None:
        super().__init__()
        self.shape = shape

    def predict_proba(self, x: np.ndarray) -> Any:
        good = super().predict_proba(x)
        return {"nan": np.full_like(good, np.nan), "one column": good[:, 1], "too few": good[:-1]}[self.shape]


class NotKept(Nearest):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def imputing(strategy: str = "median") -> Pipeline:
    """A Pipeline that knows what to do with missing values."""
    return make_pipeline(
        SimpleImputer(strategy=strategy, add_indicator=True), StandardScaler(), LogisticRegression(max_iter=500)
    )


class SeesMissing(ClassifierMixin, BaseEstimator):
    """Remembers whether it saw NaN."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> SeesMissing:
        self.classes_ = np.unique(y)
        self.missing_ = int(np.isnan(x).sum())
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.classes_[0])


class MyLinear(LogisticRegression):
    """Only its name is new, which nobody trusts."""


class Net(nn.Module):
    """A small network with a dropout, so that a seed matters."""

    def __init__(self, inputs: int, classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.2), nn.Linear(hidden, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Eyes(nn.Module):
    """A small network for images."""

    def __init__(self, inputs: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        channels, side, _ = inputs
        self.body = nn.Sequential(
            nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (side - 2) ** 2, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def ten_outputs(inputs: int, classes: int) -> nn.Module:
    """More outputs than there are classes."""
    return nn.Linear(inputs, 10)


def one_output(inputs: int, classes: int) -> nn.Module:
    """One logit for two classes, as some write it."""
    return nn.Linear(inputs, 1)


def no_module(inputs: int, classes: int) -> object:
    return object()
