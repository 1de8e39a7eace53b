"""The statement of a coordinator's ledger against what a node knows: each check says what holds, or what not.

What every kind of node can check is here; what it knows besides, a party adds in `party.statement`, the second
aggregator in `aggregator.statement`, and a student in `student.statement`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
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
    def _releases(self) -> tuple[ReleaseEvent, ...]:
        """What is promised of each release, in order."""
        return tuple(event for event in events_of(self.terms.promise) if not event.closing)

    @cached_property
    def to_student(self) -> tuple[ReleaseEvent, ...]:
        """What the ledger is charged for each release: what the student is promised."""
        events = events_of(self.terms.student) if self.terms.student else self._releases
        return tuple(event for event in events if not event.closing)

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

    def number(self, number: int, batch: ChargedBatch) -> int:
        """The number of a batch's release, from 1. Raises LedgerError."""
        scheduled = len(self._releases) > 1
        if scheduled != (batch.phase is not None) or (batch.phase or 1) > len(self._releases):
            raise LedgerError(f"batch {number} is of no release that was promised", ASK)
        return batch.phase or 1

    def charged(self, number: int, batch: ChargedBatch) -> ReleaseEvent:
        """The event of a batch as if each query had been answered, in which case it costs most. Raises LedgerError."""
        try:
            event = json.loads(batch.event)
            return events_of(json.dumps([{**event, "answered": event["asked"]}]))[0]
        except (KeyError, ValueError, TypeError, RecursionError, Refused):
            raise LedgerError(f"batch {number} was charged no release event", ASK) from None

    def events(self) -> str:
        """Each batch is charged for its queries what was promised of such a release. Raises LedgerError."""
        for number, batch in enumerate(self.statement.batches, 1):
            release, queries = self.to_student[self.number(number, batch) - 1], len(batch.queries)
            promised, charged = release.with_counts(queries, queries).to_json(), self.charged(number, batch).to_json()
            if charged != promised:
                differing = sorted(key for key in promised | charged if charged.get(key) != promised.get(key))
                raise LedgerError(
                    f"batch {number} was charged another event than was promised: {', '.join(differing)} differ", ASK
                )
        return f"{len(self.statement.batches)} batches, each charged as promised"

    def queries(self, answered: Mapping[int, Collection[str]], asked_at: int, verb: str) -> str:
        """Every query that this node helped with is charged, once; what it did since the last batch may come.

        answered: ids by the number of the release. asked_at: the last batch when it was asked last. verb: what it did.
        Raises LedgerError, Advice.
        """
        check_each_once(self.statement)
        charged: dict[int, set[str]] = {}
        last = {batch.phase or 1: number for number, batch in enumerate(self.statement.batches, 1)}
        for number, batch in enumerate(self.statement.batches, 1):
            release = batch.phase or 1
            charged.setdefault(release, set()).update(batch.queries)
            if batch.left_over and number != last[release]:
                raise LedgerError(f"batch {number} leaves queries over, though labels were given after it", ASK)
            charged[release].update(batch.left_over)
        named = {
            release: {charged_query(self.statement.ledger, query_id) for query_id in ids}
            for release, ids in answered.items()
        }
        count, failed = sum(map(len, named.values())), {*self.statement.unanswered}
        open_ = [ids - charged.get(release, set()) for release, ids in named.items()]
        missing, unanswered = sum(len(ids - failed) for ids in open_), sum(len(ids & failed) for ids in open_)
        if not missing:
            each = f"{count - unanswered} charged; {Unanswered(unanswered).words}" if unanswered else "each charged"
            return f"{count} queries that this {verb}, {each}"
        missed = f"{missing} of {count} queries that this {verb} are charged in no batch"
        if len(self.statement.batches) == asked_at:
            raise Advice(f"{missed} yet: none was written since they were asked", "Ask for a statement after the next")
        raise LedgerError(f"{missed}, and are not among those that no answer came of", ASK)

    def query_budget(self) -> str:
        """No more than was promised. Raises LedgerError."""
        spent: dict[int, int] = {}
        for number, batch in enumerate(self.statement.batches, 1):
            release = self.number(number, batch)
            spent[release] = spent.get(release, 0) + len(batch.queries) + len(batch.left_over)
        lines = []
        for release, promised in enumerate(self._releases, 1):
            if spent.get(release, 0) > promised.asked:
                raise LedgerError(
                    f"{spent[release]} queries were asked for release {release}, promised were at most"
                    f" {promised.asked}",
                    ASK,
                )
            lines.append(f"{spent.get(release, 0)} of {promised.asked}")
        whole = sum(promised.asked for promised in self._releases)
        if sum(spent.values()) + len(self.statement.unanswered) > whole:
            raise LedgerError(f"with those that no answer came of more than {whole} queries were asked", ASK)
        return f"queries asked, of those promised: {', '.join(lines)}"
