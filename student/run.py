"""One student: ask in one or more rounds, learn, evaluate, save."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from consilium.student.learn import check_student, inputs, train_told
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
    of the query budget is for others. Rows that were spent in an earlier federation are left out. `tell` hears of both,
    and where labels of public rows do not tell each other, before anything is asked.

    Writes into `out`: labels.parquet (every query that was asked), and in student/ plan.json, model.safetensors,
    student.json and MODEL_CARD.md. Raises what the label service raises; before anything is asked, DataError: pool and
    federation do not fit; ConfigError: the specification does not fit the rows or the machine.
    """
    learned = learn(source, pool, spec, seed, out, progress, tell)
    # it is judged as it was written: what its file says is what anybody gets
    published = learned.publish(out / "student" / MODEL_FILE, pool)
    metrics, tested = judged(published, pool, learned.queries)
    labels: dict[str, Any] = {"rows": len(pool.labelled)} if len(pool.labelled) else {}
    if labels and pool.labels is not None and pool.test_x is not None and pool.test_y is not None:
        test, schema = (pool.test_x, pool.test_y), learned.terms.schema
        student = published.predict_proba(pool.test_x)
        labels = beside_labels(learned.spec, schema, learned.queries, pool.labels, test, student, seed)
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
    out: Path | None = None,
    progress: Progress = no_progress,
    tell: Tell = lambda remark: None,
) -> Learned:
    """Ask and learn as `run_student` does, and raise what it raises. out: None where nobody goes on with this student
    after a crash, and nothing is written."""
    terms = source.describe()
    schema, spec = terms.schema, spec.for_rows(terms.schema)
    check_fits(pool, schema)
    if spec.public_labels and pool.labels is None:
        raise ConfigError(
            f"student.public_labels is {spec.public_labels}, and the public rows have no labels",
            "Give them as `y`, or --public-label COLUMN of a table; or leave the key out",
        )
    check_names(schema)
    check_student(spec, schema)
    turns = _Turns(source, terms, pool, spec, seed, out, progress)
    rows, plan = turns.rows, turns.plan
    wanted = min(rows.different, spec.queries or rows.different)
    if not plan.rows and len(rows.recorded):
        plan.take(rows.recorded[:wanted])
    begun = np.array(plan.rows, dtype=np.int64)
    total = max(min(wanted - len(begun), terms.queries_left), 0)
    # numbers that differ by at most 1; empty rounds are left out
    sizes = [size for size in ((total + index) // spec.rounds for index in reversed(range(spec.rounds))) if size]
    if pool.labels is not None:
        for warning in warnings_of(LabelFacts(labels_before(schema, rows.queries, pool.labels))):
            tell(f"warning: {warning['text']}")
    if len(begun):
        free = f"{len(begun)} public rows were asked before: their outcomes are free"
        tell(f"{free}; {terms.queries_left} queries are left")
    if len(rows.spent):
        tell(f"{len(rows.spent)} rows were answered in an earlier federation of these parties and are left out")
    turns.planned = len(begun) + total
    progress(ASK, 0, turns.planned)
    if len(begun):
        turns.ask(begun, known=True)
    for number, size in enumerate(sizes):
        turns.tell(number, len(sizes))
        chosen = turns.choose(number, size)
        plan.take(chosen)
        if not turns.ask(chosen):
            break
    turns.tell(len(sizes), len(sizes))
    if turns.model is None:
        raise BudgetExceeded("no queries are left in this federation", "Nothing was asked")
    return Learned(terms, spec, rows.queries, turns.record, turns.model)


class _Turns:
    """Asking and learning in turns. model: of the answers so far. planned: rows that are to be asked, all in all."""

    def __init__(
        self,
        source: LabelSource,
        terms: LabelTerms,
        pool: Pool,
        spec: StudentSpec,
        seed: int,
        out: Path | None,
        progress: Progress,
    ) -> None:
        self.rows = AskableRows.of(pool.queries, terms)
        self.plan = AskingPlan(out and out / "student" / "plan.json", terms.federation)
        self.record = Asked(len(terms.schema.classes), terms.law, terms.count_sigma, terms.most_votes)
        self.model: Model | None = None
        self.planned = 0
        self._source, self._spec, self._seed, self._out, self._progress = source, spec, seed, out, progress
        self._schema, self._seen = terms.schema, inputs(spec, terms.schema, self.rows.queries)

    def ask(self, chosen: np.ndarray, known: bool = False) -> bool:
        """Ask the `chosen` rows, a batch at a time, and learn from all answers so far; False once the query budget is
        used up. known: they were asked before."""
        batch, more = self._spec.batch or len(chosen), True
        for start in range(0, len(chosen), batch):
            part = chosen[start : start + batch]
            own = None if self.model is None else np.clip(self.model.predict_proba(self._seen[part]), 0.0, 1.0)
            try:
                answers = self._source.ask(self.rows.queries[part], own)
            except BudgetExceeded:
                if not self.record.rows:
                    raise
                more = False  # used up by what was asked before, or by another student meanwhile
                break
            none = np.full((len(part), self.record.classes), UNKNOWN if known else 0.0)
            self.record.add(part, answers, none if own is None else own)
            self._progress(ASK, len(self.record.rows), self.planned)
            more = not (answers.outcomes == Outcome.NOT_ASKED).any()
            if not more:
                break
        if self._out is not None:  # before anything is learnt from them: a trainer may fail
            _write_labels(self._out, self._schema.classes, self.rows.queries, self.record)
        with stage(self._progress, TRAIN_STUDENT):
            told = self.record.told()
            self.model = train_told(self._seen, *told, self._spec, self._schema, self._seed, self._progress)
        return more

    def choose(self, number: int, count: int) -> np.ndarray:
        """`count` rows, int64, for this round, none of which was asked or spent."""
        earlier, strategy = np.array(self.record.rows, dtype=np.int64), self._spec.selection
        places = self._schema.inputs(self.rows.queries) if strategy == BY_ROWS else self._seen
        probabilities = None if self.model is None else self.model.predict_proba(self._seen)
        generator = np.random.default_rng([self._seed, 0x617368, number])
        candidates = self.rows.free(earlier)
        return choose(strategy, candidates, count, places, earlier, probabilities, generator, self.rows.equal)

    def tell(self, number: int, total: int) -> None:
        if total > 1:
            self._progress(ROUND, number, total)


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


def _write_labels(out: Path, names: Sequence[str], queries: np.ndarray, record: Asked) -> None:
    import polars as pl

    counts = [
        None if label == NO_LABEL or record.counts is None else record.counts[place].tolist()
        for place, label in enumerate(record.labels)
    ]
    # the student's own when it asked, where the check is on what the votes add to them
    used = record.law is not None and record.law.predicted
    columns = {
        "row": (record.rows, pl.Int64),
        "query_id": (query_ids(queries[record.rows]), pl.String),
        "outcome": ([Outcome(outcome).name.lower() for outcome in record.outcomes], pl.String),
        "label": ([None if label == NO_LABEL else names[label] for label in record.labels], pl.String),
        "counts": (counts, pl.List(pl.Int64)),
        "predictions": (record.predictions if used else [None] * len(record.rows), pl.List(pl.Float64)),
    }
    content = io.BytesIO()
    pl.DataFrame({name: pl.Series(values, dtype=kind) for name, (values, kind) in columns.items()}).write_parquet(
        content
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "labels.parquet").write_bytes(content.getvalue())
