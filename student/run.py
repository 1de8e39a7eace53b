"""One student: ask in one or more rounds, learn, evaluate, save."""

from __future__ import annotations

import io
from collections.abc import Callable
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
from consilium.report.progress import ASK, ROUND, TRAIN_STUDENT, stage
from consilium.report.warnings import LabelFacts, warnings_of
from consilium.student.ask import UNKNOWN, AskableRows, Asked, AskingPlan
from consilium.student.card import make_card, tested_on, write_cards
from consilium.student.config import StudentSpec
from consilium.student.learn import AnsweredRows, check_student, inputs
from consilium.student.pool import Pool, check_fits
from consilium.student.public_labels import beside_labels, labels_before
from consilium.student.selection import BY_ROWS, choose

Tell = Callable[[str], None]


def run_student(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    out: Path,
    seed: int,
    progress: Progress = no_progress,
    tell: Tell = lambda remark: None,
) -> dict[str, Any]:
    """Ask for labels, train on them, evaluate on the pool's test rows if there are any, and save; returns the card.

    In the first round queries are drawn by lot, unless `spec.selection` needs no model; in later ones by it, and the
    present model's probabilities go with them. Run again on the same `out` after a crash, it begins with the rows that
    it had decided to ask: what was charged is answered from the ledger.

    Rows of a fixed pool that others asked before cost nothing: a student begins with their labels, and what is left
    of the query budget is for others. Rows that were spent in an earlier federation are left out. `tell` hears of both
    before anything is asked.

    Writes into `out`: labels.parquet (every query that was asked), and in student/ plan.json,
    model.safetensors, student.json and MODEL_CARD.md (`student.published`).

    Raises
    ------
    ConsiliumError : what the label service raises, DataError if pool and federation do not fit, or ConfigError if the
        specification does not fit the rows or the machine. Nothing is asked then.
    """
    write = partial(_write_labels, out)  # before anything is learnt from them: a trainer may fail
    learned = learn(source, pool, spec, seed, out / "student", progress, tell, write)
    # it is judged as it was written: what its file says is what anybody gets
    published = learned.publish(out / "student" / MODEL_FILE, pool)
    metrics, tested = judged(published, pool, learned.queries)
    labels = _beside_labels(published, pool, learned, seed)
    card = make_card(learned.terms, learned.spec, published, learned.record.outcomes, metrics, tested, labels)
    write_cards(out / "student", card)
    return card


@dataclass(frozen=True)
class Learned:
    """What a student has before it is published. terms: as the source described them at first. queries: the public rows
    float32 (n, features), canonical."""

    terms: LabelTerms
    spec: StudentSpec
    queries: np.ndarray = field(repr=False)
    record: Asked = field(repr=False)
    model: Model = field(repr=False)

    def publish(self, path: Path | None, pool: Pool) -> Published:
        """See `models.published.model.publish`; brought to the labels that the pool has."""
        known = None
        if pool.labels is not None and len(pool.labelled):
            known = pool.queries[pool.labelled], pool.labels[pool.labelled]
        schema, spec = self.terms.schema, self.spec
        return publish(path, self.model, schema, self.queries, spec.prevalence, known)


def learn(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    seed: int,
    folder: Path | None = None,
    progress: Progress = no_progress,
    tell: Tell = lambda remark: None,
    write: Callable[[LabelTerms, np.ndarray, Asked], None] = lambda terms, queries, record: None,
) -> Learned:
    """Ask and learn as `run_student` does, and raise what it raises. folder: of plan.json; None where nobody
    goes on with this student after a crash. tell: also hears where labels of public rows do
    not tell each other. write: keeps all answers so far, of these public rows, as they come."""
    terms = source.describe()
    schema, spec = terms.schema, spec.for_rows(terms.schema)
    _check(pool, spec, terms)
    rows = AskableRows.of(pool.queries, schema, source)
    plan = AskingPlan(folder and folder / "plan.json", terms.federation)
    wanted = min(rows.different, spec.queries or rows.different)
    if not plan.rows and len(rows.recorded):
        plan.take(rows.recorded[:wanted])
    begun, seen = np.array(plan.rows, dtype=np.int64), inputs(spec, schema, rows.queries)
    left = terms.queries_left
    sizes = _sizes(max(min(wanted - len(begun), left), 0), spec.rounds)
    if pool.labels is not None:
        for warning in warnings_of(LabelFacts(labels_before(schema, rows.queries, pool.labels))):
            tell(f"warning: {warning['text']}")
    if len(begun):
        tell(f"{len(begun)} public rows were asked before: their outcomes are free; {left} queries are left")
    if spent := len(rows.spent):
        tell(f"{spent} rows were answered in an earlier federation of these parties and are left out")
    rounds = _Rounds(source, rows, spec, seed, progress, seen, Asked(len(schema.classes), terms.law))
    rounds.planned = len(begun) + sum(sizes)
    progress(ASK, 0, rounds.planned)
    keep = partial(write, terms, rows.queries, rounds.record)
    if len(begun):
        rounds.ask(begun, keep, known=True)
    for number, size in enumerate(sizes):
        rounds.tell(number, len(sizes))
        chosen = rounds.choose(number, size)
        plan.take(chosen)
        if not rounds.ask(chosen, keep):
            break
    rounds.tell(len(sizes), len(sizes))
    if rounds.model is None:
        raise BudgetExceeded("no queries are left in this federation", "Nothing was asked")
    return Learned(terms, spec, rows.queries, rounds.record, rounds.model)


def _sizes(total: int, rounds: int) -> list[int]:
    """Queries in each round: numbers that differ by at most 1; empty rounds are left out."""
    return [size for size in ((total + index) // rounds for index in reversed(range(rounds))) if size]


def _check(pool: Pool, spec: StudentSpec, terms: LabelTerms) -> None:
    """Raise what `run_student` raises before anything is asked."""
    check_fits(pool, terms.schema)
    if spec.public_labels and pool.labels is None:
        raise ConfigError(
            f"student.public_labels is {spec.public_labels}, and the public rows have no labels",
            "Give them as `y`, or --public-label COLUMN of a table; or leave the key out",
        )
    check_names(terms.schema)
    check_student(spec, terms.schema)


@dataclass
class _Rounds:
    """Asking and learning in turns. seen: the rows as the model takes them. model: of the answers so far. planned: rows
    that are to be asked, all in all."""

    source: LabelSource
    rows: AskableRows
    spec: StudentSpec
    seed: int
    progress: Progress
    seen: np.ndarray
    record: Asked
    model: Model | None = None
    planned: int = 0

    def ask(self, chosen: np.ndarray, keep: Callable[[], None], known: bool = False) -> bool:
        """Ask the `chosen` rows, a batch at a time, and learn from all answers so far; False once the query budget is
        used up. keep: called before anything is learnt. known: they were asked before."""
        batch, more = self.spec.batch or len(chosen), True
        for start in range(0, len(chosen), batch):
            part = chosen[start : start + batch]
            own = None if self.model is None else np.clip(self.model.predict_proba(self.seen[part]), 0.0, 1.0)
            try:
                answers = self.source.ask(self.rows.queries[part], self.progress, own)
            except BudgetExceeded:
                if not self.record.rows:
                    raise
                more = False  # used up by what was asked before, or by another student meanwhile
                break
            none = np.full((len(part), self.record.classes), UNKNOWN if known else 0.0)
            self.record.add(part, answers, none if own is None else own)
            self.progress(ASK, len(self.record.rows), self.planned)
            more = not (answers.outcomes == Outcome.NOT_ASKED).any()
            if not more:
                break
        keep()
        answered = AnsweredRows(self.seen, *self.record.told())
        with stage(self.progress, TRAIN_STUDENT):
            self.model = answered.train(self.spec, self.rows.schema, self.seed, self.progress)
        return more

    def choose(self, number: int, count: int) -> np.ndarray:
        """`count` rows, int64, for this round, none of which was asked or spent."""
        earlier, strategy = np.array(self.record.rows, dtype=np.int64), self.spec.selection
        places = self.rows.schema.inputs(self.rows.queries) if strategy == BY_ROWS else self.seen
        probabilities = None if self.model is None else self.model.predict_proba(self.seen)
        generator = np.random.default_rng([self.seed, 0x617368, number])
        candidates = self.rows.free(earlier)
        return choose(strategy, candidates, count, places, earlier, probabilities, generator, self.rows.equal)

    def tell(self, number: int, total: int) -> None:
        """Which round it is."""
        if total > 1:
            self.progress(ROUND, number, total)


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
