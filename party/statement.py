"""The statement of a coordinator's ledger against what this party knows: each check says what holds, or what not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from consilium.accounting.events import ReleaseEvent
from consilium.node.checks import Advice, Check
from consilium.node.limits import events_of
from consilium.party.home import Home
from consilium.party.promise import Promise, epsilon, promise_of
from consilium.party.spend import SeenLedger, SpendStore
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.label_source import Unanswered
from consilium.protocol.ledger_statement import ChargedBatch, LedgerStatement, charged_query
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused
from consilium.sums.roster import load_roster

ASK = "Ask the coordinator what became of it, and answer nothing more until it has said so"


@dataclass(frozen=True)
class StatementCheck:
    """One statement at one party. Nothing in what it says is secret from the party or computed from votes."""

    home: Home
    statement: LedgerStatement

    @property
    def checks(self) -> list[Check]:
        """In the order in which they rest on each other; each can be made by itself."""
        return [
            ("ledger", self._ledger),
            ("signature", self._signature),
            ("positions", self._positions),
            ("events", self._events),
            ("queries", self._queries),
            ("query_budget", self._query_budget),
            ("guarantee", self._guarantee),
        ]

    @cached_property
    def _terms(self) -> Terms:
        terms = self.home.pinned_terms()
        if terms is None:
            raise ConfigError("party.toml pins no terms", 'Set terms = "terms.json" in party.toml')
        return terms

    @cached_property
    def _promise(self) -> Promise:
        return promise_of(self._terms)

    @cached_property
    def _seen(self) -> SeenLedger:
        """Raises LedgerError where the party never enrolled: then it has nothing to hold against it."""
        seen = SpendStore(self.home.spend_file).seen_ledger(self._terms.federation)
        if seen is None:
            raise LedgerError("this party was never asked to enrol, and knows of no ledger", "Start its node first")
        return seen

    def _ledger(self) -> str:
        """Of the one federation that is pinned, and the one ledger that the party followed."""
        if self.statement.federation != self._terms.federation:
            raise LedgerError(
                f"it is of federation {self.statement.federation[:12]}, this party's is {self._terms.federation[:12]}",
                "Ask for the statement of this federation",
            )
        if self.statement.ledger != self._seen.ledger:
            raise LedgerError("it is another ledger than the one that this party was told of", ASK)
        return f"ledger {self.statement.ledger[:12]} of federation {self.statement.federation[:12]}"

    def _signature(self) -> str:
        roster = load_roster(self._terms.collection, self.home.roster_file)
        if roster is None:
            raise Advice(
                "with plaintext votes this party knows no signing key of the coordinator",
                "What it was told at each question binds the coordinator all the same, see positions",
            )
        if not self.statement.is_of(roster.coordinator_key.hex()):
            raise LedgerError("the coordinator of the roster did not sign it: it was altered, or somebody else's", ASK)
        return "signed by the coordinator of the roster"

    def _positions(self) -> str:
        """Its chain passes through every position that this party was ever told."""
        heads, seen = list(self.statement.heads()), self._seen.heads
        newest = max(seen)
        if len(heads) <= newest:
            raise LedgerError(
                f"it ends with batch {len(heads) - 1}, and this party was told of batch {newest}: batches are missing",
                f"If it is an old one, ask for a newer. {ASK}",
            )
        for batch in sorted(seen):
            if heads[batch] != seen[batch]:
                raise LedgerError(
                    f"up to batch {batch} it is not what this party was told then: the ledger was rewritten, or has"
                    " gone back and grown again",
                    ASK,
                )
        return f"{len(heads) - 1} batches, through each of {len(seen)} positions that this party was told"

    def _number(self, number: int, batch: ChargedBatch) -> int:
        """The number of a batch's release, from 1. Raises LedgerError."""
        scheduled = bool(self._promise.later)
        if scheduled != (batch.phase is not None) or (batch.phase or 1) > len(self._promise.by_release):
            raise LedgerError(f"batch {number} is of no release that was promised", ASK)
        return batch.phase or 1

    @cached_property
    def _to_student(self) -> tuple[ReleaseEvent, ...]:
        """What the ledger is charged for each release: what the student is promised."""
        events = events_of(self._terms.student) if self._terms.student else self._promise.events
        return tuple(event for event in events if not event.closing)

    def _charged(self, number: int, batch: ChargedBatch) -> ReleaseEvent:
        """The event of a batch as if each query had been answered, in which case it costs most. Raises LedgerError."""
        try:
            event = json.loads(batch.event)
            return events_of(json.dumps([{**event, "answered": event["asked"]}]))[0]
        except (KeyError, ValueError, TypeError, RecursionError, Refused):
            raise LedgerError(f"batch {number} was charged no release event", ASK) from None

    def _events(self) -> str:
        """Each batch is charged for its queries what was promised of such a release."""
        for number, batch in enumerate(self.statement.batches, 1):
            release, queries = self._to_student[self._number(number, batch) - 1], len(batch.queries)
            promised, charged = release.with_counts(queries, queries).to_json(), self._charged(number, batch).to_json()
            if charged != promised:
                differing = sorted(key for key in promised | charged if charged.get(key) != promised.get(key))
                raise LedgerError(
                    f"batch {number} was charged another event than was promised: {', '.join(differing)} differ", ASK
                )
        return f"{len(self.statement.batches)} batches, each charged as promised"

    def _queries(self) -> str:
        """Every query that this party answered is charged, once; what it answered since the last batch may come."""
        listed = Counter(query for batch in self.statement.batches for query in batch.queries)
        if twice := sum(count > 1 for count in listed.values()):
            raise LedgerError(f"{twice} queries are charged in two batches", ASK)
        charged: dict[int, set[str]] = {}
        last = {batch.phase or 1: number for number, batch in enumerate(self.statement.batches, 1)}
        for number, batch in enumerate(self.statement.batches, 1):
            release = batch.phase or 1
            charged.setdefault(release, set()).update(batch.queries)
            if batch.left_over and number != last[release]:
                raise LedgerError(f"batch {number} leaves queries over, though labels were given after it", ASK)
            charged[release].update(batch.left_over)
        answered = {
            release: {charged_query(self.statement.ledger, query_id) for query_id in ids}
            for release, ids in self._seen.answered.items()
        }
        count, failed = sum(map(len, answered.values())), {*self.statement.unanswered}
        if failed & listed.keys():
            raise LedgerError(f"{len(failed & listed.keys())} queries are charged, and said to be not answered", ASK)
        open_ = [ids - charged.get(release, set()) for release, ids in answered.items()]
        missing, unanswered = sum(len(ids - failed) for ids in open_), sum(len(ids & failed) for ids in open_)
        if not missing:
            outcome = f"{count - unanswered} charged; {Unanswered(unanswered).words}" if unanswered else "each charged"
            return f"{count} queries that this party answered, {outcome}"
        missed = f"{missing} of {count} queries that this party answered are charged in no batch"
        if len(self.statement.batches) == self._seen.asked_at:
            raise Advice(f"{missed} yet: none was written since they were asked", "Ask for a statement after the next")
        raise LedgerError(f"{missed}, and are not among those that no answer came of", ASK)

    def _query_budget(self) -> str:
        spent: dict[int, int] = {}
        for number, batch in enumerate(self.statement.batches, 1):
            release = self._number(number, batch)
            spent[release] = spent.get(release, 0) + len(batch.queries) + len(batch.left_over)
        lines = []
        for release, promise in enumerate(self._promise.by_release, 1):
            if spent.get(release, 0) > promise.release.asked:
                raise LedgerError(
                    f"{spent[release]} queries were asked for release {release}, promised were at most"
                    f" {promise.release.asked}",
                    ASK,
                )
            lines.append(f"{spent.get(release, 0)} of {promise.release.asked}")
        whole = sum(promise.release.asked for promise in self._promise.by_release)
        if sum(spent.values()) + len(self.statement.unanswered) > whole:
            raise LedgerError(f"with those that no answer came of more than {whole} queries were asked", ASK)
        return f"queries asked, of those promised: {', '.join(lines)}"

    def _guarantee(self) -> str:
        """What the ledger was charged so far, and what this party charged itself, by its own unit and delta."""
        policy = self.home.policy
        weight = SpendStore(self.home.spend_file).weight(self._terms.federation)
        charged = [
            replace(self._charged(number, batch), weight=weight)
            for number, batch in enumerate(self.statement.batches, 1)
        ]
        account = epsilon(self._promise.of_weight(weight).events, policy)
        to_student = epsilon([replace(event, weight=weight) for event in self._to_student], policy)
        so_far = min(epsilon(charged, policy), to_student) if charged else 0.0
        whom = " towards the student and the public" if self._terms.student else ""
        summary = (
            f"the coordinator's ledger so far: epsilon at most {so_far:.4f}{whom}; this party's own account of the"
            f" federation: at most {account:.4f}"
        )
        if self._terms.student:
            seen = [
                self._promise.of_weight(weight).only(self._number(number, batch)).release.with_counts(queries, queries)
                for number, batch in enumerate(self.statement.batches, 1)
                for queries in [len(batch.queries) + len(batch.left_over)]
            ]
            nodes = min(epsilon(seen, policy), account) if seen else 0.0
            summary += f", towards the nodes that see noisy sums; of this, so far at most {nodes:.4f}"
        return f"{summary} (delta {policy.delta:g}, {policy.unit}, {policy.neighbouring.value})"
