"""A party on a machine of its own: what is particular to it among nodes, see `node.kinds`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from consilium.data.private_rows import there
from consilium.node.acceptance import PolicyRequest
from consilium.node.checks import Advice, Check, check_roster, check_second, expectation, refused_is_wrong
from consilium.node.keys import NODE_KEY, NodeKey, OwnKeys
from consilium.node.kinds import MemberKind, NodeStatus
from consilium.node.kit import Kit
from consilium.party.dry_run import check, load_federation, usable
from consilium.party.expectation import (
    own_epsilon,
    party_warnings,
    policy_request,
    promise_in_words,
    student_epsilon,
    towards_whom,
)
from consilium.party.hidden_votes import check_own_roster
from consilium.party.home import LIMITS, Home, Policy, check_terms, open_home
from consilium.party.promise import check_promised_unit, promise_of
from consilium.party.store import LastAnswer
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, NotAccepted
from consilium.protocol.messages import HelloRequest, Terms, TrainRequest, VoteRequest
from consilium.protocol.refusals import CURES, Refused, Rule
from consilium.report.disclosure import epsilon_text
from consilium.sums.modes import ANSWERS, MODES
from consilium.sums.roster import SumRoster

POLICY = "policy in policy.toml"
HELLO, TRAIN = HelloRequest.kind, TrainRequest.kind
VOTES = (VoteRequest.kind, *(mode.votes.kind for mode in MODES.values()))
"""Requests with whose answer votes leave, in plaintext or as part of a sum."""
TO_SUMS = tuple(request.kind for request in ANSWERS)


class Party(MemberKind):
    """See `MemberKind`."""

    name = "party"
    app = "consilium.party.client_app"
    model = Policy
    limits = LIMITS
    promise_checks = frozenset({"promise"})

    def open_home(self, folder: Path) -> Home:
        return open_home(folder)

    def request(self, home: Home, terms: Terms) -> PolicyRequest:
        return policy_request(home, terms)

    def keys_of(self, kit: Kit) -> OwnKeys:
        return OwnKeys.of_party(open_home(kit.folder).identity(), NodeKey.load(kit / NODE_KEY))

    def roster_of(self, kit: Kit) -> SumRoster | None:
        """Read as the votes of the party's pinned terms need it."""
        home = open_home(kit.folder)
        terms = home.pinned_terms()
        return home.roster_for(home.policy.collection if terms is None else terms.collection)

    def check_in_roster(self, roster: SumRoster | None, kit: Kit, keys: OwnKeys, action: str) -> None:
        if roster is None:
            return
        listed = roster.keys.get(kit.name)
        if listed is None:
            raise ConfigError(f"the roster has no party {kit.name!r}", "This party was removed: ask the operator")
        if listed != keys.identity:
            raise ConfigError(f"the roster has another signing key for {kit.name!r}", action)

    def made_by_operator(self, kit: Kit) -> str:
        return (
            "the operator made this party's keys, and can sign in its name if it kept them; its own come from consilium"
            " node keys, before the kit is made"
        )

    def state(self, kit: Kit) -> str:
        return f"{_answered(open_home(kit.folder))} queries answered ever"

    def terms_checks(self, kit: Kit) -> list[Check]:
        return [
            ("policy", lambda: self._policy(kit)),
            ("roster", lambda: self._roster(kit)),
            ("second", lambda: check_second(kit, self.roster_of(kit))),
            ("promise", lambda: self._promise(kit)),
            ("expectation", lambda: self._expectation(kit)),
            ("queries", lambda: self._queries(kit)),
        ]

    def data_checks(self, kit: Kit) -> list[Check]:
        """As `consilium party dry-run --data-only` does; that command shows every problem of every column."""
        return [("data", lambda: _data(kit))]

    def standing(self, kit: Kit) -> str:
        """By the journal as it is now."""
        home = open_home(kit.folder)
        terms = home.pinned_terms()
        return standing_of(_last_answers(home), "" if terms is None else terms.federation)[0]

    def status(self, kit: Kit) -> NodeStatus:
        home, terms = self._opened(kit)
        standing, since = standing_of(_last_answers(home), terms.federation)
        epsilon, problem, student, towards = None, "", None, ""
        try:
            self.check_is_accepted(home)
            epsilon, student = own_epsilon(home, terms), student_epsilon(terms, home.policy)
            towards = towards_whom(terms, epsilon, student)
        except NotAccepted as error:
            problem = str(error)
        except Refused as error:
            problem = f"its own policy refuses this federation: {error}. {CURES[error.refusal.rule]}"
        return self.base_status(
            kit, home, terms, _answered(home),
            standing=standing, since=since, problem=problem,
            epsilon=epsilon, epsilon_student=student, towards=towards,
        )  # fmt: skip

    def _opened(self, kit: Kit) -> tuple[Home, Terms]:
        home = open_home(kit.folder)
        return home, self.terms_of(home)

    def _promise(self, kit: Kit) -> str:
        home, terms = self._opened(kit)
        charged = refused_is_wrong(lambda: own_epsilon(home, terms), POLICY)
        return promise_in_words(terms, home.policy, charged)

    def _policy(self, kit: Kit) -> str:
        home, terms = self._opened(kit)
        refused_is_wrong(
            lambda: (check_terms(home.policy, terms), check_promised_unit(terms, home.file.rules)),
            POLICY,
            "Change the policy, or do not take part: the coordinator will ask exactly this",
        )
        policy, epsilon = home.policy, refused_is_wrong(lambda: own_epsilon(home, terms), POLICY)
        return (
            f"allows this federation: {terms.collection} votes, epsilon at most"
            f" {epsilon_text(epsilon)} at delta {policy.delta:g} for a {policy.unit}"
        )

    def _roster(self, kit: Kit) -> str:
        home, terms = self._opened(kit)
        if not terms.roster:
            return "none: votes are clear"
        roster = self.roster_of(kit)
        if roster is None:
            raise ConfigError("there is no roster for these votes", "Unpack the kit again")
        sentence = check_roster(kit, roster, terms.roster, roster.keys.get(kit.name))
        refused_is_wrong(lambda: check_own_roster(home.settings(), terms), POLICY)
        return sentence

    def _expectation(self, kit: Kit) -> str:
        home, terms = self._opened(kit)
        warnings = refused_is_wrong(lambda: party_warnings(terms, home.policy), "terms", "Unpack the kit again")
        return expectation(warnings)

    def _queries(self, kit: Kit) -> str:
        """Whether the policy's most_queries lasts. With secure votes a party refuses beforehand where it does not."""
        home, terms = self._opened(kit)
        with closing(home.remembered()) as store:
            before, most = store.answered(but=terms.federation), home.policy.most_queries
        in_this_one = promise_of(terms).queries
        sentence = f"{before} answered in other federations, at most {in_this_one} in this one; policy: {most}"
        if before + in_this_one > most:
            raise Advice(sentence, CURES[Rule.MOST_QUERIES])
        return sentence


PARTY = Party()


def _answered(home: Home) -> int:
    with closing(home.remembered()) as store:
        return store.answered()


def _last_answers(home: Home) -> dict[str, LastAnswer]:
    with closing(home.remembered()) as store:
        return store.last_answers()


def _data(kit: Kit) -> str:
    home, command = (
        open_home(kit.folder),
        f"Run: consilium party dry-run {kit.folder} {kit / 'federation.json'} --data-only",
    )
    if not there(home.data_file):
        raise DataError(
            f"{home.data_file} is missing",
            "Put the party's rows there: a table (.csv, .parquet) with a heading, the label and the features among its"
            " columns, or .npz",
        )
    rows, report = check(home, load_federation(kit / "federation.json"))
    try:
        count = len(usable(rows, report).y)
    except ConsiliumError as error:
        raise DataError(error.what, command) from None
    return f"{home.data_file.name}: {count} rows fit the federation's columns and classes"


def standing_of(last: dict[str, LastAnswer], federation: str = "") -> tuple[str, str]:
    """In words, and since when, by what was asked last; what another federation asked does not count.

    >>> standing_of({})
    ('not asked yet', '')
    """
    hello, train = last.get(HELLO), last.get(TRAIN)
    if hello is None or (federation and hello.federation and not hello.refused and hello.federation != federation):
        return "not asked yet", ""
    if hello.refused:
        return _refusal(hello, "")
    if train is None or train.moment < hello.moment or train.federation != hello.federation:
        return f"enrolled{' late' if hello.late else ''}, to be trained", hello.moment
    if train.refused:
        return _refusal(train, "in training, ")
    asked = [(kind, last[kind]) for kind in (*VOTES, *TO_SUMS) if kind in last and last[kind].moment >= train.moment]
    voted = [answer for kind, answer in asked if kind in VOTES or answer.refused]
    if voted:
        newest = max(voted, key=lambda answer: answer.moment)
        return _refusal(newest, "of votes, ") if newest.refused else ("takes part, and has voted", newest.moment)
    if hello.late:
        return "takes part; it came late, and votes from the next questions on", train.moment
    return "takes part, and was not asked for votes yet", train.moment


def _refusal(answer: LastAnswer, where: str) -> tuple[str, str]:
    cure = f". {CURES[answer.rule]}" if answer.rule else ""
    return f"{where}{answer.refused}{cure}", answer.moment
