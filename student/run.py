"""One student: what it may ask, the answers so far; it asks in one or more rounds, learns, is evaluated and saved."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.models.base import NOTHING, Outcomes, Shares, Told
from consilium.models.evaluation import calibration, evaluate, operating_point
from consilium.models.published.model import MODEL_FILE, Published, check_names, publish
from consilium.protocol.errors import BudgetExceeded, ConfigError, DataError
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import (
    NO_LABEL,
    Answers,
    LabelLaw,
    LabelSource,
    LabelTerms,
    Outcome,
    Progress,
    no_progress,
)
from consilium.protocol.queries import canonical_queries, first_equal, query_ids
from consilium.report.progress import ASK, ROUND, TRAIN_STUDENT, stage
from consilium.report.warnings import LabelFacts, warnings_of
from consilium.student.card import make_card, tested_on, write_cards
from consilium.student.config import StudentSpec
from consilium.student.learn import check_student, inputs, train
from consilium.student.pool import Pool, check_fits
from consilium.student.public_labels import beside_labels, labels_before
from consilium.student.selection import BY_ROWS, choose

Tell = Callable[[str], None]
DEVIATIONS = 1e-9, NOTHING
"""Of a share, that trainers can square and add up: what is smaller is none, and what is larger says nothing."""
UNKNOWN = -1e6
"""Stands for a prediction that nobody knows any more. So far below 0 every check passes, whatever the votes are: then
an answer tells what its label tells and no more, and an abstention or a confirmation is left out."""
FEWER = 4.0
"""Standard deviations: noise alone passes for missing votes once in 30,000 students."""


@dataclass
class Asked:
    """What was asked so far, in order: row of the pool, outcome, label (NO_LABEL where there is none), and what the
    student predicted then, `classes` numbers: 0 where it could not yet, `UNKNOWN` where others had asked before. law:
    of a label, None where it is not known. counts: int64 (n, classes), where noisy histograms were given, of at most
    `votes` votes each, with noise of deviation `sigma` on a count."""

    classes: int
    law: LabelLaw | None = None
    sigma: float = 0.0
    votes: int = 0
    rows: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    predictions: list[list[float]] = field(default_factory=list, repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)

    def add(self, rows: np.ndarray, answers: Answers, predictions: np.ndarray) -> None:
        self.rows += rows.tolist()
        self.outcomes += answers.outcomes.tolist()
        self.labels += answers.labels.tolist()
        self.predictions += predictions.tolist()
        if answers.counts is not None:
            before = answers.counts[:0] if self.counts is None else self.counts
            self.counts = np.concatenate([before, answers.counts])

    def told(self) -> tuple[np.ndarray, np.ndarray, Told | None]:
        """Rows that tell something of the votes, and their labels, two int64 (n,); and what they tell by the known law
        of the noise, None where it is not known."""
        rows, labels, outcomes = (np.array(each, dtype=np.int64) for each in (self.rows, self.labels, self.outcomes))
        kept, told = labels != NO_LABEL, None
        if self.counts is not None:
            counts = self.counts[kept]
            votes = votes_in_sums(counts, self.votes, self.sigma)
            told = Shares(counts / votes, np.full(len(counts), np.clip(self.sigma / votes, *DEVIATIONS)))
        elif self.law is not None:
            predictions = np.array(self.predictions).reshape(-1, self.classes) if self.law.predicted else None
            kept = outcomes != Outcome.NOT_ASKED
            if predictions is not None:
                kept &= (predictions[:, 0] != UNKNOWN) | (outcomes == Outcome.ANSWERED)
                predictions = predictions[kept]
            told = Outcomes(labels[kept], outcomes[kept], self.classes, self.law, predictions)
        return rows[kept], labels[kept], told


def votes_in_sums(counts: np.ndarray, most: int, sigma: float) -> float:
    """Votes in each sum: as many as there might be, fewer where the noisy counts, int64 (queries, classes), say so. How
    many parties were in a sum may follow from what their rows are, so nobody tells a student: it is estimated from what
    was released, by the mean of the totals, where that is `FEWER` deviations of its noise below. A party that was left
    out of half of the sums counts half."""
    queries, classes = counts.shape
    if queries and (mean := counts.sum(axis=1, dtype=np.float64).mean()) < most - FEWER * sigma * np.sqrt(
        classes / queries
    ):
        return max(float(mean), 1.0)
    return float(most)


class AskingPlan:
    """Rows that a student has decided to ask, in order, on its own disk before it asks: after a crash it begins with
    them, and what was charged is free. No path: in memory alone."""

    def __init__(self, path: Path | None, federation: str) -> None:
        """federation: hash of the one that the rows are for. Raises DataError: the file is damaged, or another's."""
        self._path, self._federation = path, federation
        self.rows: list[int] = []
        if path is None or not path.exists():
            return
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            of, self.rows = content["federation"], [int(row) for row in content["rows"]]
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} is damaged", "Use another output folder") from None
        if of != federation:
            raise DataError(f"{path} was made for another federation", "Use another output folder")

    def take(self, rows: np.ndarray) -> None:
        """Decide on these too; on disk when this returns."""
        self.rows += rows.tolist()
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(self._path, json.dumps({"federation": self._federation, "rows": self.rows}))


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
    student = learn(source, pool, spec, seed, out, progress, tell)
    # it is judged as it was written: what its file says is what anybody gets
    published = student.publish(out / "student" / MODEL_FILE)
    metrics, tested = judged(published, pool, student.queries)
    labels: dict[str, Any] = {"rows": len(pool.labelled)} if len(pool.labelled) else {}
    if labels and pool.labels is not None and pool.test_x is not None and pool.test_y is not None:
        test, schema, probabilities = (pool.test_x, pool.test_y), published.schema, published.predict_proba(pool.test_x)
        labels = beside_labels(student.spec, schema, student.queries, pool.labels, test, probabilities, seed)
    card = make_card(student.terms, student.spec, published, student.record.outcomes, metrics, tested, labels)
    write_cards(out / "student", card)
    return card


def learn(
    source: LabelSource,
    pool: Pool,
    spec: StudentSpec,
    seed: int,
    out: Path | None = None,
    progress: Progress = no_progress,
    tell: Tell = lambda remark: None,
) -> Student:
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
    student = Student(source, terms, pool, spec, seed, out, progress)
    student.learn(tell)
    return student


class Student:
    """A student that asks and learns in turns. terms: as the source described them at first. queries: the public rows
    float32 (n, features), canonical. record: all that was asked so far; the model is that of these answers."""

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
        self.terms, self.spec = terms, spec
        self.queries = canonical_queries(pool.queries, len(terms.schema.features))
        self.record = Asked(len(terms.schema.classes), terms.law, terms.count_sigma, terms.most_votes)
        self._source, self._pool, self._seed, self._out, self._progress = source, pool, seed, out, progress
        self._model: Any = None  # until there are answers
        self._plan = AskingPlan(out and out / "student" / "plan.json", terms.federation)
        self._seen = inputs(spec, terms.schema, self.queries)
        ids = query_ids(self.queries)
        self._equal = first_equal(ids)
        self._spent = np.flatnonzero(np.isin(ids, terms.spent))
        self._recorded = np.flatnonzero(np.isin(ids, terms.recorded) & (self._equal == np.arange(len(ids))))

    def learn(self, tell: Tell) -> None:
        """See `run_student`. Raises BudgetExceeded where there is nothing to ask."""
        left, plan, known = self.terms.queries_left, self._plan, self._pool.labels
        different = len(np.unique(np.delete(self._equal, self._spent)))
        wanted = min(different, self.spec.queries or different)
        if not plan.rows and len(self._recorded):
            plan.take(self._recorded[:wanted])
        begun = np.array(plan.rows, dtype=np.int64)
        total = max(min(wanted - len(begun), left), 0)
        # numbers that differ by at most 1; empty rounds are left out
        rounds = reversed(range(self.spec.rounds))
        sizes = [size for size in ((total + index) // self.spec.rounds for index in rounds) if size]
        if known is not None:
            for warning in warnings_of(LabelFacts(labels_before(self.terms.schema, self.queries, known))):
                tell(f"warning: {warning['text']}")
        if len(begun):
            tell(f"{len(begun)} public rows were asked before: their outcomes are free; {left} queries are left")
        if len(self._spent):
            tell(f"{len(self._spent)} rows were answered in an earlier federation of these parties and are left out")
        planned = len(begun) + total
        self._progress(ASK, 0, planned)
        if len(begun):
            self._ask(begun, planned, known=True)
        for number, size in enumerate(sizes):
            if len(sizes) > 1:
                self._progress(ROUND, number, len(sizes))
            chosen = self._choose(number, size)
            plan.take(chosen)
            if not self._ask(chosen, planned):
                break
        if len(sizes) > 1:
            self._progress(ROUND, len(sizes), len(sizes))
        if self._model is None:
            raise BudgetExceeded("no queries are left in this federation", "Nothing was asked")

    def publish(self, path: Path | None) -> Published:
        """See `models.published.model.publish`; brought to the labels that the pool has."""
        pool, known = self._pool, None
        if pool.labels is not None and len(pool.labelled):
            known = pool.queries[pool.labelled], pool.labels[pool.labelled]
        return publish(path, self._model, self.terms.schema, self.queries, self.spec.prevalence, known)

    def _ask(self, chosen: np.ndarray, planned: int, known: bool = False) -> bool:
        """Ask the `chosen` rows, a batch at a time, and learn from all answers so far; False once the query budget is
        used up. planned: rows to be asked in all. known: they were asked before."""
        batch, more, record = self.spec.batch or len(chosen), True, self.record
        for start in range(0, len(chosen), batch):
            part = chosen[start : start + batch]
            own = None if self._model is None else np.clip(self._model.predict_proba(self._seen[part]), 0.0, 1.0)
            try:
                answers = self._source.ask(self.queries[part], own)
            except BudgetExceeded:
                if not record.rows:
                    raise
                more = False  # used up by what was asked before, or by another student meanwhile
                break
            none = np.full((len(part), record.classes), UNKNOWN if known else 0.0)
            record.add(part, answers, none if own is None else own)
            self._progress(ASK, len(record.rows), planned)
            more = not (answers.outcomes == Outcome.NOT_ASKED).any()
            if not more:
                break
        schema = self.terms.schema
        if self._out is not None:  # before anything is learnt from them: a trainer may fail
            _write_labels(self._out, schema.classes, self.queries, record)
        with stage(self._progress, TRAIN_STUDENT):
            places, y, told = record.told()
            x, rest = self._seen[places], np.delete(self._seen, places, axis=0)
            self._model = train(x, y, rest, record.classes, self.spec, self._seed, self._progress, schema, told)
        return more

    def _choose(self, number: int, count: int) -> np.ndarray:
        """`count` rows, int64, for this round; none is equal to one that was asked or spent."""
        earlier, strategy = np.array(self.record.rows, dtype=np.int64), self.spec.selection
        taken = self._equal[np.concatenate([earlier, self._spent])]
        candidates = np.flatnonzero(~np.isin(self._equal, taken))
        places = self.terms.schema.inputs(self.queries) if strategy == BY_ROWS else self._seen
        probabilities = None if self._model is None else self._model.predict_proba(self._seen)
        generator = np.random.default_rng([self._seed, 0x617368, number])
        return choose(strategy, candidates, count, places, earlier, probabilities, generator, self._equal)


def judged(
    published: Published, pool: Pool, queries: np.ndarray
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Metrics on the pool's test rows, and how they came about; None where there are none. `queries`: the public rows
    as `Student` has them."""
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
    content = io.BytesIO()  # on a full disk polars raises an error of its own
    pl.DataFrame({name: pl.Series(values, dtype=kind) for name, (values, kind) in columns.items()}).write_parquet(
        content
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "labels.parquet").write_bytes(content.getvalue())
