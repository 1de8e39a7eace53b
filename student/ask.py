"""What a student asks: the public rows and what is known of them, the rows that it decided on, the answers so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consilium.models.base import NOTHING, Outcomes, Shares, Told
from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_text
from consilium.protocol.label_source import NO_LABEL, Answers, Histograms, LabelLaw, LabelTerms, Outcome
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

    law: of a label, None where it is not known. histograms: of all of them, where noisy histograms were given.
    """

    classes: int
    law: LabelLaw | None = None
    rows: list[int] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    predictions: list[list[float]] = field(default_factory=list, repr=False)
    histograms: Histograms | None = None

    def add(self, rows: np.ndarray, answers: Answers, predictions: np.ndarray) -> None:
        """Answers to these further rows; `predictions` float64 (n, classes)."""
        self.rows += rows.tolist()
        self.outcomes += answers.outcomes.tolist()
        self.labels += answers.labels.tolist()
        self.predictions += predictions.tolist()
        if answers.histograms is not None:
            before = self.histograms
            self.histograms = answers.histograms if before is None else before.then(answers.histograms)

    def first(self, labels: int) -> Asked:
        """What was asked before one more label than so many came."""
        at = np.flatnonzero(np.array(self.labels) != NO_LABEL)
        end = at[labels] if labels < len(at) else len(self.rows)
        columns = {name: getattr(self, name)[:end] for name in ("rows", "outcomes", "labels", "predictions")}
        return replace(self, **columns, histograms=self.histograms and self.histograms.of(np.arange(end)))

    def told(self) -> tuple[np.ndarray, np.ndarray, Told | None]:
        """Rows that tell something of the votes, and their labels, two int64 (n,); and what they tell by the known law
        of the noise, None where it is not known."""
        rows, labels, outcomes = (np.array(each, dtype=np.int64) for each in (self.rows, self.labels, self.outcomes))
        kept, told = labels != NO_LABEL, None
        if self.histograms is not None:
            released = self.histograms.of(kept)
            votes = votes_in_sums(released)
            told = Shares(released.counts / votes[:, None], np.clip(released.sigmas / votes, *DEVIATIONS))
        elif self.law is not None:
            predictions = np.array(self.predictions).reshape(-1, self.classes) if self.law.predicted else None
            kept = outcomes != Outcome.NOT_ASKED
            if predictions is not None:
                kept &= (predictions[:, 0] != UNKNOWN) | (outcomes == Outcome.ANSWERED)
            told = Outcomes(labels, outcomes, self.classes, self.law, predictions).of(kept)
        return rows[kept], labels[kept], told


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
        """How many different rows may be asked."""
        return len(np.unique(np.delete(self.equal, self.spent)))

    def free(self, taken: np.ndarray) -> np.ndarray:
        """Rows, int64, that are equal to none of those `taken`, and to no spent one."""
        return np.flatnonzero(~np.isin(self.equal, self.equal[np.concatenate([taken, self.spent])]))


class AskingPlan:
    """Rows that a student has decided to ask, in order, on its own disk before it asks: after a crash it begins with
    them, and what was charged is free. No path: in memory alone."""

    def __init__(self, path: Path | None, federation: str) -> None:
        """federation: hash of the one that the rows are for.

        Raises
        ------
        DataError : the file is damaged or belongs to another federation.
        """
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
