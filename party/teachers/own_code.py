"""A teacher that others wrote, trained and asked so that nothing it does wrong reaches the votes or the log.

Whether an estimator can be fitted to a shard, or answers for a row, may depend on labels. Who takes part must not:
where it cannot, the teacher says the shard's most frequent class, and the party's own log and `consilium party dry-run`
say how many do. What is wrong with it on any rows shows on made-up ones, before, and is told (`check_own_code`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np

from consilium.party.teachers.own_teacher import OwnCode
from consilium.protocol.errors import ConfigError
from consilium.protocol.own_models.guard import GuardedClassifier, unless_signalled
from consilium.protocol.own_models.rehearsal import rehearse
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.rows.schema import Schema

log = logging.getLogger("consilium.party")

_SOUND: set[tuple[str, str]] = set()
"""Tables and schemas that were tried in this process, which may hold many simulated parties."""


@dataclass
class OwnCodeTeacher:
    """Wraps a trained classifier; has scikit-learn's methods, and never raises."""

    trained: GuardedClassifier = field(repr=False)
    title: str

    @property
    def classes_(self) -> np.ndarray:
        """The classes int64 (seen,) in the rows that it was trained on."""
        return self.trained.seen

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of each row, int64 (n,)."""
        return self.classes_[self.predict_proba(x).argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Probabilities float64 (n, seen); where the estimator has none, 1 for its shard's most frequent class."""
        found = np.full((len(x), len(self.classes_)), np.nan)
        try:
            found = self.trained.probabilities(x)
        except (Exception, SystemExit) as error:
            unless_signalled(error)
            log.warning("[teacher] %s fails on %d questions: %s", self.title, len(x), type(error).__name__)
        silent = np.isnan(found).any(axis=1)
        if silent.any():
            log.warning("[teacher] %s gave no probabilities for %d of %d questions", self.title, silent.sum(), len(x))
            found[silent] = self.classes_ == self.trained.usual
        return found


def fit(spec: OwnCode, x: np.ndarray, y: np.ndarray, seed: int) -> OwnCodeTeacher | None:
    """A teacher trained on rows `x` float64 (n, inputs) and `y` int64 (n,) of two classes or more; None if it fails.

    Whatever it raises on the rows is dropped, with its text, which may quote one.

    Raises
    ------
    Refused : it cannot be built, which no row has a part in (POLICY).
    """
    try:
        estimator = spec.build(seed)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None
    try:
        return OwnCodeTeacher(GuardedClassifier.trained(estimator, x, y), spec.title)
    except (Exception, SystemExit) as error:
        unless_signalled(error)
        return None


def check_own_code(spec: OwnCode, schema: Schema) -> None:
    """Raise Refused (POLICY) unless the model can be built, and trained on made-up rows of this schema.

    No private row has any part in it, so it may say what is wrong.
    """
    try:
        if spec.keeps_missing and schema.representation != "none":
            raise ConfigError(
                f'missing = "keep" and a representation, {schema.representation}, exclude each other', "Leave it out"
            )
        key = spec.known_by, schema.digest()
        if key not in _SOUND:
            rehearse(spec.title, lambda: spec.build(0), schema, spec.keeps_missing)
            _SOUND.add(key)
    except ConfigError as error:
        raise Refused(Rule.POLICY, detail=f"[teacher] {error}") from None
