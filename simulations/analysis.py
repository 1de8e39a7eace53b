"""What only a simulation can know of its run: truth, baselines, the quality of each party's teachers, figures; and what
each party gains or loses by the student on its own rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promised
from consilium.data.private_rows import Rows
from consilium.models.evaluation import (
    Metric,
    area_interval,
    evaluate,
    leading_metric,
    mean_interval,
    outranked,
    row_scores,
)
from consilium.models.keys import NetworkSpec, TeacherKind
from consilium.models.table import fit_teachers
from consilium.protocol.label_source import Progress, no_progress
from consilium.report.progress import AT_HOME, POOLED, RIVALS, stage
from consilium.simulations.divide import Case
from consilium.simulations.judge import calibration_curve
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.manual_labels import ON_PUBLIC_ROWS, PublicTruth, relearnt, worth
from consilium.simulations.methods.noisy_average import LinearDraws, averages_of
from consilium.simulations.methods.private_gradient import PrivateGradient
from consilium.simulations.methods.teachers import PooledModel
from consilium.simulations.metrics import drawn_intervals, mean_metrics, mean_of, metric_intervals, shares
from consilium.simulations.release import load_own
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.said import ALIKE, LINEAR, ONE_CLASS, Heard
from consilium.student.public_labels import beside_labels


@dataclass(frozen=True)
class Analysis:
    """Everything about a run beyond what the nodes wrote. figures: fields of `ReportData`. failures: why teachers tell
    no rows apart, or had no answer, with how many. labels_right: share of the released labels."""

    figures: dict[str, Any] = field(repr=False)
    failures: dict[str, int]
    labels_right: float | None


def analyse(run_dir: Path, case: Case, heard: Heard, progress: Progress = no_progress) -> Analysis:
    """Read the finished run of a case and compare it with what the simulation knows. heard: what its teachers said."""
    config, names, y, spec = case.config, case.classes, case.test_y, case.scenario.student
    trained = [party for party in case.parties if party in heard.quality]
    with closing(Ledger(run_dir / "ledger.db", config.digest(), "", read_only=True)) as ledger:
        batches = ledger.batches()
    answered = np.concatenate([batch.answered for batch in batches]) if batches else np.zeros(0, dtype=bool)
    asked = pl.read_parquet(run_dir / "labels.parquet", columns=["row", "outcome", "label"])
    released = asked.filter(pl.col("outcome") == "answered")
    rows, labels = released["row"].to_numpy(), np.array([names.index(label) for label in released["label"]], dtype=int)
    truth = PublicTruth(config.rows, case.pool_x, case.pool_y, case.test_x, y)
    figures, metric = dict[str, Any](), leading_metric(y, len(names))
    model = load_own(run_dir) if len(y) else None
    probabilities = np.zeros((0, len(names))) if model is None else model.predict_proba(case.test_x)
    student = None if model is None else row_scores(probabilities, y, metric)
    privacy = config.privacy
    promise = StatedGuarantee(promised(config).epsilon, privacy.delta, privacy.unit, privacy.neighbouring)
    figures["baselines"] = baselines(case, heard, promise, student, progress)
    if model is not None and student is not None:
        alone, known = heard.parts().get(metric), case.known_labels
        figures["labels_alone"] = beside_labels(
            spec, config.rows, truth.queries, truth.labels if known is None else known, (truth.test_x, y),
            probabilities, case.seed,
        )  # fmt: skip
        figures["open_figures"] = {
            "test": dict(zip(names, np.bincount(y, minlength=len(names)).tolist(), strict=True)),
            "student": {"calibration": calibration_curve(probabilities, y)},
            "intervals": metric_intervals(probabilities, y, names),
            "labels": {
                "right": int((truth.labels[rows] == labels).sum()),
                "of_class": np.bincount(truth.labels[rows], minlength=len(names)).tolist(),
            },
        }
        figures["secret_figures"] = {
            "at_home": on_own_rows(case, model.predict_proba, trained, progress),
            "alone": None if alone is None else _difference(metric, student - alone),
        }
        if case.scenario.simulation.manual_labels != "none":
            queried = asked["row"].to_numpy()[: len(answered)]
            found = worth(truth, probabilities, spec, int(answered.sum()), queried, case.seed, progress)
            figures["worth"] = {**found, "label_cost": case.scenario.data.label_cost}
    figures["quality"] = [
        PartyQuality(party, len(case.partition.parties[party]), heard.quality[party].accuracy, heard.quality[party].auc)
        for party in trained
    ]
    reasons = sum((heard.quality[party].failures for party in trained), Counter[str]())
    return Analysis(
        {**figures, "answered": answered.tolist()},
        counted_failures(reasons, len(trained) * config.teachers_per_party),
        float((truth.labels[rows] == labels).mean()) if len(rows) else None,
    )


_QUIET = (ONE_CLASS, ALIKE)


def counted_failures(reasons: Counter[str], teachers: int) -> dict[str, int]:
    """How many by the reason, errors first. Teachers without an error are told of where they are half of all."""
    quiet = sum(reasons[reason] for reason in _QUIET)
    told = [reason for reason, _ in reasons.most_common() if reason not in _QUIET or 2 * quiet >= teachers]
    return {reason: reasons[reason] for reason in sorted(told, key=_QUIET.__contains__)}


Draws = dict[str, Sequence[np.ndarray] | str]
"""Rival -> probabilities float64 (test, classes) by each draw of its noise, or why there are none."""


def baselines(
    case: Case, heard: Heard, promise: StatedGuarantee, student: np.ndarray | None, progress: Progress = no_progress
) -> dict[str, dict[str, Any]]:
    """Metrics of all that a student is compared with, with "intervals" of each. heard: what its teachers said. student:
    its row scores float64 (test,) of the leading metric. majority: the most frequent private class. mean_teacher: the
    mean over the parties of what each has by itself. noisy_average, private_gradient: see `methods`, at the run's
    promise, and "above_student", by how much they are better; {"absent": why} where there is none; of each also
    `on_public_rows.NAME`, where the run's student learns from how public rows lie. plurality, pooled: see `methods`."""
    names, test_y = case.classes, case.test_y
    metric = leading_metric(test_y, len(names))
    with stage(progress, POOLED):
        pooled = PooledModel().predict(case, None).test
    drawn: Draws = {"noisy_average": "no test rows", "private_gradient": "no test rows"}
    if len(test_y):
        parties = {party: rows for party, rows in case.partition.parties.items() if party in heard.quality}
        averages = averages_of(case, promise, [heard.directions[party] for party in parties])
        drawn = draws_of("noisy_average", averages, case)
        drawn["private_gradient"] = "no party has a teacher"
        if parties:
            with stage(progress, RIVALS):
                with_teachers = replace(case, partition=replace(case.partition, parties=parties))
                drawn |= draws_of("private_gradient", PrivateGradient().descent(with_teachers), case)

    def judged(probabilities: np.ndarray) -> dict[str, Any]:
        return {**evaluate(probabilities, test_y, names), "intervals": metric_intervals(probabilities, test_y, names)}

    def judged_draws(draws: Sequence[np.ndarray]) -> dict[str, Any]:
        """Means over draws of the noise, whose luck is in the intervals."""
        metrics = mean_metrics([evaluate(draw, test_y, names) for draw in draws])
        found = {**metrics, "draws": len(draws), "intervals": drawn_intervals(draws, test_y, names)}
        if student is not None:
            scores = np.array([row_scores(draw, test_y, metric) for draw in draws])
            luck = float(scores.mean(axis=1).std(ddof=1)) / len(draws) ** 0.5 if len(draws) > 1 else 0.0
            found["above_student"] = _difference(metric, scores.mean(axis=0) - student, luck)
        return found

    private = case.dataset.y[np.concatenate(list(case.partition.parties.values()))]
    majority = shares(np.bincount(private, minlength=len(names)))
    parts, counts = heard.parts(), np.bincount(test_y)  # intervals over test rows, of the mean over these very parties
    trained = [heard.quality[party] for party in case.parties if party in heard.quality]
    mean_teacher: dict[str, Any] = {
        "accuracy": mean_of([of_party.accuracy for of_party in trained]),
        "auc": mean_of([of_party.auc for of_party in trained]),
        "intervals": {
            "accuracy": mean_interval(parts["accuracy"], 0.0, 0.0, 1.0) if "accuracy" in parts else None,
            "auc": area_interval(parts["auc"], int(counts[counts > 0].min())) if "auc" in parts else None,
        },
    }
    return {
        "majority": judged(np.tile(majority, (len(test_y), 1))),
        "mean_teacher": mean_teacher,
        **{name: {"absent": of} if isinstance(of, str) else judged_draws(of) for name, of in drawn.items()},
        "plurality": judged(shares(heard.votes)),
        "pooled": {} if pooled is None else judged(pooled),
    }


def draws_of(name: str, models: LinearDraws | str, case: Case) -> Draws:
    """Of a rival, and where the student learns from public rows, of the same student with the rival's labels."""
    if isinstance(models, str):
        return {name: models}
    inputs = case.config.rows.inputs
    found: Draws = {name: models.probabilities(inputs(case.test_x))}
    if case.scenario.student.trainer.learns_from_public_rows:
        found[ON_PUBLIC_ROWS + name] = relearnt(case, models.probabilities(inputs(case.pool_x)))
    return found


def _difference(metric: Metric, scores: np.ndarray, luck: float = 0.0) -> dict[str, Any]:
    """Of two models on the same test rows, from the difference of their row scores float64 (test,): the interval is of
    the difference row by row. luck: a further deviation of it."""
    interval = mean_interval(scores, luck, -1.0, 1.0)
    return {"metric": metric, "difference": float(scores.mean()), "interval": interval}


FOLDS = 3
LEAST_ROWS = 6  # with fewer, a third is one row: such parties are counted and not judged
MOST_PARTIES, FEW_PARTIES = 80, 12
"""How many are judged, with three trainings each, and where one training takes long: some seconds' worth."""
REPLICATES, LEVEL = 1000, 0.95
_PURPOSE = 0x686F6D65

Predict = Callable[[np.ndarray], np.ndarray]  # rows as they travel float (n, features) -> probabilities (n, classes)


def on_own_rows(
    case: Case, student: Predict, trained: Collection[str], progress: Progress = no_progress
) -> dict[str, Any]:
    """The student against each party's own teacher on rows of the party's that it has not seen. trained: parties with a
    teacher. All rows of a party train that, so a teacher of its kind is trained anew on two thirds of its rows and
    judged on the last third, three times over. The student learnt from votes of teachers that saw these rows too; by
    the run's guarantee one party moves it by little. Secret. Gives {"absent": why} or: metric ("auc": pairs of two rows
    of one party that are in the right order; else "accuracy"), judged, parties, too_small (fewer than `LEAST_ROWS`
    rows), level; "all": alone, student, difference with its interval (parties drawn anew); by_party: rows and
    difference of each, from small to large."""
    sizes = {party: len(case.partition.parties[party]) for party in trained}
    kind = case.scenario.simulation.own_teacher or case.config.teacher
    quick = isinstance(kind, LINEAR) and case.config.rows.representation == "none"
    most = 0 if isinstance(kind, NetworkSpec) else MOST_PARTIES if quick else FEW_PARTIES
    parties = chosen(sizes, most)
    if not parties:
        slow = f"teachers of kind {kind.title} take long to train again"
        return {"absent": slow if most == 0 else f"no {LEAST_ROWS} rows at any of them"}
    points = []
    for index, party in enumerate(parties):
        progress(AT_HOME, index, len(parties))
        points.append((sizes[party], *_points(case, party, kind.anywhere(), student)))
    progress(AT_HOME, len(parties), len(parties))
    judged = np.array(sorted((item for item in points if item[3] > 0), key=lambda item: item[0]))
    if not len(judged):
        return {"absent": "none of them has rows of two classes to tell apart"}
    rows, alone, reached, of = judged.T
    draws = np.random.default_rng([case.seed, _PURPOSE]).integers(len(judged), size=(REPLICATES, len(judged)))
    differences = np.sort((reached[draws].sum(axis=1) - alone[draws].sum(axis=1)) / of[draws].sum(axis=1))
    outside = round((1 - LEVEL) / 2 * REPLICATES)
    return {
        "metric": "auc" if len(case.classes) == 2 else "accuracy",
        "judged": len(judged),
        "parties": len(sizes),
        "too_small": sum(count < LEAST_ROWS for count in sizes.values()),
        "level": LEVEL,
        "all": {
            "alone": float(alone.sum() / of.sum()),
            "student": float(reached.sum() / of.sum()),
            "difference": float((reached.sum() - alone.sum()) / of.sum()),
            "interval": [float(differences[outside]), float(differences[-1 - outside])],
        },
        "by_party": [[int(count), gain] for count, gain in zip(rows, ((reached - alone) / of).tolist(), strict=True)],
    }


def chosen(sizes: Mapping[str, int], most: int) -> list[str]:
    """Names of at most so many parties with `LEAST_ROWS` rows, evenly spread over their order by size.

    >>> chosen({"a": 9, "b": 2, "c": 30, "d": 20, "e": 10}, 2)
    ['a', 'c']
    """
    able = sorted((name for name, rows in sizes.items() if rows >= LEAST_ROWS), key=lambda name: (sizes[name], name))
    if len(able) <= most or most < 1:
        return able if most >= 1 else []
    return [able[place] for place in np.unique(np.linspace(0, len(able) - 1, most).round().astype(int))]


def _points(case: Case, party: str, spec: TeacherKind, student: Predict) -> tuple[float, float, float]:
    """Of its teachers and of the student, and what they are out of: rows right of rows or, of two classes, pairs in
    order of pairs (half for ties) within a fold, which one teacher judged."""
    x, y = case.train_rows(party)
    inputs, classes = case.config.rows.inputs(x), len(case.classes)
    alone, folds = np.zeros((len(y), classes)), folds_of(case.dataset.owner[case.partition.parties[party]], case.seed)
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        (teacher,) = fit_teachers(spec, Rows(inputs, y), [rest], [case.seed], classes)
        alone[np.ix_(fold, np.asarray(teacher.classes_))] = teacher.predict_proba(inputs[fold])
    sides = alone, student(x)
    if classes != 2:
        right, reached = (float((side.argmax(axis=1) == y).sum()) for side in sides)
        return right, reached, float(len(y))
    pairs = [(fold, y[fold] == 1) for fold in folds if len(np.unique(y[fold])) == 2]
    in_order, reached = (sum(float(outranked(side[fold, 1], ill)[ill].sum()) for fold, ill in pairs) for side in sides)
    return in_order, reached, float(sum(ill.sum() * (~ill).sum() for _, ill in pairs))


def folds_of(owner: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows in `FOLDS` parts by lot, all of one owner in the same where there are owners enough."""
    owners, generator = np.unique(owner), np.random.default_rng([seed, _PURPOSE])
    if len(owners) < 2 * FOLDS:
        return np.array_split(generator.permutation(len(owner)), FOLDS)
    return [np.flatnonzero(np.isin(owner, part)) for part in np.array_split(generator.permutation(owners), FOLDS)]
