"""What a party may give: queries answered and worst-case epsilon promised to it, over all federations.

Queries and promises are counted before a vote leaves. Where the coordinator adds the noise, the party cannot see what
it does with the votes, but holds it to the terms of the enrolment: mechanism, parameters and query budget, whose worst
case composes over federations. Where the parties add the noise, what is charged is what is drawn (`party.promise`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from consilium.node.answering import pool_of
from consilium.node.limits import check_within, kept_epsilon
from consilium.party.policy import Policy
from consilium.party.promise import Promise, promise_of
from consilium.party.store import KnownFederation, Store
from consilium.protocol.messages import HelloRequest, LedgerPosition, Terms
from consilium.protocol.pool import PoolTerms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.modes import MODES


@dataclass(frozen=True)
class Agreed:
    """The terms of an enrolment, as they are parsed once for many messages and parties."""

    terms: Terms
    promise: Promise
    pool: PoolTerms | None


@lru_cache(maxsize=8)
def agreed_in(text: str) -> Agreed:
    """Of the terms as a store has them. Raises Refused for a promise or pool that is none."""
    terms = Terms.model_validate_json(text)
    return Agreed(terms, promise_of(terms), pool_of(terms))


@dataclass(frozen=True)
class Account:
    """The rules, on what a party has given. All raise Refused."""

    store: Store

    def enrol(self, request: HelloRequest, policy: Policy) -> int:
        """Keep terms and ledger of a federation, if the policy allows its promise. `KnownFederation.asked` of it.

        Raises
        ------
        Refused : the promise is none, or too much (MOST_EPSILON, MOST_QUERIES); other terms (PROMISE) or another ledger
            (LEDGER) than this federation came with first, or a ledger that has gone back, see `check_position`;
            (SECOND_COORDINATOR) : the coordinator's start does not go on from the one that asked for votes last. It has
            a copy of the ledger from before, and so forgets what may have been released since.
        """
        text, tokens = request.terms.model_dump_json(), request.starts
        with self.store.transaction():
            self.check(request.terms, policy)
            known = self.store.federation(request.federation)
            if known.terms not in ("", text):
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            known = replace(known, terms=text, ledger=known.ledger or request.ledger)
            _check_position(known, request.position)
            _check_start(known, tokens)
            if tokens:
                known = replace(known, enrolled=len(tokens), enrolled_token=tokens[-1])
            self.store.keep_federation(known)
        return known.asked

    def check(self, terms: Terms, policy: Policy) -> None:
        """Raise Refused (MOST_EPSILON, MOST_QUERIES) if this federation would be too much beside all others.

        A party that refuses in the middle of a hidden sum costs the others, whose queries are used up: there its
        queries must last. Of plaintext votes it is left out alone, and answers as many as it likes.
        """
        promises, elsewhere = self.past(terms.federation)
        queries = elsewhere + promise_of(terms).release.queries_in(1)
        if terms.collection in MODES and queries > policy.most_queries:
            raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=queries)
        check_within((*promises, terms.promise), policy, self.store.execute)

    def epsilon(self, terms: Terms, policy: Policy) -> float:
        """Of this federation alone, in the policy's unit, if it could be served now. Raises Refused as `check`."""
        self.check(terms, policy)
        return kept_epsilon(self.store.execute, (terms.promise,), policy)

    def past(self, federation: str) -> tuple[tuple[str, ...], int]:
        """What other federations were charged: their promises, and queries answered in them."""
        return self.store.other_promises(federation), self.store.answered(but=federation)

    def agreed(self, federation: str) -> Agreed:
        """The terms of the enrolment. Refused (PROMISE) if this federation never enrolled here."""
        text = self.store.federation(federation).terms
        if not text:
            raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.hello)")
        return agreed_in(text)

    def check_position(self, federation: str, position: LedgerPosition) -> None:
        """Raise Refused (LEDGER) for another ledger, or one that has gone back or was rewritten: what was charged in it
        may be forgotten, and the same queries would be answered again with fresh noise."""
        _check_position(self.store.federation(federation), position)

    def charge(
        self,
        agreed: Agreed,
        teachers: str,
        ids: Sequence[str],
        policy: Policy,
        round: int,
        position: LedgerPosition,
        *,
        start: str = "",
        again: bool = False,
    ) -> None:
        """Count the queries, or refuse the whole request.

        A query to the same `teachers` (digest of the set) counts once, in whatever set or session it comes: the votes
        are the same. In round 2 the queries are some of those of round 1: they count against the federation's cap on
        answers, and as further queries where a coordinator asks others.

        Parameters
        ----------
        ids : query ids, hex, all different.
        position : where the ledger stands, which is noted. start : token of the coordinator's start, where it says so.
        again : all count that counted before in this round, too: what leaves is another sum of the same votes, with
            other noise.

        Raises
        ------
        Refused : the policy's limit on queries or epsilon, or the federation's own cap (QUERY_BUDGET), would be passed;
            a query twice; or the promise is not the one that was given before. (SECOND_COORDINATOR) : another
            coordinator has enrolled the party since. And as `check_position`.
        """
        federation, promise, most = agreed.terms.federation, agreed.terms.promise, agreed.promise.most(round)
        queries = query_keys(tuple(ids))
        if len(queries) < len(ids):
            raise Refused(Rule.MALFORMED, detail="a query stands twice in one request")
        with self.store.transaction():
            before = self.store.federation(federation)
            _check_position(before, position)
            if start and before.enrolled_token and start != before.enrolled_token:
                raise Refused(Rule.SECOND_COORDINATOR)
            known = replace(before, batch=position.batch, head=position.head, asked=position.batch + 1)
            if known.enrolled:
                known = replace(known, voted=known.enrolled, voted_token=known.enrolled_token)
            if known.promise not in ("", promise):
                raise Refused(Rule.PROMISE)
            new = further = queries
            for answered_in, together in self.store.answers_of(teachers):
                answered = _separate(together)
                if not again or answered_in < round:
                    further = further - answered
                if not again and answered_in == round:
                    new = new - answered
            here = self.store.answered_in(federation, round) + len(new)
            if here > most:
                raise Refused(Rule.QUERY_BUDGET, limit=most, requested=here)
            if further and (ever := self.store.answered() + len(further)) > policy.most_queries:
                raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=ever)
            check_within((*self.store.other_promises(federation), promise), policy, self.store.execute)
            if before != (known := replace(known, promise=promise)):
                self.store.keep_federation(known)
            if new:
                self.store.give(federation, teachers, round, b"".join(sorted(new)), len(further))


@lru_cache(maxsize=2)  # many simulated parties charge the same
def query_keys(ids: tuple[str, ...]) -> frozenset[bytes]:
    """Query ids, hex, as a store keeps them."""
    return frozenset(map(bytes.fromhex, ids))


@lru_cache(maxsize=2)
def _separate(together: bytes) -> frozenset[bytes]:
    return frozenset(together[place : place + 32] for place in range(0, len(together), 32))


def _check_start(known: KnownFederation, tokens: Sequence[str]) -> None:
    """Refused (SECOND_COORDINATOR) where the last of these starts does not go on from the one that votes went to."""
    if known.voted > len(tokens) or (known.voted and tokens[known.voted - 1] != known.voted_token):
        raise Refused(Rule.SECOND_COORDINATOR, limit=known.voted, requested=len(tokens))


def _check_position(known: KnownFederation, position: LedgerPosition) -> None:
    """Refused (LEDGER) for another ledger than before, or one that stands before where it stood."""
    if known.ledger != position.ledger:
        raise Refused(Rule.LEDGER, detail="not the ledger that this federation came with first")
    if position.batch < known.batch or (position.batch == known.batch and position.head != known.head):
        raise Refused(Rule.LEDGER, limit=known.batch, requested=position.batch)
