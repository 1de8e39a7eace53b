"""The statement of a coordinator's ledger against the sums that this second aggregator gave its half of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from consilium.aggregator.home import AggregatorHome
from consilium.aggregator.store import GivenStore
from consilium.node.checks import Check
from consilium.node.signed_statement import check_positions, check_signed_by
from consilium.node.statement import TermsCheck
from consilium.protocol.errors import ConfigError, LedgerError
from consilium.protocol.ledger_statement import LedgerStatement
from consilium.protocol.messages import Terms
from consilium.sums.aggregators.terms import VerifiedTerms


@dataclass(frozen=True)
class StatementAtAggregator:
    """One statement at one second aggregator."""

    home: AggregatorHome
    statement: LedgerStatement

    @property
    def checks(self) -> list[Check]:
        """In the order in which they rest on each other; each can be made by itself."""
        return [
            ("ledger", lambda: self._by_terms.federation(self._sessions[0][0].ledger)),
            ("signature", lambda: check_signed_by(self.statement, self.home.roster().leader.ed25519_pk)),
            ("positions", self._positions),
            ("events", lambda: self._by_terms.events()),
            ("queries", self._queries),
            ("query_budget", lambda: self._by_terms.query_budget()),
        ]

    @cached_property
    def _terms(self) -> Terms:
        terms = self.home.pinned_terms()
        if terms is None:
            raise ConfigError("aggregator.toml pins no terms", 'Set terms = "terms.json" in aggregator.toml')
        return terms

    @cached_property
    def _by_terms(self) -> TermsCheck:
        return TermsCheck(self.statement, self._terms)

    @cached_property
    def _sessions(self) -> list[tuple[VerifiedTerms, tuple[str, ...], bool]]:
        """Terms, ids and whether the half was given, of all sessions of the federation. Raises LedgerError where there
        are none."""
        with GivenStore(self.home.store_file).transaction() as sums:
            sessions = sums.sessions(self._terms.federation)
        if not sessions:
            raise LedgerError("no session was opened here, so that no ledger is known", "Ask again after a question")
        return [(VerifiedTerms.parse(terms), ids, signed) for terms, ids, signed in sessions]

    def _positions(self) -> str:
        seen = {terms.batch: terms.head for terms, _, _ in self._sessions}
        for terms, _, _ in self._sessions:
            if seen[terms.batch] != terms.head:
                raise LedgerError(f"batch {terms.batch} had two hashes", "Ask the coordinator what became of it")
        return check_positions(self.statement, seen)

    def _queries(self) -> str:
        summed: set[str] = set()
        for _, ids, signed in self._sessions:
            if signed:
                summed.update(ids)
        last = max(terms.batch for terms, _, _ in self._sessions)
        return self._by_terms.queries(summed, last, "aggregator gave its half on")
