"""A second aggregator on a machine of its own: what is particular to it among nodes, see `node.members`."""

from __future__ import annotations

from consilium.aggregator.home import STORE, AggregatorHome, open_home
from consilium.aggregator.policy import check_terms
from consilium.node.folder import NodeFolder
from consilium.node.home import refused_is_wrong
from consilium.node.kinds import NodeOutcome
from consilium.node.limits import kept_epsilon
from consilium.node.members import Given, MemberKind
from consilium.protocol.refusals import CURES_OF_SECOND
from consilium.report.disclosure import Disclosure, ReleaseKind, epsilon_text


class AggregatorKind(MemberKind):
    """See `MemberKind`."""

    name = "aggregator"
    app = "consilium.aggregator.client_app"
    memory = STORE

    def open_home(self, folder: NodeFolder) -> AggregatorHome:
        return open_home(folder)

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        roster = open_home(folder).roster
        return NodeOutcome({}, (f"The roster lists this aggregator, and {roster.n} parties.",))

    def allowed(self, home: AggregatorHome) -> str:
        given = self.given(home)
        return f"sums with noise of its own, {given.towards}"

    def given(self, home: AggregatorHome) -> Given:
        given, policy, terms = home.given(), home.policy, home.terms

        def epsilons() -> list[float]:
            with home.store.transaction() as sums:  # kept, for the messages that come
                check_terms(policy, terms, home.roster, sums)
                promises = (terms.promise, terms.student or terms.promise)
                return [kept_epsilon(sums.execute, (promise,), policy) for promise in promises]

        nodes, student = refused_is_wrong(epsilons, "its own policy", cures=CURES_OF_SECOND)
        towards = (
            f"epsilon at most {epsilon_text(student)} towards the student and the public;"
            f" {Disclosure(ReleaseKind.COUNTS, 'verified').towards_nodes(nodes)}"
        )
        queries = given.in_this + given.elsewhere
        return Given(queries, policy.most_queries, nodes, policy.most_epsilon, towards)


AGGREGATOR = AggregatorKind()
