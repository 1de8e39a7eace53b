"""An estimator that others wrote, held to what a classifier must do, and tried on made-up rows before real ones.

It is trained on labels 0, 1, 2, ... of the classes that its rows have (some libraries accept no others), it gets copies
of all rows, what it prints is dropped, since it may quote them, and every answer is looked at before it is used.
What is kept is its pickle, so that what votes tomorrow is what was looked at today.

A fault of the model itself (a slip in a parameter, no probabilities, what cannot be kept) shows on made-up rows, where
its text may be told: no private row and no released label is in it. So who takes part is decided by the party's own
settings and public statistics. What fails on real rows only may depend on their labels, and is no reason to stay away.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.models.devices import one_thread
from consilium.models.naming import UnusableModel, told
from consilium.protocol.schema import Schema

_PROBED = 8
"""Rows that it must answer for as soon as it is trained."""
_FURTHEST = 1e-3
"""Of the sum of probabilities from 1."""
_NO_PROBABILITIES = "its answers are no probabilities: not numbers, below 0, or of another sum than 1"


@dataclass
class GuardedClassifier:
    """A trained estimator. `seen` int64 (seen,), ascending: the classes of its rows. `content`: its pickle.

    usual : the class that most of its rows have.
    """

    seen: np.ndarray
    content: bytes = field(repr=False)
    usual: int
    _live: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def trained(
        cls, estimator: Any, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
    ) -> GuardedClassifier:
        """Fit on rows `x` float64 (n, inputs) and `y` int64 (n,), of two classes or more; `weights` float64 (n,).

        Raises
        ------
        Exception : whatever the estimator raises. UnusableModel : it takes no weights, or its answers are no
            probabilities. Neither text may be shown where the rows are private.
        """
        import cloudpickle

        seen, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        given: dict[str, np.ndarray] = {}
        if weights is not None:
            key = weight_key(estimator)
            if key is None:
                raise UnusableModel("its fit takes no sample_weight", "Give each row as often as it counts")
            given[key] = weights
        with _held():
            returned = estimator.fit(np.array(x), codes.astype(np.int64), **given)
            kept = returned if callable(getattr(returned, "predict", None)) else estimator
            content = cloudpickle.dumps(kept)
        guarded = cls(seen, content, int(seen[counts.argmax()]))
        if not np.isfinite(guarded.probabilities(x[:_PROBED])).all():
            raise UnusableModel(_NO_PROBABILITIES, "Look at its predict_proba")
        return guarded

    @property
    def estimator(self) -> Any:
        """The trained estimator; a pickle is read at the first use."""
        if self._live is None:
            self._live = pickle.loads(self.content)
        return self._live

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Rows float64 (n, inputs) -> float64 (n, seen); NaN in rows for which the estimator gave no probabilities.

        One without `predict_proba` gives what it predicts probability 1.

        Raises
        ------
        Exception : whatever the estimator raises. UnusableModel : an answer of a shape that means nothing.
        """
        with _held():
            estimator = self.estimator
            if hasattr(estimator, "predict_proba"):
                return self._scaled(_numbers(estimator.predict_proba(np.array(x))), len(x))
            named = _numbers(estimator.predict(np.array(x))).reshape(-1)
        if named.shape != (len(x),):
            raise UnusableModel(f"predict gives {len(named)} answers for {len(x)} rows", "Look at its predict")
        found = (named[:, None] == np.arange(len(self.seen))).astype(np.float64)
        found[found.sum(axis=1) != 1] = np.nan
        return found

    def _scaled(self, found: np.ndarray, rows: int) -> np.ndarray:
        columns = _numbers(getattr(self.estimator, "classes_", np.arange(len(self.seen)))).reshape(-1)
        places = np.flatnonzero(np.isin(columns, np.arange(len(self.seen))))
        if len(places) != len(columns) or len(np.unique(columns)) != len(columns):
            raise UnusableModel("its classes_ are none that it was trained on", "Look at its fit")
        if found.shape != (rows, len(columns)):
            what = f"predict_proba gives {found.shape} for {rows} rows and {len(columns)} classes"
            raise UnusableModel(what, "Look at its predict_proba")
        probabilities = np.zeros((rows, len(self.seen)))
        probabilities[:, columns.astype(np.int64)] = found
        totals = probabilities.sum(axis=1)
        with np.errstate(invalid="ignore"):
            bad = ~((probabilities >= 0).all(axis=1) & (np.abs(totals - 1) <= _FURTHEST))
        probabilities[~bad] /= totals[~bad, None]
        probabilities[bad] = np.nan
        return probabilities

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}


def weight_key(estimator: Any) -> str | None:
    """The name under which `fit` takes a weight for each row; of a Pipeline, its last step's. None where it has none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_key(make_pipeline(LogisticRegression()))
    'logisticregression__sample_weight'
    """
    steps = getattr(estimator, "steps", None)
    if steps:
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


def _numbers(answer: Any) -> np.ndarray:
    """As float64; texts of numbers are numbers. Raises ValueError or TypeError for what is none."""
    return np.asarray(answer).astype(np.float64)


_ROWS = 300
"""That are made up: enough for an estimator that asks many neighbours."""
_OF_A_CLASS = 10
_ALONE, _FURTHEST_ALONE = 8, 1e-3
"""Rows that are asked once more, one by one, and how far their probabilities may be from those before: rounding."""
_LOT, _MISSING = 0x747279, 0.05


def rehearse(title: str, make: Callable[[], Any], schema: Schema, keep_missing: bool = False) -> GuardedClassifier:
    """Train what `make` builds on made-up rows of `schema`, all classes among them; returned as it would be kept.

    keep_missing: some of their values are NaN.

    Raises
    ------
    UnusableModel : it cannot be built, or trained on them, or does not stand by its answers.
    """
    x, y = made_up(schema, max(_ROWS, _OF_A_CLASS * len(schema.classes)), keep_missing)
    try:
        trained = GuardedClassifier.trained(make(), x, y)
        _check_answers(trained, x)
        return trained
    except UnusableModel as error:
        raise UnusableModel(f"{title}: {error.what}", error.action) from None
    except (Exception, SystemExit) as error:
        unless_signalled(error)
        what = f"{title} cannot be trained on made-up rows: {told(error)}"
        raise UnusableModel(what, "Correct it, or its parameters") from None


def _check_answers(trained: GuardedClassifier, x: np.ndarray) -> None:
    """As it is kept, it must judge each row by itself and always alike: a question that comes again is counted once."""
    kept = GuardedClassifier(trained.seen, trained.content, trained.usual)
    alone = np.concatenate([kept.probabilities(x[row : row + 1]) for row in range(_ALONE)])
    if not (np.abs(alone - trained.probabilities(x)[:_ALONE]) <= _FURTHEST_ALONE).all():
        raise UnusableModel(
            "its answer for a row changes from time to time, or with the rows that are asked with it",
            "It must judge each row by itself, without chance",
        )


def made_up(schema: Schema, count: int, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float64 (count, inputs), normal with a shift for each class, and classes int64 (count,), each as often.

    A category has one of its values, each as often. From the schema alone, the same each time. `missing`: one value in
    twenty is NaN, where inputs are the features.
    """
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
