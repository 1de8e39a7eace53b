"""Learning curves: the student after the first so many of its answers, and after the same votes with other noise.

The first takes what was released and public rows with their true labels: the guarantee covers it. The second draws
noise on the exact votes again, which only a simulation can do: nothing of it is released, charged or promised, and it
is secret. Both train by the run's own trainer, as often as that is cheap (`methods.manual_labels.effort`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import MOST_SIGMA
from consilium.coordinator.privacy import promised
from consilium.models.evaluation import Metric, area_interval, leading_metric, mean_interval, row_scores
from consilium.models.published.prevalence import PrevalenceShift
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.protocol.noise import SeededNoise
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.report.progress import CURVES, stage
from consilium.simulations.methods.manual_labels import FEWEST_DRAWS, PublicTruth, effort
from consilium.simulations.population.specs import ManualLabelMode
from consilium.simulations.release import RecordedVotes
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from consilium.student.learn import AnsweredRows, inputs

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of the answers, of the curve by labels."""
NOISES = (4.0, 2.0, 1.0, 0.5, 0.25)
"""Times the run's noise, of the curve by epsilon."""
MOST_LOTS = 5
"""Draws of noise at each epsilon, whose mean is shown."""
_PURPOSE = 0x6C6561726E


class CurveLearner:
    """A run's own trainer on answers, judged on the public test rows by the leading metric."""

    def __init__(self, public: PublicTruth, spec: StudentSpec, seed: int) -> None:
        self._spec, self._seed, self._schema = spec, seed, public.schema
        self.queries = public.queries
        self._rows, self._test = (inputs(spec, public.schema, rows) for rows in (public.queries, public.test_x))
        self._y = public.test_y
        self.metric: Metric = leading_metric(public.test_y, len(public.schema.classes))

    def scores(self, record: Asked) -> np.ndarray:
        """Row scores float64 (test,) of a student of this record."""
        model = AnsweredRows(self._rows, *record.told()).train(self._spec, self._schema, self._seed)
        probabilities = model.predict_proba(self._test)
        if self._spec.prevalence and self.metric == "accuracy":  # ranks of two classes stay
            shift = PrevalenceShift.onto(self._spec.prevalence, model.predict_proba(self._rows))
            probabilities = shift.applied(probabilities)
        return row_scores(probabilities, self._y, self.metric)

    def point(self, scores: Sequence[np.ndarray]) -> dict[str, Any]:
        """Value with its interval: mean over draws of noise, interval over these and over test rows."""
        rows, values = np.mean(scores, axis=0), np.array([draw.mean() for draw in scores])
        spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        least = int(np.bincount(self._y)[np.unique(self._y)].min())
        interval = area_interval(rows, least, spread) if self.metric == "auc" else mean_interval(rows, spread, 0.0, 1.0)
        return {"value": float(rows.mean()), "interval": interval, "draws": len(values)}


def by_labels(learner: CurveLearner, record: Asked) -> dict[str, Any]:
    """metric, and points: labels, value, interval, draws; the last is that of all that was asked."""
    total = sum(label != NO_LABEL for label in record.labels)
    counts = sorted({max(1, round(part * total)) for part in PARTS}) if total else []
    points = [{"labels": count, **learner.point([learner.scores(record.first(count))])} for count in counts]
    return {"metric": learner.metric, "points": points}


def by_epsilon(
    learner: CurveLearner,
    config: FederationConfig,
    promise: float,
    rows: np.ndarray,
    votes: np.ndarray,
    lots: int,
    seed: int,
    others: Sequence[OtherNoise] | None = None,
) -> dict[str, Any]:
    """metric, delta and points: epsilon (promised, with the whole query budget used up), times (as much
    noise as the run's), and value, interval and draws.

    promise: the run's own epsilon. others: of `other_noises`, where it is known already. `rows` int64 (asked,) of the
    pool and `votes` int64 (asked, classes), exact, in the order asked. {"absent": why} where the mechanism has no noise
    to change, or takes what the student thought.
    """
    if reason := _why_not(config, len(rows)):
        return {"absent": reason}
    points = []
    own = OtherNoise(1.0, promise, config.model_copy(update=_PLAIN))
    for times, epsilon, other in sorted([own, *(other_noises(config) if others is None else others)], reverse=True):
        scores = []
        for lot in range(lots):
            noise = SeededNoise(int(np.random.SeedSequence([seed, _PURPOSE, lot]).generate_state(1)[0]))
            drawn = _drawn(learner, other, rows, votes, noise)
            if set(drawn.labels) != {NO_LABEL}:
                scores.append(learner.scores(drawn))
        if scores:
            points.append({"epsilon": epsilon, "times": times, **learner.point(scores)})
    return {"metric": learner.metric, "delta": config.privacy.delta, "points": points}


def _why_not(config: FederationConfig, queries: int) -> str:
    mechanism = config.mechanism
    if not queries:
        return "nothing was asked"
    if mechanism.needs_probabilities:
        return "the mechanism takes what the student thought while it asked"
    if not mechanism.private:
        return "the mechanism has no noise that could be changed"
    return ""


_PLAIN: dict[str, object] = {"collection": "plaintext", "roster": "", "noise_shares": 0}


class OtherNoise(NamedTuple):
    """A federation with so many times the noise of another, drawn on votes in plaintext, and its promised epsilon."""

    times: float
    epsilon: float
    config: FederationConfig


def other_noises(config: FederationConfig, progress: Progress = no_progress) -> list[OtherNoise]:
    """Those of `NOISES` but 1 that the mechanism can have. It takes seconds, and neither votes nor rows."""
    label, found = config.mechanism.label_noise, []
    for times in NOISES:
        amount = 0.0 if label is None else times / label.scale if label.law == "laplace" else times * label.scale
        if times == 1 or not 0 < amount <= MOST_SIGMA:
            continue
        changed = config.model_copy(update={**_PLAIN, "mechanism": config.mechanism.with_noise(amount)})
        with suppress(ConfigError):
            found.append(OtherNoise(times, promised(changed).epsilon, changed))
    return found


def _drawn(
    learner: CurveLearner, config: FederationConfig, rows: np.ndarray, votes: np.ndarray, noise: SeededNoise
) -> Asked:
    """What a service of this federation answers, without being asked anything of it before."""
    total, classes = int(votes[0].sum()), len(config.rows.classes)
    parties = [str(number) for number in range(total // config.teachers_per_party)]
    queries = canonical_queries(learner.queries[rows], len(config.rows.features))
    collector = RecordedVotes(config, parties, query_ids(queries), lambda places, _: votes[places])
    record = Asked(classes, config.label_law(len(parties), total))
    with closing(Ledger.in_memory(config)) as ledger:
        answers = LabelService(config, ledger, collector, lambda _: noise, len(parties)).ask(queries)
    record.add(rows, answers, np.zeros((len(rows), classes)))
    return record


TOO_SLOW = 'a student of this kind takes long to train again; simulation.manual_labels = "full" does it all the same'
NOT_WANTED = "simulation.manual_labels is none, so that nothing is trained again"


def learning_curves(
    truth: PublicTruth,
    spec: StudentSpec,
    seed: int,
    mode: ManualLabelMode,
    config: FederationConfig,
    promise: float,
    record: Asked,
    votes: np.ndarray,
    others: Sequence[OtherNoise] | None,
    progress: Progress = no_progress,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """By labels (open) and by epsilon (secret), or {"absent": why}; `votes` int64 (asked, classes), exact. others: as
    of `by_epsilon`."""
    with stage(progress, CURVES):
        if mode == "none":
            return {"absent": NOT_WANTED}, {"absent": NOT_WANTED}
        width = inputs(spec, truth.schema, truth.queries[:1]).shape[1]
        whole = effort(spec.trainer, len(truth.queries), width, len(truth.schema.classes), mode)
        if not whole.bisected:
            return {"absent": TOO_SLOW}, {"absent": TOO_SLOW}
        learner = CurveLearner(truth, spec, seed)
        lots = MOST_LOTS if whole.draws > FEWEST_DRAWS else 1
        rows = np.array(record.rows, dtype=np.int64)
        of_noise = by_epsilon(learner, config, promise, rows, votes, lots, seed, others)
        return by_labels(learner, record), of_noise
