"""Estimators that others wrote, held to what a classifier must do, and tried on made-up rows before real ones.

It is trained on labels 0, 1, 2, ... of the classes that its rows have (some libraries accept no others), it gets copies
of all rows, what it prints is dropped, since it may quote them, and every answer is looked at before it is used.
What is kept is its pickle, so that what votes tomorrow is what was looked at today.

A fault of the model itself (a slip in a parameter, no probabilities, what cannot be kept) shows on made-up rows, where
its text may be told: no private row and no released label is in it. So who takes part is decided by the party's own
settings and public statistics. What fails on real rows only may depend on private labels, and is no reason to stay
away: a teacher that has no answer says its shard's most frequent class. What a student learns from is public, so what
goes wrong there is told.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.models.base import Model, Told
from consilium.models.devices import one_thread
from consilium.models.linear import among
from consilium.models.naming import UnusableModel, told
from consilium.protocol.schema import Schema

_PROBED = 8
"""Rows that it must answer for as soon as it is trained."""
_FURTHEST = 1e-3
"""Of the sum of probabilities from 1."""
_LEAST_SHARE = 0.005
COPIES = 10
"""Of a row, divided among its classes, for an estimator that takes no weights."""


@dataclass
class OwnClassifier:
    """A trained estimator. `classes_` int64 (seen,), ascending: those of its rows. `content`: its pickle. usual: the
    class that most of its rows have. silent: names of exceptions, or "no probabilities" -> how often."""

    classes_: np.ndarray
    content: bytes = field(repr=False)
    usual: int
    live: Any = field(default=None, repr=False, compare=False)
    silent: Counter[str] = field(default_factory=Counter, repr=False)

    @classmethod
    def trained(cls, estimator: Any, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> OwnClassifier:
        """Fit on rows `x` float64 (n, inputs) and `y` int64 (n,), of two classes or more; `weights` float64 (n,).
        Raises Exception: whatever the estimator raises. UnusableModel: its answers are no probabilities. Neither text
        may be shown where the rows are private."""
        import cloudpickle

        seen, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        given = {} if weights is None else {str(weight_key(estimator)): weights}
        with _held():
            returned = estimator.fit(np.array(x), codes.astype(np.int64), **given)
            kept = returned if callable(getattr(returned, "predict", None)) else estimator
            content = cloudpickle.dumps(kept)
        guarded = cls(seen, content, int(seen[counts.argmax()]))
        if not np.isfinite(guarded.probabilities(x[:_PROBED])).all():
            what = "its answers are no probabilities: not numbers, below 0, or of another sum than 1"
            raise UnusableModel(what, "Look at its predict_proba")
        return guarded

    @property
    def estimator(self) -> Any:
        if self.live is None:
            self.live = pickle.loads(self.content)
        return self.live

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen); where the estimator has none, 1 for `usual`. Never raises."""
        errors: set[str] = set()
        found = self._answers(x, errors)
        silent = np.isnan(found).any(axis=1)
        if silent.any():
            self.silent[", ".join(sorted(errors)) or "no probabilities"] += int(silent.sum())
            found[silent] = self.classes_ == self.usual
        return found

    def _answers(self, x: np.ndarray, errors: set[str]) -> np.ndarray:
        """NaN for rows that it fails on: whether such a row is asked with another must not change the other's vote.
        errors: to which names of exceptions are added."""
        try:
            return self.probabilities(x)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            errors.add(type(error).__name__)
        if len(x) < 2:
            return np.full((len(x), len(self.classes_)), np.nan)
        return np.concatenate([self._answers(part, errors) for part in np.array_split(x, 2)])

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Rows float64 (n, inputs) -> float64 (n, seen); NaN in rows for which the estimator gave no probabilities. One
        without `predict_proba` gives what it predicts probability 1. Raises Exception: whatever the estimator raises.
        UnusableModel: an answer of a shape that means nothing."""
        places = np.arange(len(self.classes_))
        with _held():
            estimator = self.estimator
            sure = not hasattr(estimator, "predict_proba")
            answer = (estimator.predict if sure else estimator.predict_proba)(np.array(x))
        found, columns = np.asarray(answer).astype(np.float64), places  # texts of numbers are numbers
        if sure:
            if (found := found.reshape(-1)).shape != (len(x),):
                raise UnusableModel(f"predict gives {len(found)} answers for {len(x)} rows", "Look at its predict")
            found = (found[:, None] == places).astype(np.float64)
        elif hasattr(estimator, "classes_"):
            columns = np.asarray(estimator.classes_).astype(np.float64).reshape(-1)
        if not np.isin(columns, places).all() or len(np.unique(columns)) != len(columns):
            raise UnusableModel("its classes_ are none that it was trained on", "Look at its fit")
        if found.shape != (len(x), len(columns)):
            what = f"predict_proba gives {found.shape} for {len(x)} rows and {len(columns)} classes"
            raise UnusableModel(what, "Look at its predict_proba")
        probabilities = np.zeros((len(x), len(places)))
        probabilities[:, columns.astype(np.int64)] = found
        totals = probabilities.sum(axis=1)
        with np.errstate(invalid="ignore"):
            bad = ~((probabilities >= 0).all(axis=1) & (np.abs(totals - 1) <= _FURTHEST))
        probabilities[~bad] /= totals[~bad, None]
        probabilities[bad] = np.nan
        return probabilities

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "live": None}


@dataclass(frozen=True)
class OwnModel:
    """A student: a trained estimator, and how many `classes` there are in all. `title`: what people call it."""

    classifier: OwnClassifier = field(repr=False)
    classes: int
    title: str

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """See `Model.predict_proba`. Raises UnusableModel: it raises something, or gives no probabilities."""
        try:
            found = self.classifier.probabilities(x)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            raise UnusableModel(f"the student {self.title} fails on {len(x)} rows: {quoted(error)}") from None
        if bad := int(np.isnan(found).any(axis=1).sum()):
            raise UnusableModel(f"the student {self.title} gives no probabilities for {bad} of {len(x)} rows")
        return among(found, self.classifier.classes_, self.classes)


@dataclass(frozen=True)
class OwnTrainer:
    """Trains what `make` gives for a seed: an untrained estimator with scikit-learn's methods. unlabelled: float (m,
    inputs), rows whose shares it learns beside those that were asked."""

    title: str
    make: Callable[[int], Any]
    unlabelled: np.ndarray | None = field(default=None, repr=False)

    def fit(self, x: np.ndarray, y: np.ndarray, classes: int, seed: int) -> Model:
        try:
            return OwnModel(OwnClassifier.trained(self.make(seed), x, y), classes, self.title)
        except UnusableModel as error:
            raise UnusableModel(f"the student {self.title}: {error.what}", error.action) from None
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            what = f"the student {self.title} cannot be trained on {len(x)} rows: {told(error)}"
            action = "Correct it, or its parameters; what was answered is in the ledger and costs nothing"
            raise UnusableModel(what, action) from None

    def fit_told(self, x: np.ndarray, told: Told, seed: int) -> Model:
        """See `EvidenceTrainer.fit_told`: it is given denoised shares, each row once for each class, with its share as
        its weight. An estimator that takes no weights, or fails with them, gets copies. Raises UnusableModel."""
        from consilium.models.shares import denoise

        every = x if self.unlabelled is None else np.concatenate([x, self.unlabelled])
        shares, estimator, classes = denoise(x, told, every, seed), self.make(seed), told.classes
        kept = shares >= _LEAST_SHARE
        kept[:1] = True  # two classes at least: a classifier of one is none
        places, labels = np.nonzero(kept)
        rows, weights = every[places], shares[places, labels]
        if weight_key(estimator) is not None:
            try:
                return OwnModel(OwnClassifier.trained(estimator, rows, labels, weights), classes, self.title)
            except (Exception, SystemExit) as error:
                unless_signalled(error)  # else a Pipeline whose steps pass weights on to what takes none, say
        copies = np.rint(COPIES * weights).astype(np.int64)
        copies[:classes] = np.maximum(copies[:classes], 1)  # of the first row: a classifier of one class is none
        return self.fit(np.repeat(rows, copies, axis=0), np.repeat(labels, copies), classes, seed)


def weight_key(estimator: Any) -> str | None:
    """The name under which `fit` takes a weight for each row; of a Pipeline, its last step's. None where it has none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_key(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    if steps := getattr(estimator, "steps", None):
        name, last = steps[-1]
        inner = weight_key(last)
        return None if inner is None else f"{name}__{inner}"
    try:
        return "sample_weight" if "sample_weight" in inspect.signature(estimator.fit).parameters else None
    except (TypeError, ValueError):
        return None


def unless_signalled(error: BaseException) -> None:
    """Raise the error again if a signal's handler raised it: what ends this process is no fault of the estimator."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
        raise error


def quoted(error: BaseException) -> str:
    """What may be said of an error where no private row can have caused it."""
    return error.what if isinstance(error, UnusableModel) else told(error)


@contextlib.contextmanager
def _held() -> Iterator[None]:
    """Nothing that is printed or warned of comes out, and libraries keep to one thread."""
    with (
        one_thread(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


_ROWS = 300
"""That are made up: enough for an estimator that asks many neighbours."""
_OF_A_CLASS = 10
_ALONE, _FURTHEST_ALONE = 8, 1e-3
"""Rows that are asked once more, one by one, and how far their probabilities may be from those before: rounding."""
_LOT, _MISSING = 0x747279, 0.05


def rehearse(title: str, make: Callable[[], Any], schema: Schema, keep_missing: bool = False) -> OwnClassifier:
    """Train what `make` builds on made-up rows of `schema`, all classes among them; returned as it would be kept. As it
    is kept, it must judge each row by itself and always alike: a question that comes again is counted once.
    keep_missing: some of their values are NaN. Raises UnusableModel: it cannot be built, or trained on them, or does
    not stand by its answers."""
    x, y = made_up(schema, max(_ROWS, _OF_A_CLASS * len(schema.classes)), keep_missing)
    try:
        trained = OwnClassifier.trained(make(), x, y)
        kept = OwnClassifier(trained.classes_, trained.content, trained.usual)
        alone = np.concatenate([kept.probabilities(x[row : row + 1]) for row in range(_ALONE)])
        apart = np.abs(alone - trained.probabilities(x)[:_ALONE])
    except UnusableModel as error:
        raise UnusableModel(f"{title}: {error.what}", error.action) from None
    except (Exception, SystemExit) as error:
        unless_signalled(error)
        what = f"{title} cannot be trained on made-up rows: {told(error)}"
        raise UnusableModel(what, "Correct it, or its parameters") from None
    if not (apart <= _FURTHEST_ALONE).all():
        what = "its answer for a row changes from time to time, or with the rows that are asked with it"
        raise UnusableModel(f"{title}: {what}", "It must judge each row by itself, without chance")
    return trained


def made_up(schema: Schema, count: int, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float64 (count, inputs), normal with a shift for each class, and classes int64 (count,), each as often. A
    category has one of its values, each as often. From the schema alone, the same each time. `missing`: one value in
    twenty is NaN, where inputs are the features."""
    generator = np.random.default_rng(_LOT)
    width, classes = len(schema.features), len(schema.classes)
    y = np.arange(count, dtype=np.int64) % classes
    raw = generator.normal(schema.center, schema.scale, size=(count, width))
    raw += generator.normal(0, schema.scale, size=(classes, width))[y]
    for allowed in schema.ranges:
        index = schema.features.index(allowed.feature)
        column = np.rint(raw[:, index]) if allowed.whole else raw[:, index]
        raw[:, index] = np.clip(column, allowed.low, allowed.high)
    for column in schema.columns:
        first = schema.features.index(column.features[0])
        if column.kind == "number" and column.missing:
            raw[:, first + 1] = generator.random(count) < _MISSING
        if column.kind == "category":
            value = generator.integers(len(column.values), size=count) - len(column.values) + len(column.shown)
            raw[:, first : first + len(column.features)] = value[:, None] == np.arange(len(column.features))
    x = np.asarray(schema.inputs(raw), dtype=np.float64)
    if missing:
        x[generator.random(x.shape) < _MISSING] = np.nan
    return x, y
