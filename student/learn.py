"""A student's trainer on what it was told: labels, or what noisy counts and outcomes say by the law of their noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtrit

from consilium.models.adapted import adapt
from consilium.models.base import Aids, EvidenceTrainer, Model, Outcomes, Shares, Told, constant
from consilium.models.devices import resolve_device
from consilium.models.evaluation import evaluate, rank_correlation
from consilium.models.images.pixels import shape_of
from consilium.models.keys import GraphStudent, LogisticRegressionStudent, TorchStudent, TrainerKind
from consilium.models.published.own_models import trust_of_maker
from consilium.models.published.prevalence import PrevalenceShift
from consilium.models.published.structures import put_together, take_apart
from consilium.models.table import STUDENTS, rehearsed
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.label_source import NO_LABEL, LabelTerms, Progress, no_progress
from consilium.protocol.schema import Schema
from consilium.report.progress import TRAIN_AGAIN
from consilium.student.config import StudentSpec


def train(
    x: np.ndarray,
    y: np.ndarray,
    unlabelled: np.ndarray,
    classes: int,
    spec: StudentSpec,
    seed: int,
    progress: Progress = no_progress,
    schema: Schema | None = None,
    told: Told | None = None,
) -> Model:
    """Train by `spec` on rows as `inputs` gives them; labels of fewer than two classes give a constant model.

    `y`: NO_LABEL where there is none. `schema`: of the rows, for a student that takes bare features and also needs
    their representation, and for one of others that looks columns up by name. `told`: what these rows tell of the
    votes, where the law of the noise is known; a trainer that cannot use it takes the labels.
    """
    known = y != NO_LABEL
    trainer = STUDENTS[type(spec.trainer)](spec.trainer, Aids(unlabelled, progress, schema))
    if told is not None and len(told) and isinstance(trainer, EvidenceTrainer):
        return trainer.fit_told(x, told, seed)
    if not known.all():
        return train(x[known], y[known], np.concatenate([unlabelled, x[~known]]), classes, spec, seed, progress, schema)
    if len(np.unique(y)) < 2:
        return constant(y, classes)
    return trainer.fit(x, y, classes, seed)


MOST_PAIRS, LEAST_PAIRS = 10, 3
"""Of students that are trained again to see how far the noise moves them."""
LEAST_ANSWERS = 4
"""That a student learns from, so that each half has two."""
_NUMBERS, _ROWS, _SLOW_ROWS = 1e8, 12_000, 2000
"""Most numbers that the quickest kind looks at, all of them together; public rows that the one with a graph does,
together; and public rows up to which others are trained again, as seldom as is of use. Seconds of one core."""
_LAW = 2000
"""Numbers that a count costs where labels are read by their law: of 80 labels of 35 classes a fit takes a second."""
_HALVES = 0x68616C66


@dataclass(frozen=True)
class AnsweredRows:
    """What a student learns from. rows: float (n, inputs), the public rows as its model takes them. places: int64 (m,),
    those that tell something; labels: int64 (m,), NO_LABEL where there is none. told: by the same, where the law of the
    noise is known. known: public rows (k, inputs) whose classes int64 (k,) everybody knows, to which a student is
    brought when it has learned."""

    rows: np.ndarray = field(repr=False)
    places: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    told: Told | None = field(default=None, repr=False)
    known: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)

    def train(self, spec: StudentSpec, schema: Schema, seed: int, progress: Progress = no_progress) -> Model:
        """See `train`; rows that tell nothing are unlabelled."""
        rest = np.setdiff1d(np.arange(len(self.rows)), self.places)
        return train(
            self.rows[self.places], self.labels, self.rows[rest], len(schema.classes), spec, seed, progress, schema,
            self.told,
        )  # fmt: skip

    def halves(self, generator: np.random.Generator) -> tuple[AnsweredRows, AnsweredRows]:
        """Two halves of what was released, whose noise is independent, and of twice the variance in each.

        Of noisy shares s both are of all rows: s + e and s - e, where e is Gaussian of the variance of their noise, so
        that the noise in one is uncorrelated with that in the other (Rasines, Young, Splitting strategies for
        post-selection inference, Biometrika 2023). Labels and other outcomes are dealt by lot.
        """
        if not isinstance(self.told, Shares):
            order = generator.permutation(len(self.places))
            first, second = np.sort(order[::2]), np.sort(order[1::2])
            return self._of(first), self._of(second)
        released, deviation = self.told.shares, self.told.deviation
        noise = generator.standard_normal(released.shape) * deviation[:, None]
        first, second = (Shares(half, deviation * np.sqrt(2)) for half in (released + noise, released - noise))
        return self._with(first), self._with(second)

    def _of(self, part: np.ndarray) -> AnsweredRows:
        told = None if self.told is None else self.told.of(part)
        return AnsweredRows(self.rows, self.places[part], self.labels[part], told, self.known)

    def _with(self, shares: Shares) -> AnsweredRows:
        return AnsweredRows(self.rows, self.places, shares.shares.argmax(axis=1), shares, self.known)


def pairs_of_halves(spec: StudentSpec, answered: AnsweredRows, classes: int) -> int | str:
    """How many pairs of students are trained on halves of what was released, or why none are.

    By kind and size alone, never by a clock: the same release gives the same twice.
    """
    kind, (rows, width), count = spec.trainer, answered.rows.shape, int((answered.labels != NO_LABEL).sum())
    if kind.inputs == "features" or isinstance(kind, TorchStudent):
        return f"a student of the kind {kind.name} takes too long to be trained again"
    if count < LEAST_ANSWERS:
        return f"{count} answers are too few to be halved"
    if isinstance(kind, LogisticRegressionStudent):
        refits = _NUMBERS / (count * classes * max(width, _LAW if isinstance(answered.told, Outcomes) else 1))
    elif isinstance(kind, GraphStudent):
        refits = _ROWS / rows
    else:
        refits = 2 * LEAST_PAIRS * (rows <= _SLOW_ROWS)
    if answered.known is not None and classes > 2:  # to bring each to them takes a second
        refits = min(refits, 2 * LEAST_PAIRS)
    pairs = min(MOST_PAIRS, int(refits / 2))
    if pairs < LEAST_PAIRS:
        return f"a student of the kind {kind.name} on {rows} public rows takes too long to be trained again"
    return pairs


def spread_over_noise(
    answered: AnsweredRows,
    spec: StudentSpec,
    schema: Schema,
    seed: int,
    metrics: Mapping[str, Any] | None = None,
    test: tuple[np.ndarray, np.ndarray] | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """How far noise of the same scale moves a student. Only what was released and public rows are looked at, so that
    it costs no privacy, and `seed` is no secret.

    Students are trained again on halves of what was released, in pairs whose noise is independent and of twice the
    variance. How far two of them differ says how far the student of the whole may lie from another one (McCarthy,
    Pseudo-replication: half samples, 1969).

    Parameters
    ----------
    metrics : accuracy and auc (None where there is none) of the student of the whole on the test rows.
    test : float (n, inputs), as the student's model takes them, and classes int64 (n,); None where there are none.

    Returns
    -------
    refits : how many students were trained again.
    metrics : of accuracy and auc, as far as they are known, `sd`, and `interval` of 95 % around the student's, by
        Student's t with a degree of freedom for each pair.
    rank_correlation : Spearman's, of two students' probabilities on the public rows, as if the noise were drawn anew
        for each; the mean over classes. From that of halves (Spearman 1910; Brown 1910), and 0 at least.
    agreement : share of the public rows that two students of halves call alike; two of the whole call more.

    {"absent": why} where nothing is trained again, or a student cannot learn from half.
    """
    pairs = pairs_of_halves(spec, answered, len(schema.classes))
    if isinstance(pairs, str):
        return {"absent": pairs}
    generator = np.random.default_rng([seed, _HALVES])
    known = {name: value for name, value in (metrics or {}).items() if name in _SPREAD and value is not None}
    halved: dict[str, list[list[float]]] = {name: [] for name in known}
    correlations, agreements = list[float](), list[float]()
    try:
        for pair in range(pairs):
            progress(TRAIN_AGAIN, pair, pairs)
            first, second = (_Seen.by(half, spec, schema, seed, test) for half in answered.halves(generator))
            correlations.append(rank_correlation(first.pool, second.pool))
            agreements.append(float((first.pool.argmax(axis=1) == second.pool.argmax(axis=1)).mean()))
            for name, values in halved.items():
                values.append([first.metrics[name], second.metrics[name]])
    except ConsiliumError as error:  # the student of the whole is there, and paid for
        return {"absent": f"no student learns from half of what was released: {error.what}"}
    progress(TRAIN_AGAIN, pairs, pairs)
    of_halves = max(0.0, float(np.mean(correlations)))
    alike = 2 * of_halves / (1 + of_halves)
    return {
        "refits": 2 * pairs,
        "metrics": {name: _around(known[name], np.array(values), alike) for name, values in halved.items()},
        "rank_correlation": alike,
        "agreement": float(np.mean(agreements)),
    }


_SPREAD = ("accuracy", "auc")


@dataclass(frozen=True)
class _Seen:
    """What a student says: probabilities float64 (n, classes) of all public rows, and its metrics on test rows."""

    pool: np.ndarray = field(repr=False)
    metrics: Mapping[str, Any]

    @classmethod
    def by(
        cls,
        half: AnsweredRows,
        spec: StudentSpec,
        schema: Schema,
        seed: int,
        test: tuple[np.ndarray, np.ndarray] | None,
    ) -> _Seen:
        model = half.train(spec, schema, seed)
        seen = [half.rows, *([] if test is None else [test[0]]), *([] if half.known is None else [half.known[0]])]
        outputs = [model.predict_proba(rows) for rows in seen]
        if spec.prevalence:
            shift = PrevalenceShift.onto(spec.prevalence, outputs[0])
            outputs = [shift.applied(probabilities) for probabilities in outputs]
        if half.known is not None:
            adapted = adapt(*half.known, outputs[-1])
            outputs = [adapted.probabilities(*pair) for pair in zip(seen, outputs, strict=True)] if adapted else outputs
        pool, tested = outputs[0], None if test is None else outputs[1]
        judged = {} if test is None or tested is None else evaluate(tested, test[1], schema.classes)
        return cls(pool, judged)


def _around(value: float, halves: np.ndarray, alike: float) -> dict[str, Any]:
    """`halves`: float64 (pairs, 2). alike: the rank correlation of two students of the whole.

    Half of their squared difference is the variance at twice the noise. Where students are alike, a figure's variance
    is as the noise's, and half of that is due. Where they are not, twice the noise turns a student's order no further
    than at random, and all of it is: of a direction with noise, the part beside the signal has 1 - alike / 2 times the
    variance that it has at twice the noise.
    """
    at_twice = float(((halves[:, 0] - halves[:, 1]) ** 2).mean()) / 2
    sd = float(np.sqrt(at_twice * (1 - alike / 2)))
    reach = float(stdtrit(len(halves), 0.975)) * sd
    return {"sd": sd, "interval": [max(0.0, value - reach), min(1.0, value + reach)]}


def inputs(spec: StudentSpec, schema: Schema, rows: np.ndarray) -> np.ndarray:
    """Canonical rows (n, features) -> what the student's model takes, see `StudentSpec.inputs`."""
    return rows if spec.inputs == "features" else schema.inputs(rows)


def check_trainer(spec: TrainerKind, schema: Schema) -> None:
    """A student that others wrote, trained on made-up rows, taken apart and put together: before anything is asked.

    Raises
    ------
    UnusableModel, BadModel : it can be trained on no rows, or not be published.
    """
    model = rehearsed(spec, schema)
    if model is not None:
        parts = take_apart(model)
        put_together(parts, schema, spec.inputs, trust_of_maker(model, parts))


def check_student(spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise ConfigError unless the student can learn from what this federation gives, on this machine."""
    check_trainer(spec.trainer, terms.schema)
    if spec.inputs == "features":
        shape_of(len(terms.schema.features))
        resolve_device()


def check_prevalence(spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise ConfigError unless the shares, if there are any, can be those of the federation's classes."""
    schema = terms.schema
    if spec.prevalence and len(spec.prevalence) != len(schema.classes):
        raise ConfigError(
            f"student.prevalence has {len(spec.prevalence)} shares for the {len(schema.classes)} classes"
            f" {list(schema.classes)}",
            "Give one for each, in this order, or leave it out",
        )
