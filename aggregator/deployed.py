"""A second aggregator on a machine of its own: what is particular to it among nodes, see `node.kinds`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from consilium.aggregator.home import AggregatorHome, GivenSoFar, given_in, open_home, policy_request
from consilium.aggregator.policy import check_terms
from consilium.node.acceptance import LIMITS, PolicyRequest
from consilium.node.checks import Advice, Check, check_roster, refused_is_wrong
from consilium.node.keys import OwnKeys
from consilium.node.kinds import MemberKind, NodeStatus
from consilium.node.kit import Kit
from consilium.node.limits import NodePolicy, epsilon
from consilium.protocol.errors import ConfigError, ConsiliumError, NotAccepted
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import CURES_OF_SECOND, Refused, Rule
from consilium.report.disclosure import Disclosure, ReleaseKind, epsilon_text
from consilium.sums.roster import SumRoster, VerifiedRoster

NOT_YET = "not asked yet"


class AggregatorKind(MemberKind):
    """See `MemberKind`."""

    name = "aggregator"
    app = "consilium.aggregator.client_app"
    model = NodePolicy
    limits = LIMITS

    def open_home(self, folder: Path) -> AggregatorHome:
        return open_home(folder)

    def request(self, home: AggregatorHome, terms: Terms) -> PolicyRequest:
        return policy_request(home, terms)

    def roster_of(self, kit: Kit) -> VerifiedRoster:
        home = open_home(kit.folder)
        return VerifiedRoster.load(home.folder / home.file.roster)

    def check_in_roster(self, roster: SumRoster | None, kit: Kit, keys: OwnKeys, action: str) -> None:
        listed = None if roster is None else roster.second
        if listed is None or (listed.ed25519_pk, listed.x25519_pk) != (keys.identity, keys.sealing):
            raise ConfigError("the roster has other keys for the second aggregator", action)

    def made_by_operator(self, kit: Kit) -> str:
        raise Advice(
            "the operator made its keys: with the coordinator's it could open every vote",
            f"Make your own, and send {kit.name}.enrol.json to the operator: consilium node keys {kit.name} --kind"
            " aggregator",
        )

    def state(self, kit: Kit) -> str:
        opened = partial(self._opened, kit)
        _, _, past = refused_is_wrong(opened, "terms.json", "Unpack the kit again", CURES_OF_SECOND)
        return f"{past.in_this + past.elsewhere} queries ever in sums that it gave its half of"

    def terms_checks(self, kit: Kit) -> list[Check]:
        return [
            ("policy", lambda: self._policy(kit)),
            ("roster", lambda: self._roster(kit)),
            ("queries", lambda: self._queries(kit)),
        ]

    def standing(self, kit: Kit) -> str:
        try:
            return _standing(self._opened(kit)[2])
        except (ConsiliumError, Refused):
            return "its files cannot be read: consilium doctor"

    def status(self, kit: Kit) -> NodeStatus:
        home = open_home(kit.folder)
        terms, problem = self.terms_of(home), ""
        try:
            past = given_in(home, terms)
            self.check_is_accepted(home)
            check_terms(home.policy, terms, home.roster(), past.earlier)
        except Refused as error:
            problem = f"its own policy refuses this federation: {error}. {CURES_OF_SECOND[error.refusal.rule]}"
            past = GivenSoFar(False, 0, 0, 0, ())
        except NotAccepted as error:
            problem = str(error)
        standing = "does not serve this federation" if problem else _standing(past)
        return self.base_status(kit, home, terms, past.in_this + past.elsewhere, standing=standing, problem=problem)

    def _opened(self, kit: Kit) -> tuple[AggregatorHome, Terms, GivenSoFar]:
        home = open_home(kit.folder)
        terms = self.terms_of(home)
        return home, terms, given_in(home, terms)

    def _policy(self, kit: Kit) -> str:
        home = open_home(kit.folder)
        terms, policy, roster = self.terms_of(home), home.policy, home.roster()

        def allowed() -> tuple[str, ...]:
            earlier = given_in(home, terms).earlier
            check_terms(policy, terms, roster, earlier)
            return earlier

        action = "Change the policy, or do not serve: the coordinator will ask exactly this"
        earlier = refused_is_wrong(allowed, "policy in policy.toml", action, CURES_OF_SECOND)
        promises = terms.promise, terms.student or terms.promise
        nodes, student = (epsilon((*earlier, promise), policy) for promise in promises)
        return (
            "allows this federation: sums with noise of its own; epsilon at most"
            f" {epsilon_text(student)} towards the student and the public;"
            f" {Disclosure(ReleaseKind.COUNTS, 'verified').towards_nodes(nodes)}; at delta {policy.delta:g} for a"
            f" {policy.unit}, with all earlier federations"
        )

    def _roster(self, kit: Kit) -> str:
        home, roster = open_home(kit.folder), self.roster_of(kit)
        sentence = check_roster(kit, roster, self.terms_of(home).roster, roster.helper.ed25519_pk)
        home.roster()  # the sealing key too
        return sentence

    def _queries(self, kit: Kit) -> str:
        """Whether the policy's most_queries lasts."""
        home, _, past = self._opened(kit)
        most = home.policy.most_queries
        sentence = f"{past.elsewhere} in sums of other federations, at most {past.promised} in this one; policy: {most}"
        if past.elsewhere + past.promised > most:
            raise Advice(sentence, CURES_OF_SECOND[Rule.MOST_QUERIES])
        return sentence


def _standing(past: GivenSoFar) -> str:
    if not past.introduced:
        return NOT_YET
    return f"serves, {past.in_this} queries in sums of this federation" if past.in_this else "serves, no sum given yet"


AGGREGATOR = AggregatorKind()
