"""One student: ask in one or more rounds, train, evaluate, save."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from consilium.models.base import Job, Model, Shares
from consilium.models.devices import asked_device, resolve_device
from consilium.models.evaluation import calibration, evaluate, operating_point
from consilium.models.images.pixels import shape_of
from consilium.models.published.model import MODEL_FILE, Published, check_names, publish
from consilium.node.progress import ASK, ROUND, TRAIN_STUDENT, stage
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.label_source import (
    NO_LABEL,
    Answers,
    Histograms,
    LabelSource,
    LabelTerms,
    Outcome,
    Progress,
    RowStanding,
    no_progress,
)
from consilium.protocol.rows.queries import canonical_queries, first_equal, query_ids
from consilium.protocol.rows.schema import Schema
from consilium.student.ask import AskingPlan
from consilium.student.card import make_card, tested_on, write_cards
from consilium.student.config import StudentSpec
from consilium.student.learn import check_trainer, inputs, train
from consilium.student.pool import Pool, check_fits
from consilium.student.result import StudentResult
from consilium.student.selection import BY_ROWS, choose
from consilium.student.warned import student_warnings

DEVIATIONS = 1e-9, 1e9
"""Of a share, that trainers can square and add up: what is smaller is none, and what is larger says nothing."""
FEWER = 4.0
"""Standard deviations: noise alone passes for missing votes once in 30,000 students."""


@dataclass
class Asked:
    """What was asked so far, in order: row of the pool, outcome and label (NO_LABEL where there is none).

    planned: rows that are to be asked, all in all. histograms: of all of them, where noisy histograms were given.
    """

    planned: int = 0
    rows: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    histograms: Histograms | None = None

    def add(self, rows: np.ndarray, answers: Answers) -> None:
        """Answers to these further rows."""
        self.rows += rows.tolist()
        self.outcomes += answers.outcomes.tolist()
        self.labels += answers.labels.tolist()
        if answers.histograms is not None:
            before = self.histograms
            self.histograms = answers.histograms if before is None else before.then(answers.histograms)

    def shares(self) -> Shares | None:
        """What noisy histograms say of the rows that have a label; None where there are none."""
        if self.histograms is None:
            return None
        told = self.histograms.of(np.array(self.labels) != NO_LABEL)
        votes = votes_in_sums(told)
        return Shares(told.counts / votes[:, None], np.clip(told.sigmas / votes, *DEVIATIONS))

    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that have a label, and the labels: two int64 arrays."""
        rows, labels = np.array(self.rows, dtype=np.int64), np.array(self.labels, dtype=np.int64)
        return rows[labels != NO_LABEL], labels[labels != NO_LABEL]


def votes_in_sums(histograms: Histograms) -> np.ndarray:
    """Votes in each sum, float64 (queries,): as many as there might be, fewer where the noisy counts say so.

    How many parties were in a sum may follow from what their rows are, so nobody tells a student: it is estimated from
    what was released, by the mean of the totals, where that is `FEWER` deviations of its noise below. A party that
    was left out of half of the sums counts half.
    """
    most, counted = histograms.votes.astype(np.float64), histograms.counts.sum(axis=1, dtype=np.float64)
    if not len(counted):
        return most
    deviation = np.sqrt(histograms.counts.shape[1]) * np.hypot.reduce(histograms.sigmas) / len(counted)
    share = counted.mean() / most.mean()
    fewer = counted.mean() < most.mean() - FEWER * deviation
    return np.maximum(most * share, 1.0) if fewer else most


def run_student(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    out: Path,
    seed: int,
    progress: Progress = no_progress,
    later: Sequence[LabelSource] = (),
    tell: Callable[[str], None] = lambda remark: None,
) -> StudentResult:
    """Ask for labels, train on them, evaluate on the pool's test rows if there are any, and save.

    In the first round queries are drawn by lot, unless `spec.selection` needs no model; in later ones by it, and the
    present model's probabilities go with them. Run again on the same `out` after a crash, it asks the same queries:
    those that were charged are answered from the ledger.

    Rows of a fixed pool that others asked before cost nothing: a student of a federation without schedule begins with
    their labels, and what is left of the caps is for others. Rows that were spent in an earlier federation are left
    out. `tell` hears of both before anything is asked.

    later: the sources of the phases after the first, where the federation has a schedule. A phase begins when the one
    before has nothing left to ask, with a model of its own student (`StudentSpec.later`) on the labels so far, and
    asks rows that were not chosen before. The last phase's student is published.

    Writes into `out`: labels.parquet (every query that was asked), and in student/ plan.json (plan-2.json for a second
    phase, and so on), model.safetensors, student.json and MODEL_CARD.md (`student.published`); and, while a student of
    images learns, checkpoint-*.pt, with which it goes on after a crash.

    Raises
    ------
    ConsiliumError : what the label service raises, DataError if pool and federation do not fit, or ConfigError if the
        specification does not fit the rows or the machine. Nothing is asked then.
    """
    start = time.monotonic()
    terms = source.describe()
    check_fits(pool, terms.schema)
    check_names(terms.schema)
    check_prevalence(spec, terms.schema)
    phases = _phases(spec, (source, *later))
    for phase in phases:
        _check_student(phase.spec, terms)
    queries = canonical_queries(pool.queries, len(terms.schema.features))
    classes = len(terms.schema.classes)
    ids = query_ids(queries)
    standings = source.known(ids)
    spent = np.flatnonzero(standings == RowStanding.SPENT)
    equal = first_equal(ids)
    different = len(np.unique(equal[standings != RowStanding.SPENT]))
    plans = _plans(out / "student", phases, terms.federation, different, _first_of(equal, standings))
    if remark := _asked_before(standings, plans[0].given, terms.queries_left):
        tell(remark)
    choice: dict[str, Any] = {}
    planned = len(plans[0].given) + sum(plan.total for plan in plans)
    asked, model, job = Asked(planned), None, Job(out / "student", progress, choice.update)

    def learnt(own: StudentSpec, rows: np.ndarray) -> Model:
        labelled, labels = asked.labelled()
        rest = np.setdiff1d(np.arange(len(rows)), labelled)
        with stage(progress, TRAIN_STUDENT):
            given = rows[labelled], labels, rows[rest], classes
            return train(*given, own, seed, job, terms.schema.inputs, asked.shares())

    progress(ASK, 0, asked.planned)
    rounds = [_split(plan.total, phase.spec.rounds) for plan, phase in zip(plans, phases, strict=True)]
    number, most, learner = 0, sum(map(len, rounds)), spec.first
    if len(plans[0].given):
        rows = inputs(learner, terms.schema, queries)
        _ask(source, queries, plans[0].given, rows, None, asked, learner.batch, progress)
        model = learnt(learner, rows)
    for at, (phase, plan) in enumerate(zip(phases, plans, strict=True)):
        own = phase.spec
        rows = inputs(own, terms.schema, queries)
        if model is not None and not own.learns_like(learner):
            model = learnt(own, rows)
        learner = own
        for within, count in enumerate(rounds[at]):
            if number == 0 and most > 1:
                progress(ROUND, 0, most)
            chosen = plan.rows(within)
            if chosen is None:
                gone = (np.array(asked.rows, dtype=np.int64), spent, *(each.chosen for each in plans[:at]))
                taken = np.concatenate(gone)
                candidates = np.flatnonzero(~np.isin(equal, equal[taken]))
                generator = np.random.default_rng([seed, 0x617368, number])
                strategy = "random" if model is None and own.selection not in BY_ROWS else own.selection
                seen = terms.schema.inputs(queries) if strategy in BY_ROWS else rows
                probabilities = None if model is None else model.predict_proba(rows)
                before = np.array(asked.rows, dtype=np.int64)
                chosen = choose(strategy, candidates, count, seen, before, probabilities, generator, equal)
                plan.add(chosen)
            more = _ask(phase.source, queries, chosen, rows, model, asked, own.batch, progress)
            model, number = learnt(own, rows), number + 1
            if most > 1:
                progress(ROUND, number, most)
            if not more:
                break
    if model is None:  # the plan is empty
        raise BudgetExceeded("no queries are left in this federation", "Nothing was asked")
    spec = phases[-1].spec
    phases[-1].source.finish()  # it says that this student needs nothing more, of whatever phase
    _write_labels(out, terms, query_ids(queries[asked.rows]), asked)
    # it is judged as it was written: what its file says is what anybody gets
    published = publish(out / "student" / MODEL_FILE, model, terms.schema, spec.inputs, queries, spec.prevalence)
    metrics, tested = _test(published, pool, queries)
    outcomes = np.array(asked.outcomes)
    answered = int((outcomes == Outcome.ANSWERED).sum())
    result = StudentResult(
        asked=int((outcomes != Outcome.NOT_ASKED).sum()),
        answered=answered,
        reinforced=int((outcomes == Outcome.REINFORCED).sum()),
        metrics=metrics,
        warnings=student_warnings(terms, spec, published.kind, answered, metrics, tested),
        seconds=time.monotonic() - start,
    )
    write_cards(out / "student", make_card(terms, spec, published, result, tested, choice))
    job.clear()
    return result


@dataclass(frozen=True)
class _Phase:
    """Whom to ask in a phase, and how."""

    source: LabelSource
    spec: StudentSpec


def _phases(spec: StudentSpec, sources: Sequence[LabelSource]) -> list[_Phase]:
    """Each source with its student. Raises ConfigError if there are more or fewer students than phases."""
    specs = spec.phases if spec.later else spec.phases * len(sources)
    if len(specs) != len(sources):
        raise ConfigError(
            f"student.later has {len(specs) - 1} students, the federation {len(sources) - 1} phases after the first",
            "Give one for each, or leave it out",
        )
    return [_Phase(source, own) for source, own in zip(sources, specs, strict=True)]


def _plans(folder: Path, phases: Sequence[_Phase], federation: str, pool: int, free: np.ndarray) -> list[AskingPlan]:
    """What is to be asked in each phase of a pool of so many different rows, as it was begun or as the caps allow now.
    free: rows whose outcome is recorded."""
    plans, left = [], pool
    for number, phase in enumerate(phases, 1):
        name = "plan.json" if number == 1 else f"plan-{number}.json"
        wanted = min(left, phase.spec.queries or left)
        given = free[:wanted] if len(phases) == 1 else free[:0]
        total = min(wanted - len(given), phase.source.describe().queries_left)
        plans.append(AskingPlan(folder / name, federation, total))
        if len(given) and not plans[-1].begun:
            plans[-1].take(given)
        left -= plans[-1].total
    return plans


def _first_of(equal: np.ndarray, standings: np.ndarray) -> np.ndarray:
    """Rows, int64, whose outcome is recorded already; equal rows once."""
    return np.flatnonzero((standings == RowStanding.RECORDED) & (equal == np.arange(len(equal))))


def _asked_before(standings: np.ndarray, given: np.ndarray, left: int) -> str:
    """What a student is told of rows that were asked before it came, or nothing."""
    spent, told = int((standings == RowStanding.SPENT).sum()), []
    if len(given):
        told.append(
            f"{len(given)} rows of the pool were asked before: their outcomes are free; {left} queries are left"
        )
    if spent:
        told.append(f"{spent} rows were answered in an earlier federation of these parties and are left out")
    return "; ".join(told)


def _check_student(spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise ConfigError unless the student can learn from what this federation gives, on this machine."""
    check_trainer(spec.trainer, terms.schema)
    if spec.self_training and terms.count_sigma > 0:
        raise ConfigError(
            "student.self_training takes labels, and this federation gives noisy histograms",
            "Leave it out: trainers that learn from histograms use the rows without one themselves",
        )
    if spec.inputs == "features":
        shape_of(len(terms.schema.features))
        resolve_device(asked_device())


def check_prevalence(spec: StudentSpec, schema: Schema) -> None:
    """Raise ConfigError unless the declared shares, if there are any, are those of the federation's classes."""
    if spec.prevalence and len(spec.prevalence) != len(schema.classes):
        raise ConfigError(
            f"student.prevalence has {len(spec.prevalence)} shares for the {len(schema.classes)} classes"
            f" {list(schema.classes)}",
            "Give one for each, in this order, or leave it out",
        )


def _split(total: int, parts: int) -> list[int]:
    """`total` as `parts` numbers that differ by at most 1; empty parts are left out."""
    return [size for size in ((total + index) // parts for index in reversed(range(parts))) if size]


def _ask(
    source: LabelSource,
    queries: np.ndarray,
    chosen: np.ndarray,
    rows: np.ndarray,
    model: Model | None,
    asked: Asked,
    batch: int,
    progress: Progress,
) -> bool:
    """Ask the chosen rows, `batch` at a time (0: all at once), into `asked`; False once the caps are used up."""
    for start in range(0, len(chosen), batch or len(chosen)):
        part = chosen[start : start + (batch or len(chosen))]
        try:
            probabilities = None if model is None else np.clip(model.predict_proba(rows[part]), 0.0, 1.0)
            answers = source.ask(queries[part], progress, probabilities)
        except BudgetExceeded:
            if not asked.rows:
                raise
            return False  # used up by what was asked before, or by another student meanwhile
        asked.add(part, answers)
        progress(ASK, len(asked.rows), asked.planned)
        if (answers.outcomes == Outcome.NOT_ASKED).any():
            return False
    return True


def _test(published: Published, pool: Pool, queries: np.ndarray) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Metrics on the pool's test rows, and how they came about; None where there are none."""
    if pool.test_x is None or pool.test_y is None:
        return None, None
    classes = published.schema.classes
    probabilities, y = published.predict_proba(pool.test_x), pool.test_y
    threshold = None if published.calibration is None else published.calibration.threshold
    metrics = {
        **evaluate(probabilities, y, classes),
        **calibration(probabilities, y, classes),
        "operating_point": operating_point(probabilities, y, classes, threshold),
    }
    known = set(query_ids(queries))
    again = sum(name in known for name in query_ids(canonical_queries(pool.test_x, len(published.schema.features))))
    return metrics, tested_on(pool.test_y, metrics, classes, again)


def _write_labels(out: Path, terms: LabelTerms, ids: list[str], asked: Asked) -> None:
    out.mkdir(parents=True, exist_ok=True)
    names = terms.schema.classes
    table = pl.DataFrame(
        {
            "row": asked.rows,
            "query_id": ids,
            "outcome": [Outcome(outcome).name.lower() for outcome in asked.outcomes],
            "label": [None if label == NO_LABEL else names[label] for label in asked.labels],
            "counts": [
                None if label == NO_LABEL or asked.histograms is None else asked.histograms.counts[at].tolist()
                for at, label in enumerate(asked.labels)
            ],
        },
        schema={
            "row": pl.Int64,
            "query_id": pl.String,
            "outcome": pl.String,
            "label": pl.String,
            "counts": pl.List(pl.Int64),
        },
    )
    content = io.BytesIO()
    table.write_parquet(content)  # to a full disk, polars itself would raise an error of its own
    (out / "labels.parquet").write_bytes(content.getvalue())
