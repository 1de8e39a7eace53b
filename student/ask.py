"""What a student asks: the public rows and what is known of them, the rows that it decided on, the answers so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.models.base import NOTHING, Outcomes, Shares, Told
from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import NO_LABEL, Answers, LabelLaw, LabelTerms, Outcome
from consilium.protocol.queries import canonical_queries, first_equal, query_ids

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
    student predicted then, `classes` numbers: 0 where it could not yet, `UNKNOWN` where others had asked before.

    law: of a label, None where it is not known. counts: int64 (n, classes), where noisy histograms were given, of at
    most `votes` votes each, with noise of deviation `sigma` on a count.
    """

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

    def first(self, labels: int) -> Asked:
        """What was asked before one more label than so many came."""
        at = np.flatnonzero(np.array(self.labels) != NO_LABEL)
        end = at[labels] if labels < len(at) else len(self.rows)
        columns = {name: getattr(self, name)[:end] for name in ("rows", "outcomes", "labels", "predictions")}
        return replace(self, **columns, counts=None if self.counts is None else self.counts[:end])

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


@dataclass(frozen=True)
class AskableRows:
    """The rows that may be asked, and what became of them in earlier runs.

    queries : float32 (n, features), canonical. equal : int64 (n,), the first row that each is equal to. recorded :
    int64, rows whose outcome is recorded already; equal rows once. spent : int64, rows that were answered in an earlier
    federation.
    """

    queries: np.ndarray = field(repr=False)
    equal: np.ndarray = field(repr=False)
    recorded: np.ndarray = field(repr=False)
    spent: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, rows: np.ndarray, terms: LabelTerms) -> AskableRows:
        """Rows float (n, features) of a pool, with what the federation says of them."""
        queries = canonical_queries(rows, len(terms.schema.features))
        ids = query_ids(queries)
        equal, recorded, spent = first_equal(ids), set(terms.recorded), set(terms.spent)
        known = [row for row, name in enumerate(ids) if name in recorded and equal[row] == row]
        used_up = [row for row, name in enumerate(ids) if name in spent]
        return cls(queries, equal, np.array(known, dtype=np.int64), np.array(used_up, dtype=np.int64))

    @property
    def different(self) -> int:
        return len(np.unique(np.delete(self.equal, self.spent)))

    def free(self, taken: np.ndarray) -> np.ndarray:
        """Rows, int64, that are equal to none of those `taken`, and to no spent one."""
        return np.flatnonzero(~np.isin(self.equal, self.equal[np.concatenate([taken, self.spent])]))


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
