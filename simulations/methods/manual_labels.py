"""Manual labels: the yardstick of public rows that somebody labels, and no federation at all.

What a student is worth in manual labels is read off a fixed ladder of their numbers. It is a function of the published
student, of how many labels were released and asked for, and of public rows with their true labels: the guarantee of the
labels covers it.

Beside it a rival's model and then the student's trainer (`relearnt`): whoever has a private model may let it label all
public rows, and train on these as a student does. The rival's guarantee covers it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from consilium.models.adapted import fit_labels
from consilium.models.base import Model
from consilium.models.evaluation import Metric, evaluate, leading_metric, row_scores
from consilium.models.keys import LogisticRegressionStudent, TrainerKind
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.schema import Schema
from consilium.report.progress import MANUAL_LABELS, stage
from consilium.simulations.divide import Case
from consilium.simulations.methods.base import Predicted, StudyMethod
from consilium.simulations.metrics import drawn_intervals, mean_metrics
from consilium.simulations.vote import Ensemble
from consilium.student.config import StudentSpec
from consilium.student.learn import inputs, train
from consilium.student.public_labels import takes_long
from consilium.student.selection import BY_ROWS

LADDER = (5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000)
"""Numbers of manual labels that are tried, as far as there are public rows. Where the fewest do as well, the student is
worth none."""
LEVEL = 0.95
_REPLICATES = 1000
MOST_DRAWS, FEW_DRAWS = 20, 3
_QUICK_NUMBERS = 5000  # inputs times classes of a linear student that is trained on every number and draw in seconds
_LOT, _BOOTSTRAP = 0x68616E64, 0x776F727468


def most_draws(kind: TrainerKind, shape: tuple[int, ...], classes: int) -> int:
    """How often a student of this kind is trained on labels that are drawn anew, on a pool of this shape (rows,
    inputs): by kind and size alone, never by a clock, since a run must give the same twice.

    >>> [most_draws(LogisticRegressionStudent(), (5000, inputs), 2) for inputs in (50, 5000)]
    [20, 3]
    """
    if isinstance(kind, LogisticRegressionStudent) and shape[1] * classes <= _QUICK_NUMBERS:
        return MOST_DRAWS
    return 1 if takes_long(kind, shape[0]) else FEW_DRAWS


@dataclass(frozen=True)
class PublicTruth:
    """Public rows, canonical float32 (n, features), with true labels int64 (n,), which only a simulation has."""

    schema: Schema
    queries: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    test_x: np.ndarray = field(repr=False)
    test_y: np.ndarray = field(repr=False)


class ManualLabels:
    """Models on true labels of rows that are drawn by lot, judged on the test rows. Draw d of n labels are the first n
    rows of `by_lot` d of the pool: more labels are the same ones, and others. They are learned by the student's own
    trainer; where that takes long (`takes_long`), by the linear model that evidence chooses. `quick`: whether the own
    one is trained on the whole ladder in seconds. `queried` int64 (n,): rows that the student asked for, in its order.
    """

    def __init__(self, public: PublicTruth, spec: StudentSpec, queried: np.ndarray, seed: int) -> None:
        self._public, self._spec, self._asked, self._seed = public, spec, queried, seed
        schema, rows, classes = public.schema, len(public.labels), len(public.schema.classes)
        self._own, both = not takes_long(spec.trainer, rows), (public.queries, public.test_x)
        self._rows, self._test = (inputs(spec, schema, x) if self._own else schema.inputs(x) for x in both)
        draws = most_draws(spec.trainer, self._rows.shape, classes) if self._own else FEW_DRAWS
        self.quick, self._lots = draws == MOST_DRAWS, [by_lot(seed, draw, rows) for draw in range(draws)]
        self.metric: Metric = leading_metric(public.test_y, classes)
        self.counts = np.array([count for count in LADDER if count <= rows] or [rows])

    def ladder(self) -> np.ndarray:
        """Row scores float64 (counts, draws, test) of as many labels."""
        return np.array([[self.score(self._learnt(lot[:count])) for lot in self._lots] for count in self.counts])

    def _learnt(self, chosen: np.ndarray) -> np.ndarray:
        """Probabilities (test, classes) after training on the true labels of these rows of the pool int64 (n,)."""
        schema, labels, classes = self._public.schema, self._public.labels, len(self._public.schema.classes)
        if self._own:
            model = learnt_from_labels(schema, self._spec, self._rows, labels, chosen, self._seed)
            return model.predict_proba(self._test)
        if not len(chosen):
            return np.full((len(self._test), classes), 1 / classes)
        return fit_labels(self._rows[chosen], labels[chosen], classes).predict_proba(self._test)

    def metrics_of(self, count: int) -> dict[str, Any]:
        """What so many labels give in the mean over the draws; where the student looks at the rows alone, on the first
        that it asked for itself, once. labels, draws, accuracy, auc, intervals (of one draw, see `drawn_intervals`)."""
        y, names = self._public.test_y, self._public.schema.classes
        lots = [self._asked] if self._spec.selection == BY_ROWS else self._lots
        learnt = [self._learnt(lot[:count]) for lot in lots]
        means = mean_metrics([evaluate(draw, y, names) for draw in learnt])
        intervals = drawn_intervals(learnt, y, names, one=True)
        return {"labels": count, **means, "draws": len(lots), "intervals": intervals}

    def score(self, probabilities: np.ndarray) -> np.ndarray:
        """Row scores float64 (test,) of any model's probabilities (test, classes) of the test rows."""
        return row_scores(probabilities, self._public.test_y, self.metric)


class LabelEquivalent(NamedTuple):
    """Manual labels that reach a student: 0 where the fewest that were tried do, inf where the most do not. low, high :
    with probability `LEVEL` the number lies between, see `label_equivalent`."""

    labels: float
    low: float
    high: float


def label_equivalent(
    student: np.ndarray, counts: np.ndarray, ladder: np.ndarray, generator: np.random.Generator
) -> LabelEquivalent:
    """The least number of labels whose mean metric over the draws is the student's (`crossing`). The interval is a
    bootstrap of what a person would meet: in each replicate the test rows are drawn anew, the same for the student and
    the others, and one draw of labels is followed instead of their mean. So it covers the luck of the labels, the
    student's and the person's, and of the test rows. student: row scores float64 (test,). counts: ascending (n,).
    ladder: row scores (n, draws, test)."""
    rows, draws = len(student), ladder.shape[1]
    weights = generator.multinomial(rows, np.full(rows, 1 / rows), size=_REPLICATES) / rows
    followed = generator.integers(draws, size=_REPLICATES)
    heights = np.stack([(weights @ of_count.T)[np.arange(_REPLICATES), followed] for of_count in ladder], axis=1)
    levels = weights @ student
    found = np.sort([crossing(counts, *pair) for pair in zip(heights, levels, strict=True)])
    outside = math.floor((1 - LEVEL) / 2 * _REPLICATES)
    mean = crossing(counts, ladder.mean(axis=(1, 2)), float(student.mean()))
    ends = (mean, float(found[outside]), float(found[-1 - outside]))
    return LabelEquivalent(*(0.0 if end <= counts[0] else end if math.isinf(end) else round(end) for end in ends))


def crossing(counts: np.ndarray, heights: np.ndarray, level: float) -> float:
    """Where a curve first reaches a level, from the first count on; inf where it never does. Between two counts it is
    taken to rise with their logarithm.

    >>> [round(crossing(np.array([10, 1000]), np.array([0.6, 0.8]), level), 6) for level in (0.7, 0.5, 0.9)]
    [100.0, 10.0, inf]
    """
    reached = heights >= level - 1e-9  # the same model, added up in another order
    if not reached.any():
        return math.inf
    place = int(reached.argmax())
    if place == 0:
        return float(counts[0])
    share = min(1.0, (level - heights[place - 1]) / (heights[place] - heights[place - 1]))
    return float(counts[place - 1] * (counts[place] / counts[place - 1]) ** share)


def worth(
    public: PublicTruth, student: np.ndarray, spec: StudentSpec, released: int, queried: np.ndarray, seed: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:  # fmt: skip
    """The block of a student with probabilities `student` float64 (test, classes): it had `released` labels, for the
    rows `queried` int64 (n,) of the pool, in its order. released, asked: what as many true labels give, see
    `ManualLabels.metrics_of`. Where the student's own trainer is quick enough also manual_labels, low, high
    (`label_equivalent`, None for inf), their level, the fewest and the most labels that were tried, and draws of
    each."""
    manual = ManualLabels(public, spec, queried, seed)
    found: dict[str, Any] = {"metric": manual.metric, "public_rows": len(public.labels)}
    with stage(progress, MANUAL_LABELS):
        if manual.quick:
            counts, generator = manual.counts, np.random.default_rng([seed, _BOOTSTRAP])
            ends = label_equivalent(manual.score(student), counts, manual.ladder(), generator)
            ends = (None if math.isinf(end) else int(end) for end in ends)
            found |= dict(zip(("manual_labels", "low", "high"), ends, strict=True))
            found |= {"level": LEVEL, "fewest": int(counts[0]), "most": int(counts[-1]), "draws": MOST_DRAWS}
        points = {count: manual.metrics_of(count) for count in {released, len(queried)}}  # once where all got labels
    return {**found, "released": points[released], "asked": points[len(queried)]}


def by_lot(seed: int, draw: int, rows: int) -> np.ndarray:
    """All `rows` of the pool in the order of one draw int64 (rows,): whoever labels n labels the first n."""
    return np.random.default_rng([seed, _LOT, draw]).permutation(rows)


def learnt_from_labels(
    schema: Schema, spec: StudentSpec, rows: np.ndarray, labels: np.ndarray, chosen: np.ndarray, seed: int
) -> Model:
    """The student's own trainer on the true labels of these rows of the pool, the others as rows without a label. rows:
    the pool as the student's model takes it, see `TrainerKind.inputs`; labels int64 (pool,); chosen int64 (n,). Of a
    linear student of more than two classes evidence decides the penalty, as of released labels: one for two classes is
    far too large there, and the student would seem worth several times as many labels."""
    if isinstance(spec.trainer, LogisticRegressionStudent) and len(schema.classes) > 2 and len(chosen):
        return fit_labels(rows[chosen], labels[chosen], len(schema.classes))
    rest = np.ones(len(rows), dtype=bool)
    rest[chosen] = False
    return train(rows[chosen], labels[chosen], rows[rest], len(schema.classes), spec, seed, schema=schema)


ON_PUBLIC_ROWS = "on_public_rows."  # before the name of a rival: that rival, and then the student's trainer


def relearnt(case: Case, drawn: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Probabilities float64 (test, classes) of the run's trainer on all public rows, labelled by each of `drawn`, a
    rival's float64 (pool, classes); of the first few where the trainer takes long (`most_draws`)."""
    spec, schema = case.scenario.student, case.config.rows
    rows, judging = inputs(spec, schema, case.pool_x), inputs(spec, schema, case.test_x)
    draws = most_draws(spec.trainer, rows.shape, len(case.classes))
    labels = [each.argmax(axis=1) for each in drawn[:draws]]
    models = [train(rows, each, rows[:0], len(case.classes), spec, case.seed, schema=schema) for each in labels]
    return [model.predict_proba(judging) for model in models]


class LabelledByHand(StudyMethod):
    """The student's own trainer on so many true labels of the pool, drawn by lot. No private row is in it. Judged on
    the test rows as the mean over draws of the labels, fewer where the trainer takes long (`most_draws`); at home, and
    as `Predicted.test`, it is the first draw. figures: labels, draws."""

    needs_ensemble: ClassVar[bool] = False

    name: Literal["manual_labels"] = "manual_labels"
    labels: int = Field(default=100, ge=1, le=1_000_000, description="rows of the pool that somebody labels")
    draws: int = Field(default=5, ge=1, le=20, description="times that they are drawn, at most")

    def depends_on(self, case: Case) -> dict[str, Any]:
        return {"student": case.scenario.student.model_dump(mode="json")}

    def predict(self, case: Case, ensemble: Ensemble | None) -> Predicted:
        """Absent where the pool has fewer rows."""
        schema, spec, y = case.config.rows, case.scenario.student, case.pool_y
        if len(y) < self.labels:
            return Predicted(absent=f"the pool has {len(y)} rows, and {self.labels} were to be labelled")
        rows = inputs(spec, schema, case.pool_x)
        draws, tested = min(self.draws, most_draws(spec.trainer, rows.shape, len(case.classes))), len(case.test_y)
        judging = inputs(spec, schema, np.concatenate([case.test_x, case.home_x]))
        drawn = []
        for draw in range(draws):
            chosen = by_lot(case.seed, draw, len(y))[: self.labels]
            drawn.append(learnt_from_labels(schema, spec, rows, y, chosen, case.seed + draw).predict_proba(judging))
        stacked = np.stack(drawn)
        return Predicted(
            test=stacked[0, :tested] if tested else None,
            home=stacked[0, tested:] if len(case.home_y) else None,
            figures={"labels": float(self.labels), "draws": float(draws)},
            drawn=stacked[:, :tested].astype(np.float32) if tested else None,
        )
