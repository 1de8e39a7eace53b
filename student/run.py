"""One student: ask in one or more rounds, learn, evaluate, save."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from consilium.models.base import Model
from consilium.models.evaluation import calibration, evaluate, operating_point
from consilium.models.published.model import MODEL_FILE, Published, check_names, publish
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.label_source import NO_LABEL, LabelSource, LabelTerms, Outcome, Progress, no_progress
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.releases import ReleaseKind
from consilium.report.progress import ASK, ROUND, TRAIN_STUDENT, stage
from consilium.report.warnings import LabelFacts, warnings_of
from consilium.student.ask import AskableRows, Asked, Asking, asked_before, planned
from consilium.student.card import StudentResult, make_card, student_warnings, tested_on, write_cards
from consilium.student.config import StudentSpec
from consilium.student.learn import AnsweredRows, check_prevalence, check_student, inputs, spread_over_noise
from consilium.student.pool import Pool, check_fits
from consilium.student.public_labels import beside_labels, labels_before
from consilium.student.selection import BY_ROWS, choose


def run_student(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    out: Path,
    seed: int,
    progress: Progress = no_progress,
    tell: Callable[[str], None] = lambda remark: None,
) -> StudentResult:
    """Ask for labels, train on them, evaluate on the pool's test rows if there are any, and save.

    In the first round queries are drawn by lot, unless `spec.selection` needs no model; in later ones by it, and the
    present model's probabilities go with them. Run again on the same `out` after a crash, it asks the same queries:
    those that were charged are answered from the ledger.

    Rows of a fixed pool that others asked before cost nothing: a student begins with their labels, and what is left
    of the query budget is for others. Rows that were spent in an earlier federation are
    left out. `tell` hears of both before anything is asked.

    Writes into `out`: labels.parquet (every query that was asked), and in student/ plan.json,
    model.safetensors, student.json and MODEL_CARD.md (`student.published`).

    Raises
    ------
    ConsiliumError : what the label service raises, DataError if pool and federation do not fit, or ConfigError if the
        specification does not fit the rows or the machine. Nothing is asked then.
    """
    start = time.monotonic()
    write = partial(_write_labels, out)  # before anything is learnt from them: a trainer may fail
    learned = learn(source, pool, spec, seed, out / "student", progress, tell, write)
    terms, spec, record = learned.terms, learned.spec, learned.record
    write(terms, learned.queries, record)
    # it is judged as it was written: what its file says is what anybody gets
    path, labelled = out / "student" / MODEL_FILE, pool.labelled
    known = (pool.queries[labelled], pool.labels[labelled]) if pool.labels is not None and len(labelled) else None
    published = publish(path, learned.model, terms.schema, spec.inputs, learned.queries, spec.prevalence, known)
    metrics, tested = judged(published, pool, learned.queries)
    labels = _beside_labels(published, pool, learned, seed)
    spread = noise_spread(learned, pool, seed, metrics, progress)
    outcomes = np.array(record.outcomes)
    answered = int((outcomes == Outcome.ANSWERED).sum())
    result = StudentResult(
        queries=int((outcomes != Outcome.NOT_ASKED).sum()),
        answered=answered,
        reinforced=int((outcomes == Outcome.REINFORCED).sum()),
        metrics=metrics,
        noise_spread=spread,
        warnings=student_warnings(terms, published.kind, metrics, tested, spread, labels),
        seconds=time.monotonic() - start,
        public_labels=labels,
    )
    write_cards(out / "student", make_card(terms, spec, published, result, tested))
    return result


@dataclass(frozen=True)
class Learned:
    """What a student has before it is published. terms: as the source described them at first. queries: the public rows
    float32 (n, features), canonical."""

    terms: LabelTerms
    spec: StudentSpec
    queries: np.ndarray = field(repr=False)
    record: Asked = field(repr=False)
    model: Model = field(repr=False)


def learn(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    seed: int,
    folder: Path | None = None,
    progress: Progress = no_progress,
    tell: Callable[[str], None] = lambda remark: None,
    write: Callable[[LabelTerms, np.ndarray, Asked], None] = lambda terms, queries, record: None,
) -> Learned:
    """Ask and learn as `run_student` does, and raise what it raises. folder: where plans are; None where nobody
    goes on with this student after a crash. tell: also hears where labels of public rows do
    not tell each other. write: keeps all answers so far, of these public rows, as they come."""
    terms = source.describe()
    spec = spec.for_rows(terms.schema)
    _check(pool, spec, terms)
    rows = AskableRows.of(pool.queries, terms.schema, source)
    asking = planned(folder, source, spec, terms.federation, rows)
    if pool.labels is not None:
        for warning in warnings_of(LabelFacts(labels_before(terms.schema, rows.queries, pool.labels))):
            tell(f"warning: {warning['text']}")
    if remark := asked_before(rows, asking.plan.recorded, terms.queries_left):
        tell(remark)
    rounds = _Rounds(rows, asking, seed, progress, partial(write, terms, rows.queries), terms)
    model = rounds.model_of_all()
    return Learned(terms, spec, rows.queries, rounds.asked, model)


def _check(pool: Pool, spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise what `run_student` raises before anything is asked."""
    check_fits(pool, terms.schema)
    if spec.public_labels and pool.labels is None:
        raise ConfigError(
            f"student.public_labels is {spec.public_labels}, and the public rows have no labels",
            "Give them as `y`, or --public-label COLUMN of a table; or leave the key out",
        )
    check_names(terms.schema)
    check_prevalence(spec, terms)
    check_student(spec, terms)


@dataclass
class _Rounds:
    """Asking and learning in turns. model: of the answers so far."""

    rows: AskableRows
    asking: Asking
    seed: int
    progress: Progress
    write: Callable[[Asked], None]
    terms: LabelTerms

    def __post_init__(self) -> None:
        plan, terms = self.asking.plan, self.terms
        self.asked = Asked(len(terms.schema.classes), terms.law, len(plan.recorded) + plan.total)
        self.model: Model | None = None
        self.number, self.total = 0, len(self.asking.rounds)

    def model_of_all(self) -> Model:
        """Ask all that is planned, as far as the query budget allows, and return the model.

        Raises
        ------
        BudgetExceeded : the plan is empty.
        """
        self.progress(ASK, 0, self.asked.planned)
        asking = self.asking
        seen = inputs(asking.spec, self.rows.schema, self.rows.queries)
        if len(asking.plan.recorded):
            asking.ask(self.rows, asking.plan.recorded, seen, None, self.asked, self.progress)
            self.write(self.asked)
            self._learn(seen)
        for count in asking.rounds:
            if self.number == 0:
                self._count_rounds()
            chosen = asking.plan.rows(self.number)
            if chosen is None:
                chosen = self._choose(count, seen)
                asking.plan.add(chosen)
            more = asking.ask(self.rows, chosen, seen, self.model, self.asked, self.progress)
            self.write(self.asked)
            self._learn(seen)
            self.number += 1
            self._count_rounds()
            if not more:
                break
        if self.model is None:
            raise BudgetExceeded("no queries are left in this federation", "Nothing was asked")
        return self.model

    def _choose(self, count: int, seen: np.ndarray) -> np.ndarray:
        """`count` rows, int64, none of which was asked or spent."""
        spec = self.asking.spec
        earlier = np.array(self.asked.rows, dtype=np.int64)
        candidates = self.rows.free([earlier])
        strategy = "random" if self.model is None and spec.selection != BY_ROWS else spec.selection
        places = self.rows.schema.inputs(self.rows.queries) if strategy == BY_ROWS else seen
        probabilities = None if self.model is None else self.model.predict_proba(seen)
        generator = np.random.default_rng([self.seed, 0x617368, self.number])
        return choose(strategy, candidates, count, places, earlier, probabilities, generator, self.rows.equal)

    def _learn(self, seen: np.ndarray) -> None:
        answered = AnsweredRows(seen, *self.asked.told())
        with stage(self.progress, TRAIN_STUDENT):
            self.model = answered.train(self.asking.spec, self.rows.schema, self.seed, self.progress)

    def _count_rounds(self) -> None:
        if self.total > 1:
            self.progress(ROUND, self.number, self.total)


def judged(
    published: Published, pool: Pool, queries: np.ndarray
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Metrics on the pool's test rows, and how they came about; None where there are none. `queries`: the public rows
    as `Learned` has them."""
    if pool.test_x is None or pool.test_y is None:
        return None, None
    classes = published.schema.classes
    probabilities, y = published.predict_proba(pool.test_x), pool.test_y
    threshold = published.threshold
    metrics = {
        **evaluate(probabilities, y, classes),
        **calibration(probabilities, y, classes),
        "operating_point": operating_point(probabilities, y, classes, threshold),
    }
    known = set(query_ids(queries))
    again = sum(name in known for name in query_ids(canonical_queries(pool.test_x, len(published.schema.features))))
    return metrics, tested_on(pool.test_y, metrics, classes, again)


def _beside_labels(published: Published, pool: Pool, learned: Learned, seed: int) -> dict[str, Any]:
    """See `beside_labels`; without test rows no more than how many there are, and nothing where no row has one."""
    known = len(pool.labelled)
    if not known or pool.labels is None or pool.test_x is None or pool.test_y is None:
        return {"rows": known} if known else {}
    student, test = published.predict_proba(pool.test_x), (pool.test_x, pool.test_y)
    return beside_labels(learned.spec, learned.terms.schema, learned.queries, pool.labels, test, student, seed)


def noise_spread(
    learned: Learned, pool: Pool, seed: int, metrics: Mapping[str, Any] | None, progress: Progress = no_progress
) -> dict[str, Any]:
    """How far noise of the same scale moves this student, see `spread_over_noise`. `metrics`: of `judged`."""
    spec, schema, record = learned.spec, learned.terms.schema, learned.record
    if learned.terms.release is ReleaseKind.EXACT:
        return {"absent": "the released winners have no noise to speak of"}
    known = None
    if pool.labels is not None:
        known = inputs(spec, schema, pool.queries[pool.labelled]), pool.labels[pool.labelled]
    answered = AnsweredRows(inputs(spec, schema, learned.queries), *record.told(), known)
    test = None
    if pool.test_x is not None and pool.test_y is not None:
        test = (inputs(spec, schema, pool.test_x), pool.test_y)
    return spread_over_noise(answered, spec, schema, seed, metrics, test, progress)


def _write_labels(out: Path, terms: LabelTerms, queries: np.ndarray, record: Asked) -> None:
    import polars as pl

    ids = query_ids(queries[record.rows])
    out.mkdir(parents=True, exist_ok=True)
    names = terms.schema.classes
    counts = [
        None if label == NO_LABEL or record.histograms is None else record.histograms.counts[place].tolist()
        for place, label in enumerate(record.labels)
    ]
    # the student's own when it asked, where the check is on what the votes add to them
    used = record.law is not None and record.law.predicted
    predictions = record.predictions if used else [None] * len(record.rows)
    columns = {
        "row": pl.Series(np.asarray(record.rows).tolist(), dtype=pl.Int64),
        "query_id": pl.Series(list(ids), dtype=pl.String),
        "outcome": pl.Series([Outcome(outcome).name.lower() for outcome in record.outcomes], dtype=pl.String),
        "label": pl.Series([None if label == NO_LABEL else names[label] for label in record.labels], dtype=pl.String),
        "counts": pl.Series(counts, dtype=pl.List(pl.Int64)),
        "predictions": pl.Series(predictions, dtype=pl.List(pl.Float64)),
    }
    content = io.BytesIO()
    pl.DataFrame(columns).write_parquet(content)
    (out / "labels.parquet").write_bytes(content.getvalue())
