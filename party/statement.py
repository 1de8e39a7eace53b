"""The statement of a coordinator's ledger against what this party knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from consilium.node.checks import Check
from consilium.node.signed_statement import check_positions, check_signed_by, key_of_coordinator
from consilium.node.statement import TermsCheck
from consilium.party.home import Home
from consilium.party.promise import Promise, epsilon, promise_of
from consilium.party.spend import SeenLedger, SpendStore
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.ledger_statement import LedgerStatement
from consilium.protocol.messages import Terms
from consilium.report.disclosure import epsilon_text
from consilium.sums.roster import load_roster


@dataclass(frozen=True)
class StatementCheck:
    """One statement at one party. Nothing in what it says is secret from the party or computed from votes."""

    home: Home
    statement: LedgerStatement

    @property
    def checks(self) -> list[Check]:
        """In the order in which they rest on each other; each can be made by itself."""
        return [
            ("ledger", lambda: self._by_terms.federation(self._seen.ledger)),
            ("signature", self._signature),
            ("positions", lambda: check_positions(self.statement, self._seen.heads)),
            ("events", lambda: self._by_terms.events()),
            ("queries", self._queries),
            ("query_budget", lambda: self._by_terms.query_budget()),
            ("guarantee", self._guarantee),
        ]

    @cached_property
    def _terms(self) -> Terms:
        terms = self.home.pinned_terms()
        if terms is None:
            raise ConfigError("party.toml pins no terms", 'Set terms = "terms.json" in party.toml')
        return terms

    @cached_property
    def _by_terms(self) -> TermsCheck:
        return TermsCheck(self.statement, self._terms)

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

    def _signature(self) -> str:
        roster = load_roster(self._terms.collection, self.home.roster_file)
        key = key_of_coordinator(self.home.folder) if roster is None else roster.coordinator_key.hex()
        return check_signed_by(self.statement, key)

    def _queries(self) -> str:
        return self._by_terms.queries(self._seen.answered, self._seen.asked_at, "party answered")

    def _guarantee(self) -> str:
        """What the ledger was charged so far, and what this party charged itself, by its own unit and delta."""
        policy, check = self.home.policy, self._by_terms
        batches = list(enumerate(self.statement.batches, 1))
        charged = [check.charged(number, batch) for number, batch in batches]
        account = epsilon(self._promise.events, policy)
        to_student = epsilon([check.to_student], policy)
        so_far = min(epsilon(charged, policy), to_student) if charged else 0.0
        whom = " towards the student and the public" if self._terms.student else ""
        summary = (
            f"the coordinator's ledger so far: epsilon at most {epsilon_text(so_far)}{whom}; this party's own account"
            f" of the federation: at most {epsilon_text(account)}"
        )
        if self._terms.student:
            queries = [len(batch.queries) + len(batch.left_over) for _, batch in batches]
            seen = [self._promise.release.with_counts(count, count) for count in queries]
            nodes = min(epsilon(seen, policy), account) if seen else 0.0
            summary += f", towards the nodes that see noisy sums; of this, so far at most {epsilon_text(nodes)}"
        return f"{summary} (delta {policy.delta:g}, {policy.unit}, {policy.neighbouring.value})"
