"""What the ledger records: one charge with what it paid for, and what became of one query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilium.protocol.labels.service import NO_LABEL, Outcome


@dataclass(frozen=True)
class Release:
    """The recorded outcome of one query; counts: the noisy histogram, where that was released."""

    outcome: Outcome
    label: int
    counts: tuple[int, ...] | None


@dataclass(frozen=True)
class Batch:
    """One charge with what it paid for; arrays in the order of the queries, `log_q_*` float64 or None.

    counts int64 (queries, classes): the noisy histograms, where these were released.
    histogram int64 and probabilities float64 (queries, classes): the votes, or None where they decide no cost.
    votes: in the sum on each query, where parties have weights; None where every party counts alike.
    phase: its number in the federation's schedule, from 1; None where there is none.
    left_over: ids of queries that parties voted on too, after the last answer that there was room for.
    """

    event: dict[str, Any]
    parties: int
    query_ids: tuple[str, ...]
    labels: np.ndarray = field(repr=False)
    reinforced: np.ndarray = field(repr=False)
    counts: np.ndarray | None = field(default=None, repr=False)
    log_q_check: np.ndarray | None = field(default=None, repr=False)
    log_q_label: np.ndarray | None = field(default=None, repr=False)
    histogram: np.ndarray | None = field(default=None, repr=False)
    probabilities: np.ndarray | None = field(default=None, repr=False)
    votes: int | None = None
    phase: int | None = None
    left_over: tuple[str, ...] = ()

    @property
    def answered(self) -> np.ndarray:
        """bool (queries,): which queries the parties' votes gave a label, which is what was paid for."""
        return (self.labels != NO_LABEL) & ~self.reinforced

    @property
    def outcomes(self) -> np.ndarray:
        """int64 (queries,): what became of each query."""
        without = np.where(self.reinforced, Outcome.REINFORCED, Outcome.ABSTAINED)
        return np.where(self.answered, Outcome.ANSWERED, without)
