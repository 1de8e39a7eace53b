"""The statement of a coordinator's ledger against what a node knows: each check says what holds, or what not.

What every kind of node can check is here; what it knows besides, a party adds in `party.statement`, the second
aggregator in `aggregator.statement`, and a student in `student.statement`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from consilium.accounting.events import ReleaseEvent
from consilium.node.checks import Advice
from consilium.node.limits import events_of
from consilium.node.signed_statement import ASK, check_each_once
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import Unanswered
from consilium.protocol.ledger_statement import ChargedBatch, LedgerStatement, charged_query
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused


@dataclass(frozen=True)
class TermsCheck:
    """A statement against the terms of a federation."""

    statement: LedgerStatement
    terms: Terms

    @cached_property
    def _release(self) -> ReleaseEvent:
        """What is promised."""
        return _release_of(self.terms.promise)

    @cached_property
    def to_student(self) -> ReleaseEvent:
        """What the ledger is charged: what the student is promised."""
        return _release_of(self.terms.student) if self.terms.student else self._release

    def federation(self, ledger: str) -> str:
        """Of the one federation that is pinned, and of this ledger. Raises LedgerError."""
        if self.statement.federation != self.terms.federation:
            raise LedgerError(
                f"it is of federation {self.statement.federation[:12]}, this node's is {self.terms.federation[:12]}",
                "Ask for the statement of this federation",
            )
        if self.statement.ledger != ledger:
            raise LedgerError("it is another ledger than the one that this node was told of", ASK)
        return f"ledger {self.statement.ledger[:12]} of federation {self.statement.federation[:12]}"

    def charged(self, number: int, batch: ChargedBatch) -> ReleaseEvent:
        """The event of a batch as if each query had been answered, in which case it costs most. Raises LedgerError."""
        try:
            event = json.loads(batch.event)
            return events_of(json.dumps([{**event, "answered": event["asked"]}]))[0]
        except (KeyError, ValueError, TypeError, RecursionError, Refused):
            raise LedgerError(f"batch {number} was charged no release event", ASK) from None

    def events(self) -> str:
        """Each batch is charged for its queries what was promised. Raises LedgerError."""
        for number, batch in enumerate(self.statement.batches, 1):
            release, queries = self.to_student, len(batch.queries)
            promised, charged = release.with_counts(queries, queries).to_json(), self.charged(number, batch).to_json()
            if charged != promised:
                differing = sorted(key for key in promised | charged if charged.get(key) != promised.get(key))
                raise LedgerError(
                    f"batch {number} was charged another event than was promised: {', '.join(differing)} differ", ASK
                )
        return f"{len(self.statement.batches)} batches, each charged as promised"

    def queries(self, answered: Collection[str], asked_at: int, verb: str) -> str:
        """Every query that this node helped with is charged, once; what it did since the last batch may come.

        answered: ids. asked_at: the last batch when it was asked last. verb: what it did. Raises LedgerError, Advice.
        """
        check_each_once(self.statement)
        charged, last = set[str](), len(self.statement.batches)
        for number, batch in enumerate(self.statement.batches, 1):
            charged.update(batch.queries)
            if batch.left_over and number != last:
                raise LedgerError(f"batch {number} leaves queries over, though labels were given after it", ASK)
            charged.update(batch.left_over)
        named = {charged_query(self.statement.ledger, query_id) for query_id in answered}
        count, failed = len(named), {*self.statement.unanswered}
        open_ = named - charged
        missing, unanswered = len(open_ - failed), len(open_ & failed)
        if not missing:
            each = f"{count - unanswered} charged; {Unanswered(unanswered).words}" if unanswered else "each charged"
            return f"{count} queries that this {verb}, {each}"
        missed = f"{missing} of {count} queries that this {verb} are charged in no batch"
        if len(self.statement.batches) == asked_at:
            raise Advice(f"{missed} yet: none was written since they were asked", "Ask for a statement after the next")
        raise LedgerError(f"{missed}, and are not among those that no answer came of", ASK)

    def query_budget(self) -> str:
        """No more than was promised. Raises LedgerError."""
        most = self._release.asked
        spent = sum(len(batch.queries) + len(batch.left_over) for batch in self.statement.batches)
        if spent > most:
            raise LedgerError(f"{spent} queries were asked, promised were at most {most}", ASK)
        if spent + len(self.statement.unanswered) > most:
            raise LedgerError(f"with those that no answer came of more than {most} queries were asked", ASK)
        return f"queries asked, of those promised: {spent} of {most}"


def _release_of(promise: str) -> ReleaseEvent:
    return next(event for event in events_of(promise) if not event.closing)
