"""Collection of secure votes: the sessions of `sums.secure` over the exchanges with the parties.

The state of a session is on disk from before its first request until its labels are in the ledger. A coordinator that
crashed in between goes on with the same session: a new one would be charged to the parties again. One party that lies
can end sums: it is named where it can be told, and its people and the operator see to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.collection.exchange import Failure, Steps, exchange, tell_left_out
from consilium.coordinator.collection.means import Collecting, KeptSessions, SumCollector, VoteKeys, check_digest
from consilium.coordinator.config import FederationConfig
from consilium.node.keys import IDENTITY
from consilium.protocol.errors import BudgetExceeded, ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.protocol.refusals import CURES, Rule
from consilium.sums.errors import SecAggError, ThresholdNotMet
from consilium.sums.roster import Roster
from consilium.sums.secure.coordinator import SecureSession, State, drive
from consilium.sums.secure.messages import REPLIES, MaskedTerms, SecAggMessage, Stage, most_reply

SESSIONS = "secure.db"


@dataclass(frozen=True)
class SecureKeys(VoteKeys):
    """See `VoteKeys`: the roster, and the coordinator's own signing key."""

    roster: Roster
    signer: Identity

    @classmethod
    def of(cls, roster: Roster, own: Mapping[str, Any]) -> SecureKeys:
        return cls(roster, own[IDENTITY])

    @classmethod
    def check_sums(cls, config: FederationConfig, roster: Roster) -> None:
        """Raise ConfigError unless the noise fits the roster."""
        noise = config.node_event(0, 0).party_noise(1)
        if noise is not None and noise.shares > roster.sure:
            raise ConfigError(
                f"noise_shares {noise.shares} is above the {roster.sure} honest parties that are sure to be in a sum"
                f" (least {roster.least} less {roster.c} colluders)",
                f"Set it to {roster.sure}",
            )

    def check(self, config: FederationConfig) -> None:
        check_digest(config, self.roster)
        self.check_sums(config, self.roster)
        if self.signer.public != self.roster.coordinator_key:
            raise ConfigError("the roster lists the coordinator with another key", "Name the file that belongs to it")

    def collector(self, means: Collecting) -> SecureCollector:
        return SecureCollector(means, self)


class SecureCollector(SumCollector):
    """The `Collector` of secure votes; see `SumCollector`."""

    def __init__(self, means: Collecting, keys: SecureKeys) -> None:
        keys.check(means.config)
        super().__init__(means, keys.roster)
        self._keys, self._sessions = keys, KeptSessions(means.sessions / SESSIONS)
        self._charged_as = ""
        self._over: set[int] = set()
        self._failures: dict[str, Failure] = {}

    def collect(self, queries: Queries, sigma: float) -> Counts:
        """The sum over those who were there to the end, with the parties' noise in it. A session on disk goes on where
        a coordinator stopped. One that cannot come to its end is lost, and a new one begun; but where masked vectors
        are there, which were paid for, it is kept as long as enough of its parties remember it. Raises ThresholdNotMet,
        BadShare: there is no sum; the same queries can be asked again. BudgetExceeded: the parties have charged all
        that they may be asked."""
        name = self._begin(queries)
        state: State | None = self._sessions.session(name)
        if queries.round == 1 or state is not None:
            self._charged_as = ""
        if state is not None:
            self._log.write("resumed-session", stage=str(state.stage or "done"))
            try:
                return self._play(name, state, queries, sigma)
            except (SecAggError, ConfigError) as error:
                paid = state.stage in (Stage.CONSISTENCY, Stage.UNMASK)
                remember = len({*state.held[Stage.MASKED]} - self._over)
                if isinstance(error, ThresholdNotMet) and paid and remember >= self._keys.roster.t:
                    raise
                self._log.write("session-lost", reason=type(error).__name__)
                self._sessions.forget(name)
        noise = self._config.sum_noise(sigma).drawn
        terms = self._new_terms(MaskedTerms, queries, sigma=noise.sigma, noise_shares=noise.shares)
        state = State(terms, tuple(self._nodes), self._charged_as or terms.sid)
        return self._play(name, state, queries, sigma)

    @property
    def _nodes(self) -> dict[str, int]:
        return {member.party: member.node for member in self._members}

    def _play(self, name: str, state: State, queries: Queries, sigma: float) -> Counts:
        """The sum of these queries, from wherever the session is."""
        roster, signer = self._keys.roster, self._keys.signer
        self._standing.stated(state.terms)
        session = SecureSession(roster, signer, state, queries.rows, self._standing.proof(queries.rows))
        # the ledger has the first sum of a mechanism and the one that follows under one name
        self._charged_as = state.charged_as if queries.round == 1 else ""
        most_bytes = most_reply(self._keys.roster.n, state.terms.queries * state.terms.classes)

        def report(stage: Stage) -> None:
            """Who is out after a stage, with the refusal where it is by one."""
            failures = {}
            for name, reason in state.dropped[stage].items():
                known = self._failures.get(name)
                failures[name] = known if known and known.reason == reason else Failure(reason)
            tell_left_out(self._log, str(stage), failures)

        def send(stage: Stage, requests: Mapping[str, SecAggMessage]) -> dict[str, WireModel | str]:
            if stage is Stage.MASKED:
                self._standing.voting(queries.rows, list(requests), state.charged_as)
            return self._send(stage, requests, most_bytes)

        self._over, self._failures = set(), {}
        try:
            result = drive(session, send, partial(self._sessions.keep, name), report)
        except ThresholdNotMet:
            report(state.stage or Stage.UNMASK)
            self._check_budgets(len(state.held[Stage.MASKED]))
            raise
        if result.clipped.any():
            self._log.write(
                "false-votes",
                what="sums out of range: some party sends false votes, which masks hide",
                action="Ask the parties to check their software; verified votes would name it",
            )
        return self._counts(result.sums, result.survivors, sigma)

    def _check_budgets(self, present: int) -> None:
        """Raise BudgetExceeded where too few are present because others have charged all that may be asked."""
        out, need = sum(each.rule is Rule.QUERY_BUDGET for each in self._failures.values()), self._keys.roster.least
        if out and present < need <= present + out:
            raise BudgetExceeded(
                f"{out} parties have charged all queries that the federation may ask; {need} are needed in a sum",
                CURES[Rule.QUERY_BUDGET],
            )

    def _send(self, stage: Stage, requests: Mapping[str, SecAggMessage], most_bytes: int) -> dict[str, WireModel | str]:
        timeouts, nodes = self._config.timeouts, self._nodes
        by_node = {nodes[party]: party for party in requests}
        replies = exchange(
            self._transport,
            {node: requests[party] for node, party in by_node.items()},
            REPLIES[stage],
            timeouts.vote if stage is Stage.MASKED else timeouts.secure,
            Steps(self._log, f"secure sum: {stage}", len(requests)),
            most_bytes,
        )
        self._failures = {by_node[node]: failure for node, failure in replies.failures.items()}
        for party, failure in self._failures.items():
            if failure.rule is Rule.STAGE_ORDER:  # the session is over at this party
                self._over.add(self._roster.place(party))
        return {
            **{party: failure.reason for party, failure in self._failures.items()},
            **{by_node[node]: reply for node, reply in replies.answers.items()},
        }
