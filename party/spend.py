"""What a party has ever given: queries answered and worst-case epsilon promised to it, durable, over all federations.

It also keeps the terms of its enrolment, since later messages do not repeat them, and where the
coordinator's ledger stood when it last asked.

Queries and promises are counted before a vote leaves. Where the coordinator adds the noise, the party cannot see what
it does with the votes, but holds it to the terms of the enrolment: mechanism, parameters and query budget, whose worst
case composes over federations. Where the parties add the noise, what is charged is what is drawn (`party.promise`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from consilium.accounting.events import ReleaseEvent
from consilium.node.limits import events_of
from consilium.party.account import Account, Position, SpendBook, SpendFile
from consilium.party.home import Policy
from consilium.party.promise import Promise, check_within, epsilon, promise_of
from consilium.protocol.messages import LedgerPosition, Terms
from consilium.protocol.refusals import Refused, Rule


class Past(NamedTuple):
    """What other federations than one were charged: events, of how many federations, and queries answered in them."""

    events: list[ReleaseEvent]
    federations: int
    elsewhere: int


class SpendStore:
    """What a party has given, by these rules. book: where it is kept; of a path, a file of the party's own, durable as
    `party.home.Home` says."""

    def __init__(self, book: Path | SpendBook, durable: bool = True) -> None:
        self._book = SpendFile(book, durable) if isinstance(book, Path) else book

    def enrol(self, terms: Terms, ledger: str, policy: Policy) -> None:
        """Check that the policy's epsilon allows the promise, and keep terms and ledger of a federation.

        Raises
        ------
        Refused : the promise is none, or too much (MOST_EPSILON, MOST_QUERIES); other terms (PROMISE) or another ledger
            (LEDGER) than this federation came with first.
        """
        promise, federation = promise_of(terms), terms.federation
        with self._book.transaction() as account:
            _check_queries(terms, promise, policy, account.answered(but=federation))
            check_within([*_earlier(account, federation), *promise.events], policy)
            text = terms_text(terms)
            account.first_terms(federation, text)
            if account.terms(federation) != text:
                raise Refused(Rule.PROMISE, detail="this federation's terms are not those it came with first")
            account.first_position(federation, ledger)
            _position_in(account, federation, ledger)

    def check(self, terms: Terms, policy: Policy) -> float:
        """Epsilon of this federation alone, in the policy's unit, if it could be served now. Records nothing.

        Raises
        ------
        Refused : as `enrol`.
        """
        promise = promise_of(terms)
        if self._book.exists():
            with self._book.transaction() as account:
                _check_queries(terms, promise, policy, account.answered(but=terms.federation))
                check_within([*_earlier(account, terms.federation), *promise.events], policy)
        else:
            _check_queries(terms, promise, policy, 0)
            check_within(promise.events, policy)
        return epsilon(promise.events, policy)

    def answered(self) -> int:
        """Queries ever answered, over all federations."""
        if not self._book.exists():
            return 0
        with self._book.transaction() as account:
            return account.answered()

    def answered_in(self, federation: str) -> int:
        """Queries answered in this federation."""
        if not self._book.exists():
            return 0
        with self._book.transaction() as account:
            return account.answered() - account.answered(but=federation)

    def past(self, federation: str) -> Past:
        """What was given beside this federation."""
        if not self._book.exists():
            return Past([], 0, 0)
        with self._book.transaction() as account:
            others = len(account.other_promises(federation))
            elsewhere = account.answered(but=federation)
            return Past(_earlier(account, federation), others, elsewhere)

    def terms(self, federation: str) -> Terms:
        """The terms of the enrolment. Refused (PROMISE) if this federation never enrolled here."""
        if self._book.exists():
            with self._book.transaction() as account:
                text = account.terms(federation)
            if text is not None:
                return terms_in(text)
        raise Refused(Rule.PROMISE, detail="this federation was never introduced (query.hello)")

    def greet(self, federation: str, tokens: Sequence[str]) -> None:
        """Note which start of a coordinator this is. tokens: see `HelloRequest.starts`.

        Raises
        ------
        Refused (SECOND_COORDINATOR) : it does not go on from the start that asked for votes last. It has a copy of the
            ledger from before, and so forgets what may have been released since.
        """
        with self._book.transaction() as account:
            starts = account.starts(federation)
            if starts.voted > len(tokens) or (starts.voted and tokens[starts.voted - 1] != starts.voted_token):
                raise Refused(Rule.SECOND_COORDINATOR, limit=starts.voted, requested=len(tokens))
            if tokens:
                account.keep_starts(federation, starts._replace(enrolled=len(tokens), enrolled_token=tokens[-1]))

    def follow(self, federation: str, position: LedgerPosition, start: str = "") -> None:
        """Note where the federation's ledger stands. start: token of the coordinator's start, where it says so.

        Raises
        ------
        Refused (LEDGER) : another ledger, or one that has gone back or was rewritten: what was charged in it may be
            forgotten, and the same queries would be answered again with fresh noise. (SECOND_COORDINATOR) : another
            coordinator has enrolled the party since.
        """
        with self._book.transaction() as account:
            _check_position(account, federation, position)
            starts = account.starts(federation)
            if start and starts.enrolled_token and start != starts.enrolled_token:
                raise Refused(Rule.SECOND_COORDINATOR)
            if starts.enrolled:
                voted = starts._replace(voted=starts.enrolled, voted_token=starts.enrolled_token)
                account.keep_starts(federation, voted)
            account.move(federation, position)

    def seen(self, federation: str, position: LedgerPosition) -> int:
        """One more than the last batch at which votes were asked for, 0 where they never were. Refused (LEDGER) as
        `follow`."""
        with self._book.transaction() as account:
            _check_position(account, federation, position)
            asked_at = account.asked_at(federation)
        return 0 if asked_at is None else asked_at + 1

    def charge(self, terms: Terms, teachers: str, ids: Sequence[str], policy: Policy, phase: int = 1) -> None:
        """Count the queries that were not counted before, or refuse the whole request; on disk when this returns.

        A query to the same `teachers` (digest of the set) counts once, in whatever set or session it comes: the votes
        are the same. In phase 2 the queries are some of those of phase 1: they count against the federation's cap on
        answers, and as further queries where a coordinator asks others.

        Parameters
        ----------
        ids : query ids, hex, all different.

        Raises
        ------
        Refused : the policy's limit on queries or epsilon, or the federation's own cap, would be passed; a query twice;
            the promise is not the one that was given before; or the count cannot be kept.
        """
        promise, federation, keys = promise_of(terms), terms.federation, query_keys(tuple(ids))
        if len(keys) < len(ids):
            raise Refused(Rule.MALFORMED, detail="a query stands twice in one request")
        with self._book.transaction() as account:
            before = account.promise(federation)
            if before is not None and before != terms.promise:
                raise Refused(Rule.PROMISE)
            new = keys.difference(account.answers_of(teachers, phase))
            queries = account.answered_in(federation, phase) + len(new)
            if queries > promise.most(phase):
                raise Refused(Rule.PROMISE, limit=promise.most(phase), requested=queries)
            more = new if phase == 1 else new.difference(account.answers_of(teachers, 1))
            if more and (ever := account.answered() + len(more)) > policy.most_queries:
                raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=ever)
            check_within([*_earlier(account, federation), *promise.events], policy)
            account.first_promise(federation, terms.promise)
            if new:
                account.give(federation, teachers, phase, new)


def terms_text(terms: Terms) -> str:
    """As an account keeps them."""
    return terms.model_dump_json()


@lru_cache(maxsize=8)  # many simulated parties were introduced to the same federation
def terms_in(text: str) -> Terms:
    """What `terms_text` wrote, or 0.9."""
    return Terms.model_validate_json(text)


@lru_cache(maxsize=2)  # many simulated parties charge the same
def query_keys(ids: tuple[str, ...]) -> frozenset[bytes]:
    """Query ids, hex, as an account keeps them."""
    return frozenset(map(bytes.fromhex, ids))


def _earlier(account: Account, federation: str) -> list[ReleaseEvent]:
    """What all other federations were charged."""
    return [event for text in account.other_promises(federation) for event in events_of(text)]


def _position_in(account: Account, federation: str, ledger: str) -> Position:
    """Where the federation's ledger last stood; Refused (LEDGER) for another ledger."""
    position = account.position(federation)
    if position is None or position.ledger != ledger:
        raise Refused(Rule.LEDGER, detail="not the ledger that this federation came with first")
    return position


def _check_position(account: Account, federation: str, position: LedgerPosition) -> None:
    """Refused (LEDGER) for another ledger than before, or one that stands before where it stood."""
    _, batch, head = _position_in(account, federation, position.ledger)
    if position.batch < batch or (position.batch == batch and position.head != head):
        raise Refused(Rule.LEDGER, limit=batch, requested=position.batch)


def _check_queries(terms: Terms, promise: Promise, policy: Policy, elsewhere: int) -> None:
    """Raise Refused (MOST_QUERIES) if the policy would end sums of this federation half way.

    A party that refuses in the middle of a sum costs the others, whose queries are used up. Of plaintext votes it is
    left out alone, and answers as many as it likes.
    """
    if terms.collection != "plaintext" and elsewhere + promise.queries > policy.most_queries:
        raise Refused(Rule.MOST_QUERIES, limit=policy.most_queries, requested=elsewhere + promise.queries)
