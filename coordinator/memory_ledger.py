"""A ledger that lies in no file: what a simulation replays a federation with, when nobody has to believe it later.

It takes what `ledger.Ledger` takes and refuses what that refuses. Nothing in it is durable or chained, so no label may
leave for anybody by it: `LabelService` takes it in simulations alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from consilium.coordinator.ledger import CLOSED, Batch, Release, check_charge
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import Outcome, Unanswered

_ACTION = "Nothing was released"


class MemoryLedger:
    """See `ledger.ReleaseLedger`, which says what its methods do."""

    durable: ClassVar[bool] = False

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._releases: dict[str, Release] = {}
        self._voted: set[str] = set()
        self._result: str | None = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else has it."""
        yield

    def next_batch(self) -> int:
        """See `Ledger.next_batch`."""
        return len(self._batches) + 1

    def spent(self) -> tuple[int, int]:
        """See `Ledger.spent`."""
        batches = self._batches
        return sum(len(batch.query_ids) for batch in batches), sum(int(batch.answered.sum()) for batch in batches)

    def find(self, query_ids: Sequence[str]) -> dict[str, Release]:
        """See `Ledger.find`."""
        return {query_id: self._releases[query_id] for query_id in query_ids if query_id in self._releases}

    def voted_on(self, query_ids: Sequence[str], parties: Sequence[str]) -> None:
        """See `Ledger.voted_on`; who voted is not kept."""
        self._voted |= {*query_ids}

    def unanswered(self, among: Collection[str] | None = None) -> Unanswered:
        """See `Ledger.unanswered`."""
        left = self._voted if among is None else self._voted.intersection(among)
        return Unanswered(len(left))

    def checked(self, query_ids: Sequence[str], outcome: str) -> str:
        """See `Ledger.checked`; nothing outlives this process, and so no release that was broken off."""
        return outcome

    def commit(self, batch: Batch, most_queries: int, most_answers: int) -> None:
        """See `Ledger.commit`."""
        if self._result is not None:
            raise LedgerError(CLOSED, _ACTION)
        check_charge(batch, self.spent(), most_queries, most_answers)
        ids = set(batch.query_ids)
        if len(ids) < len(batch.query_ids) or not ids.isdisjoint(self._releases):
            raise LedgerError("a query of the batch is recorded already", _ACTION)
        counts = (
            [None] * len(batch.query_ids) if batch.counts is None else [tuple(row) for row in batch.counts.tolist()]
        )
        columns = zip(batch.query_ids, batch.outcomes.tolist(), batch.labels.tolist(), counts, strict=True)
        self._releases |= {name: Release(Outcome(outcome), label, noisy) for name, outcome, label, noisy in columns}
        self._voted -= ids
        self._batches.append(batch)

    def close_with(self, result: str) -> None:
        """See `Ledger.close_with`."""
        if self._result is not None:
            raise LedgerError(CLOSED, _ACTION)
        self._result = result

    def closing(self) -> str | None:
        """See `Ledger.closing`."""
        return self._result

    def batches(self) -> list[Batch]:
        """See `Ledger.batches`."""
        return list(self._batches)
