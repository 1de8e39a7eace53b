"""What only a simulation can know of its run: truth, baselines, the quality of each party's teachers, figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from consilium.coordinator.collection.kept_votes import PATTERN, kept_votes
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promised
from consilium.models.evaluation import Metric, area_interval, evaluate, leading_metric, mean_interval, row_scores
from consilium.models.published.model import Published
from consilium.protocol.label_source import NO_LABEL, Outcome, Progress, no_progress
from consilium.protocol.releases import ReleaseKind
from consilium.report.progress import POOLED, RIVALS, stage
from consilium.simulations.beside import Begin, Pending, when_wanted
from consilium.simulations.divide import Case
from consilium.simulations.judge import confusion, student_figures
from consilium.simulations.learn import learning_curve
from consilium.simulations.linear_teachers import DirectionSum
from consilium.simulations.methods.base import StatedGuarantee
from consilium.simulations.methods.manual_labels import PublicTruth, worth
from consilium.simulations.methods.noisy_average import LinearDraws, averages_of
from consilium.simulations.methods.pooled import PooledModel
from consilium.simulations.methods.private_gradient import PrivateGradient
from consilium.simulations.methods.relearnt import ON_PUBLIC_ROWS, relearnt
from consilium.simulations.metrics import drawn_intervals, mean_metrics, metric_intervals, over_parties
from consilium.simulations.own_rows import judged_on_own_rows
from consilium.simulations.release import load_own
from consilium.simulations.report.data import PartyQuality
from consilium.simulations.said import ALIKE, ONE_CLASS, Heard
from consilium.simulations.scenario import Scenario
from consilium.simulations.vote import vote_shares
from consilium.student.ask import Asked
from consilium.student.config import StudentSpec
from consilium.student.public_labels import beside_labels


def counted_failures(reasons: Counter[str], teachers: int) -> dict[str, int]:
    """How many by the reason, errors first. Teachers without an error are told of where they are half of all."""
    quiet = sum(reasons[reason] for reason in _QUIET)
    told = [reason for reason, _ in reasons.most_common() if reason not in _QUIET or 2 * quiet >= teachers]
    return {reason: reasons[reason] for reason in sorted(told, key=_QUIET.__contains__)}


_QUIET = (ONE_CLASS, ALIKE)


def baselines(
    case: Case,
    heard: Heard,
    promise: StatedGuarantee,
    student: np.ndarray | None,
    progress: Progress = no_progress,
    descending: Pending | None = None,
) -> dict[str, dict[str, Any]]:
    """Metrics of all that a student is compared with, with "intervals" of each. heard: what its teachers said. student:
    its row scores float64 (test,) of the leading metric.

    majority: the most frequent private class. mean_teacher: the mean over the parties of what each has by itself.
    local_only: the same, with the 10th and 90th percentile. noisy_average, private_gradient: see `methods`, at the
    run's promise, and "above_student", by how much they are better; {"absent": why} where there is none; of each also
    `on_public_rows.NAME`, where the run's student learns from how public rows lie. plurality: all teachers vote,
    without noise. pooled: one model on the rows of all.

    descending: private gradient descent over the parties that trained; None where none is.
    """
    names, test_y = case.classes, case.test_y
    metric = leading_metric(test_y, len(names))
    trained = [heard.quality[party] for party in case.parties if party in heard.quality]
    aucs = [of_party.auc for of_party in trained if of_party.auc is not None]
    alone = over_parties("accuracy", [of_party.accuracy for of_party in trained]) | over_parties("auc", aucs)
    with stage(progress, POOLED):
        pooled = PooledModel().predict(case, None).test
    averages = averages_of(case, promise, _directions(heard, case))
    drawn: Draws = {"noisy_average": "no test rows", "private_gradient": "no test rows"}
    if len(test_y):
        drawn = draws_of("noisy_average", averages, case)
        drawn |= {"private_gradient": "no party has a teacher"} if descending is None else descending.result(progress)

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
    shares = np.bincount(private, minlength=len(names)) / len(private)
    return {
        "majority": judged(np.tile(shares, (len(test_y), 1))),
        "mean_teacher": {
            "accuracy": alone["accuracy"],
            "auc": alone["auc"],
            "intervals": _intervals(heard.parts(), test_y),
        },
        "local_only": alone,
        **{name: {"absent": of} if isinstance(of, str) else judged_draws(of) for name, of in drawn.items()},
        "plurality": judged(vote_shares(heard.votes["test"])),
        "pooled": {} if pooled is None else judged(pooled),
    }


Draws = dict[str, Sequence[np.ndarray] | str]
"""Rival -> probabilities float64 (test, classes) by each draw of its noise, or why there are none."""


def draws_of(name: str, models: LinearDraws | str, case: Case) -> Draws:
    """Of a rival, and where the student learns from public rows, of the same student with the rival's labels."""
    if isinstance(models, str):
        return {name: models}
    schema, spec = case.config.rows, case.scenario.student
    found: Draws = {name: models.probabilities(schema.inputs(case.test_x))}
    if spec.trainer.learns_from_public_rows:
        found[ON_PUBLIC_ROWS + name] = relearnt(case, models.probabilities(schema.inputs(case.pool_x)))
    return found


def descended(case: Case, parties: Sequence[str], progress: Progress) -> Draws:
    """`draws_of` private gradient descent over these parties."""
    partition = replace(case.partition, parties={party: case.partition.parties[party] for party in parties})
    with stage(progress, RIVALS):
        return draws_of("private_gradient", PrivateGradient().descent(replace(case, partition=partition)), case)


def recorded_votes(run_dir: Path) -> dict[str, np.ndarray]:
    """Query id -> int64 (classes,), of all parties, where the coordinator saw votes."""
    votes: dict[str, np.ndarray] = {}
    for file in (run_dir / "private").glob(PATTERN):
        with kept_votes(file) as recorded:
            votes.update(zip(recorded.query_ids, recorded.total(), strict=True))
    return votes


def _directions(heard: Heard, case: Case) -> DirectionSum | None:
    """Of all parties that have a teacher, in their order; None where some party's teachers have none."""
    summed = DirectionSum()
    for party in case.parties:
        if party in heard.quality:
            if (direction := heard.directions[party]) is None:
                return None
            summed.add(direction, case.config.teachers_per_party)
    return summed


def _intervals(parts: Mapping[Metric, np.ndarray], y: np.ndarray) -> dict[str, Any]:
    """Over test rows, of the mean over these very parties. parts: see `Heard.parts`."""
    counts = np.bincount(y)
    return {
        "accuracy": mean_interval(parts["accuracy"], 0.0, 0.0, 1.0) if "accuracy" in parts else None,
        "auc": area_interval(parts["auc"], int(counts[counts > 0].min())) if "auc" in parts else None,
    }


def _difference(metric: Metric, scores: np.ndarray, luck: float = 0.0) -> dict[str, Any]:
    """Of two models on the same test rows, from the difference of their row scores float64 (test,): the interval is of
    the difference row by row. luck: a further deviation of it."""
    interval = mean_interval(scores, luck, -1.0, 1.0)
    return {"metric": metric, "difference": float(scores.mean()), "interval": interval}


@dataclass(frozen=True)
class Analysis:
    """Everything about a run beyond what the nodes wrote. Arrays and figures as in `ReportData`. labels_alone: see
    `student.public_labels.beside_labels`, of the labels that the student was brought to, else of all public rows that
    may be asked; nothing without test rows. failures: why teachers tell no rows apart, or had no answer, with how many,
    errors first."""

    baselines: dict[str, dict[str, Any]]
    worth: dict[str, Any] | None
    labels_alone: dict[str, Any]
    failures: dict[str, int]
    released_label_accuracy: float | None
    quality: list[PartyQuality] = field(repr=False)
    consensus: np.ndarray = field(repr=False)
    answered: np.ndarray = field(repr=False)
    open_figures: dict[str, Any] = field(repr=False)
    secret_figures: dict[str, Any] = field(repr=False)


MOST_SENT = 100_000_000
"""Bytes of public rows that another process is sent: more of them would fill the memory twice."""


def analyse(
    run_dir: Path, case: Case, heard: Heard, progress: Progress = no_progress, begin: Begin = when_wanted
) -> Analysis:
    """Read the finished run of a case and compare it with what the simulation knows. heard: what its teachers
    said. begin: does what takes long."""
    config = case.config
    with closing(Ledger(run_dir / "ledger.db", config.digest(), "", read_only=True)) as ledger:
        batches = ledger.batches()
    answered = np.concatenate([batch.answered for batch in batches]) if batches else np.zeros(0, dtype=bool)
    judged, asked = _judge(run_dir, case), _answers(run_dir, case)
    if judged is not None and judged.truth.queries.nbytes + judged.truth.test_x.nbytes > MOST_SENT:
        begin = when_wanted
    sums = recorded_votes(run_dir) or dict(zip(case.pool_ids, heard.votes["pool"], strict=True))
    privacy = config.privacy
    promise = StatedGuarantee(promised(config).epsilon, privacy.delta, privacy.unit, privacy.neighbouring)
    metric = leading_metric(case.test_y, len(case.classes))
    student = None if judged is None else row_scores(judged.probabilities, case.test_y, metric)
    # the longest first: who finds no process is done here
    worth_of = None if judged is None else _begin_worth(run_dir, case.scenario, answered, judged, begin)
    trained = [party for party in case.parties if party in heard.quality]
    descending = begin(descended, case, trained) if trained and len(case.test_y) else None
    compared = baselines(case, heard, promise, student, progress, descending)
    votes = np.array([sums[query_id] for batch in batches for query_id in batch.query_ids])
    open_figures: dict[str, Any] = {}
    secret_figures: dict[str, Any] = {}
    if judged is not None and student is not None:
        alone = heard.parts().get(metric)
        curve = _curve(case, judged, asked, progress)
        open_figures = {**_open_figures(run_dir, case, judged), "by_labels": curve}
        secret_figures = {
            "votes": _votes_by_class(asked.votes(sums), judged.truth.labels[asked.record.rows]),
            "at_home": judged_on_own_rows(case, judged.model, trained, progress),
            "alone": None if alone is None else _difference(metric, student - alone),
        }
    manual = None if worth_of is None else worth_of.result(progress)
    reasons = Counter[str]()
    for of_party in heard.quality.values():
        reasons.update(of_party.failures)
    return Analysis(
        baselines=compared,
        worth=None if manual is None else {**manual, "label_cost": case.scenario.data.label_cost},
        labels_alone={} if judged is None else _labels_alone(case, judged),
        released_label_accuracy=_label_accuracy(run_dir, case),
        failures=counted_failures(reasons, len(trained) * config.teachers_per_party),
        quality=[
            PartyQuality(
                party, len(case.partition.parties[party]), heard.quality[party].accuracy, heard.quality[party].auc
            )
            for party in trained
        ],
        consensus=votes.max(axis=1) / votes.sum(axis=1) if len(votes) else np.zeros(0),
        answered=answered,
        open_figures=open_figures,
        secret_figures=secret_figures,
    )


@dataclass(frozen=True)
class _Student:
    """The published student, with the public truth that it is judged on; probabilities float64 (test, classes)."""

    model: Published
    spec: StudentSpec
    seed: int
    truth: PublicTruth = field(repr=False)
    probabilities: np.ndarray = field(repr=False)


def _judge(run_dir: Path, case: Case) -> _Student | None:
    """None where there are no test rows."""
    if not len(case.test_y):
        return None
    truth = PublicTruth(case.config.rows, case.pool_x, case.pool_y, case.test_x, case.test_y)
    model = load_own(run_dir)
    return _Student(model, case.scenario.student, case.seed, truth, model.predict_proba(case.test_x))


def _labels_alone(case: Case, judged: _Student) -> dict[str, Any]:
    truth, known = judged.truth, case.known_labels
    labels, test = truth.labels if known is None else known, (truth.test_x, truth.test_y)
    return beside_labels(judged.spec, truth.schema, truth.queries, labels, test, judged.probabilities, judged.seed)


def _begin_worth(
    run_dir: Path, scenario: Scenario, answered: np.ndarray, judged: _Student, begin: Begin
) -> Pending | None:
    """What the published student is worth in manual labels, see `manual_labels.worth`; `answered` bool (queries,)."""
    if scenario.simulation.manual_labels == "none":
        return None
    queried = np.array(_labels(run_dir)["row"][: len(answered)], dtype=np.int64)
    return begin(worth, judged.truth, judged.probabilities, judged.spec, int(answered.sum()), queried, judged.seed)


def _curve(case: Case, judged: _Student, asked: _Answers, progress: Progress) -> dict[str, Any]:
    if case.scenario.simulation.manual_labels == "none":
        return {"absent": "simulation.manual_labels is none, so that nothing is trained again"}
    return learning_curve(judged.truth, judged.spec, judged.seed, asked.record, progress)


def _open_figures(run_dir: Path, case: Case, judged: _Student) -> dict[str, Any]:
    """They take the student's probabilities, the true labels of public test rows and what was released alone, so the
    guarantee covers them.

    test: class -> test rows. student: see `student_figures`. intervals: of its metrics. labels: true class by released
    label, of the answered queries.
    """
    truth, names = judged.truth, case.classes
    rows, released = _released(run_dir, names)
    counts = np.bincount(truth.test_y, minlength=len(names)).tolist()
    return {
        "test": dict(zip(names, counts, strict=True)),
        "student": student_figures(judged.probabilities, truth.test_y, names),
        "intervals": metric_intervals(judged.probabilities, truth.test_y, names),
        "labels": confusion(truth.labels[rows], released, len(names)),
    }


def _labels(run_dir: Path) -> dict[str, list[Any]]:
    """The columns of the student's table."""
    import polars as pl

    return pl.read_parquet(run_dir / "labels.parquet").to_dict(as_series=False)


def _released(run_dir: Path, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the pool int64 (n,) of the queries that were answered, and the classes int64 (n,) released for them."""
    table = _labels(run_dir)
    places = [place for place, outcome in enumerate(table["outcome"]) if outcome == "answered"]
    rows, released = [table["row"][place] for place in places], [names.index(table["label"][place]) for place in places]
    return np.array(rows, dtype=np.int64), np.array(released, dtype=np.int64)


class _Answers(NamedTuple):
    """What the student asked, in its order, and the ids of these queries."""

    record: Asked
    queries: list[str]

    def votes(self, sums: Mapping[str, np.ndarray]) -> np.ndarray:
        """int64 (queries, classes), exact; `sums`: by query id."""
        return np.array([sums[query] for query in self.queries])


def _answers(run_dir: Path, case: Case) -> _Answers:
    """From the student's table, with the law of the noise as the student was told it.

    Rows that are alike are one query: they may stand here several times, and in the ledger once.
    """
    table, config, parties = _labels(run_dir), case.config, len(case.parties)
    places = [place for place, outcome in enumerate(table["outcome"]) if outcome != "not_asked"]
    names = {None: NO_LABEL} | {name: index for index, name in enumerate(config.rows.classes)}
    column = {name: [values[place] for place in places] for name, values in table.items()}
    votes = parties * config.teachers_per_party
    record = Asked(
        len(config.rows.classes),
        config.label_law(parties, votes),
        rows=column["row"],
        outcomes=[Outcome[outcome.upper()] for outcome in column["outcome"]],
        labels=[names[label] for label in column["label"]],
        predictions=column["predictions"],
    )
    if config.disclosure.release is ReleaseKind.COUNTS:
        record.counts, record.sigma, record.votes = np.array(column["counts"]), config.released_sigma(parties), votes
    return _Answers(record, column["query_id"])


def _votes_by_class(votes: np.ndarray, y: np.ndarray) -> list[list[float] | None]:
    """Of each true class (first index) the mean share of the votes that each class got; None without such a query.

    `votes` int64 (queries, classes), `y` int64 (queries,); nothing without queries.
    """
    if not len(votes):
        return []
    shares = vote_shares(votes)
    return [shares[y == index].mean(axis=0).tolist() if (y == index).any() else None for index in range(votes.shape[1])]


def _label_accuracy(run_dir: Path, case: Case) -> float | None:
    rows, labels = _released(run_dir, case.classes)
    return float((case.pool_y[rows] == labels).mean()) if len(rows) else None
