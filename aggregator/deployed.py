"""A second aggregator on a machine of its own: what is particular to it among nodes, see `node.members`."""

from __future__ import annotations

from consilium.aggregator.home import STORE, AggregatorHome, open_home
from consilium.aggregator.node import check_terms
from consilium.node.folder import NodeFolder
from consilium.node.home import refused_is_wrong, towards_whom
from consilium.node.kinds import NodeOutcome
from consilium.node.limits import kept_epsilon
from consilium.node.members import MemberKind
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.refusals import CURES_OF_SECOND


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
        return f"sums with noise of its own, {towards_whom(home.terms, home.policy, self.given(home)[1])}"

    def given(self, home: AggregatorHome) -> tuple[int, float]:
        policy, terms = home.policy, home.terms

        def charged() -> float:
            check_terms(policy, terms, home.roster, sums)
            return kept_epsilon(sums.execute, (terms.promise,), policy)

        with home.store(LOOK_SECONDS).transaction() as sums:  # which keeps it, for the messages that come
            return sums.ever(), refused_is_wrong(charged, "its own policy", cures=CURES_OF_SECOND)


AGGREGATOR = AggregatorKind()
