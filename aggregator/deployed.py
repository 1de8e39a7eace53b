"""A second aggregator on a machine of its own: what is particular to it among nodes, see `node.members`."""

from __future__ import annotations

from consilium.aggregator.home import STORE, AggregatorHome, open_home
from consilium.aggregator.policy import check_terms
from consilium.node.folder import NodeFolder
from consilium.node.home import refused_is_wrong
from consilium.node.kinds import NodeOutcome
from consilium.node.limits import kept_epsilon
from consilium.node.members import Given, MemberKind
from consilium.protocol.databases import LOOK_SECONDS
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
        return f"sums with noise of its own, {self.given(home).towards}"

    def given(self, home: AggregatorHome) -> Given:
        policy, terms = home.policy, home.terms

        def epsilons() -> list[float]:
            check_terms(policy, terms, home.roster, sums)
            promises = (terms.promise, terms.student or terms.promise)
            return [kept_epsilon(sums.execute, (promise,), policy) for promise in promises]

        with home.store(LOOK_SECONDS).transaction() as sums:  # epsilons are kept, for the messages that come
            nodes, student = refused_is_wrong(epsilons, "its own policy", cures=CURES_OF_SECOND)
            queries = sums.ever()
        towards = Disclosure(ReleaseKind.COUNTS, terms.collection).towards_nodes(nodes)
        return Given(
            queries, nodes, f"epsilon at most {epsilon_text(student)} towards the student and the public; {towards}"
        )


AGGREGATOR = AggregatorKind()
